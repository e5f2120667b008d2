"""A digest of a network's weights."""

import hashlib

import torch
from torch import Tensor, nn


def weights_digest(network: nn.Module) -> str:
    """Return hex SHA-256 over names, types, shapes and bytes of all weights and buffers."""
    return tensors_digest(network.state_dict())


def tensors_digest(tensors: dict[str, Tensor]) -> str:
    """Return hex SHA-256 over named tensors, in the order of their names."""
    digest = hashlib.sha256(b"erasable.weights.1")
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        head = f"{len(name)}:{name}:{tensor.dtype}:{tuple(tensor.shape)}:"
        digest.update(head.encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class WeightsDigest:
    """The digest of a network's weights, computed again only after they were written to."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._seen: list[tuple[int, int]] | None = None
        self._value = ""

    def value(self) -> str:
        """Return the digest of the weights as they are."""
        tensors = [*self._network.parameters(), *self._network.buffers()]
        seen = [(tensor.data_ptr(), tensor._version) for tensor in tensors]
        if seen != self._seen:
            self._value, self._seen = weights_digest(self._network), seen
        return self._value
