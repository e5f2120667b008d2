"""How well scores tell two kinds of models apart: accuracy, AUC, true-positive rates, errors."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from erasable.typing import Float64s

Z = 1.96

Scores = list[tuple[Float64s, Float64s]]
"""Per fold: scores of held-out models of both kinds, (models, rows); above 0 means the first."""


@dataclass(frozen=True)
class Estimate:
    """A number that depends on which shadow models were drawn.

    Attributes:
        value: The number; NaN if there are too few values for it.
        error: Its standard error over draws of the models.

    Examples:
        >>> accuracy = Estimate(0.51, 0.02)
        >>> accuracy.is_near(0.5)
        True
    """

    value: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return self.value - Z * self.error, self.value + Z * self.error

    def is_near(self, target: float) -> bool:
        """Tell whether ``target`` is within the 95 % interval."""
        low, high = self.interval
        return low <= target <= high


def accuracies(scores: Scores) -> tuple[Estimate, Float64s, Float64s]:
    """Return the accuracy over all rows, of each row, and the latter's errors; ties are a toss."""
    right_u = np.concatenate([(u > 0) + 0.5 * (u == 0) for u, _ in scores])
    right_o = np.concatenate([(o < 0) + 0.5 * (o == 0) for _, o in scores])
    rows: Float64s = (right_u.mean(axis=0) + right_o.mean(axis=0)) / 2
    errors = _error(right_u, right_o) / 2
    total = float(_error(_per_model(right_u), _per_model(right_o))[0]) / 2
    return Estimate(float(rows.mean()), total), rows, errors


def aucs(scores: Scores) -> tuple[Estimate, Float64s, Float64s]:
    """Return the AUC over all rows, of each row, and the latter's errors."""
    rows, places_u, places_o = _ranked(scores)
    value, *together = _ranked(_together(scores))
    per_model = (_per_model(places.reshape(-1, len(rows))) for places in together)
    total = Estimate(float(value[0]), float(_error(*per_model)[0]))
    return total, rows, _error(places_u, places_o)


def true_positive_rates(scores: Scores, rate: float) -> tuple[Estimate, Float64s]:
    """Return the true-positive rate over all rows and of each row, averaged over the folds.

    NaN where a fold has fewer than ``1/rate − 1`` scores of the second kind.
    """
    rows = scores[0][0].shape[1]
    of_rows = _passed(scores, rate)
    alone = np.full(rows, np.nan) if of_rows is None else of_rows[0].mean(axis=0)
    together = _passed(_together(scores), rate)
    if together is None:
        return Estimate(math.nan, math.nan), alone
    first, second = (_per_model(values.reshape(-1, rows)) for values in together)
    return Estimate(float(first.mean()), float(_error(first, second)[0])), alone


def _together(scores: Scores) -> Scores:
    """Take all rows as one."""
    return [(u.reshape(-1, 1), o.reshape(-1, 1)) for u, o in scores]


def _per_model(values: Float64s) -> Float64s:
    """Average (models, rows) over the rows, (models, 1)."""
    return np.asarray(values.mean(axis=1, keepdims=True))


def _ranked(scores: Scores) -> tuple[Float64s, Float64s, Float64s]:
    """Return the AUC of each column, and of each score the share of its opponents it beats.

    Only scores of one fold are compared: those of different folds come from fits that saw each
    other's models, which at chance would pull the AUC below 0.5.
    """
    wins, pairs = np.zeros(scores[0][0].shape[1]), 0
    places_u, places_o = [], []
    for u, o in scores:
        below_u, below_o = _below(u, o, "average"), _below(o, u, "average")  # ties by half
        places_u.append(below_u / len(o))
        places_o.append(1 - below_o / len(u))
        wins += below_u.sum(axis=0)
        pairs += len(u) * len(o)
    return wins / pairs, np.concatenate(places_u), np.concatenate(places_o)


def _passed(scores: Scores, rate: float) -> tuple[Float64s, Float64s] | None:
    """Return which scores pass a threshold that a fresh one of the second kind passes at ``rate``.

    Among m scores of the second kind, a fresh one has any of m + 1 ranks with equal probability, so
    the first ``rate · (m + 1)`` ranks pass, the last of them and ties in part. None if that is less
    than one rank.
    """
    if min(len(o) + 1 for _, o in scores) * rate < 1 - 1e-9:
        return None
    passed: Scores = []
    for u, o in scores:
        allowed = rate * (len(o) + 1)
        highest, lowest = (_below(u, o, method) for method in ("max", "min"))
        equals = highest - lowest
        pass_u = np.clip((allowed - (len(o) - highest)) / (equals + 1), 0, 1)
        above = len(o) - stats.rankdata(o, "max", axis=0)
        same = 1 + len(o) - above - stats.rankdata(o, "min", axis=0)
        passed.append((pass_u, np.clip((allowed - above) / same, 0, 1)))
    return np.concatenate([u for u, _ in passed]), np.concatenate([o for _, o in passed])


def _below(first: Float64s, second: Float64s, method: str) -> Float64s:
    """Count, for each of ``first``, those of ``second`` below; ties as rankdata's ``method``."""
    ranks = stats.rankdata(np.concatenate([first, second]), method, axis=0)[: len(first)]
    return np.asarray(ranks - stats.rankdata(first, method, axis=0))


def _error(first: Float64s, second: Float64s) -> Float64s:
    """Return the standard error of the sum of two means over models, (columns,).

    Variances count twice. At chance, what is averaged is nearly bilinear in the models that fit and
    the models that are judged; every pair of models occurs in both roles, with the same sign.
    """
    parts = [values.var(axis=0, ddof=1) / len(values) for values in (first, second)]
    return np.asarray(np.sqrt(2 * (parts[0] + parts[1])))
