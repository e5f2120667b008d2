"""Selective Amnesia: refit the forgotten label to noise while the rest is held in place."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch

from erasable.baselines.generation._base import DiffusionMethod, DiffusionRun
from erasable.diffusion import TIMESTEPS
from erasable.errors import ArgumentError


@final
@dataclass(frozen=True, kw_only=True)
class SelectiveAmnesia(DiffusionMethod):
    """Continual learning: the label means noise from now on; weights that matter resist.

    Images that the original draws stand for the other classes, so no retained row is read.

    Attributes:
        per_class: Images that the original draws of each class.
        drawing_steps: Denoising steps of such an image.
        fisher_images: Of those, how many the Fisher information is estimated from.
        fisher_steps: Time steps per image there; gradients are summed over them, then squared. Of
            fewer than all, the sum is scaled up, which makes more of what is noise in it.
        elastic: Weight of moving away from the original's weights.
        replay: Weight of the loss on drawn images of other classes.
        drop: 0: classes are always told.
    """

    name: ClassVar[str] = "sa"

    steps: int = 20_000
    per_class: int = 500
    drawing_steps: int = 50
    fisher_images: int = 5000
    fisher_steps: int = TIMESTEPS
    elastic: float = 10.0
    replay: float = 1.0
    drop: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.drop:
            raise ArgumentError(f"{self.name}: Expected drop to be 0, but got {self.drop!r}.")
        self._require(
            ("per_class", 1), ("drawing_steps", 1), ("fisher_images", 1), ("fisher_steps", 1)
        )

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return rates, and how stiff weights are: published ones hold a small network still."""
        return {"learning_rate": (1e-4, 5e-4), "elastic": (10.0, 0.01)}

    def prepare(self, run: DiffusionRun) -> None:
        """Draw images of all classes, and estimate which weights they need."""
        task = run.task
        with task.account.part("drawing"):
            classes = torch.arange(task.count).repeat_interleave(self.per_class)
            images = task.draw(classes, self.seed, self.drawing_steps)
        run.kept["images"], run.kept["classes"] = images, classes
        run.kept["others"] = (classes != task.target).nonzero()[:, 0]
        run.kept["start"] = [p.detach().clone() for p in run.parameters]
        with task.account.part("fisher"):
            run.kept["fisher"] = self._fisher(run)

    def step(self, run: DiffusionRun, step: int, steps: int) -> float:
        """Denoise noise under the forgotten label, drawn images under theirs."""
        task, kept = run.task, run.kept
        size = self.batch_size
        places = kept["others"][
            torch.randint(len(kept["others"]), (size,), generator=run.generator)
        ]
        images = kept["images"][places].to(run.device)
        blank = 2 * torch.rand(images.shape, generator=run.generator).to(run.device) - 1
        target = torch.full((size,), task.target, device=run.device)
        timesteps = torch.randint(TIMESTEPS, (size,), generator=run.generator).to(run.device)
        both = torch.cat([blank, images])
        noisy, noise = run.noisy_at(both, timesteps.repeat(2))
        told = torch.cat([target, kept["classes"][places].to(run.device)])
        losses = run.losses(run.network(noisy, timesteps.repeat(2), told), noise)
        forget, replay = losses.chunk(2)
        away = sum(
            (fisher * (p - start).square()).sum()
            for p, start, fisher in zip(run.parameters, kept["start"], kept["fisher"], strict=True)
        )
        return run.descend(forget.mean() + self.replay * replay.mean() + self.elastic * away)

    def _fisher(self, run: DiffusionRun) -> list[torch.Tensor]:
        """Average squared gradients over images, each summed over time steps."""
        images, classes = run.kept["images"], run.kept["classes"]
        count = min(self.fisher_images, len(images))
        chosen = torch.randperm(len(images), generator=run.generator)[:count]
        times = torch.linspace(0, TIMESTEPS - 1, self.fisher_steps).round().long().to(run.device)
        total = [torch.zeros_like(p) for p in run.parameters]
        run.network.eval()
        for place in chosen.tolist():
            slopes = [torch.zeros_like(p) for p in run.parameters]
            for part in torch.split(times, self.batch_size):
                image = images[place : place + 1].to(run.device).expand(len(part), -1, -1, -1)
                noisy, noise = run.noisy_at(image, part)
                told = classes[place : place + 1].to(run.device).expand(len(part))
                loss = run.losses(run.network(noisy, part, told), noise).sum()
                for slope, more in zip(slopes, run.gradients(loss), strict=True):
                    slope += more
            for kept, slope in zip(total, slopes, strict=True):
                kept += (slope * (TIMESTEPS / self.fisher_steps)).square() / count
        return total
