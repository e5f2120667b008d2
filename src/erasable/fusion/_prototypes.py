"""One average row per class: the paper's SPM-C."""

from typing import final

import numpy as np
import torch
from torch import Tensor

from erasable.fusion._base import Reduction, TopVotes
from erasable.fusion._dot_product import PLAIN, Attention
from erasable.fusion._rows import keep_top
from erasable.memory import Memory, PrototypesView, RowsView
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
        memory: Memory,
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
        self, queries: Tensor, memory: Memory, top: int, *, attention: Attention = PLAIN
    ) -> TopVotes:
        """Return the rows with the largest terms in their own class's logit."""
        top, readers = min(top, len(memory)), attention.readers(queries)
        counts = torch.from_numpy(PrototypesView(memory).counts)
        best = readers.new_full((len(readers), 0), -torch.inf)
        places = torch.zeros(len(readers), 0, dtype=torch.long)
        total = readers.new_zeros(len(readers))
        for start, rows, classes in RowsView(memory).chunks():
            terms = readers @ torch.from_numpy(rows.astype(np.float64)).T / counts[classes]
            total += terms.sum(dim=1)
            here = torch.arange(start, start + len(rows)).expand(len(readers), -1)
            best, places = keep_top(best, places, terms, here, top)
        return TopVotes(places.numpy(), best.numpy(), (total - best.sum(dim=1)).numpy())

    def in_batch(self, readers: Tensor, embeddings: Tensor, classes: Tensor, count: int) -> Tensor:
        """Take each query's own row out of its class's mean: (Σ − s_z) / (n_c − 1)."""
        sums = embeddings.new_zeros(count, embeddings.shape[1]).index_add(0, classes, embeddings)
        is_own = torch.nn.functional.one_hot(classes, count).to(readers.dtype)
        own = (readers * embeddings).sum(dim=1, keepdim=True)
        left = is_own.sum(dim=0) - is_own
        logits = (readers @ sums.T - is_own * own) / left.clamp(min=1)
        return logits.masked_fill(left == 0, -torch.inf).log_softmax(dim=1)
