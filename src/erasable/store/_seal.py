"""What holds a saved model together: one keyed code over everything that it is."""

import hashlib
import hmac
import json
import sqlite3
from collections.abc import Iterable

from erasable.memory import keyring

RECORD = {
    "rows": "serial, id, content",
    "tombstones": "key_id, mark, time, level, weights",
    "sources": "place, basis, name, covers",
    "seen": "place, key_id, mark",
    "copies": "place, kind, path",
}
"""Columns that the digest of the memory leaves out."""


def record_digest(db: sqlite3.Connection) -> str:
    """Digest what the memory's own digest leaves out: contents, tombstones, training record."""
    digest = hashlib.sha256(b"erasable.record.2")
    for table, columns in RECORD.items():
        query = f"SELECT {columns} FROM {table} ORDER BY {columns}"  # noqa: S608 - constant names
        for row in db.execute(query):
            digest.update(repr((table, *row)).encode())
    return digest.hexdigest()


def seal(key_id: str, identity: str, fields: Iterable[str | int]) -> bytes | None:
    """Return the code of a model's fields, or None if the key is not at hand.

    The key is derived from that of the marks and the model's identity, so that a code never fits
    another model, and nothing that is marked can pass for a code.
    """
    key = keyring.get(key_id)
    if key is None:
        return None
    own = hashlib.blake2b(identity.encode(), key=key, person=b"erasable.seal.2").digest()
    text = json.dumps([identity, key_id, *fields])
    return hmac.new(own, text.encode(), hashlib.sha256).digest()
