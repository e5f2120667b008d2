"""The paper's general model: an input branch that reads a set branch, layer by layer."""

from collections.abc import Sequence
from typing import Literal, final

from torch import Tensor, nn

from erasable.encoders import SetEncoder
from erasable.errors import ArgumentError
from erasable.fusion import Fusion, RowSet, full, in_full_precision


@final
class Layer(nn.Module):
    """One step of both branches: ``z ← f(g(z, S))`` and ``S ← h(S)`` (paper sec. 3).

    Args:
        f: Map of the query's features; None for the identity.
        g: How the query reads the rows; None to not read them.
        h: Map of the rows' features, each by itself, or a `SetEncoder` that mixes them. ``"f"``:
            the same map, with the same weights, as the input branch. None for the identity.
    """

    def __init__(
        self,
        f: nn.Module | None = None,
        *,
        g: Fusion | None = None,
        h: nn.Module | Literal["f"] | None = "f",
    ) -> None:
        super().__init__()
        if isinstance(h, str) and h != "f":
            raise ArgumentError(f"Expected h to be a module, 'f' or None, but got {h!r}.")
        self.f = f
        self.g = g
        self.h = None if isinstance(h, str) else h
        self.is_shared = isinstance(h, str)

    def forward(
        self, queries: Tensor, rows: RowSet, own: Tensor | None = None
    ) -> tuple[Tensor, RowSet]:
        """Return the features of the queries, and the rows, after this layer."""
        fused = queries if self.g is None else self._fuse(self.g, queries, rows, own)
        mapped = fused if self.f is None else self.f(fused)
        if self.is_shared and fused is rows.features:
            return mapped, rows.encoded(mapped)  # the batch is its own memory: encoded once
        return mapped, rows.encoded(self.encode(rows))

    @staticmethod
    def _fuse(g: Fusion, queries: Tensor, rows: RowSet, own: Tensor | None) -> Tensor:
        with in_full_precision(queries):
            fused: Tensor = g(full(queries), rows.encoded(full(rows.features)), own)
        return fused

    def encode(self, rows: RowSet) -> Tensor:
        """Return the features of the rows after this layer."""
        h = self.f if self.is_shared else self.h
        if h is None:
            return rows.features
        if isinstance(h, SetEncoder):
            with in_full_precision(rows.features):
                encoded: Tensor = h(full(rows.features), rows.classes)
        else:
            encoded = h(rows.features)
        return encoded


@final
class SemiParametric(nn.Module):
    """A deep semi-parametric model: parameters, and a set it reads at prediction time.

    ``z⁰ = x``, ``S⁰ = T``; then for each layer ``z ← f(g(z, S))`` and ``S ← h(S)``.

    Args:
        layers: The layers, first to last.

    Examples:
        >>> import torch
        >>> from erasable.fusion import FeatureFusion
        >>> mix = Layer(torch.nn.Linear(3, 2), g=FeatureFusion(3), h=None)
        >>> model = SemiParametric([Layer(torch.nn.Linear(4, 3)), mix])
        >>> rows = RowSet(torch.rand(5, 4), torch.tensor([0, 0, 1, 1, 1]), 2)
        >>> model(torch.rand(2, 4), rows).shape
        torch.Size([2, 2])
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        super().__init__()
        if not layers:
            raise ArgumentError("Expected at least one layer, but got none.")
        self.layers = nn.ModuleList(layers)

    def forward(self, queries: Tensor, rows: RowSet, own: Tensor | None = None) -> Tensor:
        """Return the queries' output.

        Args:
            queries: Inputs, (queries, …).
            rows: The set. If its features *are* the tensor ``queries``, shared maps run once.
            own: Per query the place of its own row, which no layer lets it read, (queries,); None
                if no query is among the rows.
        """
        for layer in self.layers:
            queries, rows = layer(queries, rows, own)
        return queries
