"""Where rows that ought to equal rows built anew differ first, in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.memory._digest import LtHash
from erasable.memory._keys import encode_key, in_one_form
from erasable.memory._live import LiveRows
from erasable.memory._memory import Memory

_CHUNK = 4096


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it would be if it were built anew.

    Attributes:
        part: The part of the state.
        where: The row, class or place in it; empty if it is the whole part.
        found: What is there.
        expected: What ought to be there.
        against: Where the latter comes from.
    """

    part: str
    where: str
    found: str
    expected: str
    against: str = "when built anew"

    def __str__(self) -> str:
        place = f"{self.part}, {self.where}" if self.where else self.part
        return f"{place}: {self.found} here, {self.expected} {self.against}"


def compare_memories(mine: Memory, anew: Memory) -> Difference | None:
    """Return the first difference between a memory and one built anew: rows, sums, digest."""
    sizes = [(memory.dim, memory.grid.bits) for memory in (mine, anew)]
    if sizes[0] != sizes[1]:
        return Difference("configuration", "dim and grid bits", str(sizes[0]), str(sizes[1]))
    return compare_rows(mine.live, anew.live) or _compare_digests(mine, anew)


def compare_rows(mine: LiveRows, anew: LiveRows, *, part: str = "rows") -> Difference | None:
    """Return the first difference between rows, or what is summed up of them, and others.

    Both may lie in any order. ``mine`` is also checked against itself, by `check_rows`.
    """
    return check_rows(mine, part=part) or next(_differences(mine, anew, part), None)


def check_rows(live: LiveRows, *, part: str = "rows") -> Difference | None:
    """Return the first way in which rows do not fit themselves.

    Every row is found by its id and by its groups; and where no row lies, nothing is left of one.
    """
    return next(_contradictions(live, part), None)


def check_grid(live: LiveRows) -> Difference | None:
    """Return the first row that does not lie on the grid, and so could not be stored anew."""
    return next(_off_grid(live), None)


def canonical_order(live: LiveRows) -> list[int]:
    """Return the positions of rows in canonical order: by encoded id."""
    infos = live.table.infos
    return sorted(range(len(infos)), key=lambda place: encode_key(infos[place].id))


