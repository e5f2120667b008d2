"""Attention over every row: ``ŷ = Σ α_i y_i`` as the paper writes it."""

from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from erasable.fusion._base import Reduction, TopVotes
from erasable.fusion._dot_product import PLAIN, Attention, log_aggregate, log_class_sums
from erasable.fusion._scan import keep_top, no_votes, row_scores, top_votes
from erasable.memory import Readable
from erasable.typing import Ints


@final
class RowsReduction(Reduction):
    """Every live row votes; nothing is summarised."""

    name = "rows"
    vote_kind = "probability"

    def log_probabilities(
        self,
        queries: Tensor,
        memory: Readable,
        *,
        attention: Attention = PLAIN,
        exclude: Ints | None = None,
    ) -> Tensor:
        """Accumulate the softmax chunk by chunk, so memory use does not grow with the rows."""
        readers = attention.readers(queries)
        logs = readers.new_full((len(readers), len(memory.classes)), -torch.inf)
        for _, scores, classes in row_scores(readers, memory, exclude):
            logs = torch.logaddexp(logs, log_class_sums(scores, classes, logs.shape[1]))
        return logs - logs.logsumexp(dim=1, keepdim=True)

    def votes(
        self,
        queries: Tensor,
        memory: Readable,
        top: int,
        *,
        attention: Attention = PLAIN,
        exclude: Ints | None = None,
    ) -> TopVotes:
        """Return the rows with the largest attention weights."""
        top, readers = min(top, len(memory)), attention.readers(queries)
        best, places = no_votes(readers)
        total = readers.new_full((len(readers),), -torch.inf)
        for start, scores, _ in row_scores(readers, memory, exclude):
            total = torch.logaddexp(total, scores.logsumexp(dim=1))
            best, places = keep_top(best, places, scores, start, top)
        return probability_votes(best, places, total)

    def fuse(
        self,
        readers: Tensor,
        rows: Tensor,
        classes: Tensor,
        count: int,
        *,
        own: Tensor | None = None,
    ) -> Tensor:
        """Mask the own row: a query never attends to it (paper sec. 3, fusion)."""
        scores = readers @ rows.T
        if own is not None:
            is_own = own[:, None] == torch.arange(len(rows), device=own.device)
            scores = scores.masked_fill(is_own, -torch.inf)
        return log_aggregate(scores, classes, count)


def probability_votes(best: Tensor, places: Tensor, total: Tensor) -> TopVotes:
    """Turn the best scores (queries, top), given the log of all weights, into votes."""
    weights = (best - total[:, None]).exp()
    found = top_votes(best, places, weights, torch.ones_like(total))
    return replace(found, rest=found.rest.clip(min=0))
