"""Data sets with stable row ids."""

from erasable.data._arrays import Arrays, read_arrays
from erasable.data._digits import Split, load_digits

__all__ = ["Arrays", "Split", "load_digits", "read_arrays"]
