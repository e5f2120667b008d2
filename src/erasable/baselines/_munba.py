"""MUNBa: forgetting and retaining bargain over the direction of each step."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from erasable.baselines._base import Task
from erasable.baselines._sgd import Run, SGDMethod

_OPPOSED = 1e-6
_FALLBACK = (1.0, 0.1)


@final
@dataclass(frozen=True, kw_only=True)
class MUNBa(SGDMethod):
    """Follow the Nash bargaining solution between two gradients, each proposed by one aim.

    An epoch pairs batches of the retained rows and of the forget set. Where one has more of them,
    its last ones are ordinary steps: of the retained rows on their labels, of the forget set on
    random ones.

    Attributes:
        clip: Largest norm of the gradient of a paired step.
    """

    name: ClassVar[str] = "munba"
    reads: ClassVar[tuple[str, ...]] = ("forget", "retain")

    clip: float = 1.0

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the rates that are tried."""
        return {"learning_rate": (0.001, 0.003, 0.01, 0.03)}

    def steps(self, task: Task) -> int:
        """Return how many steps an epoch makes."""
        return max(rows.steps(self.batch_size) for rows in (task.forget, task.retain))

    def epoch(self, run: Run, epoch: int, epochs: int) -> None:
        """Pass over all rows once."""
        for kept, gone in itertools.zip_longest(run.retain(), run.forget()):
            if kept is None or gone is None:
                run.step(run.loss(*kept) if kept is not None else self._wrong(run, *gone))
                continue
            loss, wrong = run.loss(*kept), self._wrong(run, *gone)
            ours, theirs = (torch.autograd.grad(part, run.parameters) for part in (loss, wrong))
            mine, yours = bargain(ours, theirs)
            mixed = [mine * a + yours * b for a, b in zip(ours, theirs, strict=True)]
            run.step_along(mixed, mine * loss + yours * wrong, clip=self.clip)

    @staticmethod
    def _wrong(run: Run, inputs: Tensor, classes: Tensor) -> Tensor:
        """Return the loss of rows on random labels."""
        return run.loss(inputs, run.draw.labels(len(classes), run.count))


def bargain(retain: Sequence[Tensor], forget: Sequence[Tensor]) -> tuple[float, float]:
    """Return the weights α of both gradients with ``α_i (GᵀGα)_i = 1``.

    With the angle φ between them, ``α_i = 1 / (‖g_i‖ √(1 + cos φ))``: unlike the published form
    this divides by nothing that vanishes for orthogonal gradients. Where they are opposed, or one
    is zero, there is no bargain, and the published fallback of 1 and 0.1 is taken.

    Args:
        retain: Gradient of the retained rows' loss, per parameter.
        forget: Gradient of the forget set's loss, per parameter.
    """
    a = sum(float(g.double().square().sum()) for g in retain)
    c = sum(float(g.double().square().sum()) for g in forget)
    b = sum(float((g.double() * h.double()).sum()) for g, h in zip(retain, forget, strict=True))
    if not a * c > 0:
        return _FALLBACK
    apart = 1 + b / math.sqrt(a) / math.sqrt(c)
    if not apart > _OPPOSED:
        return _FALLBACK
    return 1 / math.sqrt(a * apart), 1 / math.sqrt(c * apart)
