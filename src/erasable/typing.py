"""Names for the values that cross the public surface."""

from typing import Any

import numpy as np
import numpy.typing as npt

RowId = str | int
"""The permanent id of a row; ``1`` and ``"1"`` are different ids."""

Group = str | int
"""A data subject or any other set of rows that is forgotten together."""

Label = str | int | float | bool
"""A class; the type is part of it, so ``1``, ``1.0``, ``True`` and ``"1"`` are four classes."""

Floats = npt.NDArray[np.floating[Any]]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
Units = npt.NDArray[np.int32]
"""Embeddings in grid units: the integers that their values are multiples of."""

Ints = npt.NDArray[np.int64]
