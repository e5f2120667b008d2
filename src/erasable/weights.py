"""A network's weights as named tensors, and their digest."""

import hashlib

import torch
from torch import Tensor, nn

from erasable.errors import ArgumentError, listing


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """Return every parameter and buffer by name, those that ``state_dict`` leaves out included."""
    named = [
        *network.named_parameters(remove_duplicate=False),
        *network.named_buffers(remove_duplicate=False),
    ]
    return {name: tensor.detach() for name, tensor in named}


def load_weights(network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Overwrite a network's parameters and buffers.

    Raises:
        ArgumentError: If names or shapes differ; nothing was overwritten.
    """
    mine = weights_of(network)
    odd = sorted(mine.keys() ^ tensors.keys())
    odd += [name for name in mine if name not in odd and mine[name].shape != tensors[name].shape]
    if odd:
        raise ArgumentError(
            f"Expected weights of the same network, but these differ: {listing(odd)}."
        )
    for name, tensor in mine.items():
        tensor.copy_(tensors[name])


def weights_digest(network: nn.Module) -> str:
    """Return hex SHA-256 over names, types, shapes and bytes of all parameters and buffers.

    It is computed anew each time: torch's version counters miss writes through ``tensor.data``, and
    a receipt must not carry the digest of weights that are no longer there.
    """
    return tensors_digest(weights_of(network))


def tensors_digest(tensors: dict[str, Tensor]) -> str:
    """Return hex SHA-256 over named tensors, in the order of their names."""
    digest = hashlib.sha256(b"erasable.weights.1")
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        head = f"{len(name)}:{name}:{tensor.dtype}:{tuple(tensor.shape)}:"
        digest.update(head.encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
