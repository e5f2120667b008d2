"""Membership attacks on one model: do rows that were to be forgotten look like training rows?"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from erasable.errors import ArgumentError, listing
from erasable.metrics.functional._attack import aucs, true_positive_rates
from erasable.metrics.functional._check import Checker
from erasable.metrics.functional._convert import Array
from erasable.typing import Float64s, Ints

_FLOOR = 1e-30  # as in published attacks; votes can be zero
_TRAINED_ON = 1000

Labelled = tuple[Array, Array]
"""Probabilities of queries (n, classes), and their labels as columns (n,)."""


@dataclass(frozen=True)
class Membership:
    """How well an attack tells rows that were to be forgotten from rows never seen.

    Attributes:
        auc: Chance that a row of the forget set looks more like a training row than a fresh one
            does. 0.5: it cannot tell. Above: the rows still look trained on. Below: they look less
            familiar than fresh ones, which gives them away as well.
        tpr: Share of the forget set that is recognised where one in a hundred fresh rows is taken
            for a training row; NaN with fewer than 99 fresh rows.

    Examples:
        >>> Membership(auc=0.5, tpr=0.01).advantage
        0.0
    """

    auc: float
    tpr: float

    @property
    def advantage(self) -> float:
        """How far the AUC is from a toss, either way."""
        return abs(self.auc - 0.5)


def membership(
    attack: str,
    *,
    forget: Labelled,
    fresh: Labelled,
    retain: Labelled | None = None,
    other: Labelled | None = None,
    rate: float = 0.01,
    seed: int = 0,
) -> Membership:
    """Attack one model.

    The oracle's own value belongs beside it: a model that never saw the rows has an AUC of 0.5 only
    up to chance, and elsewhere if fresh rows are harder than these.

    Args:
        attack: ``confidence`` in the true class; ``entropy`` of the prediction;
            ``modified_entropy``, which also minds the true class; ``svc``: a support-vector machine
            on these three and on whether the prediction is right.
        forget: What the model says of the rows that were to be forgotten.
        fresh: What it says of rows that were never trained on, of the same classes.
        retain: For ``svc``: what it says of rows that it was trained on and keeps.
        other: For ``svc``: what it says of fresh rows to learn from, none of them in ``fresh``.
        rate: False-positive rate of ``tpr``.
        seed: For ``svc``: which rows it learns from, if there are more than enough.
    """
    if attack not in (*SCORES, "svc"):
        known = listing([*SCORES, "svc"])
        raise ArgumentError(f"Expected attack {known}, but got {attack!r}.")
    pairs = [_checked(name, pair) for name, pair in (("forget", forget), ("fresh", fresh))]
    if attack == "svc":
        if retain is None or other is None:
            raise ArgumentError(
                "Expected retain and other for attack 'svc', but they are not given."
            )
        known_pair = _checked("retain", retain), _checked("other", other)
        first, second = _learnt(known_pair, pairs, seed)
    else:
        first, second = (SCORES[attack](*pair) for pair in pairs)
    scores = [(first[:, None], second[:, None])]
    tpr, _ = true_positive_rates(scores, rate)
    return Membership(float(aucs(scores)[1][0]), tpr.value)


def confidence(probabilities: Float64s, labels: Ints) -> Float64s:
    """Return the probability of the true class, (n,)."""
    return probabilities[np.arange(len(labels)), labels]


def negative_entropy(probabilities: Float64s, labels: Ints) -> Float64s:
    """Return less the entropy of each prediction, (n,): training rows are predicted surely."""
    logs = np.log(np.maximum(probabilities, _FLOOR))
    return np.asarray((probabilities * logs).sum(axis=1))


def negative_modified_entropy(probabilities: Float64s, labels: Ints) -> Float64s:
    """Return less the modified entropy of Song and Mittal, (n,).

    ``(1 − p_y) log p_y + Σ_{i ≠ y} p_i log(1 − p_i)``: largest for the true class with certainty.
    """
    rest = np.log(np.maximum(1 - probabilities, _FLOOR)) * probabilities
    own = confidence(probabilities, labels)
    total = rest.sum(axis=1) - confidence(rest, labels)
    return np.asarray((1 - own) * np.log(np.maximum(own, _FLOOR)) + total)


SCORES: dict[str, Callable[[Float64s, Ints], Float64s]] = {
    "confidence": confidence,
    "entropy": negative_entropy,
    "modified_entropy": negative_modified_entropy,
}
"""From predictions and labels to scores: the larger, the more like a training row."""

ATTACKS = (*SCORES, "svc")
"""Names of the attacks."""


def _checked(name: str, pair: Labelled) -> tuple[Float64s, Ints]:
    check = Checker("membership()")
    found = check.probabilities(name, pair[0]), check.labels(pair[1])
    check.done()
    return found


def _learnt(
    known: tuple[tuple[Float64s, Ints], tuple[Float64s, Ints]],
    asked: list[tuple[Float64s, Ints]],
    seed: int,
) -> tuple[Float64s, Float64s]:
    """Return scores of the asked rows by a machine that has learnt from known ones."""
    rng = np.random.default_rng(seed)
    members, others = (_features(*pair) for pair in known)
    count = min(len(members), len(others), _TRAINED_ON)
    chosen = [features[rng.permutation(len(features))[:count]] for features in (members, others)]
    machine = make_pipeline(StandardScaler(), SVC(C=3.0))
    machine.fit(np.concatenate(chosen), np.repeat([1, 0], count))
    first, second = (np.asarray(machine.decision_function(_features(*pair))) for pair in asked)
    return first, second


def _features(probabilities: Float64s, labels: Ints) -> Float64s:
    columns = [score(probabilities, labels) for score in SCORES.values()]
    is_right = probabilities.argmax(axis=1) == labels
    return np.stack([*columns, is_right], axis=1).astype(np.float64)
