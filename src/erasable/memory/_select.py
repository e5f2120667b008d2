"""Which rows a request means: the union of ids, groups and classes, all or nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from erasable.errors import ArgumentError, Problems, RowIdError
from erasable.memory._incoming import as_column
from erasable.memory._keys import as_group, as_id, as_label
from erasable.typing import Group, Label, RowId

if TYPE_CHECKING:
    from erasable.memory._memory import Memory

T = TypeVar("T")

_REMEDY = "Pass missing_ok=True to skip what is not in this memory."


@dataclass(frozen=True)
class Selection:
    """Ids of live rows, each once, and what was named.

    Attributes:
        ids: Ids of live rows.
        groups: Groups that were named.
        missing: Ids that were named but are not in the memory.
        is_complete: Whether every group and class that was named is in the memory.
    """

    ids: list[RowId]
    groups: list[Group]
    missing: list[RowId] = field(default_factory=list)
    is_complete: bool = True


def select(memory: "Memory", *, ids: Any, groups: Any, classes: Any, missing_ok: bool) -> Selection:
    """Resolve a request against the rows that are live now.

    Raises:
        ErasableError: If nothing was named, or something named is not there and ``missing_ok`` is
            False.
    """
    if ids is None and groups is None and classes is None:
        raise ArgumentError("Expected ids, groups or classes to forget, but got none of them.")
    problems = Problems("forget()")
    form = Problems("forget()")
    wanted = _plain(ids, as_id, "ids", form)
    subjects = _plain(groups, as_group, "groups", form)
    labels = _plain(classes, as_label, "classes", form)
    form.raise_if_any()
    live = {name: memory.table.ids_named(name) for name in wanted}
    chosen: dict[RowId, None] = dict.fromkeys(row for rows in live.values() for row in rows)
    for group in subjects:
        chosen.update(dict.fromkeys(memory.table.ids_in_group(group)))
    chosen.update(dict.fromkeys(_ids_of_classes(memory, labels, problems)))
    missing = [name for name in wanted if not live[name]]
    if missing:
        _note_missing(memory, missing, problems)
    empty = [group for group in subjects if not memory.table.ids_in_group(group)]
    problems.note_items(empty, "got groups without rows", remedy=_REMEDY, kind=RowIdError)
    if not missing_ok:
        problems.raise_if_any()
    is_complete = not empty and all(memory.sums.slot(label) is not None for label in labels)
    return Selection(list(chosen), subjects, missing, is_complete)


def _plain(values: Any, convert: Callable[[Any], T], name: str, problems: Problems) -> list[T]:
    found = [] if values is None else as_column(values, convert, name, None, problems)
    return list(dict.fromkeys(found)) if name != "classes" else found


def _ids_of_classes(memory: "Memory", labels: list[Label], problems: Problems) -> list[RowId]:
    if not labels:
        return []
    slots = [memory.sums.slot(label) for label in labels]
    unknown = [label for label, slot in zip(labels, slots, strict=True) if slot is None]
    problems.note_items(unknown, "got unknown classes", remedy=_REMEDY, kind=RowIdError)
    positions = np.flatnonzero(np.isin(memory.table.slots, [s for s in slots if s is not None]))
    return [memory.table.infos[position].id for position in positions.tolist()]


def _note_missing(memory: "Memory", missing: list[RowId], problems: Problems) -> None:
    is_gone = {row_id: memory.tombstones.has_id(row_id) for row_id in missing}
    gone = [row_id for row_id in missing if is_gone[row_id]]
    unknown = [row_id for row_id in missing if not is_gone[row_id]]
    problems.note_items(
        unknown, f"got {len(unknown)} unknown row ids", remedy=_REMEDY, kind=RowIdError
    )
    problems.note_items(
        gone, f"got {len(gone)} row ids forgotten before", remedy=_REMEDY, kind=RowIdError
    )
