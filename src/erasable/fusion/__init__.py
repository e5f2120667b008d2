"""From a query and the memory to votes: weights and aggregation, kept apart."""

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
from erasable.fusion._prototypes import PrototypesReduction
from erasable.fusion._registry import get_reduction, register_reduction
from erasable.fusion._rows import RowsReduction

__all__ = [
    "PLAIN",
    "Attention",
    "DotProductFusion",
    "PrototypesReduction",
    "Reduction",
    "RowsReduction",
    "TopVotes",
    "aggregate",
    "get_reduction",
    "log_aggregate",
    "register_reduction",
    "scale_factor",
    "vote_weights",
]
