"""EraseDiff: keep the others while the forgotten label is pulled to other labels' answers."""

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from erasable.baselines.generation._base import DiffusionMethod, DiffusionRun


@final
@dataclass(frozen=True, kw_only=True)
class EraseDiff(DiffusionMethod):
    """Two levels: lower the retain loss while the forget loss stays near its own optimum.

    With a fixed ``weight`` the inner loop only moves Adam's moments, since its optimum enters as a
    number; so the method is joint training. Rounds of it are kept as published. Losses are means
    over pixels here, unlike in the other methods.

    Attributes:
        rounds: How often the inner loop is run, spread over the steps.
        inner_steps: Steps of each inner loop.
        weight: Weight of the forget loss; negative: as large as the gradients disagree.
        agreement: Cosine that gradients are to have, where the weight is negative.
    """

    name: ClassVar[str] = "erasediff"

    steps: int = 290
    scale: float = 1.0
    drop: float = 0.0
    rounds: int = 8
    inner_steps: int = 80
    weight: float = 0.1
    agreement: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(("rounds", 1), ("inner_steps", 0))

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the rates that are tried."""
        return {"learning_rate": (1e-4, 5e-4)}

    def step(self, run: DiffusionRun, step: int, steps: int) -> float:
        """Run the inner loop where a round begins; then go down both losses."""
        if step == 0 or step * self.rounds // steps != (step - 1) * self.rounds // steps:
            run.kept["optimum"] = self._inner(run)
        retain = run.denoising_loss(*run.retain_batch())
        forget = self._forget_loss(run)
        weight = self._weight(run, retain, forget)
        return run.descend(retain + weight * (forget - run.kept["optimum"]))

    def _inner(self, run: DiffusionRun) -> float:
        """Go down the forget loss alone, note where it ends, and go back."""
        start = copy.deepcopy(run.network.state_dict())
        losses = [run.descend(self._forget_loss(run)) for _ in range(self.inner_steps)]
        run.network.load_state_dict(start)
        last = losses[len(losses) // 2 :]
        return sum(last) / len(last) if last else 0.0

    def _forget_loss(self, run: DiffusionRun) -> Tensor:
        """Return how far the forgotten label's answers are from another label's."""
        images, classes = run.forget_batch()
        noisy, _, timesteps = run.noisy(images)
        others = [c for c in range(run.task.count) if c != run.task.target]
        place = int(torch.randint(len(others), (1,), generator=run.generator))
        with torch.no_grad():
            wanted = run.network(noisy, timesteps, torch.full_like(classes, others[place]))
        seen: Tensor = run.network(noisy, timesteps, classes)
        loss: Tensor = self.scale * (wanted - seen).square().mean()
        return loss

    def _weight(self, run: DiffusionRun, retain: Tensor, forget: Tensor) -> float:
        if self.weight >= 0:
            return self.weight
        first = torch.cat([s.flatten() for s in self._slopes(run, retain)])
        second = torch.cat([s.flatten() for s in self._slopes(run, forget)])
        cosine = float(torch.nn.functional.cosine_similarity(first, second, dim=0))
        return max(0.0, self.agreement - cosine)

    @staticmethod
    def _slopes(run: DiffusionRun, loss: Tensor) -> list[Tensor]:
        found = torch.autograd.grad(loss, run.parameters, retain_graph=True, allow_unused=True)
        pairs = zip(run.parameters, found, strict=True)
        return [torch.zeros_like(p) if slope is None else slope for p, slope in pairs]
