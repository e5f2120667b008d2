"""What is kept of a saved model beside its keys, to know a copy that is too old."""

import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Literal

from erasable.errors import StoreError
from erasable.memory import Marks, keys_folder
from erasable.store._sqlite import Schema, is_empty, transaction
from erasable.store._tables import MARK_COLUMNS, mark_rows, read_marks, replace_rows

IDENTITY = re.compile(r"[0-9a-f]{32}")
SCHEMA = Schema(
    "the ledger of a model",
    0x6572676C,  # "ergl"
    2,
    (
        """CREATE TABLE ledger (
    identity TEXT NOT NULL,
    revision INTEGER NOT NULL,
    intended INTEGER,
    is_replacement INTEGER NOT NULL,
    digest TEXT NOT NULL
)""",
        f"CREATE TABLE tombstones ({MARK_COLUMNS})",
        f"CREATE TABLE intended ({MARK_COLUMNS})",
    ),
)


@dataclass(frozen=True)
class Intent:
    """A save that was about to be committed.

    Attributes:
        revision: The revision that it leads to.
        marks: Tombstones that it adds.
        is_replacement: Whether another model takes the place of the one that is there.
    """

    revision: int
    marks: Marks
    is_replacement: bool


@dataclass(frozen=True)
class Remembered:
    """What a ledger knows of a model.

    Attributes:
        revision: The last one that was committed.
        marks: Its tombstones.
        intent: A save that was begun since, and of which nobody has said that it is done.
    """

    revision: int
    marks: Marks
    intent: Intent | None

    def is_behind(self, revision: int) -> bool:
        """Tell whether a model of this revision is older than what the ledger has seen."""
        return revision < self.revision

    def pending(self, revision: int) -> Intent | None:
        """Return the save that was begun and never committed, for a model of this revision."""
        return self.intent if self.intent and self.intent.revision > revision else None

    def allows(self, revision: int) -> bool:
        """Tell whether a model of this revision may be saved again as it is."""
        return not self.is_behind(revision) and self.pending(revision) is None

    @property
    def newest(self) -> int:
        """The highest revision that may exist."""
        return max(self.revision, self.intent.revision if self.intent else 0)

    @property
    def all_marks(self) -> Marks:
        """Tombstones of the last revision and of the save that was begun."""
        marks = self.marks.copy()
        if self.intent is not None and not self.intent.is_replacement:
            marks.update(self.intent.marks)
        return marks


