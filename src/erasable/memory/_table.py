"""Rows side by side in growing arrays, found by id, removed without a gap."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from erasable.memory._keys import in_one_form
from erasable.typing import Float32s, Group, Ints, RowId


@dataclass(frozen=True)
class RowInfo:
    """What a table keeps of a row besides its embedding."""

    id: RowId
    slot: int
    groups: tuple[Group, ...]
    content: bytes | None
    serial: int


class RowTable:
    """Live rows in positions ``0 … len − 1``; positions are nobody else's business.

    Removal moves the last row into the hole and wipes the place it came from, so it costs O(dim),
    no live row is ever copied twice, and no byte of a removed row stays in the arrays.

    Ids and groups are kept as they were stored, and found in any form of their text. Rows of
    earlier versions can have ids that are not NFC, and two of them can have the same name.
    """

    def __init__(self, dim: int) -> None:
        self._position: dict[RowId, int] = {}
        self._embeddings: Float32s = np.zeros((0, dim), np.float32)
        self._slots: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._infos: list[RowInfo] = []
        self._in_group: dict[Group, dict[RowId, None]] = {}
        self._other_forms: dict[RowId, dict[RowId, None]] = {}

    def __len__(self) -> int:
        return len(self._infos)

    @property
    def embeddings(self) -> Float32s:
        """The live rows themselves, not a copy, (rows, dim)."""
        return self._embeddings[: len(self)]

    @property
    def slots(self) -> Ints:
        """Class slot of each live row, not a copy, (rows,)."""
        return self._slots[: len(self)]

    @property
    def infos(self) -> list[RowInfo]:
        """What is known of each live row, by position."""
        return self._infos

    def position(self, row_id: RowId) -> int | None:
        """Return where the row of exactly this id lies now."""
        return self._position.get(row_id)

    def ids_named(self, name: RowId) -> list[RowId]:
        """Return the ids of live rows that are this name in some form, usually one or none."""
        usual = in_one_form(name)
        found = [usual] if usual in self._position else []
        return [*found, *self._other_forms.get(usual, ())]

    def positions(self, ids: list[RowId]) -> list[int]:
        """Return where rows that are live lie now."""
        return [self._position[row_id] for row_id in ids]

    def ids_in_group(self, group: Group) -> list[RowId]:
        """Return the ids of a group's rows (none if nobody is in it), in any form of its name."""
        return list(self._in_group.get(in_one_form(group), ()))

    def append(self, embeddings: Float32s, infos: list[RowInfo]) -> None:
        """Add rows (rows, dim) at the end."""
        start, end = len(self), len(self) + len(infos)
        self._reserve(end)
        self._embeddings[start:end] = embeddings
        self._slots[start:end] = [info.slot for info in infos]
        for position, info in enumerate(infos, start):
            self._position[info.id] = position
            _file(self._in_group, _names(info.groups), info.id)
            _file(self._other_forms, _names([info.id]) - {info.id}, info.id)
        self._infos += infos

    def cut(self, rows: int) -> None:
        """Take out what was added after the first so many rows, even if only in part."""
        self._position = {i: place for i, place in self._position.items() if place < rows}
        self._in_group = self._left(self._in_group)
        self._other_forms = self._left(self._other_forms)
        del self._infos[rows:]
        self._embeddings[rows:], self._slots[rows:] = 0, 0

    def remove(self, row_id: RowId) -> None:
        """Take one row out."""
        hole, last = self._position.pop(row_id), len(self) - 1
        _unfile(self._in_group, _names(self._infos[hole].groups), row_id)
        _unfile(self._other_forms, _names([row_id]) - {row_id}, row_id)
        if hole != last:
            self._embeddings[hole] = self._embeddings[last]
            self._slots[hole] = self._slots[last]
            self._infos[hole] = self._infos[last]
            self._position[self._infos[hole].id] = hole
        self._embeddings[last] = 0
        self._slots[last] = 0
        self._infos.pop()

    def _left(self, index: dict[Group, dict[RowId, None]]) -> dict[Group, dict[RowId, None]]:
        """Return an index without ids that have no position."""
        members = ((name, ids.keys() & self._position.keys()) for name, ids in index.items())
        return {name: dict.fromkeys(ids) for name, ids in members if ids}

    def _reserve(self, rows: int) -> None:
        capacity = len(self._slots)
        if rows > capacity:
            grown = max(rows, capacity + capacity // 2, 64)
            embeddings = np.zeros((grown, self._embeddings.shape[1]), np.float32)
            embeddings[: len(self)] = self.embeddings
            slots = np.zeros(grown, np.int64)
            slots[: len(self)] = self.slots
            self._embeddings, self._slots = embeddings, slots


def _names(values: Iterable[Group]) -> set[Group]:
    return {in_one_form(value) for value in values}


def _file(index: dict[Group, dict[RowId, None]], names: set[Group], row_id: RowId) -> None:
    for name in names:
        index.setdefault(name, {})[row_id] = None


def _unfile(index: dict[Group, dict[RowId, None]], names: set[Group], row_id: RowId) -> None:
    for name in names:
        del index[name][row_id]
        if not index[name]:
            del index[name]
