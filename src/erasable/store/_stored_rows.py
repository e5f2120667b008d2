"""Rows as they lie in a file, read to be compared and not to be trusted."""

from dataclasses import dataclass
from pathlib import Path

from erasable.errors import ArgumentError, StoreError
from erasable.memory import Record
from erasable.store._rows_file import RowsFile
from erasable.typing import Float32s


@dataclass(frozen=True)
class StoredRows:
    """A generation of rows, not checked against its digest.

    Attributes:
        records: Everything about the rows except their embeddings.
        embeddings: Their embeddings, (rows, dim).
        digest: What the file says is their digest.
        revision: What the file says is their revision.
        others: Number of rows of other generations, left by unfinished saves.
        is_swept: Whether deleted rows were written over.
    """

    records: list[Record]
    embeddings: Float32s
    digest: str
    revision: int
    others: int
    is_swept: bool


def read_stored_rows(path: Path, generation: int) -> StoredRows:
    """Read the rows of a generation from the file ``rows.sqlite``, whatever their digest.

    Raises:
        StoreError: If there is no such file or generation, or a row cannot be read at all.
    """
    file = RowsFile(path)
    with file._open("read") as db:
        head = file._head(db, generation)
        try:
            records, embeddings = file._rows(db, generation, head["dim"])
        except (ArgumentError, ValueError, TypeError) as error:
            raise StoreError(f"Expected sound rows in {path}, but: {error}.") from error
        others = db.execute("SELECT count(*) FROM rows WHERE generation <> ?", (generation,))
        unswept = db.execute("SELECT count(*) FROM unswept").fetchone()[0]
        return StoredRows(
            records,
            embeddings,
            head["digest"],
            head["revision"],
            others=others.fetchone()[0],
            is_swept=not unswept,
        )
