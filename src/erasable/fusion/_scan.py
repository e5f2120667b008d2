"""Going through every row in chunks, keeping the best."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from erasable.fusion._base import TopVotes
from erasable.memory import Readable, RowsView
from erasable.typing import Ints


def row_scores(
    readers: Tensor, memory: Readable, exclude: Ints | None
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield (first position, scores (queries, rows), class of each row (rows,)) per chunk.

    The score of an excluded row is −inf.
    """
    for start, rows, classes in RowsView(memory).chunks():
        scores = readers @ torch.from_numpy(rows.astype(np.float64)).T
        if exclude is not None:
            inside = np.flatnonzero((exclude >= start) & (exclude < start + len(rows)))
            scores[inside, exclude[inside] - start] = -torch.inf
        yield start, scores, torch.from_numpy(classes)


def no_votes(readers: Tensor) -> tuple[Tensor, Tensor]:
    """Return no best scores and no places yet, (queries, 0) each."""
    best = readers.new_full((len(readers), 0), -torch.inf)
    return best, torch.zeros(len(readers), 0, dtype=torch.long)


def keep_top(
    best: Tensor, places: Tensor, scores: Tensor, start: int, top: int
) -> tuple[Tensor, Tensor]:
    """Merge the best scores so far with those of a chunk of rows, (queries, ≤ top) each."""
    here = torch.arange(start, start + scores.shape[1]).expand(len(scores), -1)
    merged = torch.cat([best, scores], dim=1)
    order = merged.topk(min(top, merged.shape[1]), dim=1)
    return order.values, torch.cat([places, here], dim=1).gather(1, order.indices)


def top_votes(best: Tensor, places: Tensor, weights: Tensor, total: Tensor) -> TopVotes:
    """Put votes together; an excluded row, of score −inf, has none.

    Args:
        best: Best scores, descending, (queries, top).
        places: Positions of their rows, (queries, top).
        weights: Their votes, (queries, top).
        total: The sum of all votes, (queries,).
    """
    is_gone = best == -torch.inf
    weights = weights.masked_fill(is_gone, 0.0)
    rest = total - weights.sum(dim=1)
    return TopVotes(places.masked_fill(is_gone, -1).numpy(), weights.numpy(), rest.numpy())
