"""Which rows of its class are nearest to each row, kept up to date by the rows that change."""

from collections.abc import Iterable, Sequence

import numpy as np

from erasable.memory._keys import encode_key
from erasable.memory._live import LiveRows
from erasable.memory._neighbours import exact_squares
from erasable.memory._table import RowInfo
from erasable.typing import Float64s, Ints, RowId

_CELLS = 2**22


class ClassGraph:
    """Every row's ``k`` nearest other rows of its class: by exact distance, ties by encoded id.

    The graph is a function of the rows alone. `removed` and `added` return the rows whose
    neighbours changed, and look at no others.

    Args:
        live: The rows.
        k: Neighbours per row.
    """

    def __init__(self, live: LiveRows, k: int) -> None:
        self._live = live
        self._k = k
        self._neighbours: dict[RowId, list[RowId]] = {}
        self._heard_by: dict[RowId, set[RowId]] = {}
        self._last: dict[RowId, tuple[float, str]] = {}  # what a nearer row must come before
        for slot in live.sums.order.tolist():
            self._connect([i.id for i in live.table.infos if i.slot == slot], slot)

    def neighbours(self, row_id: RowId) -> list[RowId]:
        """Return a row's neighbours, nearest first."""
        return self._neighbours[row_id]

    def removed(self, infos: Sequence[RowInfo]) -> list[RowId]:
        """Take out rows that the live rows have lost; return those that had one as a neighbour."""
        gone = {info.id for info in infos}
        affected: dict[RowId, None] = {}
        for row_id in gone:
            affected.update(dict.fromkeys(self._heard_by.pop(row_id, ())))
            del self._last[row_id]
            for other in self._neighbours.pop(row_id):
                self._heard_by.get(other, set()).discard(row_id)
        left = [row_id for row_id in affected if row_id not in gone]
        self._reconnect(left)
        return left

    def added(self, infos: Sequence[RowInfo]) -> list[RowId]:
        """Take in rows that the live rows have gained; return them and those that now hear them."""
        new = {info.id for info in infos}
        affected = [info.id for info in infos]
        for slot in sorted({info.slot for info in infos}):
            arrivals = [info.id for info in infos if info.slot == slot]
            affected += self._won_over(arrivals, slot, new)
        self._reconnect(affected)
        return affected

    def _won_over(self, arrivals: list[RowId], slot: int, new: set[RowId]) -> list[RowId]:
        """Return older rows of a class to which an arrival is nearer than their last neighbour."""
        older = [i.id for i in self._live.table.infos if i.slot == slot and i.id not in new]
        if not older:
            return []
        # In canonical order, so that the first of equally near arrivals has the smallest key.
        arrivals = sorted(arrivals, key=encode_key)
        keys, coming = [encode_key(row_id) for row_id in arrivals], self._units(arrivals)
        found = []
        size = max(1, _CELLS // max(1, len(arrivals)))
        for start in range(0, len(older), size):
            part = older[start : start + size]
            squares = exact_squares(self._units(part), coming)
            best = squares.argmin(axis=1)
            near = squares[np.arange(len(part)), best].tolist()
            found += [
                row_id
                for row_id, square, place in zip(part, near, best.tolist(), strict=True)
                if (square, keys[place]) < self._last[row_id]
            ]
        return found

    def _reconnect(self, ids: Iterable[RowId]) -> None:
        by_slot: dict[int, list[RowId]] = {}
        for row_id in ids:
            position = self._live.table.positions([row_id])[0]
            by_slot.setdefault(self._live.table.infos[position].slot, []).append(row_id)
        for slot, mine in by_slot.items():
            self._connect(mine, slot)

    def _connect(self, ids: list[RowId], slot: int) -> None:
        """Find the neighbours of some rows of a class anew."""
        # In canonical order, so that a stable sort settles ties by encoded id.
        members = sorted((i.id for i in self._live.table.infos if i.slot == slot), key=encode_key)
        place = {row_id: column for column, row_id in enumerate(members)}
        everyone = self._units(members)
        size = max(1, _CELLS // max(1, len(members)))
        for start in range(0, len(ids), size):
            part = ids[start : start + size]
            squares = exact_squares(everyone[[place[row_id] for row_id in part]], everyone)
            squares[np.arange(len(part)), [place[row_id] for row_id in part]] = np.inf
            for row, (row_id, order) in enumerate(
                zip(part, _nearest(squares, self._k), strict=True)
            ):
                far = float(squares[row, order[-1]]) if len(order) == self._k else np.inf
                self._replace(row_id, [members[column] for column in order], far)

    def _replace(self, row_id: RowId, neighbours: list[RowId], far: float) -> None:
        self._last[row_id] = (far, encode_key(neighbours[-1]) if neighbours else "")
        for other in self._neighbours.get(row_id, ()):
            self._heard_by.get(other, set()).discard(row_id)
        self._neighbours[row_id] = neighbours
        for other in neighbours:
            self._heard_by.setdefault(other, set()).add(row_id)

    def _units(self, ids: list[RowId]) -> Float64s:
        table = self._live.table
        units = self._live.grid.units(table.embeddings[table.positions(ids)])
        return units.astype(np.float64)


def _nearest(squares: Float64s, k: int) -> list[Ints]:
    """Return the columns of the ``k`` smallest finite values per row, ties by column."""
    k = min(k, squares.shape[1])
    orders = []
    for row in squares:
        last = np.partition(row, k - 1)[k - 1]
        near = np.flatnonzero(row <= last)
        order = near[np.argsort(row[near], kind="stable")][:k]
        orders.append(order[np.isfinite(row[order])])
    return orders
