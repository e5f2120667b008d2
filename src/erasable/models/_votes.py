"""What a prediction was decided by."""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from erasable.typing import Float64s


@dataclass(frozen=True)
class Votes:
    """The rows behind predictions, heaviest first.

    Attributes:
        ids: Row ids, (queries, top).
        labels: Labels of those rows, (queries, top).
        weights: Their votes, (queries, top).
        rest: The sum of all other rows' votes, (queries,).
        kind: ``probability``: votes are positive and sum to one over all rows; those of a class sum
            to its probability. ``logit``: votes sum, per class, to its logit (for ``gaussian``, to
            the linear part of it); may be negative.
    """

    ids: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    weights: Float64s
    rest: Float64s
    kind: str
