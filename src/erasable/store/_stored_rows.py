"""Rows as they lie in a file, read to be compared and not to be trusted."""

from dataclasses import dataclass

from erasable.errors import StoreError
from erasable.memory import Record
from erasable.store._directory import ModelDirectory
from erasable.store._saved import UNREADABLE
from erasable.typing import Float32s


@dataclass(frozen=True)
class StoredRows:
    """The rows of a saved model, not checked against their digest.

    Attributes:
        identity: What the file says is the model's random name.
        revision: What the file says is its revision.
        records: Everything about the rows except their embeddings.
        embeddings: Their embeddings, (rows, dim).
        digest: What the file says is their digest.
        is_swept: Whether deleted rows were written over.
    """

    identity: str
    revision: int
    records: list[Record]
    embeddings: Float32s
    digest: str
    is_swept: bool


def read_stored_rows(directory: ModelDirectory) -> StoredRows:
    """Read the rows of a saved model, whatever their digest.

    Raises:
        StoreError: If there is no model of this format, or a row cannot be read at all.
    """
    with directory.reading() as file:
        head = file.require_head()
        try:
            records, embeddings = file.rows(head.dim)
        except UNREADABLE as error:
            raise StoreError(f"Expected sound rows in {file.path}, but: {error}.") from error
        return StoredRows(
            head.identity, head.revision, records, embeddings, head.digest, file.is_swept()
        )
