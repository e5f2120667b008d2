"""What a prediction was decided by, and what a forget would do."""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from erasable.store import Basis, Level
from erasable.typing import Float64s, Label


@dataclass(frozen=True)
class Votes:
    """The rows behind predictions, heaviest first.

    Attributes:
        ids: Row ids, (queries, top).
        labels: Labels of those rows, (queries, top).
        weights: Their votes, (queries, top).
        rest: The sum of all other rows' votes, (queries,).
        kind: ``probability``: votes are positive and sum to one over all rows; those of a class sum
            to its probability. ``logit``: votes sum, per class, to its logit; may be negative.
    """

    ids: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    weights: Float64s
    rest: Float64s
    kind: str


@dataclass(frozen=True)
class ForgetPlan:
    """What a forget request would do; nothing was done.

    Attributes:
        rows: How many rows would be forgotten.
        emptied: Classes that would have no row left.
        drift: Per class that loses some of its rows, how far its prototype would move, relative to
            its length.
        level: The level the request would be honoured at.
        basis: How that level is known.
    """

    rows: int
    emptied: tuple[Label, ...]
    drift: dict[Label, float]
    level: Level
    basis: Basis
