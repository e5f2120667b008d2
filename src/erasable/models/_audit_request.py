"""Which rows an audit is about, and how far forgetting them reaches."""

from dataclasses import dataclass, field, replace
from typing import Any

from erasable.errors import ErasableError, NothingFoundError, Problems, RowIdError, listing
from erasable.memory import Memory, Selection, keys_folder
from erasable.models._columns import selectors
from erasable.models._level import Reach, reach_of, reach_of_everything
from erasable.models._memory_model import MemoryModel
from erasable.models._provenance import without_rows


@dataclass(frozen=True)
class Request:
    """What an audit is asked about, against the rows that are live.

    Attributes:
        selection: What was named.
        is_named: Whether anything was.
    """

    selection: Selection = field(default_factory=Selection)
    is_named: bool = False


def resolve_request(
    memory: Memory, *, ids: Any, groups: Any, classes: Any, missing_ok: bool
) -> Request:
    """Tell live rows, rows forgotten before and unknown names apart.

    Raises:
        ErasableError: If a name is malformed, or unknown and ``missing_ok`` is False.
    """
    if ids is None and groups is None and classes is None:
        return Request()
    named = selectors(memory, ids=ids, groups=groups, classes=classes)
    try:
        selection = memory.select(**named, missing_ok=True)
    except ErasableError as error:
        message = str(error).removeprefix("forget(): ")
        raise type(error)(f"audit(): {message}") from None
    if not missing_ok:
        _refuse_unknown(memory, selection)
    live = [g for g in selection.groups if memory.table.ids_in_group(g)]
    is_named = bool(selection.ids or selection.already_forgotten or selection.unknown)
    return Request(replace(selection, groups=live), is_named=is_named)


def reach_of_request(model: MemoryModel, request: Request, digest: str) -> Reach:
    """Return the level of a request; without names, that of every row of the model."""
    known = model._known(digest)
    if not request.is_named:
        return reach_of_everything(
            without_rows(known, (row.id for row in model.memory.table.infos))
        )
    return reach_of(known, model.memory, request.selection, digest=digest)


def _refuse_unknown(memory: Memory, selection: Selection) -> None:
    is_found = selection.ids or selection.already_forgotten
    kind = RowIdError if is_found else NothingFoundError
    problems = Problems("audit()")
    live_or_gone = "of rows that are live or were forgotten, but got unknown ones"
    problems.note_items(selection.unknown_ids, f"Expected ids {live_or_gone}", kind=kind)
    problems.note_items(selection.unknown_groups, f"Expected groups {live_or_gone}", kind=kind)
    problems.note_items(
        selection.unknown_classes,
        "Expected classes with rows, but got others",
        remedy="A class that was forgotten leaves no mark to know it by.",
        kind=kind,
    )
    missing = memory.tombstones.marks.missing_keys
    if problems and missing:
        problems.note(
            f"What was forgotten under keys that are not in {keys_folder()} cannot be recognised: "
            f"{listing(missing)}.",
            kind=kind,
        )
    if problems:
        problems.note("Pass missing_ok=True to audit the rest.", kind=kind)
    problems.raise_if_any()
