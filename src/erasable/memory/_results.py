"""What a memory hands out: rows, what a forget did, and stored rows to be stored again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from erasable.memory._incoming import Incoming
from erasable.memory._live import Record
from erasable.typing import Float32s, Group, Label, RowId


@dataclass(frozen=True)
class Row:
    """One stored example: a copy of what the memory holds."""

    id: RowId
    label: Label
    groups: tuple[Group, ...]
    embedding: Float32s


@dataclass(frozen=True)
class Forgotten:
    """What `Memory.forget` did: rows that left, classes left empty, digests around it."""

    ids: tuple[RowId, ...]
    emptied: tuple[Label, ...]
    digest_before: str
    digest_after: str


def utc_now() -> str:
    """Return the time, UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def incoming_again(embeddings: Float32s, records: Sequence[Record]) -> Incoming:
    """Return stored rows as `Memory.add` takes them, once they are checked."""
    return Incoming(
        embeddings,
        [record.label for record in records],
        [record.id for record in records],
        [record.groups for record in records],
        [record.content for record in records],
    )
