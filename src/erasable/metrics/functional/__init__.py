"""Metrics as pure functions of two models' predictions."""

from erasable.metrics.functional._accuracy import accuracy, accuracy_gap, error_rate
from erasable.metrics.functional._claim import ClaimBounds, claim
from erasable.metrics.functional._floor import floored_log
from erasable.metrics.functional._kl import kl_oracle_unlearned, kl_unlearned_oracle
from erasable.metrics.functional._prediction_gap import prediction_gap

__all__ = [
    "ClaimBounds",
    "accuracy",
    "accuracy_gap",
    "claim",
    "error_rate",
    "floored_log",
    "kl_oracle_unlearned",
    "kl_unlearned_oracle",
    "prediction_gap",
]
