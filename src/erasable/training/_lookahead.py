"""Weights that are put back towards their running mean every few steps."""

import copy

import torch
from torch import Tensor, nn

_EVERY = 5
"""Steps between two returns."""

_KEPT = 0.95**_EVERY
"""How much of the mean a return keeps at the end of a training; at its beginning, nothing."""


class Lookahead:
    """The running mean, after Zhang et al. (2019), with a share that grows as the cube of time.

    Args:
        network: The network that is trained.

    Attributes:
        slow: The mean, as a network.
    """

    def __init__(self, network: nn.Module) -> None:
        self.slow = copy.deepcopy(network).requires_grad_(False)
        self._pairs = [
            (mean, weight)
            for mean, weight in zip(_tensors(self.slow), _tensors(network), strict=True)
            if weight.is_floating_point()
        ]

    @torch.no_grad()
    def step(self, step: int, steps: int) -> None:
        """Move the mean towards the weights, and the weights to the mean, if it is time.

        The first time the mean begins at the weights; the last step is a time, too.

        Args:
            step: The step that was done, from 0.
            steps: Steps in all.
        """
        done = step + 1
        if done % _EVERY and done != steps:
            return
        kept = 0.0 if done <= _EVERY else _KEPT * (done / steps) ** 3
        for mean, weight in self._pairs:
            mean.lerp_(weight.to(mean.device), 1 - kept)
            weight.copy_(mean)


def _tensors(network: nn.Module) -> list[Tensor]:
    return list(network.state_dict(keep_vars=True).values())
