"""Encoder, memory and fusion put together as scikit-learn estimators."""

from erasable.models._parametric import ParametricClassifier
from erasable.models._plan import ForgetPlan
from erasable.models._provenance import Provenance, Source, declare, provenance_of
from erasable.models._saving import load
from erasable.models._spm import SPMClassifier
from erasable.models._votes import Votes

__all__ = [
    "ForgetPlan",
    "ParametricClassifier",
    "Provenance",
    "SPMClassifier",
    "Source",
    "Votes",
    "declare",
    "load",
    "provenance_of",
]
