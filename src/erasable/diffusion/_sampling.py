"""From noise to images, step by step."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from erasable.diffusion._losses import NULL
from erasable.diffusion._noise import TIMESTEPS, drawing_times
from erasable.diffusion._unet import ClassUNet, MemoryUNet, PatchMemory
from erasable.errors import Problems

Predict = Callable[[Tensor, Tensor, slice], Tensor]
"""From noisy images, a time step, and which of all images they are, to the noise seen in them."""


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

    def __post_init__(self) -> None:
        problems = Problems("sampling")
        if type(self.steps) is not int or not 1 <= self.steps <= TIMESTEPS:
            problems.note(
                f"Expected num_inference_steps from 1 to {TIMESTEPS}, but got {self.steps!r}."
            )
        is_number = type(self.guidance) in (int, float)
        if not is_number or not 0 <= self.guidance < math.inf:
            problems.note(f"Expected guidance_scale of 0 or more, but got {self.guidance!r}.")
        if type(self.batch_size) is not int or self.batch_size < 1:
            problems.note(f"Expected batch_size to be a positive int, but got {self.batch_size!r}.")
        problems.raise_if_any()


def draw_noise(count: int, image_shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return what images are drawn from, (count, channels, height, width)."""
    return torch.randn((count, *image_shape), generator=generator, device=generator.device)


@torch.no_grad()
def denoise(
    predict: Predict,
    scheduler: Any,
    noise: Tensor,
    sampling: Sampling,
    *,
    tick: Callable[[], None] = lambda: None,
) -> Tensor:
    """Take noise away step by step, and return images from 0 to 1.

    All images take a step before any takes the next one, so that what rows are at a time step is
    needed once. Where the image that is seen leaves −1 to 1 it is clipped, and the noise is taken
    anew from the clipped one: with the noise as it was seen every clipped step shifts the image,
    and more steps draw worse.

    Args:
        predict: How noise is seen.
        scheduler: The schedule.
        noise: (n, channels, height, width).
        sampling: Steps, and images at a time.
        tick: Called after each step.
    """
    images = noise.clone(memory_format=torch.channels_last)
    size = sampling.batch_size
    parts = [slice(start, start + size) for start in range(0, len(images), size)]
    kept = scheduler.alphas_cumprod.to(noise.device)
    times = drawing_times(sampling.steps)
    for time, following in zip(times, [*times[1:], None], strict=True):
        timestep = torch.tensor(time, device=noise.device)
        then = torch.ones_like(kept[time]) if following is None else kept[following]
        for part in parts:
            seen = predict(images[part], timestep, part)
            images[part] = _less_noisy(images[part], seen, kept[time], then)
        tick()
    return ((images + 1) / 2).clamp(0, 1)


def _less_noisy(images: Tensor, noise: Tensor, now: Tensor, then: Tensor) -> Tensor:
    """Return images with less noise: a step of DDIM, without any randomness.

    Args:
        images: Noisy images.
        noise: What is seen in them.
        now: Share of an image's variance that is left at this time step.
        then: The same at the next one.
    """
    clean = ((images - (1 - now).sqrt() * noise) / now.sqrt()).clamp(-1, 1)
    rest = (images - now.sqrt() * clean) / (1 - now).sqrt()
    return then.sqrt() * clean + (1 - then).sqrt() * rest


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

    def predict(images: Tensor, timestep: Tensor, part: slice) -> Tensor:
        times, told = timestep.expand(len(images)), labels[part]
        if not guidance:
            noise: Tensor = network(images, times, told)
            return noise
        both: Tensor = network(
            images.repeat(2, 1, 1, 1),
            times.repeat(2),
            torch.cat([told, torch.full_like(told, NULL)]),
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

    def predict(images: Tensor, timestep: Tensor, part: slice) -> Tensor:
        times, rows, asked = timestep.expand(len(images)), memory(timestep), reads[part]
        own = None if labels is None else labels[part]
        if not guidance:
            return network.denoise(images, times, asked, rows, own)
        alone = torch.full_like(asked, NULL)
        if own is not None:
            told = network.denoise(images, times, asked, rows, own)
            untold = network.denoise(images, times, alone, rows, alone)
            return guided(torch.cat([told, untold]), guidance)
        coarse = network.down(images, network.embedding(times))
        patches = network.patches(coarse)
        twice = coarse.repeated(2)
        both = torch.cat([asked, alone])
        middle = network.middle(patches.repeat(2, 1, 1), both, rows, twice)
        return guided(network.up(middle, twice), guidance)

    return predict
