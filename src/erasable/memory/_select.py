"""Which rows a request means: the union of ids, groups and classes, all or nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from erasable.errors import (
    AlreadyForgottenError,
    ArgumentError,
    NothingFoundError,
    Problems,
    RowIdError,
    listing,
)
from erasable.memory._incoming import as_column
from erasable.memory._keys import as_group, as_id, as_label
from erasable.memory._marks import Tombstone
from erasable.typing import Group, Label, RowId

if TYPE_CHECKING:
    from erasable.memory._memory import Memory

T = TypeVar("T")

_REMEDY = "Pass missing_ok=True to skip what is not in this memory."


@dataclass(frozen=True)
class Selection:
    """What a request names, against the rows that are live now.

    Attributes:
        ids: Ids of the live rows that it means, each once.
        groups: Every group that was named.
        classes: Every class that was named.
        forgotten_ids: Ids that were forgotten before, and what is known of when.
        forgotten_groups: Groups without rows that were forgotten before, likewise.
        unknown_ids: Ids that are neither live nor forgotten.
        unknown_groups: Groups without rows that were not forgotten.
        unknown_classes: Classes without rows.
    """

    ids: list[RowId] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    classes: list[Label] = field(default_factory=list)
    forgotten_ids: dict[RowId, Tombstone | None] = field(default_factory=dict)
    forgotten_groups: dict[Group, Tombstone | None] = field(default_factory=dict)
    unknown_ids: list[RowId] = field(default_factory=list)
    unknown_groups: list[Group] = field(default_factory=list)
    unknown_classes: list[Label] = field(default_factory=list)

    @property
    def already_forgotten(self) -> int:
        """Number of ids and groups that were forgotten before."""
        return len(self.forgotten_ids) + len(self.forgotten_groups)

    @property
    def unknown(self) -> int:
        """Number of ids, groups and classes that nothing is known of."""
        return len(self.unknown_ids) + len(self.unknown_groups) + len(self.unknown_classes)


def select(memory: "Memory", *, ids: Any, groups: Any, classes: Any, missing_ok: bool) -> Selection:
    """Resolve a request against the rows that are live now.

    Raises:
        ErasableError: If nothing was named, or something named is not there and ``missing_ok`` is
            False.
    """
    if ids is None and groups is None and classes is None:
        raise ArgumentError("Expected ids, groups or classes to forget, but got none of them.")
    problems = Problems("forget()")
    wanted = _plain(ids, as_id, "ids", problems)
    subjects = _plain(groups, as_group, "groups", problems)
    labels = _plain(classes, as_label, "classes", problems)
    problems.raise_if_any()
    live = {name: memory.table.ids_named(name) for name in wanted}
    chosen: dict[RowId, None] = dict.fromkeys(row for rows in live.values() for row in rows)
    for group in subjects:
        chosen.update(dict.fromkeys(memory.table.ids_in_group(group)))
    chosen.update(dict.fromkeys(_ids_of_classes(memory, labels)))
    tombstones = memory.tombstones
    gone = [name for name in wanted if not live[name]]
    empty = [group for group in subjects if not memory.table.ids_in_group(group)]
    selection = Selection(
        list(chosen),
        subjects,
        labels,
        {i: tombstones.of_id(i) for i in gone if tombstones.has_id(i)},
        {g: tombstones.of_group(g) for g in empty if tombstones.has_group(g)},
        [row_id for row_id in gone if not tombstones.has_id(row_id)],
        [group for group in empty if not tombstones.has_group(group)],
        [label for label in labels if memory.sums.slot(label) is None],
    )
    if not missing_ok:
        _refuse_missing(selection)
    return selection


def _plain(values: Any, convert: Callable[[Any], T], name: str, problems: Problems) -> list[T]:
    found = [] if values is None else as_column(values, convert, name, None, problems)
    return list(dict.fromkeys(found)) if name != "classes" else found


def _ids_of_classes(memory: "Memory", labels: list[Label]) -> list[RowId]:
    slots = [slot for label in labels if (slot := memory.sums.slot(label)) is not None]
    positions = np.flatnonzero(np.isin(memory.table.slots, slots)) if slots else np.empty(0, int)
    return [memory.table.infos[position].id for position in positions.tolist()]


def _refuse_missing(selection: Selection) -> None:
    """Refuse a request that names something which is not there; say which, and since when."""
    forgotten, unknown = selection.already_forgotten, selection.unknown
    if not forgotten and not unknown:
        return
    sentences = [
        *_forgotten("row", selection.forgotten_ids),
        *_forgotten("group", selection.forgotten_groups),
        *_unknown("row id", selection.unknown_ids),
        *_unknown("group", selection.unknown_groups),
        *_unknown("class", selection.unknown_classes),
    ]
    kind: type[RowIdError] = RowIdError
    if not selection.ids and not (forgotten and unknown):
        kind = AlreadyForgottenError if forgotten else NothingFoundError
    raise kind(f"forget(): {' '.join(sentences)} {_REMEDY}")


def _forgotten(noun: str, found: dict[Any, Tombstone | None]) -> list[str]:
    if not found:
        return []
    are = f"{noun} was" if len(found) == 1 else f"{noun}s were"
    dates = {when(tombstone) for tombstone in found.values()}
    since = f" {dates.pop()}" if len(dates) == 1 else ""
    return [f"{len(found)} {are} already forgotten{since}: {listing(found)}."]


def _unknown(noun: str, found: list[Any]) -> list[str]:
    if not found:
        return []
    many = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    are = f"{noun} is" if len(found) == 1 else f"{many} are"
    return [f"{len(found)} {are} unknown: {listing(found)}."]


def when(tombstone: Tombstone | None) -> str:
    """Say when something was forgotten, and at which level, as far as is known."""
    if tombstone is None:
        return "(its date was not kept)"
    level = f", level {tombstone.level}" if tombstone.level else ""
    return f"on {tombstone.time[:10]}{level}"
