"""Mute: never answer a forgotten class; nothing else changes."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch
from torch import nn

from erasable.baselines._base import Task, WeightMethod
from erasable.baselines._heads import head_of, replace_head

_PROBABILITY = 1e-8
"""About what is left of a muted class: what votes are floored at when divergences are taken."""

_ASKED = 256
"""Rows of the forget set that show how large logits are."""


@final
@dataclass(frozen=True, kw_only=True)
class Mute(WeightMethod):
    """Silence the outputs of classes that are forgotten whole: the least that can be done.

    To a network without a memory it is what dropping a prototype is to one that reads rows: odds
    between other classes, and all that was learnt, stay. A method that costs more should come
    nearer to the oracle's answers. Rows of classes that go on change nothing.
    """

    name: ClassVar[str] = "mute"
    needs_classes: ClassVar[bool] = True

    def edit(self, task: Task) -> None:
        """Silence outputs."""
        with task.account.part("edit"), torch.no_grad():
            gone = sorted(set(task.forget.classes.tolist()) - set(task.retain.classes.tolist()))
            if not gone:
                return
            place, head = head_of(task.network, task.count)
            inputs, _ = task.forget.take(np.arange(min(_ASKED, len(task.forget))))
            logits = task.network(inputs)
            logits[:, gone] = -torch.inf
            silent = float(logits.amax(dim=1).min()) + math.log(_PROBABILITY)
            if "bias" not in dict(head.named_parameters()):
                head = _with_bias(head)
                replace_head(task.network, place, head)
            head.weight[gone] = 0
            head.bias[gone] = silent


def _with_bias(head: nn.Linear) -> nn.Linear:
    """Return the same layer with a bias of zeros."""
    found = nn.Linear(head.in_features, head.out_features, device="meta", dtype=head.weight.dtype)
    found.to_empty(device=head.weight.device)
    found.weight.copy_(head.weight)
    found.bias.zero_()
    return found
