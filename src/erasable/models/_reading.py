"""From estimators' parameters to how a memory is read."""

from typing import Any

from erasable.errors import ArgumentError
from erasable.fusion import Reading
from erasable.memory import ExactSearch, Search, plain


def reading(k: Any, search: str, *, candidates: int | None = None) -> Reading:
    """Check what neighbours need, and put it together.

    Args:
        k: Number of neighbours.
        search: ``exact`` or ``pq``.
        candidates: Rows that ``pq`` retrieves before they are compared exactly.
    """
    if type(plain(k)) is not int or k < 1:
        raise ArgumentError(f"Expected k to be a positive int, but got {k!r}.")
    if search not in ("exact", "pq"):
        raise ArgumentError(f"Expected search 'exact' or 'pq', but got {search!r}.")
    found: Search = ExactSearch()
    if search == "pq":
        from erasable.memory import QuantizedSearch

        found = QuantizedSearch(candidates=candidates)
    return Reading(int(k), found)
