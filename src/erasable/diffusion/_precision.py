"""Convolutions that compute in half precision while a network is trained."""

from typing import final

import torch
from torch import Tensor, nn

PRECISIONS = ("float32", "bfloat16")
"""What convolutions compute in while training."""


@final
class HalfConv2d(nn.Conv2d):
    """A convolution in half precision while training; weights and answers stay in their form."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Convolve images (n, channels, height, width)."""
        if not self.training:
            return super().forward(inputs)
        with torch.autocast(inputs.device.type, torch.bfloat16):
            found = super().forward(inputs)
        return found.to(inputs.dtype)


def train_in_half(network: nn.Module) -> None:
    """Let every convolution of a network compute in half precision while it is trained.

    Blocks of diffusers make their convolutions themselves; so these change their class, and the
    network's `repr` tells that it is another one.

    Args:
        network: The network, changed in place.
    """
    for module in network.modules():
        if type(module) is nn.Conv2d:
            module.__class__ = HalfConv2d
