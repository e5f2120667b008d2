"""One pass of zeros through a user's network, to learn what it does with inputs of a shape."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from erasable.errors import ArgumentError, ErasableError

REFUSALS = (RuntimeError, TypeError, ValueError, LookupError, AssertionError)
"""What networks raise when inputs do not suit them."""


def encode_zeros(module: nn.Module, input_shape: tuple[int, ...]) -> Any:
    """Return a network's output for two inputs of zeros, in the mode it is in.

    Raises:
        ArgumentError: If the network does not take inputs of this shape.
    """
    tensors = [*module.parameters(), *module.buffers()]
    device = tensors[0].device if tensors else torch.device("cpu")
    try:
        with torch.no_grad():
            return module(torch.zeros(2, *input_shape, device=device))
    except ErasableError:
        raise
    except REFUSALS as error:
        raise ArgumentError(
            f"Expected the encoder to accept inputs of shape (n, {', '.join(map(str, input_shape))}"
            f"), but it raised: {error}"
        ) from error


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Set a network to eval mode, and each of its parts back to its own mode afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, was_training in modes:
            part.training = was_training
