"""Rows, tombstones and training records in one SQLite file."""

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from erasable.errors import ArgumentError, StateError, StoreError
from erasable.memory import Grid, Marks, Memory, Record, as_group, as_id, decode_key, encode_key

_APPLICATION_ID = 0x65726173  # "eras"
_VERSION = 1
_SCHEMA = """
CREATE TABLE generations (
    generation INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL,
    dim INTEGER NOT NULL,
    grid_bits INTEGER NOT NULL,
    next_id INTEGER NOT NULL,
    digest TEXT NOT NULL
);
CREATE TABLE rows (
    generation INTEGER NOT NULL,
    serial INTEGER NOT NULL,
    id TEXT NOT NULL,
    label TEXT NOT NULL,
    groups TEXT NOT NULL,
    content BLOB,
    embedding BLOB NOT NULL,
    UNIQUE (generation, serial),
    UNIQUE (generation, id)
);
CREATE TABLE tombstones (
    generation INTEGER NOT NULL, key_id TEXT NOT NULL, mark BLOB NOT NULL,
    UNIQUE (generation, key_id, mark)
);
CREATE TABLE sources (
    generation INTEGER NOT NULL, place INTEGER NOT NULL, basis TEXT NOT NULL, name TEXT NOT NULL,
    UNIQUE (generation, place)
);
CREATE TABLE seen (
    generation INTEGER NOT NULL, place INTEGER NOT NULL, key_id TEXT NOT NULL, mark BLOB NOT NULL,
    UNIQUE (generation, place, key_id, mark)
);
"""
_TABLES = ("generations", "rows", "tombstones", "sources", "seen")


@dataclass(frozen=True)
class SavedSource:
    """One thing the weights were trained on, as it lies in the file."""

    basis: str
    name: str
    marks: Marks | None


@dataclass(frozen=True)
class Saved:
    """A memory as it was read, with the training record, and where it stands in the file."""

    memory: Memory
    sources: list[SavedSource] = field(default_factory=list)
    generation: int = 0
    revision: int = 0


