"""The rows nearest to a query, exactly: ties included, whatever the order of rows or queries."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from erasable.memory._keys import encode_key
from erasable.memory._live import LiveRows
from erasable.typing import Float32s, Float64s, Ints

_CELLS = 2**22
_SHARE = 8
_EXACT_DIMS = 2**11
_BEYOND = 4


@dataclass(frozen=True)
class Neighbours:
    """Nearest rows per query, nearest first, (queries, k); −1 and infinity where rows ran out.

    Attributes:
        positions: Where the rows lie now.
        squares: Squared distances in grid units: whole numbers, so ties are ties.
    """

    positions: Ints
    squares: Float64s


class Search(ABC):
    """A way to find candidates, which are then compared with the query exactly."""

    @abstractmethod
    def nearest(
        self, live: LiveRows, queries: Float64s, k: int, *, exclude: Ints | None = None
    ) -> Neighbours:
        """Return the ``k`` nearest rows, or all if there are fewer.

        Args:
            live: The rows to search.
            queries: Embeddings, (queries, dim); they are rounded to the rows' grid first.
            k: Number of neighbours.
            exclude: Per query the position of one row to leave out, or −1, (queries,).
        """


@final
class ExactSearch(Search):
    """All rows compared in float32, the nearest again exactly; no index to keep.

    A row outside the float32 candidates is farther than every candidate by more than the rounding
    error of the comparison, or more candidates are taken. Ties go to the smaller encoded id, so the
    answer depends on the rows alone.
    """

    def nearest(
        self, live: LiveRows, queries: Float64s, k: int, *, exclude: Ints | None = None
    ) -> Neighbours:
        """Widen the candidates until they are certain to hold the nearest rows."""
        wanted = rounded(live, queries)
        own = np.full(len(wanted), -1, np.int64) if exclude is None else exclude
        k = min(k, len(live))
        positions = np.full((len(wanted), k), -1, np.int64)
        squares = np.full((len(wanted), k), np.inf)
        size = min(len(live), k + 1 + max(32, k // 4))
        pending = np.flatnonzero(np.isfinite(wanted).all(axis=1))  # NaN has no neighbours
        while k and len(pending):
            if _SHARE * size >= len(live):
                size = len(live)  # candidates are no saving
            best, is_sure = _best(live, wanted[pending], k, size, exclude=own[pending])
            positions[pending[is_sure]] = best.positions[is_sure]
            squares[pending[is_sure]] = best.squares[is_sure]
            pending, size = pending[~is_sure], 2 * size
        return Neighbours(positions, squares)


def rounded(live: LiveRows, queries: Float64s) -> Float32s:
    """Round queries (queries, dim) to the rows' grid, so that distances are whole numbers.

    Values far outside the range of rows are drawn in to a multiple of it.
    """
    far = _BEYOND * live.grid.bound
    inside = np.where(np.isfinite(queries), np.clip(queries, -far, far), np.nan)
    return live.grid.round(inside)[0]


def keep_nearest(
    live: LiveRows, queries: Float32s, candidates: Ints, k: int, *, exclude: Ints
) -> Neighbours:
    """Compare candidates exactly and keep the ``k`` nearest, ties by encoded id.

    Args:
        live: The rows.
        queries: On the grid, (queries, dim).
        candidates: Positions, each at most once per query, −1 for none, (queries, candidates).
        k: Neighbours to keep.
        exclude: Per query the position of one row to leave out, or −1, (queries,).
    """
    return _nearest(live, _squares(live, queries, candidates), candidates, k, exclude=exclude)


def _best(
    live: LiveRows, queries: Float32s, k: int, size: int, *, exclude: Ints
) -> tuple[Neighbours, npt.NDArray[np.bool_]]:
    """Return the nearest of ``size`` candidates, and for which queries they are certain."""
    if size == len(live) and live.dim <= _EXACT_DIMS:
        return _best_of_all(live, queries, k, exclude=exclude), np.ones(len(queries), bool)
    found, reach = _candidates(live, queries, size)
    best = keep_nearest(live, queries, found, k, exclude=exclude)
    return best, (best.squares[:, -1] < reach) | (size == len(live))


def _best_of_all(live: LiveRows, queries: Float32s, k: int, *, exclude: Ints) -> Neighbours:
    """Compare with every row by a matrix product of whole numbers: no sum of them reaches 2⁵³."""
    unit = 1 / live.grid.step
    right = live.table.embeddings.astype(np.float64) * unit
    everyone, parts = np.arange(len(right)), []
    size = max(1, _CELLS // len(right))
    for start in range(0, len(queries), size):
        left = queries[start : start + size].astype(np.float64) * unit
        squares = exact_squares(left, right)
        places = np.broadcast_to(everyone, squares.shape)
        own = exclude[start : start + size]
        parts.append(_nearest(live, squares, places, k, exclude=own))
    return Neighbours(
        np.concatenate([part.positions for part in parts]),
        np.concatenate([part.squares for part in parts]),
    )


def exact_squares(left: Float64s, right: Float64s) -> Float64s:
    """Return squared distances of whole numbers, exact in float64, (left, right)."""
    squares: Float64s = (
        (left**2).sum(axis=1)[:, None] - 2 * (left @ right.T) + (right**2).sum(axis=1)
    )
    return squares


def _nearest(
    live: LiveRows, squares: Float64s, candidates: Ints, k: int, *, exclude: Ints
) -> Neighbours:
    """Keep the candidates with the smallest squares, ties by encoded id."""
    squares[(candidates == exclude[:, None]) | (candidates < 0)] = np.inf
    order = np.argsort(squares, axis=1, kind="stable")
    squares = np.take_along_axis(squares, order, axis=1)
    places = np.take_along_axis(candidates, order, axis=1)
    near = squares[:, : k + 1]
    is_tied = ((near[:, :-1] == near[:, 1:]) & np.isfinite(near[:, 1:])).any(axis=1)
    for query in np.flatnonzero(is_tied):
        _settle_ties(live, places[query], squares[query], k)
    places, squares = places[:, :k], squares[:, :k]
    return Neighbours(np.where(np.isfinite(squares), places, -1), squares)


def _candidates(live: LiveRows, queries: Float32s, size: int) -> tuple[Ints, Float64s]:
    """Return the nearest positions by float32, and what other rows' squares surely exceed."""
    import faiss  # 0.2 s to import, so only where it is used

    rows = live.table.embeddings
    distances, positions = faiss.knn(queries, rows, size)
    largest = np.sqrt(np.einsum("rd,rd->r", rows, rows, dtype=np.float64).max())
    lengths = np.sqrt(np.einsum("qd,qd->q", queries, queries, dtype=np.float64))
    error = float32_error(live.dim, lengths + largest)
    reach = (distances[:, -1].astype(np.float64) - error) / live.grid.step**2
    return positions, reach


