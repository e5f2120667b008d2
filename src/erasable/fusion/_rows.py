"""Attention over every row: ``ŷ = Σ α_i y_i`` as the paper writes it."""

from collections.abc import Iterator
from typing import final

import numpy as np
import torch
from torch import Tensor

from erasable.fusion._base import Reduction, TopVotes
from erasable.fusion._dot_product import PLAIN, Attention, log_aggregate, log_class_sums
from erasable.memory import Memory, RowsView
from erasable.typing import Ints


@final
class RowsReduction(Reduction):
    """Every live row votes; nothing is summarised."""

    name = "rows"
    vote_kind = "probability"

    def log_probabilities(
        self,
        queries: Tensor,
        memory: Memory,
        *,
        attention: Attention = PLAIN,
        exclude: Ints | None = None,
    ) -> Tensor:
        """Accumulate the softmax chunk by chunk, so memory use does not grow with the rows."""
        readers = attention.readers(queries)
        logs = readers.new_full((len(readers), len(memory.classes)), -torch.inf)
        for _, scores, classes in _scores(readers, memory, exclude):
            logs = torch.logaddexp(logs, log_class_sums(scores, classes, logs.shape[1]))
        return logs - logs.logsumexp(dim=1, keepdim=True)

    def votes(
        self, queries: Tensor, memory: Memory, top: int, *, attention: Attention = PLAIN
    ) -> TopVotes:
        """Return the rows with the largest attention weights."""
        top, readers = min(top, len(memory)), attention.readers(queries)
        best = readers.new_full((len(readers), 0), -torch.inf)
        places = torch.zeros(len(readers), 0, dtype=torch.long)
        total = readers.new_full((len(readers),), -torch.inf)
        for start, scores, _ in _scores(readers, memory, None):
            total = torch.logaddexp(total, scores.logsumexp(dim=1))
            here = torch.arange(start, start + scores.shape[1]).expand(len(readers), -1)
            best, places = keep_top(best, places, scores, here, top)
        weights = (best - total[:, None]).exp()
        rest = (1 - weights.sum(dim=1)).clamp(min=0)
        return TopVotes(places.numpy(), weights.numpy(), rest.numpy())

    def in_batch(self, readers: Tensor, embeddings: Tensor, classes: Tensor, count: int) -> Tensor:
        """Mask the diagonal: a query never attends to its own row (paper sec. 3, fusion)."""
        scores = readers @ embeddings.T
        own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        return log_aggregate(scores.masked_fill(own, -torch.inf), classes, count)


def keep_top(
    best: Tensor, places: Tensor, scores: Tensor, here: Tensor, top: int
) -> tuple[Tensor, Tensor]:
    """Merge the best scores so far with a chunk's, (queries, ≤ top) each."""
    merged = torch.cat([best, scores], dim=1)
    order = merged.topk(min(top, merged.shape[1]), dim=1)
    return order.values, torch.cat([places, here], dim=1).gather(1, order.indices)


def _scores(
    readers: Tensor, memory: Memory, exclude: Ints | None
) -> Iterator[tuple[int, Tensor, Tensor]]:
    for start, rows, classes in RowsView(memory).chunks():
        scores = readers @ torch.from_numpy(rows.astype(np.float64)).T
        if exclude is not None:
            inside = np.flatnonzero((exclude >= start) & (exclude < start + len(rows)))
            scores[inside, exclude[inside] - start] = -torch.inf
        yield start, scores, torch.from_numpy(classes)
