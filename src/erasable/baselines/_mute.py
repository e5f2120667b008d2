"""Mute: never answer a forgotten class; nothing else changes."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import nn

from erasable.baselines._base import Task, WeightMethod
from erasable.baselines._heads import head_of, replace_head

_SILENT = math.log(1e-8)
"""The logit of a muted class: about the smallest probability that divergences tell from zero."""


@final
@dataclass(frozen=True, kw_only=True)
class Mute(WeightMethod):
    """Silence the outputs of classes that are forgotten whole: the least that can be done.

    To a network without a memory it is what dropping a prototype is to one that reads rows: odds
    between other classes, and all that was learnt, stay. A method that costs more should come
    nearer to the oracle. Rows of classes that go on change nothing.
    """

    name: ClassVar[str] = "mute"
    needs_classes: ClassVar[bool] = True

    def edit(self, task: Task) -> None:
        """Silence outputs."""
        with task.account.part("edit"), torch.no_grad():
            gone = set(task.forget.classes.tolist()) - set(task.retain.classes.tolist())
            if not gone:
                return
            place, head = head_of(task.network, task.count)
            muted = nn.Linear(head.in_features, head.out_features).to(head.weight)
            muted.weight.copy_(head.weight)
            muted.bias.copy_(head.bias if head.bias is not None else torch.zeros_like(muted.bias))
            for output in gone:
                muted.weight[output] = 0
                muted.bias[output] = _SILENT
            replace_head(task.network, place, muted)
