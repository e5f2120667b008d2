"""A model as it lies in a file: what is read of it, and what is written."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from erasable.errors import ArgumentError, StateError, StoreError
from erasable.files import parse_json
from erasable.memory import Grid, Marks, Memory, Record, as_group, as_id, decode_key
from erasable.store._copies import Copy
from erasable.store._seal import seal
from erasable.typing import Float32s

VERSION = 2


class ModelChangedError(StateError):
    """Signal that another process has changed a saved model: load it again and repeat."""


@dataclass(frozen=True)
class SavedSource:
    """One thing the weights were trained on, as it lies in the file."""

    basis: str
    name: str
    marks: Marks | None
    covers: frozenset[str]


@dataclass(frozen=True)
class Head:
    """What a file says of its model as a whole."""

    identity: str
    revision: int
    config: str
    weights: str
    dim: int
    grid_bits: int
    next_id: int
    digest: str
    record_digest: str
    key_id: str
    mac: bytes

    def expected_mac(self) -> bytes | None:
        """Return the code that the head should have; None without the key."""
        fields = {k: v for k, v in asdict(self).items() if k not in ("identity", "key_id", "mac")}
        return seal(self.key_id, self.identity, [VERSION, *fields.values()])


@dataclass(frozen=True)
class State:
    """A model as it is to be written: its revision apart."""

    config: dict[str, Any]
    weights: str
    memory: Memory
    marks: Marks
    sources: Sequence[SavedSource]
    copies: Sequence[Copy]


@dataclass(frozen=True)
class Saved:
    """A model as it was read: everything but its weights.

    Attributes:
        identity: Random name of the model, made when it was first saved.
        revision: How often it was saved.
        config: The configuration.
        weights: Digest of the weights.
        memory: The rows.
        sources: The training record.
        copies: Places outside that hold something of the rows.
        is_verified: Whether the key was there to check that nothing was changed.
        doubts: What could not be checked, one sentence each.
    """

    identity: str
    revision: int
    config: dict[str, Any]
    weights: str
    memory: Memory
    sources: list[SavedSource]
    copies: list[Copy]
    is_verified: bool
    doubts: tuple[str, ...] = ()


UNREADABLE = (ArgumentError, ValueError, TypeError, OverflowError, KeyError)
"""What reading rows raises that are not rows."""


def parse_rows(found: list[Any], dim: int) -> tuple[list[Record], Float32s]:
    """Return rows of a table as records and embeddings, (rows, dim)."""
    records = [_record(row) for row in found]
    data = b"".join(row["embedding"] for row in found)
    return records, np.frombuffer(data, "<f4").reshape(len(found), dim).astype(np.float32)


def restored(
    records: list[Record],
    embeddings: Float32s,
    *,
    dim: int,
    grid_bits: int,
    next_id: int,
    marks: Marks,
) -> Memory:
    """Return a memory with rows as they were read, (rows, dim).

    Raises:
        ValueError: If they are no rows of a memory.
    """
    grid = Grid(grid_bits)
    memory = Memory(dim, grid=grid, tombstones=marks)
    rounded, not_finite, too_large = grid.round(embeddings)
    if not_finite or too_large or not np.array_equal(rounded, embeddings):
        raise ValueError("an embedding is not on the grid")
    if len({record.id for record in records}) != len(records):
        raise ValueError("an id is there twice")
    memory.restore(embeddings, records, next_id=next_id)
    return memory


def no_model(file: Path) -> StoreError:
    """Return the error of a directory without a model."""
    return StoreError(
        f"Expected a saved model in {file}, but the file is not there, or empty. Give the "
        "directory that save() or 'erasable train' wrote."
    )


def changed(folder: Path) -> ModelChangedError:
    """Return the error of a model that is not as it was read."""
    return ModelChangedError(
        f"Expected the model in {folder} as it was read, but another process has changed it since. "
        "Load the model again and repeat the change. Nothing was changed."
    )


def _record(row: Any) -> Record:
    groups = tuple(as_group(decode_key(key)) for key in parse_json(row["groups"]))
    row_id, label = as_id(decode_key(row["id"])), decode_key(row["label"])
    return Record(row_id, label, groups, row["content"], row["serial"])