def float32_error(dim: int, lengths: Float64s) -> Float64s:
    """Return how far FAISS's squared distances may be off, given both vectors' lengths together.

    They are ‖q‖² − 2 q·s + ‖s‖² in float32, and a matrix product adds ``dim`` terms one by one.
    """
    error: Float64s = (dim + 8) * 2.0**-24 * lengths**2
    return error


def _squares(live: LiveRows, queries: Float32s, candidates: Ints) -> Float64s:
    """Return exact squared distances in grid units, (queries, candidates)."""
    squares = np.empty(candidates.shape)
    rows, unit = live.table.embeddings, np.float32(1 / live.grid.step)
    size = max(1, _CELLS // max(1, candidates.shape[1] * live.dim))
    for start in range(0, len(queries), size):
        part = slice(start, start + size)
        apart = rows[candidates[part]]
        apart -= queries[part, None]  # differences of grid values are exact in float32
        apart *= unit
        squares[part] = np.einsum("qcd,qcd->qc", apart, apart, dtype=np.float64)
    return squares


def _settle_ties(live: LiveRows, places: Ints, squares: Float64s, k: int) -> None:
    """Order the candidates of one query that are as near as the k-th, ties by encoded id."""
    infos = live.table.infos
    near = np.flatnonzero(squares <= squares[k - 1])
    keys = [encode_key(infos[place].id) for place in places[near].tolist()]
    order = sorted(range(len(near)), key=lambda i: (squares[near[i]], keys[i]))
    places[near] = places[near][order]  # squares are in order already
