"""How far a model is from an oracle, by every metric at once."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.bench._scenarios import Scenario
from erasable.data import Split
from erasable.metrics import (
    ClaimBounds,
    accuracy,
    accuracy_gap,
    claim,
    error_rate,
    floored_log,
    kl_oracle_unlearned,
    kl_unlearned_oracle,
    prediction_gap,
)
from erasable.typing import Float64s

LogProba = Callable[[npt.NDArray[Any]], Float64s]
"""From inputs to log-probabilities over all classes of the original model."""


@dataclass(frozen=True)
class Answers:
    """A model's probabilities on the three sets that metrics need, each encoded once.

    ``test_logs`` is floored where the model has votes; ``test`` is not.
    """

    forget: Float64s
    retain: Float64s
    test: Float64s
    test_logs: Float64s


@dataclass(frozen=True)
class Gaps:
    """Distances of a model to an oracle, as fractions and nats, and the values of both."""

    prediction_gap: float
    kl_unlearned_oracle: float
    kl_oracle_unlearned: float
    delta_ua: float
    delta_ra: float
    delta_ta: float
    ua: float
    ra: float
    ta: float
    oracle_ua: float
    oracle_ra: float
    oracle_ta: float

    def to_dict(self) -> dict[str, float]:
        """Return the figures by name."""
        return asdict(self)


class Comparison:
    """One scenario's forget, retain and test rows, ready to compare models on.

    UA is the error rate on the forget set, RA the accuracy on the retain set (own rows included,
    the paper's way), TA the accuracy on test images; of the remaining classes only if whole classes
    are forgotten. Prediction gaps are taken on the whole test set.
    """

    def __init__(self, scenario: Scenario, train: Split, test: Split) -> None:
        gone = scenario.is_forgotten
        self._forget, self._retain = train.where(gone), train.where(~gone)
        self._test = test
        self._classes = np.unique(train.y)
        self._is_kept = (
            ~np.isin(test.y, np.unique(self._forget.y))
            if scenario.is_class
            else np.ones(len(test), bool)
        )

    def ask(self, log_probabilities: LogProba, *, has_votes: bool) -> Answers:
        """Collect a model's answers.

        Args:
            log_probabilities: From inputs to the model's log-probabilities.
            has_votes: Whether they come from votes, which can be zero: they are then floored for
                the KL divergences.
        """
        forget, retain, test = (
            log_probabilities(split.X) for split in (self._forget, self._retain, self._test)
        )
        logs = floored_log(np.exp(test)) if has_votes else test
        return Answers(np.exp(forget), np.exp(retain), np.exp(test), logs)

    def gaps(self, unlearned: Answers, oracle: Answers) -> Gaps:
        """Compare a model's answers with an oracle's."""
        forget, retain = self._columns(self._forget), self._columns(self._retain)
        test, kept = self._columns(self._test)[self._is_kept], self._is_kept
        return Gaps(
            prediction_gap=prediction_gap(unlearned.test, oracle.test),
            kl_unlearned_oracle=kl_unlearned_oracle(unlearned.test_logs, oracle.test_logs),
            kl_oracle_unlearned=kl_oracle_unlearned(unlearned.test_logs, oracle.test_logs),
            delta_ua=accuracy_gap(unlearned.forget, oracle.forget, labels=forget),
            delta_ra=accuracy_gap(unlearned.retain, oracle.retain, labels=retain),
            delta_ta=accuracy_gap(unlearned.test[kept], oracle.test[kept], labels=test),
            ua=error_rate(unlearned.forget, forget),
            ra=accuracy(unlearned.retain, retain),
            ta=accuracy(unlearned.test[kept], test),
            oracle_ua=error_rate(oracle.forget, forget),
            oracle_ra=accuracy(oracle.retain, retain),
            oracle_ta=accuracy(oracle.test[kept], test),
        )

    def claim(self, unlearned: Answers, oracle: Answers) -> ClaimBounds:
        """Check the paper's Claim on the whole test set, on probabilities without a floor."""
        return claim(unlearned.test, oracle.test, labels=self._columns(self._test))

    def _columns(self, split: Split) -> npt.NDArray[np.int64]:
        return np.searchsorted(self._classes, split.y)
