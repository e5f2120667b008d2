"""Dot-product fusion: how much each row's vote weighs, and what the votes add up to."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from erasable.errors import ArgumentError, listing
from erasable.memory import plain


def scale_factor(scale: str | float, dim: int) -> float:
    """Return the factor on attention scores: ``"sqrt"`` is 1/√dim, ``"none"`` is 1, or a number.

    The paper writes no factor. Embeddings here are layer-normalised, so their dot products grow
    like dim; 1/√dim keeps the first softmax soft enough to learn from, and is the default.
    """
    if scale == "sqrt":
        return 1 / math.sqrt(dim)
    if scale == "none":
        return 1.0
    scale = plain(scale)
    is_number = isinstance(scale, (int, float)) and not isinstance(scale, bool)
    if is_number and 0 < float(scale) < math.inf:
        return float(scale)
    raise ArgumentError(f"Expected scale 'sqrt', 'none' or a positive number, but got {scale!r}.")


@dataclass(frozen=True)
class Attention:
    """How queries score rows: ``(W_q z)ᵀ (W_k s)``, or plain similarity ``zᵀ s``, times a factor.

    The score is linear in either side, so whichever is fewer is projected and the other is read as
    it lies: no projected copy of a row exists that could go stale.

    Attributes:
        factor: Factor on the scores.
        temperature: What scores are divided by besides: larger is softer.
        W_q: Projection of queries, (dim, dim); with ``W_k`` None for plain similarity.
        W_k: Projection of rows, (dim, dim).
    """

    factor: float = 1.0
    temperature: float = 1.0
    W_q: Tensor | None = None
    W_k: Tensor | None = None

    def readers(self, queries: Tensor) -> Tensor:
        """Return each query's reader (queries, dim): its dot product with a row is the score."""
        return _project(queries, self.W_q, self.W_k) * (self.factor / self.temperature)

    def scores(self, queries: Tensor, rows: Tensor) -> Tensor:
        """Return the score of each query (queries, dim) against each row (rows, dim)."""
        if len(queries) <= len(rows):
            return self.readers(queries) @ rows.T
        pulled = _project(rows, self.W_k, self.W_q) * (self.factor / self.temperature)
        return queries @ pulled.T

    def evaluation(self) -> "Attention":
        """Return the same scores for evaluation: float64, on the CPU, without gradients."""
        if self.W_q is None or self.W_k is None:
            return self
        W_q, W_k = (W.detach().cpu().double() for W in (self.W_q, self.W_k))
        return replace(self, W_q=W_q, W_k=W_k)


ATTENTIONS = ("learnt", "similarity")

PLAIN = Attention()
"""Plain dot products."""


def _project(vectors: Tensor, first: Tensor | None, second: Tensor | None) -> Tensor:
    if first is None or second is None:
        return vectors
    return vectors @ first.to(vectors.dtype).T @ second.to(vectors.dtype)


class DotProductFusion(nn.Module):
    """Scores ``(W_q z)ᵀ (W_k s)`` of a query z against rows s (paper sec. 4.1).

    ``W_q`` and ``W_k`` start as the identity, so an untrained fusion is plain similarity, times the
    factor. Without a factor, as in the paper, they start as 1/dim^¼ of it and learn as much more
    slowly: that is the training with the factor 1/√dim, written otherwise. With the identity the
    first scores grow like dim, and the first steps throw the weights to where no gradient is left.

    Args:
        dim: Size of an embedding.
        scale: Factor on the scores, see `scale_factor`.

    Attributes:
        rate: Factor on the learning rate of ``W_q`` and ``W_k``.
    """

    def __init__(self, dim: int, *, scale: str | float = "sqrt") -> None:
        super().__init__()
        self.factor = scale_factor(scale, dim)
        first = dim**-0.25 if scale == "none" else 1.0
        self.rate = first**2
        self.W_q = nn.Parameter(first * torch.eye(dim))
        self.W_k = nn.Parameter(first * torch.eye(dim))

    def attention(self, kind: str = "learnt", *, temperature: float = 1.0) -> Attention:
        """Return the scores, with gradients to the weights.

        Args:
            kind: ``learnt``: by ``W_q`` and ``W_k``; ``similarity``: plain dot products.
            temperature: What scores are divided by.
        """
        if kind not in ATTENTIONS:
            raise ArgumentError(f"Expected attention {listing(ATTENTIONS)}, but got {kind!r}.")
        temperature = plain(temperature)
        is_number = isinstance(temperature, (int, float)) and not isinstance(temperature, bool)
        if not is_number or not 0 < temperature < math.inf:
            raise ArgumentError(f"Expected a positive temperature, but got {temperature!r}.")
        if kind == "similarity":
            return Attention(self.factor, temperature)
        return Attention(self.factor, temperature, self.W_q, self.W_k)

    def forward(self, queries: Tensor) -> Tensor:
        """Return each query's reader (queries, dim): its dot product with a row is the score."""
        return self.attention().readers(queries)

    def extra_repr(self) -> str:
        """Name what the weights do not show."""
        return f"dim={len(self.W_q)}, factor={self.factor!r}"


def vote_weights(scores: Tensor) -> Tensor:
    """Turn scores (queries, rows) into vote weights that sum to one per query.

    A row with score −inf has weight exactly zero.
    """
    return scores.softmax(dim=1)


def aggregate(weights: Tensor, classes: Tensor, count: int) -> Tensor:
    """Add up vote weights (queries, rows) per class: ``Σ α_i y_i``, (queries, count).

    Args:
        weights: Vote weights.
        classes: Class index per row, (rows,), or per query and row, (queries, rows).
        count: Number of classes.
    """
    total = weights.new_zeros(len(weights), count)
    if classes.ndim == 2:
        return total.scatter_add(1, classes, weights)
    return total.index_add(1, classes, weights)


def log_aggregate(scores: Tensor, classes: Tensor, count: int) -> Tensor:
    """Return ``log aggregate(vote_weights(scores), …)`` without leaving the log domain.

    Classes whose rows all have score −inf get −inf, without a NaN in the gradient.
    """
    logs = log_class_sums(scores, classes, count)
    return logs - logs.logsumexp(dim=1, keepdim=True)


def log_class_sums(scores: Tensor, classes: Tensor, count: int) -> Tensor:
    """Return ``log Σ_{i in c} exp score_i`` per query and class c, (queries, count).

    Each class has its own shift, so no class underflows beside another one.
    """
    index = classes.expand_as(scores)
    lowest = scores.new_full((len(scores), count), -torch.inf)
    peak = lowest.scatter_reduce(1, index, scores.detach(), "amax")
    shift = torch.where(peak.isfinite(), peak, 0.0)
    shifted = (scores - shift.gather(1, index)).exp()
    sums = aggregate(shifted, classes, count)
    is_live = sums != 0  # a NaN is no missing class: it must reach the loss
    logs = torch.where(is_live, sums, 1.0).log() + shift
    return logs.masked_fill(~is_live, -torch.inf)
