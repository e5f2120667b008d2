"""What denoising networks learn: the noise in images, with or without rows to read."""

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from erasable.diffusion._noise import add_noise
from erasable.fusion import Kernels
from erasable.training import Draw, Inputs, augment

Branch = Literal["fixed", "follow"]
"""At which time step rows are encoded: always 0, or the query's; in training all queries of a step
then share one."""

Labels = Literal["none", "plain", "permuted"]
"""What the network is told of classes besides rows: nothing; an embedding; an embedding whose
numbering is drawn anew at each step (paper sec. 3)."""

NULL = -1
"""The class of a query that reads nothing."""


def dropped(classes: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Return classes (n,) with a share of them replaced by `NULL`."""
    is_dropped = torch.rand(len(classes), generator=generator) < share
    return torch.where(is_dropped.to(classes.device), NULL, classes)


def alone(reads: Tensor, classes: Tensor, own: Tensor | None) -> Tensor:
    """Return which queries are to read rows and have none but their own, (n,).

    Args:
        reads: The class whose rows each query reads, or `NULL`, (n,).
        classes: Class of each row, (rows,).
        own: Per query the place of its own row, or −1, (n,); None if no query is among them.
    """
    count = max(int(reads.max()), int(classes.max()) if len(classes) else 0, 0) + 1
    held = torch.bincount(classes, minlength=count)[reads.clamp(min=0)]
    if own is not None:
        held = held - (own >= 0).to(held.dtype)
    return (reads >= 0) & (held < 1)


@final
@dataclass(frozen=True)
class ClassLoss:
    """The ordinary loss: mean squared error of the noise, classes dropped now and then.

    Attributes:
        scheduler: How noise is added.
        drop: Share of images whose class is not told.
    """

    scheduler: Any
    drop: float = 0.1

    @property
    def needs_partners(self) -> bool:
        """Images do not read each other."""
        return False

    def __call__(self, network: nn.Module, draw: Draw) -> Tensor:
        """Return the loss of a step."""
        noisy, noise, timesteps = add_noise(self.scheduler, 2 * draw.inputs - 1, draw.generator)
        labels = dropped(draw.classes, self.drop, draw.generator)
        return F.mse_loss(network(noisy, timesteps, labels), noise)

    def describe(self) -> str:
        """Name the share of dropped classes."""
        return f"denoising, classes dropped {self.drop}"


@final
@dataclass(frozen=True)
class MemoryLoss:
    """The semi-parametric loss: queries read rows that are encoded in the same step.

    A query that is to read rows, and whose class has none but itself, is left out and counted.

    Attributes:
        scheduler: How noise is added.
        support: 0: every other image of the batch is the memory of all of it, and a query among
            them does not read itself. More: so many other rows are drawn for each step, as the
            paper does.
        inputs: All inputs, where support is drawn from.
        classes: Class index of each of them, (rows,).
        branch: At which time step rows are encoded.
        labels: What the network is told of classes besides.
        drop: Share of queries that read nothing.
        has_gradient: Whether gradients reach the encoder through the rows.
        kernels: How sums over pairs of patches are made.
        embeddings: How many numbers stand for classes, if these are told; 0: up to the last class
            that has rows. An oracle may have more, and its numberings use them like the others.
    """

    scheduler: Any
    support: int
    inputs: Inputs
    classes: Tensor
    branch: Branch = "fixed"
    labels: Labels = "none"
    drop: float = 0.1
    has_gradient: bool = True
    kernels: Kernels | None = None
    embeddings: int = 0

    @property
    def needs_partners(self) -> bool:
        """Whether queries read the batch itself."""
        return not self.support

    def __call__(self, network: nn.Module, draw: Draw) -> Tensor:
        """Return the loss of a step."""
        images = 2 * draw.inputs - 1
        is_shared = self.branch == "follow"
        noisy, noise, timesteps = add_noise(
            self.scheduler, images, draw.generator, is_shared=is_shared
        )
        reads = dropped(draw.classes, self.drop, draw.generator)
        rows, classes, own = self._rows(draw, images)
        numbers = self._numbers(draw)
        told = None if numbers is None else numbers[reads.clamp(min=0)].where(reads >= 0, NULL)
        row_times = timesteps[:1] if is_shared else torch.zeros_like(timesteps[:1])
        seen = network(
            noisy,
            timesteps,
            reads,
            rows=rows,
            row_times=row_times.expand(len(rows)),
            row_classes=classes,
            own=own,
            labels=told,
            has_gradient=self.has_gradient,
            kernels=self.kernels,
        )
        is_alone = alone(reads, classes, own)
        draw.notes["alone"] = float(is_alone.float().mean())
        errors: Tensor = (seen - noise).square().flatten(1).mean(dim=1)
        return errors.masked_fill(is_alone, 0).sum() / (~is_alone).sum().clamp(min=1)

    def describe(self) -> str:
        """Name everything that changes what is learnt."""
        kernels = self.kernels.name if self.kernels else "eager"
        return (
            f"denoising with rows: support {self.support}, {self.branch}, labels {self.labels}"
            f"{f' of {self.embeddings}' if self.embeddings else ''}, "
            f"dropped {self.drop}, gradient {self.has_gradient}, {kernels} kernels"
        )

    def _rows(self, draw: Draw, images: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return images of rows, their classes, and which query is which row."""
        if not self.support:
            # Every other one: batches are drawn in groups of a class, so most have partners.
            rows = images[::2].contiguous(memory_format=torch.channels_last)
            own = torch.full((len(images),), -1, device=images.device)
            own[::2] = torch.arange(len(rows), device=images.device)
            return rows, draw.classes[::2], own
        others = np.setdiff1d(np.arange(len(self.inputs)), draw.rows)
        chosen = draw.rng.choice(others, min(self.support, len(others)), replace=False)
        found = augment(self.inputs[chosen], draw.augmentation, draw.generator)
        found = 2 * found.to(images.device) - 1
        found = found.contiguous(memory_format=torch.channels_last)
        return found, self.classes[chosen].to(images.device), None

    def _numbers(self, draw: Draw) -> Tensor | None:
        """Return the number that stands for each class in this step, if classes are told."""
        if self.labels == "none":
            return None
        count = self.embeddings or int(self.classes.max()) + 1
        if self.labels == "plain":
            return torch.arange(count, device=draw.inputs.device)
        return torch.randperm(count, generator=draw.generator).to(draw.inputs.device)
