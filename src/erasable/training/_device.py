"""Where a network is trained, and in what precision it encodes meanwhile."""

import contextlib
import logging
from typing import Any

import torch

from erasable.errors import ArgumentError, listing

DEVICES = ("auto", "cpu", "cuda", "mps")


def make_fabric(device: str, precision: str = "auto") -> Any:
    """Return what places networks and batches on a device, and encodes in a precision.

    Args:
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        precision: ``float32``, ``bfloat16``, or ``auto``: the latter on a GPU that has it.
    """
    from lightning_fabric import Fabric  # a second to import, so only where it is used

    if device not in DEVICES:
        raise ArgumentError(f"Expected device to be {listing(DEVICES)}, but got {device!r}.")
    is_cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    if precision == "auto":
        precision = "bfloat16" if is_cuda and torch.cuda.is_bf16_supported() else "float32"
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it announces precisions
    if precision == "bfloat16":
        return Fabric(accelerator=device, devices=1, plugins=_half("cuda" if is_cuda else "cpu"))
    return Fabric(accelerator=device, devices=1, precision="32-true")


def _half(device: str) -> Any:
    """Return mixed precision that hands inputs on as they are.

    Lightning's own rounds them first: numbers above 256 would lose their units before a network can
    put them on a scale of its own.
    """
    from lightning_fabric.plugins import MixedPrecision

    class Half(MixedPrecision):
        def convert_input(self, data: Any) -> Any:
            return data

    return Half("bf16-mixed", device)


def computing_in(precision: str) -> contextlib.AbstractContextManager[None]:
    """Let networks on the CPU encode in a precision that a training was in.

    Args:
        precision: As for `Training`.
    """
    found: contextlib.AbstractContextManager[None]
    is_half = precision == "bfloat16"
    # Without its cache: it would keep the weights of the first step until the context ends.
    found = torch.autocast("cpu", torch.bfloat16, enabled=is_half, cache_enabled=False)
    return found
