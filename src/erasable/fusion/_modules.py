"""Fusion modules g of the recursion: from a query and a set of rows to one vector."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor, nn

from erasable.fusion._base import Reduction
from erasable.fusion._dot_product import DotProductFusion, vote_weights


@dataclass(frozen=True)
class RowSet:
    """Rows on their way through the set branch.

    Attributes:
        features: One entry per row, (rows, …).
        classes: Class index per row, each below ``count``, (rows,).
        count: Number of classes.
    """

    features: Tensor
    classes: Tensor
    count: int

    def encoded(self, features: Tensor) -> "RowSet":
        """Return the same rows with new features, in the same order."""
        return replace(self, features=features)


class Fusion(nn.Module, ABC):
    """``g(z, S)``: mix queries with a set of rows, whatever the order of the rows."""

    @abstractmethod
    def forward(self, queries: Tensor, rows: RowSet, own: Tensor | None = None) -> Tensor:
        """Return one vector per query.

        Args:
            queries: Features of the queries, (queries, dim).
            rows: The set.
            own: Per query the place of its own row, which is left out, (queries,); None if no query
                is among the rows.
        """


@final
class FeatureFusion(Fusion):
    """The paper's general fusion: ``g(z, S) = Σ_{s ≠ s_z} α(z, s) s``, a mixture of features.

    Args:
        dim: Size of the features.
        scale: Factor on the scores, see `scale_factor`.
    """

    def __init__(self, dim: int, *, scale: str | float = "sqrt") -> None:
        super().__init__()
        self.scores = DotProductFusion(dim, scale=scale)

    def forward(self, queries: Tensor, rows: RowSet, own: Tensor | None = None) -> Tensor:
        """Return the mixture of rows that each query attends to, (queries, dim)."""
        scores = self.scores(queries) @ rows.features.T
        if own is not None:
            is_own = own[:, None] == torch.arange(len(rows.features), device=own.device)
            scores = scores.masked_fill(is_own, -torch.inf)
        return vote_weights(scores) @ rows.features


@final
class VoteFusion(Fusion):
    """The classifier's fusion: ``Σ_{i ≠ z} α_i y_i`` over labels, as log-probabilities.

    Args:
        scores: How queries score rows.
        reduction: How the rows are read.
        attention: ``learnt`` or ``similarity``.
        temperature: What scores are divided by.
    """

    def __init__(
        self,
        scores: DotProductFusion,
        reduction: Reduction,
        *,
        attention: str = "learnt",
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        self.scores = scores
        self.reduction = reduction
        self.kind = attention
        self.temperature = temperature
        scores.attention(attention, temperature=temperature)  # to refuse what is wrong now

    def forward(self, queries: Tensor, rows: RowSet, own: Tensor | None = None) -> Tensor:
        """Return log class probabilities, (queries, count)."""
        attention = self.scores.attention(self.kind, temperature=self.temperature)
        readers = attention.readers(queries)
        return self.reduction.fuse(readers, rows.features, rows.classes, rows.count, own=own)

    def extra_repr(self) -> str:
        """Name what the weights do not show."""
        return f"{self.reduction.name}, {self.kind}, temperature={self.temperature!r}"
