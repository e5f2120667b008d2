"""Class means compared in the metric of the rows themselves."""

from typing import final

import numpy as np
import torch
from torch import Tensor

from erasable.fusion._base import Reduction, TopVotes
from erasable.fusion._dot_product import PLAIN, Attention
from erasable.fusion._prototypes import PrototypesReduction, linear_votes
from erasable.memory import GaussianView, Readable
from erasable.typing import Float64s, Ints


@final
class GaussianReduction(Reduction):
    """Linear discriminants ``(zᵀAμ_c − ½ μ_cᵀAμ_c) / temperature``, A from the live rows.

    Prototypes whose metric is not learnt but read from the memory, so it is forgotten with the
    rows; ``W_q`` and ``W_k`` are not used. In training it is read as ``prototypes``. Votes are the
    terms of the linear part.
    """

    name = "gaussian"
    vote_kind = "logit"

    def log_probabilities(
        self,
        queries: Tensor,
        memory: Readable,
        *,
        attention: Attention = PLAIN,
        exclude: Ints | None = None,
    ) -> Tensor:
        """Return the softmax of the discriminants; an excluded row leaves means and covariance."""
        view, wanted = GaussianView(memory), queries.numpy()
        logits = view.logits(wanted)
        if exclude is not None:
            named = np.flatnonzero(exclude >= 0)
            logits[named] = view.logits_without(wanted[named], exclude[named])
        return torch.from_numpy(logits / attention.temperature).log_softmax(dim=1)

    def votes(
        self,
        queries: Tensor,
        memory: Readable,
        top: int,
        *,
        attention: Attention = PLAIN,
        exclude: Ints | None = None,
    ) -> TopVotes:
        """Return the rows with the largest terms in the linear part of their class's logit."""
        view, wanted = GaussianView(memory), queries.numpy()
        readers: Float64s = view.readers(wanted).copy()
        if exclude is not None:
            named = np.flatnonzero(exclude >= 0)
            readers[named] = view.readers_without(wanted[named], exclude[named])
        scaled = torch.from_numpy(readers / attention.temperature)
        return linear_votes(scaled, memory, top, exclude)

    def fuse(
        self,
        readers: Tensor,
        rows: Tensor,
        classes: Tensor,
        count: int,
        *,
        own: Tensor | None = None,
    ) -> Tensor:
        """Read rows as prototypes: a batch is too few rows for a covariance."""
        return PrototypesReduction().fuse(readers, rows, classes, count, own=own)
