"""Directories as the format before wrote them."""

import hashlib
import json
import sqlite3

import numpy as np
from safetensors.torch import save

from erasable.memory import encode_key
from erasable.models._saving import _config
from erasable.store._format_1 import _RECORD, COPIES, FORMAT, SCHEMA
from erasable.weights import weights_of

GENERATION = 140_737_488_355_329


def save_as_format_1(model, path, *, revision=3, generation=GENERATION):
    """Write a model as the format before did: three files, and no seal."""
    path.mkdir(parents=True)
    digest = model.weights_digest
    weights = {
        name: tensor.clone().contiguous() for name, tensor in weights_of(model.network_).items()
    }
    (path / f"weights-{digest[:16]}.safetensors").write_bytes(save(weights))
    config = {"format": FORMAT, **_config(model), "weights": digest, "generation": generation}
    (path / "config.json").write_text(json.dumps(config))
    if model.copies_:
        listed = [{"kind": copy.kind, "path": copy.path} for copy in model.copies_]
        (path / "copies.json").write_text(json.dumps({"format": COPIES, "copies": listed}))
    db = sqlite3.connect(path / "rows.sqlite", isolation_level=None)
    SCHEMA.create(db)
    write_rows(db, model, generation, revision)
    db.close()


def write_rows(db, model, generation, revision):
    """Write the rows, tombstones and training record."""
    memory = model.memory
    head = (generation, revision, memory.dim, memory.grid.bits, memory.next_id, memory.digest, "")
    db.execute("INSERT INTO generations VALUES (?, ?, ?, ?, ?, ?, ?)", head)
    for position in range(len(memory)):
        one = memory.record(position)
        groups = json.dumps([encode_key(group) for group in one.groups])
        embedding = memory.table.embeddings[position].astype(np.dtype("<f4")).tobytes()
        keys = (encode_key(one.id), encode_key(one.label), groups)
        row = (generation, one.serial, *keys, one.content, embedding)
        db.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    for mark in memory.tombstones.marks:
        db.execute("INSERT INTO tombstones VALUES (?, ?, ?)", (generation, *mark))
    for place, source in enumerate(model.provenance_.sources):
        row = (generation, place, source.basis, source.name)
        db.execute("INSERT INTO sources VALUES (?, ?, ?, ?)", row)
        for mark in source.marks or ():
            db.execute("INSERT INTO seen VALUES (?, ?, ?, ?)", (generation, place, *mark))
    digest = hashlib.sha256(b"erasable.record.1")
    for table, columns in _RECORD.items():
        for row in db.execute(f"SELECT {columns} FROM {table} ORDER BY {columns}"):  # noqa: S608 - constant
            digest.update(repr((table, *row)).encode())
    db.execute("UPDATE generations SET record_digest = ?", (digest.hexdigest(),))
