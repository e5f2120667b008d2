"""How far forgetting reaches: the one place where a level is decided.

`forget`, its dry run, audits, `info` and the command line all ask here, so none of them can say
what another would not.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from erasable.memory import CLASS, GROUP, ID, Memory, Selection, Tombstone, encode_key
from erasable.models._provenance import Provenance, Source
from erasable.store import Basis, Level
from erasable.typing import RowId


@dataclass(frozen=True)
class Reach:
    """How far forgetting what a request names reaches.

    Attributes:
        level: The level; None for a request that finds nothing.
        basis: How it is known; None likewise.
        reasons: Why it is not ``exact``, one sentence each.
    """

    level: Level | None
    basis: Basis | None
    reasons: tuple[str, ...] = ()


def told_for(known: Provenance, digest: str) -> str:
    """Name what a level is told for: it holds as long as neither weights nor record change.

    Args:
        known: What the weights were trained on; a source is only ever added to it.
        digest: Digest of the weights.
    """
    return f"{digest}:{len(known.sources)}"


def reach_of(known: Provenance, memory: Memory, selection: Selection, *, digest: str) -> Reach:
    """Return how far forgetting a selection reaches; the weakest of what it names counts.

    Args:
        known: What the weights were trained on.
        memory: The memory, before the rows are taken out.
        selection: What the request names.
        digest: Digest of the weights.
    """
    rows = [
        (record.id, record.content)
        for record in map(memory.record, memory.positions(selection.ids).tolist())
    ]
    suspects = [
        (source, reason)
        for source in known.sources
        for reason in (
            *_may_have_seen_rows(source, rows),
            *_may_have_seen_names(source, selection),
            *_saw_unknown_names(source, selection),
        )
    ]
    gone = list(_forgotten_before(known, memory, selection, told_for(known, digest)))
    if not suspects and not gone and not rows:
        return Reach(None, None)
    suspects += [
        (source, reason)
        for source in known.sources
        for reason in _may_have_seen_unknown_names(source, selection)
    ]
    weak = [reason for level, reason in gone if level != "exact"]
    if not suspects and not weak:
        is_declared = any(source.basis == "declared" for source in known.sources)
        return Reach("exact", "declared" if is_declared else "recorded")
    is_recorded = any(source.basis == "recorded" and source.can_tell for source, _ in suspects)
    reasons = dict.fromkeys([*(reason for _, reason in suspects), *weak])
    return Reach("memory", "recorded" if is_recorded else "unknown", tuple(reasons))


def reach_of_everything(known: Provenance) -> Reach:
    """Return how far forgetting any row, whichever, reaches."""
    reasons = tuple(
        f"{source.name}: what the weights learnt from it stays"
        for source in known.sources
        if source.basis != "declared"
    )
    if not reasons:
        return Reach("exact", "declared" if known.sources else "recorded")
    is_recorded = any(source.basis == "recorded" and source.can_tell for source in known.sources)
    return Reach("memory", "recorded" if is_recorded else "unknown", reasons)


def _may_have_seen_rows(source: Source, rows: list[tuple[RowId, bytes | None]]) -> Iterator[str]:
    count = sum(source.may_hold(*row) for row in rows)
    if count:
        seen = "saw" if source.basis == "recorded" and source.can_tell else "may have seen"
        are = "1 row" if len(rows) == 1 else f"{count} of {len(rows)} rows"
        yield f"{source.name}: the weights {seen} {are}"


def _may_have_seen_names(source: Source, selection: Selection) -> Iterator[str]:
    """Ask of groups and classes that have rows now: other rows of theirs may be gone."""
    gone = {*selection.unknown_groups, *selection.forgotten_groups}
    groups = [group for group in selection.groups if group not in gone]
    unknown = {encode_key(label) for label in selection.unknown_classes}  # 1 and True are two
    classes = [label for label in selection.classes if encode_key(label) not in unknown]
    for kind, count in (
        (GROUP, sum(map(source.may_hold_group, groups))),
        (CLASS, sum(map(source.may_hold_class, classes))),
    ):
        if count:
            is_told = source.can_tell and kind in source.covers
            seen = "saw rows of" if is_told else "may have seen rows of"
            yield f"{source.name}: the weights {seen} the {kind}"


def _saw_unknown_names(source: Source, selection: Selection) -> Iterator[str]:
    """Ask whether names that are not in the memory are on record all the same."""
    for kind, names in (
        (ID, selection.unknown_ids),
        (GROUP, selection.unknown_groups),
        (CLASS, selection.unknown_classes),
    ):
        count = sum(source.holds(kind, name) for name in names)
        if count:
            yield f"{source.name}: the weights saw {count} that the memory does not have"


def _may_have_seen_unknown_names(source: Source, selection: Selection) -> Iterator[str]:
    """Ask whether names that are not in the memory may be of rows that nobody named."""
    for kind, count in (
        (GROUP, sum(map(source.may_hold_group, selection.unknown_groups))),
        (CLASS, sum(map(source.may_hold_class, selection.unknown_classes))),
    ):
        if count and not (source.can_tell and kind in source.covers):
            yield (
                f"{source.name}: the weights may have seen rows of the {kind}, of which the memory "
                "has none"
            )


def _forgotten_before(
    known: Provenance, memory: Memory, selection: Selection, weights: str
) -> Iterator[tuple[Level | None, str]]:
    """Yield the level that holds now for each name that was forgotten before, and why."""
    if not selection.already_forgotten:
        return
    may_be_copies = _may_be_copies(known, memory)
    for row_id, tombstone in selection.forgotten_ids.items():
        may_hold = any(source.may_hold(row_id, None) for source in known.sources)
        yield _level_now(tombstone, weights, is_suspect=may_hold, may_be_copies=may_be_copies)
    for group, tombstone in selection.forgotten_groups.items():
        may_hold = any(source.may_hold_group(group) for source in known.sources)
        yield _level_now(tombstone, weights, is_suspect=may_hold, may_be_copies=may_be_copies)


def _level_now(
    tombstone: Tombstone | None, weights: str, *, is_suspect: bool, may_be_copies: bool
) -> tuple[Level | None, str]:
    if is_suspect:
        return "memory", "the weights saw, or may have seen, what was forgotten before"
    if tombstone is not None and tombstone.level not in (None, "exact"):
        return "memory", "when it was forgotten, the level was not exact"
    is_told = tombstone is not None and tombstone.weights == weights
    if may_be_copies and not is_told:
        return "memory", (
            "whether rows forgotten before were, under other ids, among what the weights were "
            "trained on: their inputs are gone. A receipt made when they were forgotten can tell"
        )
    return "exact", ""


def _may_be_copies(known: Provenance, memory: Memory) -> bool:
    """Tell whether a row forgotten before may be a copy of one that the weights saw.

    Its content is gone, and with it the way to recognise it in the training record. What is left
    are the marks of all forgotten rows: only if they were made with the very key of the record, and
    none of them is in it, and none was ever taken out, has no forgotten row been trained on.
    """
    tombstones = memory.tombstones.marks
    records = [source.marks for source in known.sources if source.marks is not None]
    return any(
        memory.tombstones.has_gap
        or seen.key_ids != tombstones.key_ids
        or not set(seen).isdisjoint(tombstones)
        for seen in records
    )
