"""Taking NumPy arrays and torch tensors alike."""

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from erasable.typing import Floats, Ints

Array = Floats | Ints | Tensor
"""A NumPy array or a torch tensor, on any device."""


def as_numpy(values: Array) -> npt.NDArray[Any] | None:
    """Return the values on the CPU, or None if they are not real numbers."""
    try:
        if isinstance(values, Tensor):
            values = values.detach().cpu()
            values = values.double() if values.is_floating_point() else values
        array = np.asarray(values)
    except (TypeError, ValueError):
        return None
    return array if array.dtype.kind in "fiub" else None


def type_of(values: object) -> str:
    """Name the type of what was passed, for a message."""
    return str(getattr(values, "dtype", type(values).__name__))
