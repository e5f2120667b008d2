"""A trained torch classifier becomes one that forgets, without training."""

import copy
from typing import Any

from torch import nn

from erasable.encoders import Preprocess, build_preprocessing, cut
from erasable.errors import ArgumentError
from erasable.models._parametric import ParametricClassifier
from erasable.models._provenance import attach, provenance_of
from erasable.models._spm import SPMClassifier


def convert(
    model: nn.Module | ParametricClassifier,
    layer: str | None = None,
    *,
    reduction: str = "gaussian",
    preprocess: Preprocess | None = None,
    **parameters: Any,
) -> SPMClassifier:
    """Turn a trained classifier into one that forgets; no weight is trained.

    The network up to ``layer`` becomes the encoder and its head is thrown away: rows that you
    `remember` take its place. The weights keep what they learnt, so rows that were among their
    training data are forgotten at level ``memory``; for weights from public data say so with
    `declare` first, and forgetting is ``exact``.

    Args:
        model: A trained torch network, or a fitted `ParametricClassifier`. It is copied.
        layer: Name of the last submodule to keep, as in ``model.named_modules()``: the one before
            the head. Not needed for a `ParametricClassifier`.
        reduction: How the memory is read; ``gaussian`` comes closest to a trained head.
        preprocess: What the network was trained to get: ``{"mean": […], "std": […], "size": 224}``,
            applied to numbers from 0 to 1 (bytes become such), or the import path of a function,
            ``"package.module:function"``, from a tensor (n, …) to one. Without it, bytes are only
            divided by 255, which costs a network that was trained on standardised images accuracy.
        **parameters: Further parameters of `SPMClassifier`. Embeddings are normalised unless
            ``normalize="none"``: the other reductions compare by dot products, where long rows
            would drown the others.

    Returns:
        A classifier with an empty memory: call ``remember(X, y)`` with the rows it may use.
    """
    if isinstance(model, ParametricClassifier):
        if layer is not None:
            raise ArgumentError("Expected no layer with a ParametricClassifier: its head goes.")
        if preprocess is not None:
            raise ArgumentError(
                "Expected no preprocess with a ParametricClassifier: it was trained on inputs as "
                "they come."
            )
        encoder: nn.Module = copy.deepcopy(model.encoder_)
        encoder.input_kind = model.input_kind_  # type: ignore[assignment]  # no part of the network
        parameters.setdefault("normalize", model.normalize)
    elif isinstance(model, nn.Module) and layer is not None:
        encoder = cut(model, layer)
        attach(encoder, provenance_of(model))
    else:
        raise ArgumentError(
            "Expected a torch module and the name of its last layer to keep, or a fitted "
            f"ParametricClassifier, but got {type(model).__name__} and layer={layer!r}."
        )
    if preprocess is not None:
        options = build_preprocessing(preprocess).options()  # refused here, not at the first rows
        parameters["encoder_options"] = {"preprocess": options}
    return SPMClassifier(encoder, reduction, **{"epochs": 0, **parameters})
