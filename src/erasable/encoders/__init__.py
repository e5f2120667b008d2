"""Networks from inputs to embeddings, by name or as any torch module."""

from erasable.encoders._base import Encoder, prepare
from erasable.encoders._cut import cut
from erasable.encoders._efficientnet_lite import (
    EfficientNetLite,
    EfficientNetLite0,
    EfficientNetLite1,
    EfficientNetLite2,
)
from erasable.encoders._fast_cnn import FastCNN
from erasable.encoders._features import MLP, Identity, RandomFeatures
from erasable.encoders._graph import GraphAttention
from erasable.encoders._module import ModuleEncoder
from erasable.encoders._preprocess import Preprocess, build_preprocessing
from erasable.encoders._registry import DRAWN_ENCODERS, build_encoder, register_encoder
from erasable.encoders._resnet import ResNet18
from erasable.encoders._set_encoder import SetEncoder
from erasable.encoders._set_encoders import build_set_encoder
from erasable.encoders._small_cnn import SmallCNN

__all__ = [
    "DRAWN_ENCODERS",
    "MLP",
    "EfficientNetLite",
    "EfficientNetLite0",
    "EfficientNetLite1",
    "EfficientNetLite2",
    "Encoder",
    "FastCNN",
    "GraphAttention",
    "Identity",
    "ModuleEncoder",
    "Preprocess",
    "RandomFeatures",
    "ResNet18",
    "SetEncoder",
    "SmallCNN",
    "build_encoder",
    "build_preprocessing",
    "build_set_encoder",
    "cut",
    "prepare",
    "register_encoder",
]
