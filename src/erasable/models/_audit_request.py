"""Which rows an audit is about, and how far forgetting them reaches."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from erasable.errors import ErasableError, Problems, RowIdError, listing
from erasable.memory import Memory, Selection, as_label, keys_folder
from erasable.models._memory_classifier import MemoryClassifier
from erasable.models._provenance import Provenance, Source, provenance_of
from erasable.store import Basis, Level
from erasable.typing import Group, Label, RowId


@dataclass(frozen=True)
class Request:
    """What an audit is asked about, against the rows that are live.

    Attributes:
        selection: The live rows among it, as `forget` would take them out.
        is_named: Whether anything was named at all.
        forgotten_ids: Ids that were forgotten before.
        forgotten_groups: Number of groups that were forgotten before.
        not_found: Number of names that nothing is known of.
    """

    selection: Selection
    is_named: bool
    forgotten_ids: list[RowId] = field(default_factory=list)
    forgotten_groups: int = 0
    not_found: int = 0

    @property
    def forgotten_before(self) -> int:
        """How many names are of rows or groups forgotten before."""
        return len(self.forgotten_ids) + self.forgotten_groups


@dataclass(frozen=True)
class Reach:
    """How far forgetting the rows of a request reaches.

    Attributes:
        level: The level.
        basis: How it is known.
        sources: What the weights were trained on.
        not_verified: What nobody can verify from the model.
    """

    level: Level
    basis: Basis
    sources: tuple[str, ...]
    not_verified: list[str]


def resolve_request(
    memory: Memory, *, ids: Any, groups: Any, classes: Any, missing_ok: bool
) -> Request:
    """Tell live rows, rows forgotten before and unknown names apart.

    Raises:
        ErasableError: If a name is malformed, or unknown and ``missing_ok`` is False.
    """
    if ids is None and groups is None and classes is None:
        return Request(Selection([], []), is_named=False)
    selection = _select(memory, ids=ids, groups=groups, classes=classes)
    forgotten = [row_id for row_id in selection.missing if memory.tombstones.has_id(row_id)]
    unknown = [row_id for row_id in selection.missing if row_id not in set(forgotten)]
    empty = [group for group in selection.groups if not memory.table.ids_in_group(group)]
    buried = [group for group in empty if memory.tombstones.has_group(group)]
    strange = [group for group in empty if group not in set(buried)]
    labels = _unknown_classes(memory, classes)
    if not missing_ok:
        _refuse(memory, unknown, strange, labels)
    return Request(
        replace(selection, groups=[group for group in selection.groups if group not in set(empty)]),
        is_named=bool(selection.ids or selection.missing or selection.groups or labels),
        forgotten_ids=forgotten,
        forgotten_groups=len(buried),
        not_found=len(unknown) + len(strange) + len(labels),
    )


def reach_of(model: MemoryClassifier, request: Request, digest: str) -> Reach:
    """Return the level of a request, and what it leaves open."""
    known = provenance_of(model.network_, digest=digest)
    level, basis = model._level(request.selection, digest)
    sources = tuple(f"{source.name} ({source.basis})" for source in known.sources)
    not_verified: list[str] = []
    if level == "exact" and _may_be_copies(model, known, request):
        level, basis = "memory", "unknown"
        not_verified.append(
            "whether rows forgotten before were, under other ids, among what the weights were "
            "trained on: their inputs are gone. A receipt made when they were forgotten can tell."
        )
    elif level != "exact":
        not_verified.append(_learnt(model, known, request))
    return Reach(level, basis, sources, not_verified)


def _select(memory: Memory, **named: Any) -> Selection:
    try:
        return memory.select(**named, missing_ok=True)
    except ErasableError as error:
        message = str(error).removeprefix("forget(): ")
        raise type(error)(f"audit(): {message}") from None


def _unknown_classes(memory: Memory, classes: Any) -> list[Label]:
    labels = [] if classes is None else [as_label(label) for label in classes]
    return [label for label in labels if memory.sums.slot(label) is None]


def _refuse(memory: Memory, ids: list[RowId], groups: list[Group], classes: list[Label]) -> None:
    problems = Problems("audit()")
    live_or_gone = "of rows that are live or were forgotten, but got unknown ones"
    problems.note_items(ids, f"Expected ids {live_or_gone}", kind=RowIdError)
    problems.note_items(groups, f"Expected groups {live_or_gone}", kind=RowIdError)
    problems.note_items(
        classes,
        "Expected classes with rows, but got others",
        remedy="A class that was forgotten leaves no mark to know it by.",
        kind=RowIdError,
    )
    missing = memory.tombstones.marks.missing_keys
    if problems and missing:
        problems.note(
            f"What was forgotten under keys that are not in {keys_folder()} cannot be recognised: "
            f"{listing(missing)}.",
            kind=RowIdError,
        )
    if problems:
        problems.note("Pass missing_ok=True to audit the rest.", kind=RowIdError)
    problems.raise_if_any()


def _may_be_copies(model: MemoryClassifier, known: Provenance, request: Request) -> bool:
    """Tell whether a row forgotten before may be a copy of one that the weights saw.

    Its content is gone, and with it the way to recognise it in the training record. What is left
    are the marks of all forgotten rows: only if they were made with the very key of the record, and
    none of them is in it, has no forgotten row been trained on.
    """
    if not request.forgotten_ids:
        return False
    tombstones = model.memory.tombstones.marks
    records = [source.marks for source in known.sources if source.marks is not None]
    return any(
        seen.key_ids != tombstones.key_ids or not set(seen).isdisjoint(tombstones)
        for seen in records
    )


def _learnt(model: MemoryClassifier, known: Provenance, request: Request) -> str:
    """Say what the weights may still carry of the rows."""
    selection, memory = request.selection, model.memory
    records = [memory.record(int(place)) for place in memory.positions(selection.ids)]
    rows: list[tuple[RowId, bytes | None]] = [(r.id, r.content) for r in records]
    rows += [(row_id, None) for row_id in selection.missing]
    seen = sum(_may_have_seen(known.sources, *row) for row in rows)
    if not request.is_named:
        what = "what the weights learnt from rows they were trained on"
    elif not selection.is_complete:
        what = "what the weights may have learnt from rows that are no longer in the memory"
    else:
        what = f"what the weights learnt, or may have learnt, from {seen} of the {len(rows)} rows"
    return f"{what}. It is measured only by retraining without them or by membership attacks."


def _may_have_seen(sources: Iterable[Source], row_id: RowId, content: bytes | None) -> bool:
    return any(source.may_hold(row_id, content) for source in sources)
