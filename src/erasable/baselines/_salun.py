"""SalUn: random labels for the forget set, through a mask of the weights that matter for it."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from erasable.baselines._base import Task
from erasable.baselines._sgd import Run, SGDMethod
from erasable.errors import ArgumentError


@final
@dataclass(frozen=True, kw_only=True)
class SalUn(SGDMethod):
    """Train the forget set on random labels, then the retained rows on their own, epoch by epoch.

    Weights outside the mask stay those of the original to the bit: decay and momentum do not move
    them either.

    Attributes:
        share: Share of all weights that may change: those with the largest gradients of the forget
            set's loss.
    """

    name: ClassVar[str] = "salun"
    reads: ClassVar[tuple[str, ...]] = ("forget", "retain")

    learning_rate: float = 0.013
    share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise ArgumentError(f"Expected a share in (0, 1], but got {self.share!r}.")

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the rates and shares that are tried."""
        return {"learning_rate": (0.005, 0.013, 0.05), "share": (0.2, 0.5)}

    def prepare(self, task: Task) -> Run:
        """Rank all weights together by the forget set's gradients."""
        run = Run(self, task)
        with task.account.part("mask"):
            run.masks = saliency(run, self.share)
        return run

    def epoch(self, run: Run, epoch: int, epochs: int) -> None:
        """Pass over the forget set with labels from all classes, then over the retained rows."""
        for inputs, classes in run.forget():
            labels = run.draw.labels(len(classes), run.count)
            run.step(run.loss(inputs, labels))
        for inputs, classes in run.retain():
            run.step(run.loss(inputs, classes))


def saliency(run: Run, share: float) -> list[Tensor]:
    """Return per parameter which weights have the largest gradients, by size of their sum."""
    run.network.eval()
    sums = [torch.zeros_like(p) for p in run.parameters]
    for inputs, classes in run.forget():
        loss = run.loss(inputs, classes)
        for total, slope in zip(sums, torch.autograd.grad(loss, run.parameters), strict=True):
            total += slope
    sizes = torch.cat([total.abs().flatten() for total in sums])
    kept = torch.zeros(len(sizes), dtype=torch.bool)
    kept[sizes.topk(max(1, round(share * len(sizes)))).indices] = True
    parts = torch.split(kept, [total.numel() for total in sums])
    return [part.view_as(total) for part, total in zip(parts, sums, strict=True)]
