"""Sums over the rows of many memories at once, exact to the last bit."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.data import Split
from erasable.errors import ArgumentError
from erasable.memory import Grid, as_id, as_label, encode_row, row_lanes
from erasable.typing import Float32s, Ints

Bools = npt.NDArray[np.bool_]

_CHUNK = 4096
_LANES = 1024


@dataclass(frozen=True, eq=False)
class States:
    """What the memories of several models come down to.

    Attributes:
        counts: Rows per class, (models, classes).
        sums: Sums of embeddings per class in grid units, (models, classes, dim).
        lanes: The digests' sums before they are hashed, below 2¹⁶, (models, 1024).
    """

    counts: Ints
    sums: Ints
    lanes: Ints

    def minus(self, gone: "States") -> "States":
        """Take the rows of one state out of each of these."""
        lanes = (self.lanes - gone.lanes) % 2**16
        return States(self.counts - gone.counts, self.sums - gone.sums, lanes)

    def equals(self, other: "States") -> Bools:
        """Tell of each pair whether every number is the same, (models,)."""
        pairs = ((self.counts, other.counts), (self.sums, other.sums), (self.lanes, other.lanes))
        same = [(a == b).reshape(len(a), -1).all(axis=1) for a, b in pairs]
        return np.asarray(np.logical_and.reduce(same))

    def digest(self, model: int) -> str:
        """Return a model's digest, as `Memory.digest` has it."""
        return hashlib.sha256(self.lanes[model].astype("<u2").tobytes()).hexdigest()


class RowSums:
    """All rows of a split on the grid, class by class, with the hash of each; read once.

    Every number is an integer that float64 holds, and so is every partial sum: matrix products are
    exact, whatever the order of summation.

    Args:
        rows: The rows.
        embed: From inputs (n, …) to embeddings (n, dim).
        grid: The grid of the memories.
    """

    def __init__(self, rows: Split, embed: Callable[[Any], npt.NDArray[Any]], grid: Grid) -> None:
        found, classes = np.unique(rows.y, return_inverse=True)
        self._order: Ints = np.argsort(classes, kind="stable")
        self._starts = np.searchsorted(classes[self._order], np.arange(len(found))).tolist()
        place = np.empty_like(self._order)
        place[self._order] = np.arange(len(place))
        self._lanes: npt.NDArray[np.uint16] = np.empty((len(rows), _LANES), np.uint16)
        self._units: Float32s = np.empty((0, 0), np.float32)
        for start in range(0, len(rows), _CHUNK):
            part = rows.take(np.arange(start, min(start + _CHUNK, len(rows))))
            rounded, not_finite, too_large = grid.round(embed(part.X))
            _require_on_grid(grid, [start + row for row in not_finite + too_large])
            if not start:
                self._units = np.empty((len(rows), rounded.shape[1]), np.float32)
            units, mine = grid.units(rounded), place[start : start + _CHUNK]
            self._units[mine] = units
            for at, row_id, label, row in zip(mine, part.ids, part.y.tolist(), units, strict=True):
                encoded = encode_row(
                    as_id(row_id), as_label(label), (), bits=grid.bits, units=row.tobytes()
                )
                self._lanes[at] = row_lanes(encoded)

    def states(self, holds: Bools) -> States:
        """Sum up the rows that models hold, (models, rows)."""
        weights = holds[:, self._order].astype(np.float64)
        counts = np.zeros((len(holds), len(self._starts)), np.int64)
        sums = np.zeros((*counts.shape, self._units.shape[1]), np.int64)
        lanes = np.zeros((len(holds), _LANES), np.int64)
        for rank, part in self._blocks():
            mine = weights[:, part]
            counts[:, rank] += mine.sum(axis=1).astype(np.int64)
            sums[:, rank] += (mine @ self._units[part].astype(np.float64)).astype(np.int64)
            lanes += (mine @ self._lanes[part].astype(np.float64)).astype(np.int64)
        return States(counts, sums, lanes % 2**16)

    def moments(self, holds: Bools) -> Ints:
        """Return ``Σ s sᵀ`` over the rows (rows,) held, in squared grid units, (dim, dim)."""
        held = np.flatnonzero(holds[self._order])
        dim = self._units.shape[1]
        total = np.zeros((dim, dim), np.int64)
        for start in range(0, len(held), _CHUNK):
            # Units are below 2**20: 4,096 products of two are exact in float64.
            units = self._units[held[start : start + _CHUNK]].astype(np.float64)
            total += (units.T @ units).astype(np.int64)
        return total

    def _blocks(self) -> Iterator[tuple[int, slice]]:
        """Yield parts of each class: its rank, and some of its rows."""
        ends = [*self._starts[1:], len(self._order)]
        for rank, (start, end) in enumerate(zip(self._starts, ends, strict=True)):
            for at in range(start, end, _CHUNK):
                yield rank, slice(at, min(at + _CHUNK, end))


def _require_on_grid(grid: Grid, outside: list[int]) -> None:
    if outside:
        raise ArgumentError(
            f"Expected finite embeddings below {grid.bound:g} in magnitude, but got others, first "
            f"in row {min(outside)}. Normalise them, or use a coarser grid (fewer bits)."
        )
