"""Reductions by name."""

from erasable.errors import ArgumentError, listing
from erasable.fusion._base import Reduction
from erasable.fusion._prototypes import PrototypesReduction
from erasable.fusion._rows import RowsReduction

_REDUCTIONS: dict[str, Reduction] = {}


def register_reduction(reduction: Reduction) -> None:
    """Make a reduction known by its name; a name is given once."""
    if reduction.name in _REDUCTIONS:
        raise ArgumentError(f"Expected a new name, but {reduction.name!r} is already registered.")
    _REDUCTIONS[reduction.name] = reduction


def get_reduction(name: str) -> Reduction:
    """Return the reduction of this name."""
    if name not in _REDUCTIONS:
        raise ArgumentError(f"Expected reduction to be {listing(_REDUCTIONS)}, but got {name!r}.")
    return _REDUCTIONS[name]


register_reduction(PrototypesReduction())
register_reduction(RowsReduction())
