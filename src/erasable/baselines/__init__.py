"""Unlearning methods to compare with: one interface, one file each."""

from erasable.baselines._base import (
    Budget,
    DivergedError,
    Method,
    ModelMethod,
    Task,
    TimeAccount,
    Unlearned,
    WeightMethod,
)
from erasable.baselines._boundary_expanding import BoundaryExpanding
from erasable.baselines._boundary_shrink import BoundaryShrink
from erasable.baselines._deletion import Deletion
from erasable.baselines._fine_tuning import FineTuning
from erasable.baselines._gradient_ascent import GradientAscent
from erasable.baselines._influence import InfluenceUnlearning
from erasable.baselines._l1_sparse import L1Sparse
from erasable.baselines._munba import MUNBa
from erasable.baselines._mute import Mute
from erasable.baselines._registry import get_method, methods, register_method
from erasable.baselines._retrain import Retrain
from erasable.baselines._rows import Draw, Rows
from erasable.baselines._salun import SalUn
from erasable.baselines._sgd import Run, SGDMethod
from erasable.baselines._sisa import Retrained, SISAClassifier
from erasable.baselines._unlearn import unlearn

__all__ = [
    "BoundaryExpanding",
    "BoundaryShrink",
    "Budget",
    "Deletion",
    "DivergedError",
    "Draw",
    "FineTuning",
    "GradientAscent",
    "InfluenceUnlearning",
    "L1Sparse",
    "MUNBa",
    "Method",
    "ModelMethod",
    "Mute",
    "Retrain",
    "Retrained",
    "Rows",
    "Run",
    "SGDMethod",
    "SISAClassifier",
    "SalUn",
    "Task",
    "TimeAccount",
    "Unlearned",
    "WeightMethod",
    "get_method",
    "methods",
    "register_method",
    "unlearn",
]
