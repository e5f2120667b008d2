"""What is kept of a saved model beside its keys, to know a copy that is too old."""

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
    1,
    (
        """CREATE TABLE ledger (
    revision INTEGER NOT NULL, intended INTEGER, is_replacement INTEGER NOT NULL
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
        self.path = keys_folder() / "models" / f"{identity}.sqlite"

    def read(self) -> Remembered | None:
        """Return what is known of the model; None if there is no ledger.

        Raises:
            StoreError: If it is damaged or out of reach.
        """
        if not self.path.exists():
            return None
        with self._open("read") as db:
            return None if db is None else _remembered(db)

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
            known = _remembered(db)
            if _outline(known) != _outline(expected):
                return False
            last = 0 if known is None else known.revision
            db.execute("DELETE FROM ledger")
            db.execute("INSERT INTO ledger VALUES (?, ?, ?)", (last, revision, int(is_replacement)))
            replace_rows(db, "intended", mark_rows(marks))
        return True

    def settle(self, revision: int, marks: Marks) -> None:
        """Write down that a revision was committed, with these tombstones."""
        self._create()
        with self._open("write", may_create=True) as db:
            assert db is not None  # noqa: S101 - it was created
            known = _remembered(db)
            if known is not None and known.revision > revision:
                return
            intent = None if known is None else known.pending(revision)
            deleted = replace_rows(db, "tombstones", mark_rows(marks))
            db.execute("DELETE FROM ledger")
            db.execute("INSERT INTO ledger VALUES (?, NULL, 0)", (revision,))
            if intent is not None:
                is_replacement = int(intent.is_replacement)
                db.execute(
                    "UPDATE ledger SET intended = ?, is_replacement = ?",
                    (intent.revision, is_replacement),
                )
            else:
                db.execute("DELETE FROM intended")
        if deleted:  # what was dropped is to leave the disk, too
            with closing(sqlite3.connect(self.path, isolation_level=None, timeout=10)) as db:
                db.execute("VACUUM")

    def withdraw(self, revision: int) -> None:
        """Take back an intent: the revision will not be committed."""
        with self._open("write") as db:
            known = None if db is None else _remembered(db)
            if db is None or known is None or known.intent is None:
                return
            if known.intent.revision == revision:
                db.execute("UPDATE ledger SET intended = NULL")
                db.execute("DELETE FROM intended")
        if not known.revision:  # of a model that was never saved
            self.path.unlink(missing_ok=True)

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


def _remembered(db: sqlite3.Connection) -> Remembered | None:
    row = db.execute("SELECT * FROM ledger").fetchone()
    if row is None:
        return None
    intent = None
    if row["intended"] is not None:
        marks = read_marks(db, "intended")
        intent = Intent(row["intended"], marks, bool(row["is_replacement"]))
    return Remembered(row["revision"], read_marks(db, "tombstones"), intent)


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
