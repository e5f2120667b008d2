"""Where an encoder's first weights come from: drawn, or taken over from elsewhere."""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
from torch import nn

from erasable.encoders import Encoder, ModuleEncoder, build_encoder
from erasable.errors import ArgumentError, StateError, StoreError
from erasable.files import open_regular
from erasable.models._base import NetworkClassifier
from erasable.models._inputs import as_labels
from erasable.models._provenance import UNKNOWN, Provenance, provenance_of
from erasable.typing import Label
from erasable.weights import load_weights, weights_of


@dataclass(frozen=True)
class Start:
    """An encoder to train or freeze.

    Attributes:
        encoder: The encoder, free to be changed.
        provenance: What its weights have seen.
        source: The classifier it was taken from, if it was.
    """

    encoder: Encoder
    provenance: Provenance
    source: NetworkClassifier | None = None

    def accuracy(self, X: Any, labels: list[Label], contents: list[bytes]) -> float | None:
        """Return the share of rows that the source itself predicts correctly, if it can.

        A source with a memory predicts each row without that row's own vote.
        """
        if self.source is None or not self.source.can_answer:
            return None
        predicted = self.source._predict_others(X, contents)
        pairs = zip(as_labels(predicted), labels, strict=True)
        return float(np.mean([(type(a), a) == (type(b), b) for a, b in pairs]))


def resolve_init(model: NetworkClassifier, init: Any, seed: int) -> Start:
    """Return the encoder that a model starts from.

    With ``encoder="auto"`` the encoder of ``init`` itself is used, as a copy; with any other
    encoder, one is built and takes over the weights, which must fit.
    """
    if init is None:
        return Start(*model._build_encoder(seed))
    if isinstance(init, (str, Path)) and str(init):
        path = Path(init)
        if path.is_dir():
            from erasable.models._loading import load

            return _from_classifier(model, load(path), seed)
        return _from_file(model, path, seed)
    if isinstance(init, NetworkClassifier):
        return _from_classifier(model, init, seed)
    if isinstance(init, nn.Module):
        return Start(*_taken_over(model, init, seed))
    raise ArgumentError(
        "Expected init to be a fitted classifier, a module, the directory of a saved model or a "
        f".safetensors file, but got {type(init).__name__}."
    )


def _from_classifier(model: NetworkClassifier, source: NetworkClassifier, seed: int) -> Start:
    source._require_fitted()
    if source.input_shape_ != model.input_shape_:
        raise ArgumentError(
            f"Expected inputs like those init was fitted on, {source.input_shape_}, but got "
            f"{model.input_shape_}."
        )
    encoder, provenance = _taken_over(model, source.network_.encoder, seed)
    return Start(encoder, provenance, source)


def _taken_over(
    model: NetworkClassifier, network: nn.Module, seed: int
) -> tuple[Encoder, Provenance]:
    provenance = provenance_of(network)
    if model.encoder == "auto":
        return build_encoder(copy.deepcopy(network), model.input_shape_), provenance
    encoder, built = model._build_encoder(seed, is_blank=True)
    load_weights(_inner(encoder), weights_of(_inner(network)))
    return encoder, provenance.joined(built)  # a module of the user's may hide what it learnt


def _from_file(model: NetworkClassifier, path: Path, seed: int) -> Start:
    encoder, _ = model._build_encoder(seed, is_blank=True)
    try:
        open_regular(path).close()
        tensors = safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, MemoryError) as error:
        raise StoreError(
            f"Expected the directory of a saved model or a .safetensors file, but {path}: {error}."
        ) from error
    try:
        load_weights(_inner(encoder), tensors)
    except ArgumentError as error:
        raise StateError(
            f"Expected weights in {path} that fit the encoder, but: {error}"
        ) from error
    return Start(encoder, UNKNOWN)


def _inner(network: nn.Module) -> nn.Module:
    """Return the user's own module, without the wrapper that makes an encoder of it."""
    return network.module if isinstance(network, ModuleEncoder) else network
