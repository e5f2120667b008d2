"""Ways to read a memory. A view holds no rows of its own, so it cannot be stale."""

from collections.abc import Iterator
from dataclasses import dataclass

from erasable.memory._live import LiveRows
from erasable.memory._memory import Memory
from erasable.typing import Float32s, Float64s, Ints

_CHUNK = 4096

Readable = Memory | LiveRows
"""Whatever has live rows to read."""


@dataclass(frozen=True)
class RowsView:
    """Every live row, in cache-sized chunks of the live arrays."""

    memory: Readable

    def chunks(self, size: int = _CHUNK) -> Iterator[tuple[int, Float32s, Ints]]:
        """Yield (first position, embeddings (rows, dim), place of each row's class (rows,))."""
        ranks = self.memory.sums.rank_of_slots()
        table = self.memory.table
        for start in range(0, len(table), size):
            stop = start + size
            yield start, table.embeddings[start:stop], ranks[table.slots[start:stop]]


@dataclass(frozen=True)
class PrototypesView:
    """One row per live class: the mean of its embeddings."""

    memory: Readable

    @property
    def means(self) -> Float64s:
        """Class means, in sorted order of the labels, (classes, dim)."""
        return self.memory.sums.means

    @property
    def counts(self) -> Ints:
        """Rows behind each mean, (classes,)."""
        return self.memory.sums.counts

    def without(self, positions: Ints) -> tuple[Ints, Float64s, Ints]:
        """Leave one row (its position) out of its own class's mean, per query.

        Returns:
            The place of each row's class (queries,), that class's mean without the row (queries,
            dim), zeros if no row is left, and the number of rows left (queries,).
        """
        table, sums, grid = self.memory.table, self.memory.sums, self.memory.grid
        slots = table.slots[positions]
        classes = sums.rank_of_slots()[slots]
        left = sums.counts[classes] - 1
        totals = sums.sums[classes] - grid.units(table.embeddings[positions])
        means = totals * grid.step / left.clip(min=1)[:, None]
        return classes, means, left
