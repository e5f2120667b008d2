"""l1-sparse: fine-tuning with a penalty that makes weights sparse."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch

from erasable.baselines._sgd import Run, SGDMethod


@final
@dataclass(frozen=True, kw_only=True)
class L1Sparse(SGDMethod):
    """Fine-tune on retained rows with ``α_e ‖θ‖₁``, where ``α_e = α (1 − e/E)`` in epoch e of E.

    Attributes:
        alpha: The penalty of the first epoch. It covers all weights, biases and normalisation too.
    """

    name: ClassVar[str] = "l1_sparse"
    reads: ClassVar[tuple[str, ...]] = ("retain",)

    alpha: float = 1e-4

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the rates and penalties that are tried."""
        return {"learning_rate": (0.01, 0.03, 0.1), "alpha": (1e-5, 1e-4)}

    def epoch(self, run: Run, epoch: int, epochs: int) -> None:
        """Pass over the retained rows once."""
        penalty = self.alpha * (1 - epoch / epochs)
        for inputs, classes in run.retain():
            norm = torch.stack([p.abs().sum() for p in run.parameters]).sum()
            run.step(run.loss(inputs, classes) + penalty * norm)
