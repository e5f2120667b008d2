"""Reductions by name."""

from collections.abc import Callable
from dataclasses import dataclass, field

from erasable.errors import ArgumentError, listing
from erasable.fusion._base import Reduction
from erasable.fusion._gaussian import GaussianReduction
from erasable.fusion._neighbours import KNNReduction, NeighboursReduction
from erasable.fusion._prototypes import PrototypesReduction
from erasable.fusion._rows import RowsReduction
from erasable.memory import ExactSearch, Search


@dataclass(frozen=True)
class Reading:
    """What a reduction may need to know.

    Attributes:
        k: Neighbours per query.
        search: How neighbours are found.
    """

    k: int = 256
    search: Search = field(default_factory=ExactSearch)


ReductionFactory = Callable[[Reading], Reduction]
REDUCTIONS: dict[str, ReductionFactory] = {}


def register_reduction(name: str, factory: ReductionFactory) -> None:
    """Make a reduction known by a name; a name is given once."""
    if name in REDUCTIONS:
        raise ArgumentError(f"Expected a new name, but {name!r} is already registered.")
    REDUCTIONS[name] = factory


def get_reduction(name: str, reading: Reading | None = None) -> Reduction:
    """Return the reduction of this name."""
    if not isinstance(name, str) or name not in REDUCTIONS:
        raise ArgumentError(f"Expected reduction to be {listing(REDUCTIONS)}, but got {name!r}.")
    return REDUCTIONS[name](reading or Reading())


register_reduction("prototypes", lambda _: PrototypesReduction())
register_reduction("rows", lambda _: RowsReduction())
register_reduction("neighbours", lambda reading: NeighboursReduction(reading.k, reading.search))
register_reduction("gaussian", lambda _: GaussianReduction())
register_reduction("knn", lambda reading: KNNReduction(reading.k, reading.search))
