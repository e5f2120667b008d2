"""The paper's Claim: accuracy gap ≤ prediction gap ≤ √2/γ_min · √KL."""

import math
from dataclasses import dataclass

import numpy as np

from erasable.metrics.functional._accuracy import count_correct
from erasable.metrics.functional._check import check_pair_and_labels
from erasable.metrics.functional._convert import Array
from erasable.metrics.functional._kl import divergences
from erasable.metrics.functional._prediction_gap import count_disagreements
from erasable.typing import Float64s

_ROUNDING = 1e-14
"""Error of ``√(2·KL)`` in float64, far above what is observed up to thousands of classes."""


@dataclass(frozen=True)
class ClaimBounds:
    """The two sides of the Claim for one pair of models, all as fractions.

    Attributes:
        accuracy_gap: As of `accuracy_gap`; the oracle's value is 0.
        prediction_gap: As of `prediction_gap`; the oracle's value is 0.
        margin: γ_min, the smallest difference over the queries between the oracle's most and second
            most probable class.
        bound_unlearned_oracle: √2/γ_min · √KL(unlearned‖oracle), the paper's bound; ∞ if the margin
            is 0.
        bound_oracle_unlearned: The same with KL(oracle‖unlearned), which also bounds the gap.
    """

    accuracy_gap: float
    prediction_gap: float
    margin: float
    bound_unlearned_oracle: float
    bound_oracle_unlearned: float

    @property
    def left_holds(self) -> bool:
        """Whether the accuracy gap is at most the prediction gap."""
        return self.accuracy_gap <= self.prediction_gap

    @property
    def right_holds(self) -> bool:
        """Whether the prediction gap is at most both bounds, up to float64 rounding."""
        return all(self._is_within(bound) for bound in self._bounds)

    @property
    def is_vacuous(self) -> bool:
        """Whether even the smaller bound is 1 or more, so that it says nothing."""
        return min(self._bounds) >= 1

    @property
    def _bounds(self) -> tuple[float, float]:
        return self.bound_unlearned_oracle, self.bound_oracle_unlearned

    def _is_within(self, bound: float) -> bool:
        # Compared before the division by the margin, which would magnify the rounding.
        scaled = self.prediction_gap * self.margin
        return math.isinf(bound) or scaled <= bound * self.margin + _ROUNDING


def claim(unlearned: Array, oracle: Array, *, labels: Array) -> ClaimBounds:
    """Compute both sides of the paper's Claim on the same queries.

    ``accuracy gap ≤ prediction gap ≤ √2/γ_min · √KL``, for either direction of KL.

    Both inequalities hold for every pair of models, so a violation shows an error in the numbers,
    not a bad model. A small bound shows that few predictions differ; a large one shows nothing:
    γ_min is the worst of all queries, and one near tie makes the bound useless
    (`ClaimBounds.is_vacuous`).

    Args:
        unlearned: Probabilities (n, classes) of the unlearned model, not floored.
        oracle: Probabilities (n, classes) of the oracle, not floored, for the same queries and
            classes.
        labels: (n,), the column of each query's class.

    Raises:
        ArgumentError: If an argument is malformed; one message names every problem.

    Examples:
        >>> import numpy as np
        >>> oracle, unlearned = np.array([[0.9, 0.1]]), np.array([[0.8, 0.2]])
        >>> found = claim(unlearned, oracle, labels=np.array([0]))
        >>> f"{found.prediction_gap} ≤ {found.bound_unlearned_oracle:.2f}"
        '0.0 ≤ 0.37'
        >>> found.left_holds, found.right_holds, found.is_vacuous
        (True, True, False)
    """
    first, second, truth = check_pair_and_labels("claim()", unlearned, oracle, labels)
    difference = count_correct(first, truth) - count_correct(second, truth)
    # Float32 rounding must not decide: the proof needs both models to sum to exactly 1.
    p, q = (model / model.sum(axis=1, keepdims=True) for model in (first, second))
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p), np.log(q)
    margin = _smallest_margin(q)
    return ClaimBounds(
        accuracy_gap=abs(difference) / len(truth),
        prediction_gap=count_disagreements(first, second) / len(truth),
        margin=margin,
        bound_unlearned_oracle=_bound(divergences(log_p, log_q), margin),
        bound_oracle_unlearned=_bound(divergences(log_q, log_p), margin),
    )


def _smallest_margin(oracle: Float64s) -> float:
    """Return γ_min; a model with a single class leads by all of its probability."""
    ranked = np.sort(oracle, axis=1)
    second = ranked[:, -2] if ranked.shape[1] > 1 else 0.0
    return float((ranked[:, -1] - second).min())


def _bound(divergence: Float64s, margin: float) -> float:
    return math.sqrt(2 * divergence.mean()) / margin if margin > 0 else math.inf
