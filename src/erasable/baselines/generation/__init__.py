"""Methods that make diffusion models forget a class, to compare with; needs ``diffusion``."""

from erasable.baselines.generation._base import DiffusionMethod, DiffusionRun, DiffusionTask
from erasable.baselines.generation._erasediff import EraseDiff
from erasable.baselines.generation._salun import DiffusionSalUn
from erasable.baselines.generation._selective_amnesia import SelectiveAmnesia
from erasable.baselines.generation._sfron import SFRon
from erasable.baselines.generation._unlearn import (
    DIFFUSION_METHODS,
    get_diffusion_method,
    unlearn_class,
)

__all__ = [
    "DIFFUSION_METHODS",
    "DiffusionMethod",
    "DiffusionRun",
    "DiffusionSalUn",
    "DiffusionTask",
    "EraseDiff",
    "SFRon",
    "SelectiveAmnesia",
    "get_diffusion_method",
    "unlearn_class",
]
