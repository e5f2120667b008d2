"""Secret keys for the marks that forgetting leaves behind.

A mark (of a forgotten row, or of a row the weights were trained on) must not tell what it marks: a
hash of ``user-42``, with or without a salt beside it, is found by brute force in a second. Marks
are therefore keyed hashes, and the key is kept apart from the models: in the process, and once a
model is saved, in the folder of `keys_folder`.
"""

import hashlib
import os
import secrets
from pathlib import Path

from erasable.errors import StoreError
from erasable.files import write_atomically

_KEY_BYTES = 32
_MARK_BYTES = 16


def keys_folder() -> Path:
    """Return where keys are kept: ``$ERASABLE_KEYS``, else in the user's configuration."""
    named = os.environ.get("ERASABLE_KEYS")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "erasable" / "keys"


class Keyring:
    """Keys by id; the id is public, the key is not.

    A key lives in the process until `persist` writes it, so fitting a model in a notebook leaves no
    file behind.
    """

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._active: str | None = None

    def active(self) -> str:
        """Return the id of the key for new marks: the first one on disk, else a new one."""
        if self._active is None:
            on_disk = sorted(path.stem for path in keys_folder().glob("*.key"))
            self._active = next((key_id for key_id in on_disk if self.get(key_id)), None)
        if self._active is None:
            key = secrets.token_bytes(_KEY_BYTES)
            self._active = key_id_of(key)
            self._known[self._active] = key
        return self._active

    def get(self, key_id: str) -> bytes | None:
        """Return a key, or None if neither the process nor the folder has it."""
        if key_id not in self._known:
            path = keys_folder() / f"{key_id}.key"
            try:
                key = path.read_bytes() if key_id.isalnum() and path.is_file() else b""
            except OSError:  # a key that cannot be read is as good as none
                return None
            if len(key) != _KEY_BYTES or key_id_of(key) != key_id:
                return None
            self._known[key_id] = key
        return self._known[key_id]

    def persist(self, key_id: str) -> Path:
        """Write a key to the folder, readable by its owner only, and return its path."""
        key = self.get(key_id)
        folder = keys_folder()
        path = folder / f"{key_id}.key"
        if key is None:
            raise StoreError(f"Expected the key {key_id} in {folder}, but it is not there.")
        if not path.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, key, mode=0o600)
        return path


def key_id_of(key: bytes) -> str:
    """Name a key without giving it away."""
    return hashlib.sha256(b"erasable.key.1" + key).hexdigest()[:16]


def mark(key: bytes, kind: str, payload: bytes) -> bytes:
    """Mark a value of one kind so that only holders of the key can recognise it.

    Keyed BLAKE2b is a message authentication code by design (RFC 7693), and several times faster
    here than HMAC; forgetting one row makes two marks.
    """
    keyed = hashlib.blake2b(payload, digest_size=_MARK_BYTES, key=key, person=kind.encode())
    return keyed.digest()


keyring = Keyring()
"""The process's keys."""
