"""Methods by name; other packages add theirs by the entry point ``erasable.baselines``."""

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from erasable.baselines._base import Method
from erasable.baselines._boundary_expanding import BoundaryExpanding
from erasable.baselines._boundary_shrink import BoundaryShrink
from erasable.baselines._deletion import Deletion
from erasable.baselines._fine_tuning import FineTuning
from erasable.baselines._gradient_ascent import GradientAscent
from erasable.baselines._influence import InfluenceUnlearning
from erasable.baselines._l1_sparse import L1Sparse
from erasable.baselines._munba import MUNBa
from erasable.baselines._mute import Mute
from erasable.baselines._retrain import Retrain
from erasable.baselines._salun import SalUn
from erasable.errors import ArgumentError, listing

GROUP = "erasable.baselines"
_METHODS: dict[str, type[Method]] = {}


def register_method(method: type[Method]) -> None:
    """Make a method known by its name; a name is given once."""
    if method.name in _METHODS:
        raise ArgumentError(f"Expected a new name, but {method.name!r} is already registered.")
    _METHODS[method.name] = method


def methods() -> dict[str, type[Method]]:
    """Return all methods by name, those of other packages last."""
    _load_others()
    return dict(_METHODS)


def get_method(name: str, **settings: Any) -> Method:
    """Return a method with some settings, the rest as published.

    Args:
        name: Its name.
        **settings: What differs from the defaults.
    """
    known = methods()
    if not isinstance(name, str) or name not in known:
        raise ArgumentError(f"Expected a method among {listing(known)}, but got {name!r}.")
    try:
        return known[name](**settings)
    except TypeError as error:
        raise ArgumentError(f"Expected settings of {name}, but {error}.") from error


@cache
def _load_others() -> None:
    for entry in entry_points(group=GROUP):
        register_method(entry.load())


for _method in (
    Retrain,
    Mute,
    GradientAscent,
    FineTuning,
    InfluenceUnlearning,
    BoundaryExpanding,
    BoundaryShrink,
    L1Sparse,
    SalUn,
    MUNBa,
    Deletion,
):
    register_method(_method)
