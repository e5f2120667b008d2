"""Rows, tombstones and training records in one SQLite file."""

import contextlib
import hashlib
import json
import logging
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from erasable.errors import ArgumentError, StateError, StoreError
from erasable.memory import Grid, Marks, Memory, Record, as_group, as_id, decode_key, encode_key

log = logging.getLogger(__name__)

_APPLICATION_ID = 0x65726173  # "eras"
_VERSION = 1
_SCHEMA = """
CREATE TABLE generations (
    generation INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL,
    dim INTEGER NOT NULL,
    grid_bits INTEGER NOT NULL,
    next_id INTEGER NOT NULL,
    digest TEXT NOT NULL,
    record_digest TEXT NOT NULL
);
CREATE TABLE rows (
    generation INTEGER NOT NULL,
    serial INTEGER NOT NULL,
    id TEXT NOT NULL,
    label TEXT NOT NULL,
    groups TEXT NOT NULL,
    content BLOB,
    embedding BLOB NOT NULL,
    UNIQUE (generation, serial)
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
CREATE TABLE unswept (since INTEGER NOT NULL);
"""
_RECORD = {
    "rows": "serial, content",
    "tombstones": "key_id, mark",
    "sources": "place, basis, name",
    "seen": "place, key_id, mark",
}
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
    forgot. Where rows were deleted the file is written anew without them: SQLite's own
    ``secure_delete`` leaves copies in pages that were rebalanced.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, generation: int) -> Saved:
        """Read a generation back and check it against its digest.

        Raises:
            StoreError: If the file is missing, foreign, damaged or of a later version.
        """
        with self._open("read") as db:
            head = self._head(db, generation)
            memory = self._memory(db, head)
            found = (memory.digest, _record_digest(db, generation))
            if found != (head["digest"], head["record_digest"]):
                raise StoreError(
                    f"Expected the rows in {self._path} to match their digest, but "
                    "they do not: the file is damaged. Restore it from a copy."
                )
            return Saved(memory, _sources(db, generation), generation, head["revision"])

    def append(self, memory: Memory, sources: Sequence[SavedSource]) -> int:
        """Write a memory as a new generation, beside the ones in use, and return its number.

        Raises:
            RowIdError: If the memory holds a row that was forgotten in this file.
        """
        with self._open("create") as db:
            memory.respect(Marks(db.execute("SELECT key_id, mark FROM tombstones").fetchall()))
            newest = db.execute("SELECT max(generation) FROM generations").fetchone()[0]
            # Not from 1: a process that read another file here must not take this one for it.
            generation = (newest or secrets.randbits(48)) + 1
            db.execute(
                "INSERT INTO generations VALUES (?, 0, ?, ?, ?, ?, '')",
                (generation, memory.dim, memory.grid.bits, memory.next_id, memory.digest),
            )
            _insert_rows(db, generation, memory, range(len(memory)))
            _insert_marks(db, generation, memory.tombstones.marks)
            _insert_sources(db, generation, sources)
            _seal(db, generation)
            return generation

    def update(
        self,
        memory: Memory,
        *,
        generation: int,
        revision: int,
        sources: Sequence[SavedSource],
        commit: Callable[[], None],
    ) -> int:
        """Bring a generation to the memory's present rows in one transaction; return the revision.

        Other generations, left by unfinished saves, are removed.

        Args:
            memory: The memory.
            generation: The generation it was read from.
            revision: The revision it was read at.
            sources: What the weights were trained on: it may have grown.
            commit: Called last, while nobody else can write.

        Raises:
            StateError: If another process has changed the generation since ``revision``.
        """
        with self._open("write") as db:
            head = self._still_there(db, generation)
            if head["revision"] != revision:
                raise _changed(self._path)
            _update_rows(db, generation, memory)
            _delete_others(db, generation)
            db.execute("DELETE FROM tombstones WHERE generation = ?", (generation,))
            _insert_marks(db, generation, memory.tombstones.marks)
            for table in ("sources", "seen"):
                db.execute(f"DELETE FROM {table} WHERE generation = ?", (generation,))  # noqa: S608
            _insert_sources(db, generation, sources)
            db.execute(
                "UPDATE generations SET revision = ?, next_id = ?, digest = ? WHERE generation = ?",
                (revision + 1, memory.next_id, memory.digest, generation),
            )
            _seal(db, generation)
            commit()
        self._sweep()
        return revision + 1

    def keep_only(self, generation: int, *, commit: Callable[[], None]) -> None:
        """Call ``commit`` while nobody else can write, and remove all other generations.

        Raises:
            StateError: If another process has removed the generation meanwhile.
        """
        with self._open("write") as db:
            self._still_there(db, generation)
            _delete_others(db, generation)
            commit()
        self._sweep()

    @contextlib.contextmanager
    def _open(self, mode: Literal["read", "write", "create"]) -> Iterator[sqlite3.Connection]:
        if mode != "create" and not self._path.is_file():
            raise StoreError(f"Expected the rows of a model in {self._path}, but it is not there.")
        try:
            db = sqlite3.connect(self._path, isolation_level=None, timeout=10)
        except sqlite3.Error as error:
            raise StoreError(f"Expected to open {self._path}, but: {error}.") from error
        db.row_factory = sqlite3.Row
        try:
            db.execute("PRAGMA secure_delete = ON")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN" if mode == "read" else "BEGIN IMMEDIATE")
            self._check_schema(db, may_create=mode == "create")
            yield db
            db.execute("COMMIT")
        except sqlite3.Error as error:
            if "readonly" in str(error) or "locked" in str(error):
                raise StoreError(
                    f"Expected to write to {self._path}, but: {error}. Nothing was changed."
                ) from error
            raise StoreError(
                f"Expected a sound SQLite file in {self._path}, but: {error}. If the file is "
                "damaged, restore it from a copy."
            ) from error
        finally:
            db.close()  # rolls back what was not committed

    def _sweep(self) -> None:
        """Write the file anew if rows were deleted since that was last done."""
        db = sqlite3.connect(self._path, isolation_level=None, timeout=10)
        try:
            if db.execute("SELECT count(*) FROM unswept").fetchone()[0]:
                db.execute("PRAGMA synchronous = FULL")
                db.execute("VACUUM")
                db.execute("DELETE FROM unswept")
        except sqlite3.Error as error:
            log.warning(
                "%s could not be swept, the next save will try again: %s", self._path, error
            )
        finally:
            db.close()

    def _check_schema(self, db: sqlite3.Connection, *, may_create: bool) -> None:
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version = db.execute("PRAGMA user_version").fetchone()[0]
        is_new = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if is_new and not application and may_create:
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

    def _still_there(self, db: sqlite3.Connection, generation: int) -> Any:
        try:
            return self._head(db, generation)
        except StoreError:
            raise _changed(self._path) from None

    def _memory(self, db: sqlite3.Connection, head: Any) -> Memory:
        generation = head["generation"]
        try:
            grid = Grid(head["grid_bits"])
            memory = Memory(head["dim"], grid=grid, tombstones=_marks(db, generation))
            records, embeddings = self._rows(db, generation, head["dim"])
            rounded, not_finite, too_large = grid.round(embeddings)
            if not_finite or too_large or not np.array_equal(rounded, embeddings):
                raise ValueError("an embedding is not on the grid")
            memory.restore(embeddings, records, next_id=head["next_id"])
        except (ArgumentError, ValueError, TypeError) as error:
            raise StoreError(
                f"Expected sound rows in {self._path}, but: {error}. The file is damaged: restore "
                "it from a copy."
            ) from error
        return memory

    def _rows(self, db: sqlite3.Connection, generation: int, dim: int) -> tuple[list[Record], Any]:
        query = "SELECT * FROM rows WHERE generation = ? ORDER BY CAST(id AS BLOB)"
        found = db.execute(query, (generation,)).fetchall()
        records = [_record(row) for row in found]
        data = b"".join(row["embedding"] for row in found)
        return records, np.frombuffer(data, "<f4").reshape(len(found), dim).astype(np.float32)


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
    if gone:
        db.execute("INSERT INTO unswept VALUES (?)", (generation,))
    _insert_rows(db, generation, memory, [here[serial] for serial in sorted(here.keys() - there)])


def _delete_others(db: sqlite3.Connection, generation: int) -> None:
    deleted = 0
    for table in _TABLES:
        found = db.execute(f"DELETE FROM {table} WHERE generation <> ?", (generation,))  # noqa: S608 - constant names
        deleted += found.rowcount
    if deleted:
        db.execute("INSERT INTO unswept VALUES (?)", (generation,))


def _record_digest(db: sqlite3.Connection, generation: int) -> str:
    """Digest what the memory's own digest leaves out: contents, tombstones, training record."""
    digest = hashlib.sha256(b"erasable.record.1")
    for table, columns in _RECORD.items():
        query = f"SELECT {columns} FROM {table} WHERE generation = ? ORDER BY {columns}"  # noqa: S608 - constant names
        for row in db.execute(query, (generation,)):
            digest.update(repr((table, *row)).encode())
    return digest.hexdigest()


def _seal(db: sqlite3.Connection, generation: int) -> None:
    sealed = (_record_digest(db, generation), generation)
    db.execute("UPDATE generations SET record_digest = ? WHERE generation = ?", sealed)


def _changed(path: Path) -> StateError:
    return StateError(
        f"Expected {path} as it was read, but another process has changed it since. Load the model "
        "again and repeat the change."
    )


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