def first_unequal(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> tuple[int, ...] | None:
    """Return the first place where two arrays of one shape differ in their bits."""
    bits = {4: np.int32, 8: np.int64}[left.dtype.itemsize]
    is_unequal = np.ascontiguousarray(left).view(bits) != np.ascontiguousarray(right).view(bits)
    if not is_unequal.any():
        return None
    return tuple(int(place) for place in np.unravel_index(is_unequal.argmax(), left.shape))


# -- rows against themselves ----------------------------------------------------------------------


def _contradictions(live: LiveRows, part: str) -> Iterator[Difference]:
    table, in_use = live.table, set(live.sums.order.tolist())
    for place, (info, slot) in enumerate(zip(table.infos, table.slots.tolist(), strict=True)):
        if table.position(info.id) != place:
            yield Difference(part, f"row {info.id!r}", "not found by its id", "found")
        if slot != info.slot or slot not in in_use:
            yield Difference(part, f"row {info.id!r}", "filed under another class", "its own")
    ids = {info.id for info in table.infos}
    for row_id in table._position:
        if row_id not in ids:
            yield Difference(part, f"row {row_id!r}", "an id without a row", "no such id")
    yield from _group_contradictions(live, part)
    yield from _left_behind(live, part)


def _group_contradictions(live: LiveRows, part: str) -> Iterator[Difference]:
    stated = {(in_one_form(g), info.id) for info in live.table.infos for g in info.groups}
    listed = {(group, row) for group, rows in live.table._in_group.items() for row in rows}
    for group, row_id in sorted(listed ^ stated, key=repr):
        found = ("listed", "not listed") if (group, row_id) in listed else ("not listed", "listed")
        yield Difference(part, f"group {group!r}, row {row_id!r}", *found)
    for group, rows in live.table._in_group.items():
        if not rows:
            yield Difference(part, f"group {group!r}", "known without a row", "not known")


def _off_grid(live: LiveRows) -> Iterator[Difference]:
    embeddings, infos = live.table.embeddings, live.table.infos
    for start in range(0, len(embeddings), _CHUNK):
        chunk = embeddings[start : start + _CHUNK]
        rounded, not_finite, too_large = live.grid.round(chunk)
        place = first_unequal(chunk, rounded)
        if not_finite or too_large:
            where = f"row {infos[start + min(not_finite + too_large)].id!r}"
            yield Difference("rows", where, "a value outside the grid", "one on the grid")
        elif place is not None:
            where = f"row {infos[start + place[0]].id!r}, dimension {place[1]}"
            yield Difference("rows", where, str(chunk[place]), str(rounded[place]))


def _left_behind(live: LiveRows, part: str) -> Iterator[Difference]:
    table, sums = live.table, live.sums
    if table._embeddings[len(table) :].any() or table._slots[len(table) :].any():
        yield Difference(part, "the room behind the last row", "something left", "zeros")
    is_free = np.ones(len(sums._counts), bool)
    is_free[sums.order] = False
    kept = (sums._counts, sums._sums, sums._means)
    if any(values[is_free].any() for values in kept):
        yield Difference(part, "the room of classes without rows", "something left", "zeros")


# -- rows against others --------------------------------------------------------------------------


def _differences(mine: LiveRows, anew: LiveRows, part: str) -> Iterator[Difference]:
    orders = canonical_order(mine), canonical_order(anew)
    yield from _missing(mine, anew, orders, part)  # only the first difference is ever asked for
    yield from _detail_differences(mine, anew, orders, part)
    yield from _embedding_differences(mine, anew, orders, part)
    yield from _sum_differences(mine, anew, part)


def _missing(
    mine: LiveRows, anew: LiveRows, orders: tuple[list[int], list[int]], part: str
) -> Iterator[Difference]:
    ids = [
        [live.table.infos[place].id for place in order]
        for live, order in zip((mine, anew), orders, strict=True)
    ]
    if ids[0] == ids[1]:
        return
    here, there = (set(names) for names in ids)
    for row_id in ids[0]:
        if row_id not in there:
            yield Difference(part, f"row {row_id!r}", "still there", "not there")
    for row_id in ids[1]:
        if row_id not in here:
            yield Difference(part, f"row {row_id!r}", "missing", "there")


def _detail_differences(
    mine: LiveRows, anew: LiveRows, orders: tuple[list[int], list[int]], part: str
) -> Iterator[Difference]:
    for left, right in zip(*orders, strict=True):
        ours, theirs = mine.record(left), anew.record(right)
        if encode_key(ours.label) != encode_key(theirs.label):
            where = f"label of row {ours.id!r}"
            yield Difference(part, where, repr(ours.label), repr(theirs.label))
        if _keys(ours.groups) != _keys(theirs.groups):
            where = f"groups of row {ours.id!r}"
            yield Difference(part, where, repr(ours.groups), repr(theirs.groups))


def _embedding_differences(
    mine: LiveRows, anew: LiveRows, orders: tuple[list[int], list[int]], part: str
) -> Iterator[Difference]:
    for start in range(0, len(orders[0]), _CHUNK):
        places = [order[start : start + _CHUNK] for order in orders]
        left, right = mine.table.embeddings[places[0]], anew.table.embeddings[places[1]]
        place = first_unequal(left, right)
        if place is not None:
            row_id = mine.table.infos[places[0][place[0]]].id
            where = f"row {row_id!r}, dimension {place[1]}"
            yield Difference(part, where, str(left[place]), str(right[place]))


def _sum_differences(mine: LiveRows, anew: LiveRows, part: str) -> Iterator[Difference]:
    labels = mine.classes
    if _keys(labels) != _keys(anew.classes):
        yield Difference("classes", "", repr(labels), repr(anew.classes))
    prefix = "" if part == "rows" else f"{part}, "
    ours, theirs = mine.sums, anew.sums
    yield from _counted(f"{prefix}counts", labels, ours.counts, theirs.counts)
    yield from _counted(f"{prefix}sums", labels, ours.sums, theirs.sums)
    yield from _counted(f"{prefix}prototypes", labels, ours.means, theirs.means)


def _counted(
    part: str, labels: Sequence[object], ours: npt.NDArray[Any], theirs: npt.NDArray[Any]
) -> Iterator[Difference]:
    place = first_unequal(ours, theirs)
    if place is not None:
        where = f"class {labels[place[0]]!r}"
        where += f", dimension {place[1]}" if len(place) > 1 else ""
        yield Difference(part, where, str(ours[place]), str(theirs[place]))


def _keys(values: Sequence[Any]) -> list[str]:
    return [encode_key(value) for value in values]


# -- digests --------------------------------------------------------------------------------------


def _compare_digests(mine: Memory, anew: Memory) -> Difference | None:
    """Compare lanes too: the digest is kept once it is asked for, and lanes are not shown."""
    ours, theirs = _of_lanes(mine), _of_lanes(anew)
    for found in (ours, mine.digest):
        if found != theirs:
            return Difference("digest", "", found, theirs)
    return None


def _of_lanes(memory: Memory) -> str:
    fresh = LtHash()
    fresh._state = memory._hash._state
    return fresh.hexdigest()
