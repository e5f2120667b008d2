"""Set encoders by name."""

import torch

from erasable.encoders._graph import GraphAttention
from erasable.encoders._set_encoder import SetEncoder
from erasable.errors import ArgumentError, listing

_SET_ENCODERS = {GraphAttention.name: GraphAttention}


def build_set_encoder(name: str, dim: int, *, seed: int = 0) -> SetEncoder | None:
    """Build a set encoder by name; ``"none"`` is None.

    Args:
        name: ``"none"`` or ``"graph"``.
        dim: Size of an embedding.
        seed: Seed of its first weights; the caller's random state is left as it was.
    """
    if name == "none":
        return None
    if not isinstance(name, str) or name not in _SET_ENCODERS:
        known = listing(["none", *_SET_ENCODERS])
        raise ArgumentError(f"Expected set_encoder to be {known}, but got {name!r}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _SET_ENCODERS[name](dim)
