"""Networks from inputs to embeddings, by name or as any torch module."""

from erasable.encoders._base import Encoder
from erasable.encoders._features import MLP, Identity, RandomFeatures
from erasable.encoders._module import ModuleEncoder
from erasable.encoders._registry import DRAWN_ENCODERS, build_encoder, register_encoder
from erasable.encoders._small_cnn import SmallCNN

__all__ = [
    "DRAWN_ENCODERS",
    "MLP",
    "Encoder",
    "Identity",
    "ModuleEncoder",
    "RandomFeatures",
    "SmallCNN",
    "build_encoder",
    "register_encoder",
]