class RowsFile:
    """The file ``rows.sqlite`` of a saved model.

    It can hold several *generations* of rows; which one counts is said elsewhere, by a file that is
    replaced atomically. Within a generation every change is one transaction and raises its
    *revision*, so that a process which read an older revision cannot put back what another one
    forgot. Deleted content is overwritten with zeros.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, generation: int) -> Saved:
        """Read a generation back and check it against its digest.

        Raises:
            StoreError: If the file is missing, foreign, damaged or of a later version.
        """
        with self._open(must_exist=True) as db:
            head = self._head(db, generation)
            memory = Memory(
                head["dim"], grid=Grid(head["grid_bits"]), tombstones=_marks(db, generation)
            )
            records, embeddings = self._rows(db, generation, head["dim"])
            memory.restore(embeddings, records, next_id=head["next_id"])
            if memory.digest != head["digest"]:
                raise StoreError(
                    f"Expected the rows in {self._path} to match their digest, but "
                    "they do not: the file is damaged. Restore it from a copy."
                )
            return Saved(memory, _sources(db, generation), generation, head["revision"])

    def append(self, memory: Memory, sources: Sequence[SavedSource]) -> int:
        """Write a memory as a new generation, beside the ones in use, and return its number."""
        with self._open(must_exist=False) as db:
            newest = db.execute("SELECT max(generation) FROM generations").fetchone()[0]
            generation = (newest or 0) + 1
            db.execute(
                "INSERT INTO generations VALUES (?, 0, ?, ?, ?, ?)",
                (generation, memory.dim, memory.grid.bits, memory.next_id, memory.digest),
            )
            _insert_rows(db, generation, memory, range(len(memory)))
            _insert_marks(db, generation, memory.tombstones.marks)
            _insert_sources(db, generation, sources)
            return generation

    def update(self, memory: Memory, *, generation: int, revision: int) -> int:
        """Bring a generation to the memory's present rows in one transaction; return the revision.

        Raises:
            StateError: If another process has changed the generation since ``revision``.
        """
        with self._open(must_exist=True) as db:
            head = self._head(db, generation)
            if head["revision"] != revision:
                raise StateError(
                    f"Expected {self._path} as it was read, but another process has changed it "
                    "since. Load the model again and repeat the change."
                )
            _update_rows(db, generation, memory)
            db.execute("DELETE FROM tombstones WHERE generation = ?", (generation,))
            _insert_marks(db, generation, memory.tombstones.marks)
            db.execute(
                "UPDATE generations SET revision = ?, next_id = ?, digest = ? WHERE generation = ?",
                (revision + 1, memory.next_id, memory.digest, generation),
            )
            return revision + 1

    def tombstones(self) -> Marks:
        """Return the tombstones of every generation in the file."""
        with self._open(must_exist=True) as db:
            return Marks(db.execute("SELECT key_id, mark FROM tombstones").fetchall())

    def keep_only(self, generation: int) -> None:
        """Remove all other generations."""
        with self._open(must_exist=True) as db:
            for table in _TABLES:
                db.execute(f"DELETE FROM {table} WHERE generation <> ?", (generation,))  # noqa: S608 - constant names

    @contextlib.contextmanager
    def _open(self, *, must_exist: bool) -> Iterator[sqlite3.Connection]:
        if must_exist and not self._path.is_file():
            raise StoreError(f"Expected the rows of a model in {self._path}, but it is not there.")
        try:
            db = sqlite3.connect(self._path, isolation_level=None, timeout=10)
        except sqlite3.Error as error:
            raise StoreError(f"Expected to open {self._path}, but: {error}.") from error
        db.row_factory = sqlite3.Row
        try:
            db.execute("PRAGMA secure_delete = ON")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            self._check_schema(db)
            yield db
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(
                f"Expected a sound SQLite file in {self._path}, but: {error}. If the file is "
                "damaged, restore it from a copy."
            ) from error
        finally:
            db.close()  # rolls back what was not committed

    def _check_schema(self, db: sqlite3.Connection) -> None:
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version = db.execute("PRAGMA user_version").fetchone()[0]
        is_new = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if is_new and not application:
            for statement in _SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {_VERSION}")
        elif application != _APPLICATION_ID:
            raise StoreError(f"Expected rows of erasable in {self._path}, but it is another file.")
        elif version != _VERSION:
            raise StoreError(
                f"Expected {self._path} in version {_VERSION}, but it is in version {version}. Use "
                "the version of erasable that wrote it."
            )

    def _head(self, db: sqlite3.Connection, generation: int) -> Any:
        found = db.execute("SELECT * FROM generations WHERE generation = ?", (generation,))
        head = found.fetchone()
        if head is None:
            raise StoreError(
                f"Expected generation {generation} of the rows in {self._path}, but it is not "
                "there: the files of this model do not belong together."
            )
        return head

    def _rows(self, db: sqlite3.Connection, generation: int, dim: int) -> tuple[list[Record], Any]:
        query = "SELECT * FROM rows WHERE generation = ? ORDER BY CAST(id AS BLOB)"
        found = db.execute(query, (generation,)).fetchall()
        try:
            records = [_record(row) for row in found]
            data = b"".join(row["embedding"] for row in found)
            embeddings = np.frombuffer(data, "<f4").reshape(len(found), dim).astype(np.float32)
        except (ArgumentError, ValueError, TypeError) as error:
            raise StoreError(f"Expected sound rows in {self._path}, but: {error}.") from error
        return records, embeddings


def _record(row: Any) -> Record:
    groups = tuple(as_group(decode_key(key)) for key in json.loads(row["groups"]))
    row_id, label = as_id(decode_key(row["id"])), decode_key(row["label"])
    return Record(row_id, label, groups, row["content"], row["serial"])


def _insert_rows(
    db: sqlite3.Connection, generation: int, memory: Memory, positions: Iterable[int]
) -> None:
    def values(position: int) -> tuple[Any, ...]:
        record = memory.record(position)
        groups = json.dumps([encode_key(group) for group in record.groups])
        keys = (encode_key(record.id), encode_key(record.label), groups)
        embedding = memory.table.embeddings[position].astype("<f4").tobytes()
        return (generation, record.serial, *keys, record.content, embedding)

    db.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", map(values, positions))


def _update_rows(db: sqlite3.Connection, generation: int, memory: Memory) -> None:
    """A row keeps its serial for life, so equal serials are equal rows."""
    found = db.execute("SELECT serial FROM rows WHERE generation = ?", (generation,))
    there = {row["serial"] for row in found}
    here = {info.serial: position for position, info in enumerate(memory.table.infos)}
    gone = [(generation, serial) for serial in there - here.keys()]
    db.executemany("DELETE FROM rows WHERE generation = ? AND serial = ?", gone)
    _insert_rows(db, generation, memory, [here[serial] for serial in sorted(here.keys() - there)])


def _marks(db: sqlite3.Connection, generation: int) -> Marks:
    query = "SELECT key_id, mark FROM tombstones WHERE generation = ?"
    return Marks(db.execute(query, (generation,)).fetchall())


def _insert_marks(db: sqlite3.Connection, generation: int, marks: Marks) -> None:
    rows = ((generation, key_id, mark) for key_id, mark in marks)
    db.executemany("INSERT INTO tombstones VALUES (?, ?, ?)", rows)


def _sources(db: sqlite3.Connection, generation: int) -> list[SavedSource]:
    query = "SELECT place, basis, name FROM sources WHERE generation = ? ORDER BY place"
    found = db.execute(query, (generation,)).fetchall()
    seen = "SELECT key_id, mark FROM seen WHERE generation = ? AND place = ?"
    return [
        SavedSource(
            row["basis"],
            row["name"],
            Marks(db.execute(seen, (generation, row["place"])).fetchall())
            if row["basis"] == "recorded"
            else None,
        )
        for row in found
    ]


def _insert_sources(
    db: sqlite3.Connection, generation: int, sources: Sequence[SavedSource]
) -> None:
    for place, source in enumerate(sources):
        db.execute(
            "INSERT INTO sources VALUES (?, ?, ?, ?)",
            (generation, place, source.basis, source.name),
        )
        rows = ((generation, place, key_id, mark) for key_id, mark in source.marks or ())
        db.executemany("INSERT INTO seen VALUES (?, ?, ?, ?)", rows)
