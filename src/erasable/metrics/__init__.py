"""How close an unlearned model is to its oracle, and how long forgetting took."""

from erasable.metrics._features import ClassifierFeatures, FeatureNetwork, InceptionFeatures
from erasable.metrics._frechet import FrechetDistance
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
    frechet_distance,
    gaussian_distance,
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
    "ClassifierFeatures",
    "Estimate",
    "FeatureNetwork",
    "ForgetTime",
    "FrechetDistance",
    "InceptionFeatures",
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
    "frechet_distance",
    "gaussian_distance",
    "kl_oracle_unlearned",
    "kl_unlearned_oracle",
    "klom",
    "margins",
    "membership",
    "prediction_gap",
    "time_forget",
    "u_lira",
]
