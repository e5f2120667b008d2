"""Encoders by name."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from erasable.encoders._base import Encoder
from erasable.encoders._efficientnet_lite import (
    EfficientNetLite0,
    EfficientNetLite1,
    EfficientNetLite2,
)
from erasable.encoders._fast_cnn import FastCNN
from erasable.encoders._features import MLP, Identity, RandomFeatures
from erasable.encoders._module import ModuleEncoder
from erasable.encoders._resnet import ResNet18
from erasable.encoders._small_cnn import SmallCNN
from erasable.errors import ArgumentError

EncoderFactory = Callable[..., Encoder]
_ENCODERS: dict[str, EncoderFactory] = {}


def register_encoder(name: str, factory: EncoderFactory) -> None:
    """Make an encoder known as ``factory(input_shape, **options)``; a name is given once."""
    if name in _ENCODERS:
        raise ArgumentError(f"Expected a new name, but {name!r} is already registered.")
    _ENCODERS[name] = factory


def build_encoder(
    encoder: str | nn.Module,
    input_shape: tuple[int, ...],
    *,
    options: dict[str, Any] | None = None,
    seed: int = 0,
    is_blank: bool = False,
) -> Encoder:
    """Build an encoder by name, or wrap a torch module.

    Args:
        encoder: A registered name, ``"auto"`` (``mlp`` for feature vectors, ``small_cnn`` for
            images), or any module.
        input_shape: Shape of one input, without the batch.
        options: Keyword arguments of the named encoder; of a module, ``preprocess`` alone.
        seed: Seed of its first weights; the caller's random state is left as it was.
        is_blank: Leave out published weights, because others are loaded anyway.
    """
    if isinstance(encoder, nn.Module):
        if set(options or {}) - {"preprocess"}:
            raise ArgumentError(
                "Expected encoder options only with an encoder's name; a module takes 'preprocess'."
            )
        preprocess = (options or {}).get("preprocess")
        wrapped = ModuleEncoder(input_shape, encoder, preprocess=preprocess)
        return encoder if isinstance(encoder, Encoder) and preprocess is None else wrapped
    name = ("mlp" if len(input_shape) == 1 else "small_cnn") if encoder == "auto" else encoder
    if name not in _ENCODERS:
        known = ", ".join(map(repr, ["auto", *_ENCODERS]))  # all: nothing else lists them
        raise ArgumentError(f"Expected encoder to be {known} or a module, but got {encoder!r}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            built = _ENCODERS[name](input_shape, **(options or {}))
        except TypeError as error:
            raise ArgumentError(f"Expected options of the encoder {name!r}: {error}.") from error
    if not is_blank:
        built.load_pretrained()
    return built


_OWN = (Identity, RandomFeatures, MLP, SmallCNN, FastCNN, ResNet18)
DRAWN_ENCODERS = frozenset({"auto", *(own.name for own in _OWN)})
"""Names of encoders whose first weights are only drawn at random: they have seen nothing."""

for _factory in (*_OWN, EfficientNetLite0, EfficientNetLite1, EfficientNetLite2):
    register_encoder(_factory.name, _factory)
