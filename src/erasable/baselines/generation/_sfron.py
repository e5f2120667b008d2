"""SFR-on: ascend on the forget set through a mask, and repair on the others, in turn."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from erasable.baselines.generation._base import DiffusionMethod, DiffusionRun, batches
from erasable.training import Inputs


@final
@dataclass(frozen=True, kw_only=True)
class SFRon(DiffusionMethod):
    """Saliency forgetting in the manifold that keeps the rest.

    Ascent has no bound: clipping and Adam take the size of it away, so the number of steps governs
    everything.

    Attributes:
        forget_weight: Weight of the ascent in the first step; it falls as a cosine.
        exponent: Images with small losses weigh more: by their loss to minus this.
        threshold: Weights may change where the forget set's Fisher information is at least this
            many times that of the others.
        guidance: Guidance in the loss that Fisher information is estimated from.
        fisher_images: Images of either set that it is estimated from at most; None for all.
    """

    name: ClassVar[str] = "sfron"

    steps: int = 150
    forget_weight: float = 10.0
    exponent: float = 0.5
    threshold: float = 1.0
    guidance: float = 2.0
    fisher_images: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fisher_images is not None:
            self._require(("fisher_images", 1))

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return numbers of steps, which govern most, up to twice the published one, and rates."""
        return {"steps": (25, 50, 100, 150, 300), "learning_rate": (1e-4, 5e-4)}

    def prepare(self, run: DiffusionRun) -> None:
        """Compare which weights the forget set needs with which the others do."""
        task = run.task
        with task.account.part("fisher"):
            run.network.eval()
            target = torch.full((len(task.forget),), task.target)
            forget = self._fisher(run, task.forget, target)
            retain = self._fisher(run, task.retain, task.retain_classes)
            run.masks = [
                (f + 1e-15) / (r + 1e-15) >= self.threshold
                for f, r in zip(forget, retain, strict=True)
            ]

    def step(self, run: DiffusionRun, step: int, steps: int) -> float:
        """Go up on images to forget, masked; then down on others, with all weights."""
        images, classes = run.forget_batch()
        noisy, noise, timesteps = run.noisy(images)
        losses = run.losses(run.network(noisy, timesteps, run.dropped(classes)), noise)
        weights = 1 / (losses.detach() ** self.exponent + 1e-8)
        weights = weights * len(weights) / weights.sum()
        factor = self.forget_weight * (1 + math.cos(math.pi * step / steps)) / 2
        run.descend(-factor * (weights * losses).mean(), is_mask_first=True)
        masks, run.masks = run.masks, None
        loss = run.descend(run.denoising_loss(*run.retain_batch()))
        run.masks = masks
        return loss

    def _fisher(self, run: DiffusionRun, inputs: Inputs, classes: Tensor) -> list[Tensor]:
        """Average squared gradients of batches."""
        total, count = [torch.zeros_like(p) for p in run.parameters], 0
        for images, places in batches(run, inputs, self.batch_size, most=self.fisher_images):
            told = classes[places].to(run.device)
            slopes = run.gradients(run.guided_loss(images, told, self.guidance), clip=1.0)
            for kept, slope in zip(total, slopes, strict=True):
                kept += slope.square()
            count += 1
        return [kept / max(1, count) for kept in total]
