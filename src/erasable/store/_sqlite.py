"""SQLite files: opened with care, left whole, and their errors in the words of this library."""

import contextlib
import functools
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from erasable.errors import StoreError, StoreRefusedError

TIMEOUT = 30.0
"""Seconds to wait for another process that is writing."""

_LONGEST = 2**28  # bytes of one value; more is no row of ours
_UNCHANGED = "Nothing was changed."


class StoreBusyError(StoreRefusedError):
    """Signal a file that another process is writing to."""


@dataclass(frozen=True)
class Schema:
    """What a file of ours looks like; one with anything else in it is not ours.

    Attributes:
        noun: What the file holds.
        application_id: The number that SQLite keeps for us in its header.
        version: Version of the format.
        statements: The tables, one statement each.
    """

    noun: str
    application_id: int
    version: int
    statements: tuple[str, ...]

    @functools.cached_property
    def objects(self) -> frozenset[tuple[object, ...]]:
        """Everything that SQLite lists of a file with these tables."""
        db = sqlite3.connect(":memory:", isolation_level=None)
        try:
            for statement in self.statements:
                db.execute(statement)
            return listed_objects(db)
        finally:
            db.close()

    def create(self, db: sqlite3.Connection) -> None:
        """Make the tables in a transaction that is open."""
        for statement in self.statements:
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {self.application_id}")
        db.execute(f"PRAGMA user_version = {self.version}")

    def check(self, db: sqlite3.Connection, path: Path) -> None:
        """Refuse a file that is foreign, of another version, or has more in it than its tables.

        A trigger or view that somebody added would act whenever a model is saved or read.
        """
        application, version = kind_of(db)
        if application != self.application_id:
            raise StoreError(
                f"Expected {self.noun} in {path}, but it is another file. Give the directory that "
                "save() or 'erasable train' wrote."
            )
        if version != self.version:
            raise StoreError(
                f"Expected {path} in version {self.version}, but it is in version {version}. Use "
                "the version of erasable that wrote it."
            )
        strange = sorted(str(entry[1]) for entry in listed_objects(db) ^ self.objects)
        if strange:
            raise StoreError(
                f"Expected only the tables of erasable in {path}, but these differ: "
                f"{', '.join(map(repr, strange[:5]))}. Something else has changed the file: "
                "restore the last copy that you trust."
            )


def listed_objects(db: sqlite3.Connection) -> frozenset[tuple[object, ...]]:
    """Return every table, index, view and trigger of a file as SQLite lists it."""
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT 100"
    return frozenset(tuple(row) for row in db.execute(query))


def kind_of(db: sqlite3.Connection) -> tuple[int, int]:
    """Return the application id and the version in a file's header."""
    application = db.execute("PRAGMA application_id").fetchone()[0]
    return application, db.execute("PRAGMA user_version").fetchone()[0]


def is_empty(db: sqlite3.Connection) -> bool:
    """Tell whether nothing was ever committed to a file."""
    return not listed_objects(db) and kind_of(db) == (0, 0)


def check_pages(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a file whose pages do not fit together; reading one might never end."""
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise _damaged(path, found)


@contextlib.contextmanager
def transaction(
    path: Path, mode: Literal["read", "write"], *, timeout: float = TIMEOUT
) -> Iterator[sqlite3.Connection]:
    """Open a file for one transaction: committed at the end, rolled back if the block raises.

    Raises:
        StoreError: In the place of any error of SQLite's, with what to do about it.
    """
    db = None
    try:
        db = sqlite3.connect(path, isolation_level=None, timeout=timeout)
        db.row_factory = sqlite3.Row
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
        for pragma in ("secure_delete = ON", "synchronous = FULL", "trusted_schema = OFF"):
            db.execute(f"PRAGMA {pragma}")
        db.execute("PRAGMA cell_size_check = ON")
        db.execute("BEGIN" if mode == "read" else "BEGIN IMMEDIATE")
        yield db
        db.execute("COMMIT")
    except (sqlite3.Error, UnicodeDecodeError) as error:  # text that is none, of SQLite's too
        raise explained(error, path) from error
    finally:
        if db is not None:
            db.close()  # rolls back what was not committed
            _finish_rollback(path)


def _finish_rollback(path: Path) -> None:
    """Let SQLite undo what it could not undo when the disk was full."""
    if path.with_name(path.name + "-journal").exists():
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("SELECT count(*) FROM sqlite_master")


def explained(error: Exception, path: Path) -> StoreError:
    """Return an error of SQLite's with what happened and what to do."""
    name = str(getattr(error, "sqlite_errorname", ""))
    if name.startswith("SQLITE_FULL"):
        return StoreRefusedError(
            f"The disk of {path} is full. Free some space and repeat. {_UNCHANGED}"
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusyError(
            f"{path} is locked: another process has been writing to it for too long. Repeat when "
            f"it is done. {_UNCHANGED}"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return StoreRefusedError(
            f"Expected to open {path} and to write to it and to its folder, but: {error}. Check "
            f"their permissions. {_UNCHANGED}"
        )
    if name.startswith("SQLITE_IOERR"):
        return StoreError(
            f"Reading or writing {path} failed: {error} ({name}). Check the disk: it may be full, "
            f"over a quota, or failing. {_UNCHANGED}"
        )
    return _damaged(path, str(error))


def _damaged(path: Path, found: str) -> StoreError:
    return StoreError(
        f"Expected a sound SQLite file in {path}, but it is damaged: {found}. Restore the last "
        "copy of the whole directory; if that is older, 'erasable catch-up' forgets again what was "
        "forgotten since."
    )