class Ledger:
    """The last revision and the tombstones of one model, beside the keys.

    A save writes here what it is about to forget, before it commits the model, and what was
    committed after. So the ledger is never behind a model by more than an intent, and an older copy
    of a model in its place is recognised.

    Args:
        identity: The model's random name.
    """

    def __init__(self, identity: str) -> None:
        if not IDENTITY.fullmatch(identity):  # it names a file
            raise StoreError(f"Expected the identity of a model, but got {identity!r}.")
        self.identity = identity
        self.path = keys_folder() / "models" / f"{identity}.sqlite"

    def read(self) -> Remembered | None:
        """Return what is known of the model; None if there is no ledger.

        Raises:
            StoreError: If it is damaged or out of reach.
        """
        if not self.path.exists():
            return None
        with self._open("read") as db:
            return None if db is None else self._remembered(db)

    def intend(
        self, expected: Remembered | None, revision: int, marks: Marks, *, is_replacement: bool
    ) -> bool:
        """Write down that a revision is about to be committed, and what it newly buries.

        Args:
            expected: What the ledger said when it was decided to save.
            revision: The revision.
            marks: Tombstones that it adds.
            is_replacement: Whether another model takes the place of the one that is there.

        Returns:
            False if another process has written to the ledger since, and nothing was written.
        """
        self._create()
        with self._open("write", may_create=True) as db:
            assert db is not None  # noqa: S101 - it was created
            known = self._remembered(db)
            if _outline(known) != _outline(expected):
                return False
            replace_rows(db, "intended", mark_rows(marks))
            last = 0 if known is None else known.revision
            self._put(db, last, Intent(revision, marks, is_replacement))
        return True

    def settle(self, revision: int, marks: Marks) -> None:
        """Write down that a revision was committed, with these tombstones."""
        self._create()
        with self._open("write", may_create=True) as db:
            assert db is not None  # noqa: S101 - it was created
            known = self._remembered(db)
            if known is not None and known.revision > revision:
                return
            intent = None if known is None else known.pending(revision)
            deleted = replace_rows(db, "tombstones", mark_rows(marks))
            if intent is None:
                db.execute("DELETE FROM intended")
            self._put(db, revision, intent)
        if deleted:  # what was dropped is to leave the disk, too
            with closing(sqlite3.connect(self.path, isolation_level=None, timeout=10)) as db:
                db.execute("VACUUM")

    def withdraw(self, revision: int) -> None:
        """Take back an intent: the revision will not be committed."""
        with self._open("write") as db:
            known = None if db is None else self._remembered(db)
            if db is None or known is None or known.intent is None:
                return
            if known.intent.revision == revision:
                db.execute("DELETE FROM intended")
                self._put(db, known.revision, None)
        if not known.revision:  # of a model that was never saved
            self.path.unlink(missing_ok=True)

    def _remembered(self, db: sqlite3.Connection) -> Remembered | None:
        found = db.execute("SELECT * FROM ledger").fetchall()
        if not found:
            return None
        row = found[0]
        if len(found) != 1 or row["digest"] != _digest(db):
            raise StoreError(
                f"Expected a sound ledger in {self.path}, but it does not match its digest: the "
                f"file is damaged. {_RESTORE}"
            )
        if row["identity"] != self.identity:
            raise StoreError(
                f"Expected the ledger of the model {self.identity} in {self.path}, but it is that "
                f"of another model. {_RESTORE}"
            )
        intent = None
        if row["intended"] is not None:
            marks = read_marks(db, "intended")
            intent = Intent(row["intended"], marks, bool(row["is_replacement"]))
        return Remembered(row["revision"], read_marks(db, "tombstones"), intent)

    def _put(self, db: sqlite3.Connection, revision: int, intent: Intent | None) -> None:
        """Write what is not marks, once the marks are written."""
        intended = (None, 0) if intent is None else (intent.revision, int(intent.is_replacement))
        db.execute("DELETE FROM ledger")
        db.execute(
            "INSERT INTO ledger VALUES (?, ?, ?, ?, '')", (self.identity, revision, *intended)
        )
        db.execute("UPDATE ledger SET digest = ?", (_digest(db),))

    @contextmanager
    def _open(
        self, mode: Literal["read", "write"], *, may_create: bool = False
    ) -> Iterator[sqlite3.Connection | None]:
        with transaction(self.path, mode) as db:
            if not is_empty(db):
                SCHEMA.check(db, self.path)
            elif may_create:
                SCHEMA.create(db)
            else:
                yield None
                return
            yield db

    def _create(self) -> None:
        """Make an empty file that only its owner can read: it tells who was forgotten."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise StoreError(
                f"Expected to write to {self.path}, where the last revision of the model is kept, "
                f"but: {error.strerror}. Make the folder of keys writable. Nothing was changed."
            ) from error


_RESTORE = (
    "Put the last copy of this file back. If there is none, move the file away: then nobody can "
    "tell whether the model is in its last state."
)


def _digest(db: sqlite3.Connection) -> str:
    """Digest everything that a ledger says; whoever could forge it has the keys, too."""
    digest = hashlib.sha256(b"erasable.ledger.2")
    head = db.execute("SELECT identity, revision, intended, is_replacement FROM ledger")
    digest.update(repr(list(map(tuple, head))).encode())
    for table in ("tombstones", "intended"):
        rows = db.execute(f"SELECT * FROM {table} ORDER BY key_id, mark")  # noqa: S608 - constant
        for row in rows:
            digest.update(repr((table, *row)).encode())
    return digest.hexdigest()


def _outline(known: Remembered | None) -> tuple[int, int | None] | None:
    if known is None:
        return None
    return known.revision, None if known.intent is None else known.intent.revision


def without(marks: Marks, known: Marks) -> Marks:
    """Return the marks that are not among others."""
    others, found = set(known), Marks()
    for key_id, value, tombstone in marks.items():
        if (key_id, value) not in others:
            found.put(key_id, value, tombstone)
    return found
