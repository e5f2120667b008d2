"""Per-class counts and exact sums, and the class means read from them."""

import numpy as np

from erasable.memory._grid import Grid
from erasable.memory._keys import encode_key, sort_labels
from erasable.typing import Float64s, Ints, Label, Units


class ClassSums:
    """For each live class: its label, number of rows, and sum of embeddings in grid units.

    Sums are int64, so adding and removing rows in any order ends in the same bits. A class owns a
    *slot*; the slot of an emptied class is wiped and reused, so the name of a forgotten class does
    not stay behind.
    """

    def __init__(self, dim: int, grid: Grid) -> None:
        self._grid = grid
        self._slot_of: dict[str, int] = {}
        self._labels: list[Label | None] = []
        self._free: list[int] = []
        self._counts: Ints = np.zeros(0, np.int64)
        self._sums: Ints = np.zeros((0, dim), np.int64)
        self._means: Float64s = np.zeros((0, dim))
        self._order: Ints = np.zeros(0, np.int64)
        self._is_in_order = True

    @property
    def labels(self) -> list[Label]:
        """Labels of live classes, sorted."""
        return [self.label_at(slot) for slot in self._order.tolist()]

    @property
    def order(self) -> Ints:
        """Slots of live classes in the sorted order of their labels, (classes,)."""
        return self._order

    @property
    def counts(self) -> Ints:
        """Rows per live class, in sorted order, (classes,)."""
        return self._counts[self._order]

    @property
    def sums(self) -> Ints:
        """Sum of embeddings per live class, in grid units, in sorted order, (classes, dim)."""
        return self._sums[self._order]

    @property
    def means(self) -> Float64s:
        """Prototypes of live classes, in sorted order, (classes, dim)."""
        return self._means[: len(self._order)] if self._is_in_order else self._means[self._order]

    def rank_of_slots(self) -> Ints:
        """Return, for each slot, the place of its class in sorted order (−1 for free slots)."""
        ranks = np.full(len(self._labels), -1, np.int64)
        ranks[self._order] = np.arange(len(self._order))
        return ranks

    def label_at(self, slot: int) -> Label:
        """Return the label of a slot in use."""
        label = self._labels[slot]
        assert label is not None  # noqa: S101 - rows point at slots in use only
        return label

    def slot(self, label: Label) -> int | None:
        """Return the slot of a live class."""
        return self._slot_of.get(encode_key(label))

    def count(self, slot: int) -> int:
        """Return the number of rows in a slot."""
        return int(self._counts[slot])

    def sum_at(self, slot: int) -> Ints:
        """Return the sum of a slot's embeddings in grid units, (dim,)."""
        total: Ints = self._sums[slot]
        return total

    def open(self, labels: list[Label]) -> dict[str, int]:
        """Give every label a slot, new ones in sorted order; return slots by encoded label."""
        unique = {encode_key(label): label for label in labels}
        new = sort_labels([label for key, label in unique.items() if key not in self._slot_of])
        for label in new:
            self._slot_of[encode_key(label)] = self._take_slot(label)
        if new:
            self._reorder()
        return {key: self._slot_of[key] for key in unique}

    def add(self, slots: list[int], units: Units) -> None:
        """Count rows, in grid units (rows, dim), into their slots."""
        self._change(slots, units, sign=1)

    def remove(self, slots: list[int], units: Units) -> list[Label]:
        """Take rows out of their slots, close the slots then empty, and return their labels."""
        return self._close(self._change(slots, units, sign=-1))

    def recount(self, slots: list[int], units: Units) -> None:
        """Count all rows anew, in grid units (rows, dim), and close the slots without any."""
        in_use = list(self._slot_of.values())
        self._counts[:], self._sums[:], self._means[:] = 0, 0, 0
        self._change(slots, units, sign=1)
        self._close(in_use)

    def _close(self, slots: list[int]) -> list[Label]:
        """Close those of the slots that are empty, and return their labels."""
        emptied = [slot for slot in slots if not self.count(slot)]
        labels = [self.label_at(slot) for slot in emptied]
        for slot, label in zip(emptied, labels, strict=True):
            del self._slot_of[encode_key(label)]
            self._labels[slot] = None
            self._free.append(slot)
        if emptied:
            self._free.sort(reverse=True)
            self._reorder()
        return sort_labels(labels)

    def _change(self, slots: list[int], units: Units, *, sign: int) -> list[int]:
        places: dict[int, list[int]] = {}
        for place, slot in enumerate(slots):
            places.setdefault(slot, []).append(place)
        for slot, mine in places.items():
            # One row is by far the commonest request, and needs no sum.
            change = units[mine[0]] if len(mine) == 1 else units[mine].sum(axis=0, dtype=np.int64)
            total = self._sums[slot]
            (np.add if sign > 0 else np.subtract)(total, change, out=total)
            self._counts[slot] += sign * len(mine)
            mean = self._means[slot]
            np.multiply(total, self._grid.step, out=mean)
            mean /= max(1, self.count(slot))
        return list(places)

    def _take_slot(self, label: Label) -> int:
        if self._free:
            slot = self._free.pop()
            self._labels[slot] = label
            return slot
        self._labels.append(label)
        if len(self._labels) > len(self._counts):
            extra = max(16, len(self._counts))
            self._counts = np.pad(self._counts, (0, extra))
            self._sums = np.pad(self._sums, ((0, extra), (0, 0)))
            self._means = np.pad(self._means, ((0, extra), (0, 0)))
        return len(self._labels) - 1

    def _reorder(self) -> None:
        live = [label for label in self._labels if label is not None]
        slots = [self._slot_of[encode_key(label)] for label in sort_labels(live)]
        self._order = np.array(slots, np.int64)
        self._is_in_order = slots == list(range(len(slots)))
