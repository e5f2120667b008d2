"""SalUn for diffusion models: under the forgotten label, denoise as another label would."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from erasable.baselines.generation._base import DiffusionMethod, DiffusionRun, batches


@final
@dataclass(frozen=True, kw_only=True)
class DiffusionSalUn(DiffusionMethod):
    """Change only weights that matter for the class; there, pull its label to the next one.

    Attributes:
        share: Share of all weights that may change.
        retain_weight: Weight of the loss on other images; with 0 all classes are destroyed.
        guidance: Guidance in the loss that weights are ranked by.
    """

    name: ClassVar[str] = "salun"

    share: float = 0.5
    retain_weight: float = 1e-3
    guidance: float = 2.0

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the rates that are tried."""
        return {"learning_rate": (1e-4, 5e-4)}

    def prepare(self, run: DiffusionRun) -> None:
        """Rank weights by the gradients of the images to forget."""
        with run.task.account.part("mask"):
            run.network.eval()
            sums = [torch.zeros_like(p) for p in run.parameters]
            for images, _ in batches(run, run.task.forget, self.batch_size):
                classes = torch.full((len(images),), run.task.target, device=run.device)
                slopes = run.gradients(run.guided_loss(images, classes, self.guidance), clip=1.0)
                for total, slope in zip(sums, slopes, strict=True):
                    total += slope
            run.masks = largest(sums, self.share)

    def step(self, run: DiffusionRun, step: int, steps: int) -> float:
        """Pull the label to its neighbour's, and keep the other images."""
        images, classes = run.forget_batch()
        noisy, _, timesteps = run.noisy(images)
        instead = (classes + 1) % run.task.count
        with torch.no_grad():
            wanted = run.network(noisy, timesteps, run.dropped(instead))
        seen = run.network(noisy, timesteps, run.dropped(classes))
        forget = (wanted - seen).square().mean()
        retain = run.denoising_loss(*run.retain_batch())
        return run.descend(forget + self.retain_weight * retain)


def largest(sums: list[Tensor], share: float) -> list[Tensor]:
    """Return per parameter which weights are among the largest of all, by size."""
    sizes = torch.cat([total.abs().flatten() for total in sums])
    kept = torch.zeros(len(sizes), dtype=torch.bool, device=sizes.device)
    kept[sizes.topk(max(1, round(share * len(sizes)))).indices] = True
    parts = torch.split(kept, [total.numel() for total in sums])
    return [part.view_as(total) for part, total in zip(parts, sums, strict=True)]
