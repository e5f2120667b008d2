"""BS: relabel each forget row with its nearest wrong class."""

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from erasable.baselines._base import Task
from erasable.baselines._sgd import BATCH_NORMS, Run, SGDMethod


@final
@dataclass(frozen=True, kw_only=True)
class BoundaryShrink(SGDMethod):
    """Find the nearest wrong class by a one-step attack on the original, and train towards it.

    Attributes:
        attack_step: Length of the attack's step; images have pixels from 0 to 1.
        is_wrong: Take the best wrong class where the attack fails. Otherwise, as published, the row
            is then trained towards its own class, and so reinforced.
    """

    name: ClassVar[str] = "bs"
    reads: ClassVar[tuple[str, ...]] = ("forget",)

    learning_rate: float = 1e-5
    attack_step: float = 0.1
    is_wrong: bool = True

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the rates that are tried, with statistics that follow the forget set or not."""
        return {"learning_rate": (1e-5, 1e-4, 1e-3, 1e-2), "batch_norm": BATCH_NORMS}

    def prepare(self, task: Task) -> Run:
        """Keep the original, which is what is attacked."""
        run = Run(self, task)
        run.original = copy.deepcopy(task.network).eval()
        return run

    def epoch(self, run: Run, epoch: int, epochs: int) -> None:
        """Pass over the forget set once; labels are found anew for each batch."""
        assert run.original is not None  # noqa: S101 - kept by prepare
        moved, seen = 0, 0
        for inputs, classes in run.forget():
            logits = attacked(run.original, inputs, classes, self.attack_step)
            moved += int((logits.argmax(1) != classes).sum())
            seen += len(classes)
            if self.is_wrong:
                logits = logits.scatter(1, classes[:, None], -torch.inf)
            run.step(run.loss(inputs, logits.argmax(1)))
        run.figures["attack_success"] = moved / seen


def attacked(network: nn.Module, inputs: Tensor, classes: Tensor, step: float) -> Tensor:
    """Return a network's logits after one step of the inputs away from their classes.

    Images are cut to 0…1 and rounded to the pixels that exist; other inputs are not.

    Args:
        network: The network to attack, in eval mode.
        inputs: Inputs, (n, …).
        classes: Their class indices, (n,).
        step: Length of the step in each number.
    """
    varied = inputs.detach().clone().requires_grad_()
    (slope,) = torch.autograd.grad(F.cross_entropy(network(varied), classes), varied)
    with torch.no_grad():
        moved = inputs + step * slope.sign()
        if inputs.ndim == 4:
            moved = (moved.clamp(0, 1) * 255).round() / 255
        logits: Tensor = network(moved)
        return logits
