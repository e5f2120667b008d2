"""One average row per class: the paper's SPM-C."""

from typing import final

import numpy as np
import torch
from torch import Tensor

from erasable.fusion._base import Reduction, TopVotes
from erasable.fusion._dot_product import PLAIN, Attention
from erasable.fusion._scan import keep_top, no_votes, row_scores, top_votes
from erasable.memory import PrototypesView, Readable
from erasable.typing import Ints


@final
class PrototypesReduction(Reduction):
    """Attention over class means; each row acts through the mean of its class.

    The score is linear in the row, so the logit of class c is ``Σ_{i in c} reader·s_i / n_c``, and
    a row's vote is its term of that sum. It may be negative.
    """

    name = "prototypes"
    vote_kind = "logit"

    def log_probabilities(
        self,
        queries: Tensor,
        memory: Readable,
        *,
        attention: Attention = PLAIN,
        exclude: Ints | None = None,
    ) -> Tensor:
        """Compare with each class's mean; an excluded row leaves its mean in closed form."""
        view = PrototypesView(memory)
        logits = attention.scores(queries, torch.from_numpy(view.means))
        if exclude is not None:
            named = np.flatnonzero(exclude >= 0)
            classes, means, left = view.without(exclude[named])
            own = (attention.readers(queries[named]) * torch.from_numpy(means)).sum(dim=1)
            logits[named, classes] = own.masked_fill(torch.from_numpy(left == 0), -torch.inf)
        return logits.log_softmax(dim=1)

    def votes(
        self,
        queries: Tensor,
        memory: Readable,
        top: int,
        *,
        attention: Attention = PLAIN,
        exclude: Ints | None = None,
    ) -> TopVotes:
        """Return the rows with the largest terms in their own class's logit."""
        return linear_votes(attention.readers(queries), memory, top, exclude)

    def fuse(
        self,
        readers: Tensor,
        rows: Tensor,
        classes: Tensor,
        count: int,
        *,
        own: Tensor | None = None,
    ) -> Tensor:
        """Take each query's own row out of its class's mean: (Σ − s_z) / (n_c − 1)."""
        sums = rows.new_zeros(count, rows.shape[1]).index_add(0, classes, rows)
        left = torch.bincount(classes, minlength=count).to(readers.dtype).expand(len(readers), -1)
        logits = readers @ sums.T
        if own is not None:
            is_own = torch.nn.functional.one_hot(classes[own], count).to(readers.dtype)
            left = left - is_own
            logits = logits - is_own * (readers * rows[own]).sum(dim=1, keepdim=True)
        logits = logits / left.clamp(min=1)
        return logits.masked_fill(left == 0, -torch.inf).log_softmax(dim=1)


def linear_votes(
    readers: Tensor, memory: Readable, top: int, exclude: Ints | None = None
) -> TopVotes:
    """Return the rows with the largest ``reader·s_i / n_c``; an excluded row also leaves n_c.

    Args:
        readers: Readers of the queries, (queries, dim).
        memory: The memory to read.
        top: Rows per query.
        exclude: Per query the position of one row to leave out, or −1, (queries,).
    """
    top = min(top, len(memory))
    counts = torch.from_numpy(PrototypesView(memory).counts).expand(len(readers), -1)
    if exclude is not None:
        named = np.flatnonzero(exclude >= 0)
        own, _, _ = PrototypesView(memory).without(exclude[named])
        counts = counts.index_put(
            (torch.from_numpy(named), torch.from_numpy(own)),
            torch.tensor(-1),
            accumulate=True,
        )
    best, places = no_votes(readers)
    total = readers.new_zeros(len(readers))
    for start, scores, classes in row_scores(readers, memory, exclude):
        terms = scores / counts[:, classes].clamp(min=1)
        total += terms.masked_fill(terms == -torch.inf, 0.0).sum(dim=1)
        best, places = keep_top(best, places, terms, start, top)
    return top_votes(best, places, best, total)
