"""Codebooks of a quantised search, learned from a sample that depends on the live rows alone."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from erasable.memory._grid import Grid
from erasable.memory._keys import encode_key
from erasable.memory._neighbours import float32_error
from erasable.memory._table import RowInfo
from erasable.typing import Float32s, Float64s, Ints, RowId

FEWEST = 1024
"""With fewer rows than this the sample would be larger than the memory."""

_PER_LIST = 16
_PER_BYTE = 8
_CHUNK = 8192


def lists_for(rows: int) -> int:
    """Return twice the square root of the row count, as a power of two.

    It changes only where the count crosses a power of four, and has no memory of the last change.
    """
    return 2 << ((max(1, rows).bit_length() - 1) // 2)


@dataclass(frozen=True)
class Sample:
    """The rows whose ids have the smallest hashes: a function of the set of rows.

    Attributes:
        lists: Number of lists to learn from it.
        threshold: Largest hash in the sample; a row belongs to it exactly if its hash is no larger.
        positions: Where its rows lay when it was drawn, in the order of their hashes.
    """

    lists: int
    threshold: int
    positions: list[int]

    def still_fits(self, rows: int, changed: Iterable[RowInfo]) -> bool:
        """Tell whether the sample is the same now that there are so many rows and some changed."""
        is_size_right = lists_for(rows) == self.lists
        return is_size_right and all(hash_id(info.id) > self.threshold for info in changed)


def hash_id(row_id: RowId) -> int:
    """Return 64 bits that depend on the id alone."""
    return int.from_bytes(blake2b(encode_key(row_id).encode(), digest_size=8).digest())


def draw_sample(infos: list[RowInfo]) -> Sample:
    """Draw sixteen rows per list."""
    lists = lists_for(len(infos))
    hashes = np.fromiter((hash_id(info.id) for info in infos), np.uint64, len(infos))
    threshold = np.partition(hashes, _PER_LIST * lists - 1)[_PER_LIST * lists - 1]
    members = np.flatnonzero(hashes <= threshold).tolist()
    members.sort(key=lambda place: (hashes[place], encode_key(infos[place].id)))
    return Sample(lists, int(threshold), members)


class Centroids:
    """Middles of the lists, on the grid, so that a row belongs to one list whatever else is there.

    Args:
        values: On the grid, (lists, dim).
        grid: The grid.
    """

    def __init__(self, values: Float32s, grid: Grid) -> None:
        self.values = values
        self._step = grid.step
        self._units: Float64s = values / np.float64(grid.step)
        self._lengths: Float64s = np.einsum("ld,ld->l", self._units, self._units)

    def squares(self, points: Float32s) -> Float64s:
        """Return squared distances in grid units, exactly, (points, lists)."""
        units: Float64s = points / np.float64(self._step)
        lengths = np.einsum("pd,pd->p", units, units)
        squares: Float64s = lengths[:, None] + self._lengths - 2 * units @ self._units.T
        return squares

    def nearest(self, rows: Float32s) -> Ints:
        """Return the list of each row (rows, dim): the nearest, of equally near ones the first."""
        parts = [self._nearest(rows[i : i + _CHUNK]) for i in range(0, len(rows), _CHUNK)]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def nearest_lists(self, queries: Float32s, count: int) -> tuple[Ints, Float32s]:
        """Return the lists nearest to each query, (queries, count), and their squared distances."""
        squares = self.squares(queries)
        count = min(count, squares.shape[1])
        lists = np.argpartition(squares, count - 1, axis=1)[:, :count]
        chosen = np.take_along_axis(squares, lists, axis=1) * self._step**2
        return lists, chosen.astype(np.float32)

    def _nearest(self, rows: Float32s) -> Ints:
        """Compare in float32 first, and exactly where that leaves a doubt."""
        import faiss

        distances, lists = faiss.knn(rows, self.values, 2)
        largest = self._step * np.sqrt(self._lengths.max())
        lengths = np.sqrt(np.einsum("rd,rd->r", rows, rows, dtype=np.float64))
        error = float32_error(rows.shape[1], lengths + largest)
        nearest: Ints = lists[:, 0].copy()
        doubtful = np.flatnonzero(distances[:, 1].astype(np.float64) - distances[:, 0] <= 2 * error)
        nearest[doubtful] = self.squares(rows[doubtful]).argmin(axis=1)
        return nearest


def learn(rows: Float32s, lists: int, grid: Grid) -> tuple[Centroids, Any]:
    """Learn centroids, and codes for what is left of a row, from a sample in its order.

    Returns:
        The centroids and an empty FAISS index that encodes one byte per eight dimensions. Both are
        the same bits for the same sample, on one thread or many.
    """
    import faiss

    means = faiss.Clustering(rows.shape[1], lists)
    means.niter, means.min_points_per_centroid, means.seed = 10, 1, 1
    means.train(rows, faiss.IndexFlatL2(rows.shape[1]))
    values = faiss.vector_to_array(means.centroids).reshape(lists, -1)
    centroids = Centroids(grid.round(values)[0], grid)
    coarse = faiss.IndexFlatL2(padded(rows[:0]).shape[1])
    coarse.add(padded(centroids.values))
    index = faiss.IndexIVFPQ(coarse, coarse.d, lists, coarse.d // _PER_BYTE, 8)
    index.pq.cp.niter, index.pq.cp.min_points_per_centroid, index.pq.cp.seed = 10, 1, 1
    index.pq.train(padded(rows - centroids.values[centroids.nearest(rows)]))
    index.is_trained = True
    index.precompute_table()
    index.set_direct_map_type(index.direct_map.Hashtable)
    return centroids, index


def padded(rows: Float32s) -> Float32s:
    """Fill rows (rows, dim) up with zeros to a whole number of bytes of code."""
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % _PER_BYTE)))
