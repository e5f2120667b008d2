"""Tables of a file brought from one content to another, and marks as rows of them."""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from erasable.memory import Marks, Tombstone

MARK_COLUMNS = "key_id TEXT NOT NULL, mark BLOB NOT NULL, time TEXT, level TEXT, weights TEXT"


def mark_rows(marks: Marks) -> Iterator[tuple[Any, ...]]:
    """Yield marks, with their tombstones, as they lie in a table of `MARK_COLUMNS`."""
    for key_id, mark, tombstone in marks.items():
        if tombstone is None:
            yield key_id, mark, None, None, None
        else:
            yield key_id, mark, tombstone.time, tombstone.level, tombstone.weights


def read_marks(db: sqlite3.Connection, table: str) -> Marks:
    """Return the marks in a table of `MARK_COLUMNS`, with their tombstones."""
    marks = Marks()
    query = f"SELECT key_id, mark, time, level, weights FROM {table}"  # noqa: S608 - constant
    for key_id, mark, *known in db.execute(query):
        marks.put(str(key_id), bytes(mark), None if known[0] is None else Tombstone(*known))
    return marks


def replace_rows(db: sqlite3.Connection, table: str, wanted: Iterable[tuple[Any, ...]]) -> int:
    """Bring a table to hold these rows and no others; return how many were deleted.

    Rows that stay are not touched, so that a save writes what has changed.
    """
    found = db.execute(f"SELECT rowid AS place_in_table, * FROM {table}")  # noqa: S608 - constant
    there = {tuple(row)[1:]: row[0] for row in found}
    here = dict.fromkeys(wanted)
    gone = [(rowid,) for row, rowid in there.items() if row not in here]
    db.executemany(f"DELETE FROM {table} WHERE rowid = ?", gone)  # noqa: S608 - constant
    new = [row for row in here if row not in there]
    if new:
        places = ", ".join("?" * len(new[0]))
        db.executemany(f"INSERT INTO {table} VALUES ({places})", new)  # noqa: S608 - constant
    return len(gone)
