"""The rows a prediction reads: table, exact class sums, and whatever is derived from them."""

import contextlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from erasable.memory._classes import ClassSums
from erasable.memory._grid import Grid
from erasable.memory._keys import encode_key
from erasable.memory._lock import ReadersWriterLock
from erasable.memory._table import RowInfo, RowTable
from erasable.typing import Float32s, Group, Label, RowId, Units

_CHUNK = 16_384

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Record:
    """Everything about a row except its embedding, for saving and restoring."""

    id: RowId
    label: Label
    groups: tuple[Group, ...]
    content: bytes | None
    serial: int


class Follower(ABC):
    """Something derived from rows that is kept and so must follow every change of them.

    A follower is told of a change once the rows have changed. If it fails, or anything goes wrong
    in between, the rows drop it, and the next reader builds it anew: it can be missing, never
    stale.
    """

    @abstractmethod
    def add(self, infos: Sequence[RowInfo], embeddings: Float32s) -> None:
        """Take in rows (rows, dim)."""

    @abstractmethod
    def remove(self, infos: Sequence[RowInfo], embeddings: Float32s) -> None:
        """Take rows (rows, dim) out, with everything derived from them."""


F = TypeVar("F", bound=Follower)


class LiveRows:
    """Rows side by side with exact sums per class, and followers of both.

    Args:
        dim: Size of an embedding.
        grid: The grid the embeddings lie on.
    """

    def __init__(self, dim: int, grid: Grid) -> None:
        self.dim = dim
        self.grid = grid
        self.table = RowTable(dim)
        self.sums = ClassSums(dim, grid)
        self._followers: dict[str, Follower] = {}
        self._renew_locks()

    def _renew_locks(self) -> None:
        self.lock = ReadersWriterLock()
        """Every change writes; whoever reads more than one thing, and means one state, reads."""
        self._builder = threading.RLock()

    def __len__(self) -> int:
        return len(self.table)

    def __getstate__(self) -> dict[str, Any]:
        """Leave followers and locks behind: a copy has its own."""
        state = {**vars(self), "_followers": {}}
        del state["lock"], state["_builder"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._renew_locks()

    @property
    def classes(self) -> list[Label]:
        """Labels of live rows, sorted."""
        return self.sums.labels

    @property
    def live(self) -> "LiveRows":
        """These rows, as a memory has them too."""
        return self

    def record(self, position: int) -> Record:
        """Return everything about the row at a position except its embedding."""
        info = self.table.infos[position]
        label = self.sums.label_at(info.slot)
        return Record(info.id, label, info.groups, info.content, info.serial)

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Hold the rows still while something is derived from them, by one thread at a time."""
        with self.lock.reading(), self._builder:
            yield

    def follower(
        self,
        name: str,
        build: Callable[["LiveRows"], F],
        *,
        is_current: Callable[[F], bool] = lambda _: True,
    ) -> F:
        """Return the follower of this name, built from the rows at hand if there is none.

        Args:
            name: The follower's name; a name is for one type.
            build: How to build it. No row changes meanwhile: it would be stale from the start.
            is_current: Whether a follower that is there still fits what it was built with.
        """
        found: F | None = self._followers.get(name)  # type: ignore[assignment]  # see name
        if found is not None and is_current(found):
            return found
        with self.building():
            found = self._followers.get(name)  # type: ignore[assignment]  # by another thread
            if found is None or not is_current(found):
                found = build(self)
                self._followers[name] = found
            return found

    def append(
        self,
        embeddings: Float32s,
        records: Sequence[Record],
        *,
        settle: Callable[[list[RowInfo]], None] | None = None,
        unsettle: Callable[[], None] | None = None,
    ) -> list[RowInfo]:
        """Add rows whose embeddings lie on the grid; return what the table keeps of them.

        If it fails or is interrupted, no row was added.

        Args:
            embeddings: The rows, (rows, dim).
            records: What is known of them.
            settle: What else belongs to the change, done before followers are told.
            unsettle: What puts that back, if the addition is undone.
        """
        with self.lock.writing():
            return self._append(embeddings, records, settle, unsettle)

    def _append(
        self,
        embeddings: Float32s,
        records: Sequence[Record],
        settle: Callable[[list[RowInfo]], None] | None,
        unsettle: Callable[[], None] | None,
    ) -> list[RowInfo]:
        followers, self._followers = self._followers, {}
        before = len(self)
        try:
            infos = self._take_in(embeddings, records)
            if settle is not None:
                settle(infos)
        except BaseException:
            self.table.cut(before)
            self._recount()
            if unsettle is not None:
                unsettle()
            raise
        self._followers = _told(followers, lambda follower: follower.add(infos, embeddings))
        return infos

    def _take_in(self, embeddings: Float32s, records: Sequence[Record]) -> list[RowInfo]:
        slot_of = self.sums.open([record.label for record in records])
        slots = [slot_of[encode_key(record.label)] for record in records]
        infos = [
            RowInfo(record.id, slot, record.groups, record.content, record.serial)
            for record, slot in zip(records, slots, strict=True)
        ]
        self.table.append(embeddings, infos)
        for start in range(0, len(infos), _CHUNK):
            part = slice(start, start + _CHUNK)
            self.sums.add(slots[part], self.grid.units(embeddings[part]))
        return infos

    def remove(self, infos: Sequence[RowInfo], units: Units) -> list[Label]:
        """Take rows out, given in grid units (rows, dim); return the labels left without rows.

        If it is interrupted, it is finished before the interruption goes on.
        """
        with self.lock.writing():
            followers, self._followers = self._followers, {}
            try:
                for info in infos:
                    self.table.remove(info.id)
                emptied = self.sums.remove([info.slot for info in infos], units)
            except BaseException:
                self._finish_removal(infos)
                raise
            if followers:
                gone = self.grid.values(units)
                self._followers = _told(followers, lambda follower: follower.remove(infos, gone))
            return emptied

    def _finish_removal(self, infos: Sequence[RowInfo]) -> None:
        for info in infos:
            if self.table.position(info.id) is not None:
                self.table.remove(info.id)
        self._recount()

    def _recount(self) -> None:
        self.sums.recount(self.table.slots.tolist(), self.grid.units(self.table.embeddings))


def _told(followers: dict[str, Follower], tell: Callable[[Follower], None]) -> dict[str, Follower]:
    """Tell followers of a change; return those that took it in."""
    kept = {}
    for name, follower in followers.items():
        try:
            tell(follower)
        except Exception:
            log.exception("%s could not follow a change and will be built anew", name)
        else:
            kept[name] = follower
    return kept
