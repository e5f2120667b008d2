"""Noise: how it is added in training, and the steps that take it away."""

from typing import Any

import torch
from diffusers import DDIMScheduler
from torch import Tensor

TIMESTEPS = 1000
"""Steps from an image to noise, in training."""


def make_scheduler() -> Any:
    """Return the paper's schedule: 1,000 steps, β from 1e-4 to 0.02, deterministic sampling."""
    return DDIMScheduler(
        num_train_timesteps=TIMESTEPS,
        beta_start=1e-4,
        beta_end=0.02,
        beta_schedule="linear",
        prediction_type="epsilon",
        clip_sample=True,
        timestep_spacing="trailing",
    )


def drawing_times(steps: int) -> list[int]:
    """Return the time steps of drawing, such as 999, 979, …, 19 for 50 steps.

    The first is the last one of training, however many there are: noise is what the network
    expects there. diffusers spaces them in the same way, but goes by whole numbers of time steps,
    which miss the next one where ``steps`` does not divide 1,000.

    Args:
        steps: How many, 1 to 1,000.
    """
    return [TIMESTEPS * (steps - step) // steps - 1 for step in range(steps)]


def add_noise(
    scheduler: Any, images: Tensor, generator: torch.Generator, *, is_shared: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return noisy images, the noise, and time steps drawn for each image.

    Args:
        scheduler: The schedule.
        images: From −1 to 1, (n, channels, height, width).
        generator: Source of noise and time steps.
        is_shared: Whether all images get the same time step.
    """
    noise = torch.randn(images.shape, generator=generator).to(images.device)
    count = 1 if is_shared else len(images)
    timesteps = torch.randint(0, TIMESTEPS, (count,), generator=generator).to(images.device)
    timesteps = timesteps.expand(len(images))
    noisy: Tensor = scheduler.add_noise(images, noise, timesteps)
    return noisy, noise, timesteps
