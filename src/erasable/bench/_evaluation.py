"""Every metric of one unlearned model against one oracle, from their predictions alone."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.bench._predictions import Predictions
from erasable.bench._scenarios import Scenario
from erasable.data import Split
from erasable.metrics import (
    ATTACKS,
    accuracy,
    claim,
    error_rate,
    floored_log,
    kl_oracle_unlearned,
    kl_unlearned_oracle,
    membership,
    prediction_gap,
)
from erasable.typing import Float64s

_ATTACKED = 5000
"""Rows of each kind in an attack, at most."""

Bools = npt.NDArray[np.bool_]


class Evaluation:
    """One scenario's rows, to measure models on.

    UA is the error rate on the forget set, RA the accuracy on the retained rows, TA the accuracy on
    test rows; of the remaining classes only if whole classes are forgotten. Prediction gaps are
    taken on all test rows, and apart on those of remaining and of forgotten classes.

    Args:
        scenario: What is forgotten.
        train: Training rows.
        test: Test rows.
        classes: Columns of the predictions.
    """

    def __init__(self, scenario: Scenario, train: Split, test: Split, classes: list[Any]) -> None:
        column = {label: place for place, label in enumerate(classes)}
        self._gone = scenario.is_forgotten
        self._train_y = np.array([column[label] for label in train.y.tolist()])
        self._test_y = np.array([column[label] for label in test.y.tolist()])
        forgotten = np.unique(self._train_y[self._gone])
        self._is_class = scenario.is_class
        self._of_forgotten = np.isin(self._test_y, forgotten)
        self._is_kept = ~self._of_forgotten if scenario.is_class else np.ones(len(test), bool)

    def compare(self, unlearned: Predictions, oracle: Predictions) -> dict[str, Any]:
        """Return gaps to an oracle, and the values of both models."""
        mine, theirs = self.values(unlearned), self.values(oracle)
        found: dict[str, Any] = {
            "values": mine,
            "oracle": theirs,
            "deltas": {name: abs(mine[name] - theirs[name]) for name in mine},
            "test": _gaps(unlearned, oracle, np.ones(len(self._test_y), bool)),
            "by_class": self._by_class(unlearned, oracle),
            "claim": self._claim(unlearned, oracle),
        }
        if self._is_class:
            found["test_remaining"] = _gaps(unlearned, oracle, ~self._of_forgotten)
            found["test_forgotten"] = _gaps(unlearned, oracle, self._of_forgotten)
            found["answers"] = {
                "unlearned": self._answers(unlearned),
                "oracle": self._answers(oracle),
            }
        return found

    def _answers(self, model: Predictions) -> dict[str, list[int]]:
        """Return how often each class is answered to test rows of each forgotten class.

        Classes are named by their columns.
        """
        answered = model.test.argmax(axis=1)
        return {
            str(column): np.bincount(
                answered[self._test_y == column], minlength=model.test.shape[1]
            ).tolist()
            for column in np.unique(self._test_y[self._of_forgotten]).tolist()
        }

    def _by_class(self, unlearned: Predictions, oracle: Predictions) -> list[float | None]:
        """Return the prediction gap on test rows of each class; None for one without any."""
        differ = unlearned.test.argmax(axis=1) != oracle.test.argmax(axis=1)
        of_class = [differ[self._test_y == column] for column in range(oracle.test.shape[1])]
        return [float(part.mean()) if len(part) else None for part in of_class]

    def _claim(self, unlearned: Predictions, oracle: Predictions) -> dict[str, float | None]:
        """Return the oracle's smallest margin and the smaller bound; None for a bound of ∞."""
        mine, theirs = (_normalised(np.exp(_float64(p.test))) for p in (unlearned, oracle))
        found = claim(mine, theirs, labels=self._test_y)
        bound = min(found.bound_unlearned_oracle, found.bound_oracle_unlearned)
        return {"margin": found.margin, "bound": _known(bound)}

    def values(self, model: Predictions) -> dict[str, float]:
        """Return accuracies of one model.

        ``ra`` lets a retained row read itself, the paper's way; ``ra_left_out`` does not.
        """
        train, kept = np.exp(_float64(model.train)), ~self._gone
        values = {
            "ua": error_rate(train[self._gone], self._train_y[self._gone]),
            "ra": accuracy(train[kept], self._train_y[kept]),
            "ta": accuracy(
                np.exp(_float64(model.test))[self._is_kept], self._test_y[self._is_kept]
            ),
        }
        if model.left_out is not None:
            alone = np.exp(_float64(model.left_out))[kept]
            values["ra_left_out"] = accuracy(alone, self._train_y[kept])
        return values

    def attacks(self, model: Predictions, *, seed: int = 0) -> dict[str, dict[str, float | None]]:
        """Return AUC and true-positive rate of each membership attack on one model.

        The rate is None where there are too few test rows for a false-positive rate of 1 %.

        The forget set stands against test rows, of the same classes if whole classes are forgotten.
        What the learnt attack learns from is retained rows, that may not read themselves, and other
        test rows.
        """
        rng = np.random.default_rng(seed)
        known = model.train if model.left_out is None else model.left_out
        fresh, other = self._fresh(rng)
        parts = {
            "forget": (known, self._train_y, _some(self._gone, rng)),
            "fresh": (model.test, self._test_y, fresh),
            "retain": (known, self._train_y, _some(~self._gone, rng)),
            "other": (model.test, self._test_y, other),
        }
        asked = {
            name: (_normalised(np.exp(_float64(logs[rows]))), labels[rows])
            for name, (logs, labels, rows) in parts.items()
        }
        found: dict[str, dict[str, float | None]] = {}
        for attack in ATTACKS:
            result = membership(
                attack,
                forget=asked["forget"],
                fresh=asked["fresh"],
                retain=asked["retain"],
                other=asked["other"],
                seed=seed,
            )
            found[attack] = {"auc": result.auc, "tpr": _known(result.tpr)}
        return found

    def _fresh(self, rng: np.random.Generator) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return test rows to compare the forget set with, and others to learn from."""
        if self._is_class and self._is_kept.any():
            return _some(self._of_forgotten, rng), _some(self._is_kept, rng)
        order = rng.permutation(len(self._test_y))
        half = len(order) // 2
        return order[:half], order[half:]


def _gaps(unlearned: Predictions, oracle: Predictions, rows: Bools) -> dict[str, float | None]:
    """Return gaps on some test rows; a divergence of ∞ is None."""
    mine, theirs = (_float64(model.test[rows]) for model in (unlearned, oracle))
    logs = [
        floored_log(_normalised(np.exp(part))) if model.has_votes else _log_normalised(part)
        for part, model in ((mine, unlearned), (theirs, oracle))
    ]
    return {
        "prediction_gap": prediction_gap(*(_normalised(np.exp(part)) for part in (mine, theirs))),
        "kl_unlearned_oracle": _known(kl_unlearned_oracle(*logs)),
        "kl_oracle_unlearned": _known(kl_oracle_unlearned(*logs)),
    }


def _known(value: float) -> float | None:
    """Return a number that JSON has, or None."""
    return value if math.isfinite(value) else None


def _some(rows: Bools, rng: np.random.Generator) -> npt.NDArray[Any]:
    places = np.flatnonzero(rows)
    return rng.permutation(places)[:_ATTACKED]


def _float64(logs: npt.NDArray[Any]) -> Float64s:
    return logs.astype(np.float64)


def _normalised(probabilities: Float64s) -> Float64s:
    """Return probabilities that sum to one again after they were kept in single precision."""
    return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))


def _log_normalised(logs: Float64s) -> Float64s:
    top = logs.max(axis=1, keepdims=True)
    sums = top + np.log(np.exp(logs - top).sum(axis=1, keepdims=True))
    return np.asarray(logs - sums)
