"""What a forget request would do."""

from dataclasses import dataclass

import numpy as np

from erasable.memory import Memory, Selection, sort_labels
from erasable.models._level import Reach
from erasable.store import Basis, Level
from erasable.typing import Label


@dataclass(frozen=True)
class ForgetPlan:
    """What a forget request would do; nothing was done.

    Attributes:
        rows: How many rows would be forgotten.
        emptied: Classes that would have no row left.
        drift: Per class that loses some of its rows, how far its prototype would move, relative to
            its length.
        level: The level the request would be honoured at; None if nothing was found.
        basis: How that level is known.
        already_forgotten: How many of the ids and groups were forgotten before.
        unknown: How many of the ids, groups and classes nothing is known of.
        reasons: Why the level is not ``exact``, one sentence each.
    """

    rows: int
    emptied: tuple[Label, ...]
    drift: tuple[tuple[Label, float], ...]
    level: Level | None
    basis: Basis | None
    already_forgotten: int = 0
    unknown: int = 0
    reasons: tuple[str, ...] = ()


def plan_forget(memory: Memory, selection: Selection, reach: Reach) -> ForgetPlan:
    """Tell what dropping a selection from a memory would do, without doing it."""
    table, sums = memory.table, memory.sums
    positions = memory.positions(selection.ids)
    slots = table.slots[positions]
    emptied: list[Label] = []
    drift: list[tuple[Label, float]] = []
    for slot in np.unique(slots).tolist():
        label, members = sums.label_at(slot), positions[slots == slot]
        left = sums.count(slot) - len(members)
        if not left:
            emptied.append(label)
            continue
        before = sums.sum_at(slot) / sums.count(slot)
        gone = memory.grid.units(table.embeddings[members]).sum(0, dtype=np.int64)
        after = (sums.sum_at(slot) - gone) / left
        length = max(float(np.linalg.norm(before)), np.finfo(float).tiny)
        drift.append((label, float(np.linalg.norm(after - before)) / length))
    return ForgetPlan(
        len(positions),
        tuple(sort_labels(emptied)),
        tuple(drift),
        reach.level,
        reach.basis,
        selection.already_forgotten,
        selection.unknown,
        reach.reasons,
    )
