"""How close an unlearned model is to its oracle, and how long forgetting took."""

from erasable.metrics._gaps import AccuracyGap, PredictionGap
from erasable.metrics._kl import KLOracleUnlearned, KLUnlearnedOracle
from erasable.metrics._time import ForgetTime, time_forget
from erasable.metrics.functional import (
    ATTACKS,
    ClaimBounds,
    Estimate,
    MarginDivergence,
    Membership,
    MembershipAttack,
    accuracy,
    accuracy_gap,
    claim,
    error_rate,
    floored_log,
    kl_oracle_unlearned,
    kl_unlearned_oracle,
    klom,
    margins,
    membership,
    prediction_gap,
    u_lira,
)

__all__ = [
    "ATTACKS",
    "AccuracyGap",
    "ClaimBounds",
    "Estimate",
    "ForgetTime",
    "KLOracleUnlearned",
    "KLUnlearnedOracle",
    "MarginDivergence",
    "Membership",
    "MembershipAttack",
    "PredictionGap",
    "accuracy",
    "accuracy_gap",
    "claim",
    "error_rate",
    "floored_log",
    "kl_oracle_unlearned",
    "kl_unlearned_oracle",
    "klom",
    "margins",
    "membership",
    "prediction_gap",
    "time_forget",
    "u_lira",
]
