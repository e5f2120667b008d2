"""Denoising networks that read rows, and their twins; needs the extra ``diffusion``."""

# ruff: noqa: E402 - a missing package is to be named before it is imported

from erasable._extras import require_diffusion

require_diffusion()
from erasable.diffusion._losses import NULL, Branch, ClassLoss, Labels, MemoryLoss, dropped
from erasable.diffusion._noise import TIMESTEPS, add_noise, make_scheduler
from erasable.diffusion._sampling import (
    Sampling,
    class_predictor,
    denoise,
    draw_noise,
    guided,
    memory_predictor,
)
from erasable.diffusion._unet import ClassUNet, Coarse, DenoisingUNet, MemoryUNet, PatchMemory

__all__ = [
    "NULL",
    "TIMESTEPS",
    "Branch",
    "ClassLoss",
    "ClassUNet",
    "Coarse",
    "DenoisingUNet",
    "Labels",
    "MemoryLoss",
    "MemoryUNet",
    "PatchMemory",
    "Sampling",
    "add_noise",
    "class_predictor",
    "denoise",
    "draw_noise",
    "dropped",
    "guided",
    "make_scheduler",
    "memory_predictor",
]
