"""From estimators' parameters to how a memory is read."""

import math
from typing import Any

from erasable.errors import ArgumentError
from erasable.fusion import Reading
from erasable.memory import ExactSearch, QuantizedSearch, Search, plain


def reading(k: Any, search: str, *, candidates: Any = None) -> Reading:
    """Check what neighbours need, and put it together.

    Args:
        k: Number of neighbours.
        search: ``exact`` or ``pq``.
        candidates: Rows that ``pq`` retrieves before they are compared exactly; four times ``k`` if
            not given.
    """
    if type(plain(k)) is not int or k < 1:
        raise ArgumentError(f"Expected k to be a positive int, but got {k!r}.")
    if candidates is not None and (type(plain(candidates)) is not int or candidates < k):
        raise ArgumentError(f"Expected candidates to be an int ≥ k = {k}, but got {candidates!r}.")
    if search not in ("exact", "pq"):
        raise ArgumentError(f"Expected search 'exact' or 'pq', but got {search!r}.")
    return Reading(int(k), ExactSearch() if search == "exact" else _quantized(k, candidates))


def _quantized(k: int, candidates: int | None) -> Search:
    if candidates is None:
        return QuantizedSearch()
    return QuantizedSearch(candidates=math.ceil(candidates / k))
