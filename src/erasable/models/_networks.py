"""Encoder, normalisation and head put together, and run in eval mode."""

import copy
import itertools
from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor, nn

from erasable.encoders import Encoder, SetEncoder
from erasable.errors import ArgumentError
from erasable.fusion import RowSet, VoteFusion, full, in_full_precision
from erasable.models._semi_parametric import Layer, SemiParametric
from erasable.training import Inputs


class EmbeddingNorm(nn.Module):
    """Layer normalisation without weights: every embedding has mean square one.

    Rows are normalised before they are stored, so class means stay linear in the rows, and the
    values fit the memory's grid whatever the encoder.
    """

    def forward(self, embeddings: Tensor) -> Tensor:
        """Normalise embeddings (n, dim)."""
        with in_full_precision(embeddings):
            return nn.functional.layer_norm(full(embeddings), embeddings.shape[1:])


def embedding_norm(normalize: str, encoder: Encoder) -> nn.Module:
    """Return the normalisation: ``layer``, ``none``, or ``auto``.

    ``auto`` leaves ``identity`` and ``random_features`` as they are: their scale carries meaning.
    """
    if normalize not in ("auto", "layer", "none"):
        raise ArgumentError(f"Expected normalize 'auto', 'layer' or 'none', but got {normalize!r}.")
    is_plain = encoder.name in ("identity", "random_features") and normalize == "auto"
    return nn.Identity() if is_plain or normalize == "none" else EmbeddingNorm()


@final
class SPMNetwork(nn.Module):
    """The weights of a semi-parametric classifier: two or three layers of `SemiParametric`.

    The first encodes queries and rows alike, the last lets rows vote; a set encoder in between
    mixes the rows.

    Args:
        encoder: From inputs to embeddings.
        norm: Normalisation of embeddings.
        vote: The last layer's fusion; None if rows only vote by how near they are.
        set_encoder: A relational encoder of the rows.
    """

    def __init__(
        self,
        encoder: Encoder,
        norm: nn.Module,
        vote: VoteFusion | None = None,
        *,
        set_encoder: SetEncoder | None = None,
    ) -> None:
        super().__init__()
        # Registered by what they are, so that saved weights do not depend on how layers are put
        # together; the recursion reads the same modules.
        self.encoder = encoder
        self.norm = norm
        self.set_encoder = set_encoder
        self.fusion = None if vote is None else vote.scores
        embedder = nn.Sequential(encoder, norm)
        layers = [Layer(embedder)]
        if set_encoder is not None:
            layers.append(Layer(h=set_encoder))
        if vote is not None:
            layers.append(Layer(g=vote, h=None))
        self._unregistered = (SemiParametric(layers), embedder)

    @property
    def recursion(self) -> SemiParametric:
        """The layers."""
        return self._unregistered[0]

    @property
    def embedder(self) -> nn.Sequential:
        """The map from inputs to normalised embeddings."""
        return self._unregistered[1]

    def extra_repr(self) -> str:
        """Name how rows vote, which the modules do not show."""
        vote = self.recursion.layers[-1].g
        return vote.extra_repr() if isinstance(vote, VoteFusion) else ""

    def forward(
        self, inputs: Tensor, classes: Tensor, count: int, support: Tensor | None = None
    ) -> Tensor:
        """Return log class probabilities of queries, (n, count).

        Args:
            inputs: Inputs of the queries, (n, …).
            classes: Class index per row, each below ``count``, (rows,).
            count: Number of classes.
            support: Inputs of the rows, (rows, …). If not given, the batch is its own memory, and
                every query reads it without its own row.
        """
        own = torch.arange(len(inputs), device=inputs.device) if support is None else None
        rows = RowSet(inputs if support is None else support, classes, count)
        logs: Tensor = self.recursion(inputs, rows, own)
        return logs


@final
class ParametricNetwork(nn.Module):
    """The same encoder with an ordinary linear head."""

    def __init__(self, encoder: Encoder, norm: nn.Module, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.norm = norm
        self.head = nn.Linear(encoder.dim, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits of inputs, (n, classes)."""
        embeddings = self.norm(self.encoder(inputs))
        with in_full_precision(embeddings):
            logits: Tensor = self.head(full(embeddings))
        return logits


def evaluate(
    network: nn.Module, inputs: Tensor | Inputs, *, is_precise: bool, batch_size: int = 256
) -> Iterator[Tensor]:
    """Yield a network's output per batch of inputs (n, …), in eval mode, without gradients.

    Args:
        network: The network; left in eval mode.
        inputs: Inputs on the CPU.
        is_precise: Compute in float64 on the CPU, with a temporary copy of the weights.
        batch_size: Inputs at a time.
    """
    if any(module.training for module in network.modules()):
        network.eval()
    if is_precise:
        network = _in_double(network)
    tensors = itertools.chain(network.parameters(), network.buffers())
    device = next((tensor.device for tensor in tensors), torch.device("cpu"))
    for start in range(0, len(inputs), batch_size):
        batch = inputs[start : start + batch_size]
        if batch.ndim == 4:
            batch = batch.contiguous(memory_format=torch.channels_last)
        with torch.no_grad():  # not around the yield: it would reach into the caller's code
            output = network((batch.double() if is_precise else batch.float()).to(device)).cpu()
        yield output


def _in_double(network: nn.Module) -> nn.Module:
    """Return a network of its own with the same weights in float64, on the CPU.

    Nothing is put into the network for a while, where another thread would find it.
    """
    twin = copy.copy(network)
    for kind in ("_parameters", "_buffers"):
        tensors: dict[str, Tensor | None] = getattr(network, kind)
        twin.__dict__[kind] = {name: _doubled(tensor) for name, tensor in tensors.items()}
    children = network._modules.items()
    twin.__dict__["_modules"] = {n: None if m is None else _in_double(m) for n, m in children}
    return twin


def _doubled(tensor: Tensor | None) -> Tensor | None:
    if tensor is None:
        return None
    moved = tensor.detach().cpu()
    return moved.double() if moved.is_floating_point() else moved
