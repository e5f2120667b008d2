"""Graph attention among rows of a class: the paper's GNN set encoder."""

from typing import final

import torch
from torch import Tensor, nn

from erasable.encoders._set_encoder import SetEncoder
from erasable.errors import ArgumentError

NEIGHBOURS = 16
HEADS = 4


@final
class GraphAttention(SetEncoder):
    """Each row attends to its nearest rows of the same class, and adds what it hears to itself.

    One layer of multi-head graph attention with scores ``aᵀ LeakyReLU(W_i z_i + W_j z_j)``. The
    output projection starts at zero, so an untrained encoder only normalises. A row depends on its
    own embedding and on those of its neighbours, on nothing else: forgetting a row changes exactly
    the rows that had it as a neighbour.

    Args:
        dim: Size of an embedding.
        heads: Attention heads; they share the embedding among them.
        neighbours: Largest number of rows that a row attends to.
    """

    name = "graph"

    def __init__(self, dim: int, *, heads: int = HEADS, neighbours: int = NEIGHBOURS) -> None:
        super().__init__()
        if dim % heads:
            raise ArgumentError(
                f"Expected an embedding whose size {heads} heads can share, but got {dim}."
            )
        self.heads, self.neighbours = heads, neighbours
        self.receive = nn.Linear(dim, dim, bias=False)
        self.send = nn.Linear(dim, dim, bias=False)
        self.score = nn.Parameter(torch.randn(heads, dim // heads) * (dim // heads) ** -0.5)
        self.output = nn.Linear(dim, dim, bias=False)
        nn.init.zeros_(self.output.weight)

    def forward(self, features: Tensor, classes: Tensor) -> Tensor:
        """Encode rows (rows, dim) that are each other's neighbours."""
        graph = class_graph(features, classes, self.neighbours)
        # index_select, not indexing: its gradient is summed in the same order on any thread count.
        chosen = features.index_select(0, graph.clamp(min=0).flatten())
        return self.attend(features, chosen.reshape(*graph.shape, features.shape[1]), graph >= 0)

    def attend(self, rows: Tensor, neighbours: Tensor, is_there: Tensor) -> Tensor:
        """Encode rows (rows, dim), given their neighbours.

        Args:
            rows: Embeddings.
            neighbours: Embeddings of their neighbours, (rows, k, dim).
            is_there: Which of these count, (rows, k).
        """
        shape = (*neighbours.shape[:2], *self.score.shape)
        sent = self.send(neighbours).reshape(shape)  # (rows, k, heads, dim / heads)
        received = self.receive(rows).reshape(len(rows), 1, *self.score.shape)
        scores = (nn.functional.leaky_relu(sent + received, 0.2) * self.score).sum(-1)
        scores = scores.masked_fill(~is_there[:, :, None], -torch.inf)
        peak = scores.amax(1, keepdim=True).detach() if scores.shape[1] else scores
        weights = (scores - torch.where(peak.isfinite(), peak, 0.0)).exp()
        total = weights.sum(1, keepdim=True)
        weights = weights / torch.where(total > 0, total, 1.0)  # a lonely row hears nothing
        heard = (weights[..., None] * sent).sum(1).flatten(1)
        return nn.functional.layer_norm(rows + self.output(heard), rows.shape[1:])


def class_graph(features: Tensor, classes: Tensor, k: int) -> Tensor:
    """Return each row's nearest other rows of its class, nearest first, (rows, ≤ k); −1: none."""
    squares = torch.cdist(features.detach(), features.detach())
    is_other_class = classes[:, None] != classes[None, :]
    squares = squares.masked_fill(is_other_class, torch.inf)
    squares.fill_diagonal_(torch.inf)
    best = squares.topk(min(k, len(features)), dim=1, largest=False)
    return best.indices.masked_fill(best.values == torch.inf, -1)
