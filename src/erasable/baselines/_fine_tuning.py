"""FT: train on, without the forget set."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

from erasable.baselines._sgd import Run, SGDMethod


@final
@dataclass(frozen=True, kw_only=True)
class FineTuning(SGDMethod):
    """Rely on a network to forget what it is no longer shown."""

    name: ClassVar[str] = "ft"
    reads: ClassVar[tuple[str, ...]] = ("retain",)

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the rates that are tried."""
        return {"learning_rate": (0.003, 0.01, 0.03, 0.1)}

    def epoch(self, run: Run, epoch: int, epochs: int) -> None:
        """Pass over the retained rows once."""
        for inputs, classes in run.retain():
            run.step(run.loss(inputs, classes))
