"""Encoder, memory and fusion put together as scikit-learn estimators."""

from erasable.models._audit import audit
from erasable.models._audit_report import Audit
from erasable.models._convert import convert
from erasable.models._copies import KnownCopy, Purged
from erasable.models._knn import KNNClassifier
from erasable.models._parametric import ParametricClassifier
from erasable.models._plan import ForgetPlan
from erasable.models._presets import PRESETS, preset
from erasable.models._provenance import Provenance, Source, declare, provenance_of
from erasable.models._reader import read_embedded
from erasable.models._saving import load
from erasable.models._semi_parametric import Layer, SemiParametric
from erasable.models._spm import SPMClassifier
from erasable.models._votes import Votes

__all__ = [
    "PRESETS",
    "Audit",
    "ForgetPlan",
    "KNNClassifier",
    "KnownCopy",
    "Layer",
    "ParametricClassifier",
    "Provenance",
    "Purged",
    "SPMClassifier",
    "SemiParametric",
    "Source",
    "Votes",
    "audit",
    "convert",
    "declare",
    "load",
    "preset",
    "provenance_of",
    "read_embedded",
]
