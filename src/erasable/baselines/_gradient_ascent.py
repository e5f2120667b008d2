"""GA: go uphill on the loss of the forget set."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

from erasable.baselines._sgd import BATCH_NORMS, Run, SGDMethod


@final
@dataclass(frozen=True, kw_only=True)
class GradientAscent(SGDMethod):
    """Un-fit the forget set; retained rows are not looked at.

    The loss has no bound: a rate slightly too large ruins the network, one too small does nothing.
    """

    name: ClassVar[str] = "ga"
    reads: ClassVar[tuple[str, ...]] = ("forget",)

    epochs: int = 5
    learning_rate: float = 1e-4

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the rates that are tried, with statistics that follow the forget set or not."""
        return {"learning_rate": (1e-5, 3e-5, 1e-4, 3e-4, 1e-3), "batch_norm": BATCH_NORMS}

    def epoch(self, run: Run, epoch: int, epochs: int) -> None:
        """Pass over the forget set once."""
        for inputs, classes in run.forget():
            run.step(-run.loss(inputs, classes))
