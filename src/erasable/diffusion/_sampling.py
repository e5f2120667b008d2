"""From noise to images, step by step."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from erasable.diffusion._losses import NULL
from erasable.diffusion._unet import ClassUNet, MemoryUNet, PatchMemory

Predict = Callable[[Tensor, Tensor], Tensor]
"""From noisy images and one time step to the noise that is seen in them."""


@dataclass(frozen=True)
class Sampling:
    """How images are drawn.

    Attributes:
        steps: Denoising steps.
        guidance: ``w`` of ``(1 + w) ε(class) − w ε(nothing)``; 0 for none.
        batch_size: Images at a time.
    """

    steps: int = 50
    guidance: float = 0.3
    batch_size: int = 64


def draw_noise(count: int, image_shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return what images are drawn from, (count, channels, height, width)."""
    return torch.randn((count, *image_shape), generator=generator, device=generator.device)


@torch.no_grad()
def denoise(
    predict: Predict, scheduler: Any, noise: Tensor, steps: int, *, tick: Callable[[], None]
) -> Tensor:
    """Take noise away step by step, and return images from 0 to 1.

    Args:
        predict: From noisy images and a time step to noise.
        scheduler: The schedule; not changed.
        noise: (n, channels, height, width).
        steps: Number of steps.
        tick: Called after each step.
    """
    schedule = copy.deepcopy(scheduler)
    schedule.set_timesteps(steps, device=noise.device)
    images = noise.contiguous(memory_format=torch.channels_last)
    for timestep in schedule.timesteps:
        images = schedule.step(predict(images, timestep), timestep, images, eta=0.0).prev_sample
        images = images.contiguous(memory_format=torch.channels_last)
        tick()
    return ((images + 1) / 2).clamp(0, 1)


def guided(noise: Tensor, guidance: float) -> Tensor:
    """Return ``(1 + w) ε(class) − w ε(nothing)``; both lie one after the other, (2n, …)."""
    told, untold = noise.chunk(2)
    return (1 + guidance) * told - guidance * untold


def class_predictor(network: ClassUNet, labels: Tensor, guidance: float) -> Predict:
    """Return how a network that knows classes sees noise.

    Args:
        network: The network.
        labels: Class index per image, (n,).
        guidance: How much "no class" is contrasted.
    """

    def predict(images: Tensor, timestep: Tensor) -> Tensor:
        times = timestep.expand(len(images))
        if not guidance:
            noise: Tensor = network(images, times, labels)
            return noise
        both: Tensor = network(
            images.repeat(2, 1, 1, 1),
            times.repeat(2),
            torch.cat([labels, torch.full_like(labels, NULL)]),
        )
        return guided(both, guidance)

    return predict


def memory_predictor(
    network: MemoryUNet,
    reads: Tensor,
    memory: Callable[[Tensor], PatchMemory],
    guidance: float,
    labels: Tensor | None = None,
) -> Predict:
    """Return how a network that reads rows sees noise.

    Without class embeddings the way down is the same with and without rows, and is gone once.

    Args:
        network: The network.
        reads: The class whose rows each image reads, (n,).
        memory: From a time step to the rows as they are read then.
        guidance: How much reading nothing is contrasted.
        labels: Class indices for the embedding, if there is one, (n,).
    """

    def predict(images: Tensor, timestep: Tensor) -> Tensor:
        times, rows = timestep.expand(len(images)), memory(timestep)
        if not guidance:
            return network.denoise(images, times, reads, rows, labels)
        alone = torch.full_like(reads, NULL)
        if labels is not None:
            told = network.denoise(images, times, reads, rows, labels)
            untold = network.denoise(images, times, alone, rows, alone)
            return guided(torch.cat([told, untold]), guidance)
        coarse = network.down(images, network.embedding(times))
        patches = network.patches(coarse)
        twice = coarse.repeated(2)
        both = torch.cat([reads, alone])
        middle = network.middle(patches.repeat(2, 1, 1), both, rows, twice)
        return guided(network.up(middle, twice), guidance)

    return predict
