"""From a query and the memory to votes: weights and aggregation, kept apart."""

from erasable.fusion._additive import AdditiveFusion, additive_attention, additive_votes
from erasable.fusion._additive_kernels import KERNELS, Kernels, get_kernels
from erasable.fusion._base import Reduction, TopVotes
from erasable.fusion._dot_product import (
    PLAIN,
    Attention,
    DotProductFusion,
    aggregate,
    log_aggregate,
    scale_factor,
    vote_weights,
)
from erasable.fusion._gaussian import GaussianReduction
from erasable.fusion._modules import FeatureFusion, Fusion, RowSet, VoteFusion
from erasable.fusion._neighbours import KNNReduction, NeighboursReduction
from erasable.fusion._precision import full, in_full_precision
from erasable.fusion._prototypes import PrototypesReduction
from erasable.fusion._registry import REDUCTIONS, Reading, get_reduction, register_reduction
from erasable.fusion._rows import RowsReduction

__all__ = [
    "KERNELS",
    "PLAIN",
    "REDUCTIONS",
    "AdditiveFusion",
    "Attention",
    "DotProductFusion",
    "FeatureFusion",
    "Fusion",
    "GaussianReduction",
    "KNNReduction",
    "Kernels",
    "NeighboursReduction",
    "PrototypesReduction",
    "Reading",
    "Reduction",
    "RowSet",
    "RowsReduction",
    "TopVotes",
    "VoteFusion",
    "additive_attention",
    "additive_votes",
    "aggregate",
    "full",
    "get_kernels",
    "get_reduction",
    "in_full_precision",
    "log_aggregate",
    "register_reduction",
    "scale_factor",
    "vote_weights",
]
