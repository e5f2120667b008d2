"""What a model holds of some rows, for a person who must answer a request about them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from erasable.memory import Selection, keys_folder, when
from erasable.models._columns import selectors
from erasable.models._level import Reach, reach_of
from erasable.store import Basis, Level
from erasable.typing import Group, Label, RowId

if TYPE_CHECKING:
    from erasable.models._memory_model import MemoryModel


@dataclass(frozen=True)
class HeldRow:
    """A live row that a request names.

    Attributes:
        id: Its id.
        label: Its label.
        groups: Its groups.
        level: The level that forgetting this row alone would have.
        basis: How it is known.
        reasons: Why it is not ``exact``.
    """

    id: RowId
    label: Label
    groups: tuple[Group, ...]
    level: Level | None
    basis: Basis | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Remainder:
    """Something that is left after rows were forgotten.

    Attributes:
        what: What it is.
        where: Where it lies.
        remedy: How to remove it.
    """

    what: str
    where: str
    remedy: str


@dataclass(frozen=True)
class Holding:
    """What a model holds of the rows that a request names; nothing was changed.

    Attributes:
        rows: The live rows.
        level: The level that forgetting all of them would have; None if nothing is known of them.
        basis: How it is known.
        reasons: Why it is not ``exact``.
        forgotten: Ids and groups that were forgotten before, each with when and at which level.
        unknown: Ids, groups and classes that nothing is known of.
        remains: What would be left, or is left, after forgetting.
    """

    rows: tuple[HeldRow, ...]
    level: Level | None
    basis: Basis | None
    reasons: tuple[str, ...]
    forgotten: tuple[str, ...]
    unknown: tuple[str, ...]
    remains: tuple[Remainder, ...]


def holding(
    model: "MemoryModel", *, ids: Any = None, groups: Any = None, classes: Any = None
) -> Holding:
    """Tell what a model holds of rows, how far forgetting them reaches, and what remains then.

    Args:
        model: A fitted model with a memory.
        ids: Ids of rows.
        groups: Groups; all their rows.
        classes: Labels; all their rows.
    """
    memory, digest = model.memory, model.weights_digest
    known = model._known(digest)
    named = selectors(memory, ids=ids, groups=groups, classes=classes)

    def held(row_id: RowId) -> HeldRow:
        [position] = memory.positions([row_id])
        record = memory.record(int(position))
        own = reach_of(known, memory, Selection([row_id]), digest=digest)
        return HeldRow(row_id, record.label, record.groups, own.level, own.basis, own.reasons)

    with memory.live.lock.reading():
        selection = memory.select(**named, missing_ok=True)
        reach = reach_of(known, memory, selection, digest=digest)
        rows = tuple(map(held, selection.ids))
    return Holding(
        rows=rows,
        level=reach.level,
        basis=reach.basis,
        reasons=reach.reasons,
        forgotten=(
            *(f"row {i!r} {when(t)}" for i, t in selection.forgotten_ids.items()),
            *(f"group {g!r} {when(t)}" for g, t in selection.forgotten_groups.items()),
        ),
        unknown=(
            *(f"row {row_id!r}" for row_id in selection.unknown_ids),
            *(f"group {group!r}" for group in selection.unknown_groups),
            *(f"class {label!r}" for label in selection.unknown_classes),
        ),
        remains=tuple(_remains(model, selection, reach)),
    )


_REMEDIES = {
    "embeddings": "'erasable forget' and 'erasable purge' remove them",
    "checkpoint": "delete it once the training is done",
    "report": "delete it, or make it again after forgetting",
    "drawing": "delete it, or draw again after forgetting",
}


def _remains(model: "MemoryModel", selection: Selection, reach: Reach) -> list[Remainder]:
    if not selection.ids and not selection.already_forgotten:
        return []
    found = [
        Remainder(
            "keyed hashes of the ids, inputs and groups, which refuse their return; personal data "
            "as long as the key exists",
            f"the saved model, and {keys_folder()}",
            "'erasable tombstones drop'; the rows may then come back",
        )
    ]
    if reach.level == "memory":
        found.append(
            Remainder(
                "what the weights learnt, or may have learnt, from the rows",
                "the weights",
                "train again without the rows",
            )
        )
    found += [
        Remainder(copy.holds, copy.path, _REMEDIES[copy.kind])
        for copy in model.copies()
        if copy.kind in _REMEDIES
    ]
    found.append(
        Remainder(
            "whole rows in older copies of the model, backups and logs, of which it does not know",
            "wherever they were put",
            "forget the rows there too: 'erasable catch-up' does so in an older copy",
        )
    )
    return found
