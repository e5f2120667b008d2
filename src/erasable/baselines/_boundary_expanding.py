"""BE: push the forget set into a class that is thrown away afterwards."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import nn

from erasable.baselines._base import Task
from erasable.baselines._heads import head_of, replace_head
from erasable.baselines._sgd import BATCH_NORMS, Run, SGDMethod


@final
@dataclass(frozen=True, kw_only=True)
class BoundaryExpanding(SGDMethod):
    """Train the forget set towards a shadow class, then take that class out of the head again.

    Published ports leave the shadow class in, so that a row that lands there counts as forgotten;
    here the network ends with the classes it had.
    """

    name: ClassVar[str] = "be"
    reads: ClassVar[tuple[str, ...]] = ("forget",)

    learning_rate: float = 1e-5

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the rates that are tried, with statistics that follow the forget set or not."""
        return {"learning_rate": (1e-5, 1e-4, 1e-3, 1e-2), "batch_norm": BATCH_NORMS}

    def edit(self, task: Task) -> None:
        """Widen the head, run the epochs, narrow it again."""
        if not self.learning_rate:
            return
        place, head = head_of(task.network, task.count)
        replace_head(task.network, place, _widened(head, self.seed))
        super().edit(task)
        _, wide = head_of(task.network, task.count + 1)
        replace_head(task.network, place, _narrowed(wide, task.count))

    def epoch(self, run: Run, epoch: int, epochs: int) -> None:
        """Pass over the forget set once."""
        for inputs, classes in run.forget():
            shadow = torch.full_like(classes, run.count)
            run.step(run.loss(inputs, shadow))


def _widened(head: nn.Linear, seed: int) -> nn.Linear:
    """Return a head with one more class, drawn as torch draws it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        wide = nn.Linear(head.in_features, head.out_features + 1, bias=head.bias is not None)
    return _filled(wide.to(head.weight), head, head.out_features)


def _narrowed(wide: nn.Linear, count: int) -> nn.Linear:
    head = nn.Linear(wide.in_features, count, bias=wide.bias is not None).to(wide.weight)
    return _filled(head, wide, count)


@torch.no_grad()
def _filled(target: nn.Linear, source: nn.Linear, count: int) -> nn.Linear:
    """Return a head with the first classes of another one."""
    target.weight[:count] = source.weight[:count]
    if source.bias is not None:
        target.bias[:count] = source.bias[:count]
    return target
