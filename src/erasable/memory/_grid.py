"""The grid that embeddings are rounded to once, so that their sums are exact integers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.errors import ArgumentError
from erasable.typing import Float32s, Floats, Units

LIMIT = 2**20
"""Grid units are smaller than this in magnitude: 2**22 squares of them still fit an int64."""

_CHUNK = 16_384


@dataclass(frozen=True)
class Grid:
    """Multiples of ``2**-bits`` with magnitude below ``2**(20 - bits)``.

    Every such value is a float32 exactly, so the rounded rows serve matrix products as they are.
    ``bits`` comes from the configuration, never from the rows: a grid fitted to the data would
    remember them.

    Args:
        bits: Binary digits after the point; 14 keeps about four decimal digits up to ±64.
    """

    bits: int = 14

    def __post_init__(self) -> None:
        if type(self.bits) is not int or not 0 <= self.bits <= 20:
            raise ArgumentError(f"Expected grid bits to be an int in 0…20, but got {self.bits!r}.")

    @property
    def step(self) -> float:
        """Distance between two neighbouring values."""
        return float(2.0**-self.bits)

    @property
    def bound(self) -> float:
        """Values must be smaller than this in magnitude."""
        return LIMIT * self.step

    def round(self, values: Floats) -> tuple[Float32s, list[int], list[int]]:
        """Round ``values`` (rows, dim) to the grid, ties to even, −0 to 0.

        Returns:
            The rounded values, the positions of rows that are not finite, and of rows out of range.
        """
        rounded = np.empty(values.shape, np.float32)
        not_finite: list[int] = []
        too_large: list[int] = []
        for start in range(0, len(values), _CHUNK):
            chunk = values[start : start + _CHUNK]
            with np.errstate(over="ignore", invalid="ignore"):
                units = np.rint(chunk * chunk.dtype.type(2.0**self.bits))
                is_finite = np.isfinite(chunk).all(axis=1)
                is_inside = (np.abs(units) < LIMIT).all(axis=1)
                rounded[start : start + _CHUNK] = units * units.dtype.type(self.step) + 0.0
            not_finite += (start + np.flatnonzero(~is_finite)).tolist()
            too_large += (start + np.flatnonzero(is_finite & ~is_inside)).tolist()
        return rounded, not_finite, too_large

    def units(self, rounded: Float32s) -> Units:
        """Return values that are on the grid as the integers they are multiples of."""
        scaled: npt.NDArray[Any] = rounded * np.float32(2.0**self.bits)
        return scaled.astype("<i4")

    def values(self, units: Units) -> Float32s:
        """Return the values that grid units stand for."""
        return units.astype(np.float32) * np.float32(self.step)
