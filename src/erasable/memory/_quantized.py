"""The rows nearest to a query among candidates that an index of short codes finds."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, final

import numpy as np

from erasable.errors import Problems
from erasable.memory._codebooks import (
    FEWEST,
    Centroids,
    Sample,
    draw_sample,
    learn,
    padded,
)
from erasable.memory._live import Follower, LiveRows
from erasable.memory._neighbours import ExactSearch, Neighbours, Search, keep_nearest, rounded
from erasable.memory._table import RowInfo, RowTable
from erasable.typing import Float32s, Float64s, Ints

_CANDIDATES = 256
_BATCH = 1024
_CHUNK = 65_536


@final
class QuantizedSearch(Search):
    """Candidates from an index of short codes, the nearest of them exactly; it may miss some.

    Rows lie in lists by their nearest centroid, each with a code of one byte per eight dimensions
    (FAISS, IVF-PQ). A query reads the codes of a few lists, and the rows that seem nearest are
    compared exactly. Squared distances are exact and there are always ``k`` neighbours, but one
    that is nearer may be missed.

    A forgotten row's code leaves the index at once. Centroids and codebooks are learned from a
    sample of rows that depends on the live rows alone; if a row of the sample is forgotten, or a
    new row enters it, the index is dropped, and learned anew by the next search. So what is found
    is a function of the live rows and the query. With fewer than ``min_rows`` rows, or if so many
    candidates are wanted that they are a quarter of all rows, every row is compared, as
    `ExactSearch` does.

    Args:
        candidates: Rows to compare exactly, per neighbour; at least 256 in all.
        lists: Lists to read per query.
        min_rows: With fewer rows than this, compare them all; at least 1,024.
    """

    def __init__(self, *, candidates: int = 4, lists: int = 32, min_rows: int = 2**18) -> None:
        problems = Problems("QuantizedSearch()")
        limits = {
            "candidates": (candidates, 1),
            "lists": (lists, 1),
            "min_rows": (min_rows, FEWEST),
        }
        for name, (value, least) in limits.items():
            if type(value) is not int or value < least:
                problems.note(
                    f"Expected {name} to be an int of {least} or more, but got {value!r}."
                )
        problems.raise_if_any()
        self._candidates = candidates
        self._lists = lists
        self._min_rows = min_rows

    def nearest(
        self, live: LiveRows, queries: Float64s, k: int, *, exclude: Ints | None = None
    ) -> Neighbours:
        """Compare the candidates of a few lists, or all rows if they are fewer than ``k``."""
        count = max(_CANDIDATES, self._candidates * k) + 1
        if len(live) < max(self._min_rows, 4 * count) or not k:
            return ExactSearch().nearest(live, queries, k, exclude=exclude)
        index = live.follower("codes", ProductCodes).index
        wanted = rounded(live, queries)
        own = np.full(len(wanted), -1, np.int64) if exclude is None else exclude
        positions = np.empty((len(wanted), k), np.int64)
        squares = np.empty((len(wanted), k))
        for start in range(0, len(wanted), _BATCH):
            part = slice(start, start + _BATCH)
            found = index.candidates(wanted[part], count, self._lists)
            best = keep_nearest(live, wanted[part], found, k, exclude=own[part])
            positions[part], squares[part] = best.positions, best.squares
        few = np.flatnonzero(positions[:, -1] < 0)
        if len(few):
            every = ExactSearch().nearest(live, queries[few], k, exclude=own[few])
            positions[few], squares[few] = every.positions, every.squares
        return Neighbours(positions, squares)


@final
class ProductCodes(Follower):
    """The index of a memory's codes while its sample stays the same, else none.

    Args:
        live: The rows to follow.
    """

    def __init__(self, live: LiveRows) -> None:
        self._live = live
        self._index: CodeIndex | None = None

    @property
    def index(self) -> "CodeIndex":
        """The index of the rows as they are, learned anew if need be."""
        with self._live.building():
            if self._index is None:
                self._index = build_index(self._live)
            return self._index

    def add(self, infos: Sequence[RowInfo], embeddings: Float32s) -> None:
        """Encode rows, or drop the index if one of them belongs to the sample."""
        if self._keep(infos) and not self.index.add(infos, embeddings):
            self._index = None

    def remove(self, infos: Sequence[RowInfo], embeddings: Float32s) -> None:
        """Take codes out, or drop the index if one of the rows was in the sample."""
        if self._keep(infos):
            self.index.remove(infos)

    def _keep(self, changed: Sequence[RowInfo]) -> bool:
        if self._index and not self._index.sample.still_fits(len(self._live), changed):
            self._index = None
        return self._index is not None


class CodeIndex:
    """Codes of rows in a FAISS index, and where each row lies in the table.

    A row's key in FAISS is the rank of its serial among those seen here, so that one array leads
    from keys to positions.

    Args:
        table: The rows.
        sample: What the codebooks were learned from.
        centroids: Middles of the lists.
        codes: The FAISS index, still empty.
    """

    def __init__(self, table: RowTable, sample: Sample, centroids: Centroids, codes: Any) -> None:
        self.sample = sample
        self.codes = codes
        self._table = table
        self._centroids = centroids
        self._serials = array("q")
        self._places = array("q")

    def add(self, infos: Sequence[RowInfo], embeddings: Float32s) -> bool:
        """Encode rows (rows, dim) that the table has, if they come later than all here."""
        import faiss

        serials = [info.serial for info in infos]
        if any(late <= early for early, late in pairwise([*self._serials[-1:], *serials])):
            return False
        keys = np.arange(len(self._serials), len(self._serials) + len(infos))
        self._serials.extend(serials)
        self._places.extend(self._table.positions([info.id for info in infos]))
        for start in range(0, len(infos), _CHUNK):
            part = slice(start, start + _CHUNK)
            rows, lists = padded(embeddings[part]), self._centroids.nearest(embeddings[part])
            pointers = [faiss.swig_ptr(values) for values in (rows, keys[part], lists)]
            self.codes.add_core(len(rows), *pointers)
        return True

    def remove(self, infos: Sequence[RowInfo]) -> None:
        """Take out the codes of rows that the table no longer has."""
        keys = [self.key(info.serial) for info in infos]
        lists = {self.codes.direct_map.get(key) >> 32 for key in keys}  # the rest is the offset
        sizes = {place: self.codes.invlists.list_size(place) for place in lists}
        self.codes.remove_ids(np.array(keys, np.int64))
        for place, size in sizes.items():
            left = self.codes.invlists.list_size(place)
            self.codes.invlists.resize(place, size)  # fills with zeros what lay behind the end
            self.codes.invlists.resize(place, left)
        for key in keys:
            self._close(key)

    def key(self, serial: int) -> int:
        """Return a row's key in FAISS."""
        return bisect_left(self._serials, serial)

    def candidates(self, queries: Float32s, count: int, lists: int) -> Ints:
        """Return positions of rows that seem nearest, −1 for none, (queries, count).

        Rows as far as the last one are left out: which of them came first depends on history.
        """
        near, squares = self._centroids.nearest_lists(queries, lists)
        distances, keys = self._search(padded(queries), count, near, squares)
        is_found = (keys >= 0) & ((distances < distances[:, -1:]) | (keys[:, -1:] < 0))
        places = np.frombuffer(self._places, np.int64)
        return np.where(is_found, places[keys], -1)

    def _search(
        self, queries: Float32s, count: int, near: Ints, squares: Float32s
    ) -> tuple[Float32s, Ints]:
        """Search lists that are given; how many is said in the call, as other threads search too.

        Returns:
            Distances and keys, nearest first, (queries, count) each.
        """
        import faiss

        distances = np.empty((len(queries), count), np.float32)
        keys = np.empty((len(queries), count), np.int64)
        queries, near = np.ascontiguousarray(queries), np.ascontiguousarray(near)
        squares = np.ascontiguousarray(squares)
        pointers = [faiss.swig_ptr(values) for values in (near, squares, distances, keys)]
        self.codes.search_preassigned_c(
            len(queries),
            faiss.swig_ptr(queries),
            count,
            *pointers,
            False,
            faiss.SearchParametersIVF(nprobe=near.shape[1]),  # type: ignore[call-arg]  # stub lacks it
        )
        return distances, keys

    def _close(self, key: int) -> None:
        """Note which row lies now where a removed one did: only such places have changed hands."""
        place, self._places[key] = self._places[key], -1
        if place < len(self._table):
            self._places[self.key(self._table.infos[place].serial)] = place


def build_index(live: LiveRows) -> CodeIndex:
    """Learn codebooks from the sample of the live rows and encode every row."""
    table = live.table
    sample = draw_sample(table.infos)
    centroids, codes = learn(table.embeddings[sample.positions], sample.lists, live.grid)
    index = CodeIndex(table, sample, centroids, codes)
    order = np.argsort([info.serial for info in table.infos])
    for start in range(0, len(order), _CHUNK):
        places = order[start : start + _CHUNK]
        index.add([table.infos[place] for place in places], table.embeddings[places])
    return index
