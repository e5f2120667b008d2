"""Fusion computes in full precision, whatever a network around it computes in.

In half precision the sums that leave out a query's own row do not cancel, and the row would leak
into its own prediction.
"""

import contextlib

import torch
from torch import Tensor

_HALF = (torch.bfloat16, torch.float16)


def full(tensor: Tensor) -> Tensor:
    """Return a tensor in single precision if it is in half, otherwise as it is."""
    return tensor.float() if tensor.dtype in _HALF else tensor


def in_full_precision(tensor: Tensor) -> contextlib.AbstractContextManager[None]:
    """Keep automatic half precision out, on the device of a tensor."""
    found: contextlib.AbstractContextManager[None]
    found = torch.autocast(tensor.device.type, enabled=False)
    return found
