"""Encoder, memory and fusion put together as scikit-learn estimators."""

import importlib
from typing import TYPE_CHECKING, Any

from erasable._extras import require_diffusion
from erasable.models._audit import audit
from erasable.models._audit_report import Audit, Verdict
from erasable.models._convert import convert
from erasable.models._copies import KnownCopy, Purged
from erasable.models._differencing import Differencing, Shown, differencing
from erasable.models._holding import HeldRow, Holding, Remainder, holding
from erasable.models._knn import KNNClassifier
from erasable.models._loading import (
    Done,
    ForgottenSince,
    catch_up,
    change,
    copy_model,
    forgotten_since,
    load,
)
from erasable.models._parametric import ParametricClassifier
from erasable.models._plan import ForgetPlan
from erasable.models._presets import PRESETS, parameters_of, preset, preset_settings
from erasable.models._provenance import Provenance, Source, declare, provenance_of
from erasable.models._reader import read_embedded
from erasable.models._semi_parametric import Layer, SemiParametric
from erasable.models._spm import SPMClassifier
from erasable.models._votes import Votes

if TYPE_CHECKING:
    from erasable.models._ddpm import DDPM
    from erasable.models._gmm import GMM
    from erasable.models._patch_votes import PatchVotes
    from erasable.models._spm_generator import SPMGenerator

__all__ = [
    "DDPM",
    "GMM",
    "PRESETS",
    "Audit",
    "Differencing",
    "Done",
    "ForgetPlan",
    "ForgottenSince",
    "HeldRow",
    "Holding",
    "KNNClassifier",
    "KnownCopy",
    "Layer",
    "ParametricClassifier",
    "PatchVotes",
    "Provenance",
    "Purged",
    "Remainder",
    "SPMClassifier",
    "SPMGenerator",
    "SemiParametric",
    "Shown",
    "Source",
    "Verdict",
    "Votes",
    "audit",
    "catch_up",
    "change",
    "convert",
    "copy_model",
    "declare",
    "differencing",
    "forgotten_since",
    "holding",
    "load",
    "parameters_of",
    "preset",
    "preset_settings",
    "provenance_of",
    "read_embedded",
    "require_diffusion",
]

_GENERATION = {
    "DDPM": "_ddpm",
    "GMM": "_gmm",
    "PatchVotes": "_patch_votes",
    "SPMGenerator": "_spm_generator",
}
"""Where the names of generation are; they need an extra that takes seconds to import."""


def __getattr__(name: str) -> Any:
    if name not in _GENERATION:
        raise AttributeError(f"module 'erasable.models' has no attribute {name!r}")
    require_diffusion()
    return getattr(importlib.import_module(f"erasable.models.{_GENERATION[name]}"), name)
