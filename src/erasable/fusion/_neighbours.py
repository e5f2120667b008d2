"""Attention over each query's nearest rows: the paper's SPM-R, and plain nearest neighbours."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor

from erasable.fusion._base import Reduction, TopVotes
from erasable.fusion._dot_product import PLAIN, Attention, log_aggregate
from erasable.fusion._rows import RowsReduction, probability_votes
from erasable.memory import Readable, Search
from erasable.typing import Ints

_CELLS = 2**22
_SHARE = 8


class _NearestRows(Reduction):
    """Votes of the ``k`` rows nearest to each query; a query reads its own neighbours only."""

    vote_kind = "probability"
    queries_at_once = 4096  # FAISS blocks queries by so many; fewer leave cores idle

    def __init__(self, k: int, search: Search) -> None:
        self._k = k
        self._search = search

    def log_probabilities(
        self,
        queries: Tensor,
        memory: Readable,
        *,
        attention: Attention = PLAIN,
        exclude: Ints | None = None,
    ) -> Tensor:
        """Add up the votes of each query's neighbours."""
        places, scores = self._read(queries, memory, attention, exclude)
        live = memory.live
        ranks = live.sums.rank_of_slots()[live.table.slots]
        return log_aggregate(scores, torch.from_numpy(ranks)[places], len(memory.classes))

    def votes(
        self,
        queries: Tensor,
        memory: Readable,
        top: int,
        *,
        attention: Attention = PLAIN,
        exclude: Ints | None = None,
    ) -> TopVotes:
        """Return the heaviest votes among the neighbours."""
        places, scores = self._read(queries, memory, attention, exclude)
        best, order = scores.sort(dim=1, descending=True, stable=True)  # of equals, the nearer
        places = places.gather(1, order)
        return probability_votes(best[:, :top], places[:, :top], scores.logsumexp(dim=1))

    def fuse(
        self,
        readers: Tensor,
        rows: Tensor,
        classes: Tensor,
        count: int,
        *,
        own: Tensor | None = None,
    ) -> Tensor:
        """Read every row: a batch is about as many as the neighbours of a query."""
        return RowsReduction().fuse(readers, rows, classes, count, own=own)

    def _read(
        self, queries: Tensor, memory: Readable, attention: Attention, exclude: Ints | None
    ) -> tuple[Tensor, Tensor]:
        """Return neighbours' positions and scores, nearest first, (queries, k) each."""
        found = self._search.nearest(memory.live, queries.numpy(), self._k, exclude=exclude)
        places = torch.from_numpy(found.positions)
        scores = self._scores(queries, memory, attention, places.clamp(min=0))
        return places.clamp(min=0), scores.masked_fill(places < 0, -torch.inf)

    @abstractmethod
    def _scores(
        self, queries: Tensor, memory: Readable, attention: Attention, places: Tensor
    ) -> Tensor:
        """Return the score of each neighbour, (queries, k)."""


@final
class NeighboursReduction(_NearestRows):
    """Attention over the ``k`` nearest rows by Euclidean distance of embeddings.

    Args:
        k: Number of neighbours.
        search: How they are found.
    """

    name = "neighbours"

    def _scores(
        self, queries: Tensor, memory: Readable, attention: Attention, places: Tensor
    ) -> Tensor:
        readers = attention.readers(queries)
        rows = torch.from_numpy(memory.live.table.embeddings)
        if len(rows) <= _SHARE * places.shape[1]:  # a product with all rows is cheaper
            return (readers @ rows.double().T).gather(1, places)
        parts = [
            torch.einsum("qd,qkd->qk", readers[part], rows[places[part]].double())
            for part in _parts(places.shape, rows.shape[1])
        ]
        return torch.cat(parts) if parts else readers.new_zeros(places.shape)


@final
class KNNReduction(_NearestRows):
    """The ``k`` nearest rows by Euclidean distance of embeddings, one equal vote each.

    Args:
        k: Number of neighbours.
        search: How they are found.
    """

    name = "knn"

    def _scores(
        self, queries: Tensor, memory: Readable, attention: Attention, places: Tensor
    ) -> Tensor:
        return queries.new_zeros(places.shape)


def _parts(shape: torch.Size, dim: int) -> Iterator[slice]:
    size = max(1, _CELLS // max(1, math.prod(shape[1:]) * dim))
    return (slice(start, start + size) for start in range(0, shape[0], size))
