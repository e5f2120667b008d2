"""Metrics as pure functions of the predictions of two models, or of two sets of models."""

from erasable.metrics.functional._accuracy import accuracy, accuracy_gap, error_rate
from erasable.metrics.functional._attack import Estimate
from erasable.metrics.functional._claim import ClaimBounds, claim
from erasable.metrics.functional._floor import floored_log
from erasable.metrics.functional._frechet import frechet_distance, gaussian_distance
from erasable.metrics.functional._kl import kl_oracle_unlearned, kl_unlearned_oracle
from erasable.metrics.functional._klom import MarginDivergence, klom
from erasable.metrics.functional._margins import margins
from erasable.metrics.functional._membership import ATTACKS, Membership, membership
from erasable.metrics.functional._prediction_gap import prediction_gap
from erasable.metrics.functional._ulira import MembershipAttack, u_lira

__all__ = [
    "ATTACKS",
    "ClaimBounds",
    "Estimate",
    "MarginDivergence",
    "Membership",
    "MembershipAttack",
    "accuracy",
    "accuracy_gap",
    "claim",
    "error_rate",
    "floored_log",
    "frechet_distance",
    "gaussian_distance",
    "kl_oracle_unlearned",
    "kl_unlearned_oracle",
    "klom",
    "margins",
    "membership",
    "prediction_gap",
    "u_lira",
]
