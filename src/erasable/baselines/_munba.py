"""MUNBa: forgetting and retaining bargain over the direction of each step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor

from erasable.baselines._sgd import Run, SGDMethod

_OPPOSED = 1e-6
_FALLBACK = (1.0, 0.1)


@final
@dataclass(frozen=True, kw_only=True)
class MUNBa(SGDMethod):
    """Follow the Nash bargaining solution between two gradients, each proposed by one aim.

    An epoch passes over the retained rows; each batch is paired with one of the forget set as long
    as these last, and is an ordinary step afterwards.

    Attributes:
        clip: Largest norm of the gradient of a paired step.
    """

    name: ClassVar[str] = "munba"
    reads: ClassVar[tuple[str, ...]] = ("retain",)

    clip: float = 1.0

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the rates that are tried."""
        return {"learning_rate": (0.001, 0.003, 0.01, 0.03)}

    def epoch(self, run: Run, epoch: int, epochs: int) -> None:
        """Pass over the retained rows once."""
        forget = run.forget()
        for inputs, classes in run.retain():
            loss = F.cross_entropy(run.network(inputs), classes)
            other = next(forget, None)
            if other is None:
                run.step(loss)
                continue
            labels = run.draw.labels(len(other[1]), run.count)
            wrong = F.cross_entropy(run.network(other[0]), labels)
            ours, theirs = (torch.autograd.grad(part, run.parameters) for part in (loss, wrong))
            mine, yours = bargain(ours, theirs)
            mixed = [mine * a + yours * b for a, b in zip(ours, theirs, strict=True)]
            run.step_along(mixed, mine * loss + yours * wrong, clip=self.clip)


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
