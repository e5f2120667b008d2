"""What a forget request would do."""

from dataclasses import dataclass

import numpy as np

from erasable.errors import ArgumentError
from erasable.memory import Memory, NearCopy, Selection, find_copies, plain, sort_labels
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
        near: Rows that stay although they are near to a row of the request, nearest first; None if
            nobody asked.
    """

    rows: int
    emptied: tuple[Label, ...]
    drift: tuple[tuple[Label, float], ...]
    level: Level | None
    basis: Basis | None
    already_forgotten: int = 0
    unknown: int = 0
    reasons: tuple[str, ...] = ()
    near: tuple[NearCopy, ...] | None = None


def require_distance(near: float | None, *, is_dry: bool) -> None:
    """Refuse a distance that nothing is looked for within.

    Raises:
        ArgumentError: If it is no number of 0 or more, or the request is not a dry run.
    """
    if near is None:
        return
    if not is_dry:
        raise ArgumentError(
            "Expected near only with dry_run=True: rows that are not named are listed, never "
            "forgotten."
        )
    if type(plain(near)) not in (int, float) or not 0 <= near < np.inf:
        raise ArgumentError(f"Expected near to be a number of 0 or more, but got {near!r}.")


def plan_forget(
    memory: Memory, selection: Selection, reach: Reach, *, near: float | None = None
) -> ForgetPlan:
    """Tell what dropping a selection from a memory would do, without doing it.

    Args:
        memory: The memory.
        selection: The rows.
        reach: How far forgetting them reaches.
        near: Largest distance of rows to list that are near to these, relative to their lengths.
    """
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
        None
        if near is None
        else find_copies(table, positions, tolerance=near, step=memory.grid.step),
    )
