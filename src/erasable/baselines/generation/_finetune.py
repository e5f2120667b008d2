"""Training on without the class: what any edit is to be better than."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

from erasable.baselines.generation._base import DiffusionMethod, DiffusionRun


@final
@dataclass(frozen=True, kw_only=True)
class DiffusionFineTune(DiffusionMethod):
    """Steps of the ordinary training on all other images."""

    name: ClassVar[str] = "ft"

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the rates that are tried: those of edits, and the training's own of `laptop`."""
        return {"learning_rate": (1e-4, 5e-4, 2e-3)}

    def step(self, run: DiffusionRun, step: int, steps: int) -> float:
        """Go down the loss of a batch of other images."""
        return run.descend(run.denoising_loss(*run.retain_batch()))
