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
    """The digest of a network's weights, computed again only after they have changed.

    Whether they have is told by a checksum of all their bits, not by torch's version counters:
    those do not see writes through ``tensor.data``, and a receipt must not carry the digest of
    weights that are no longer there.
    """

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._seen: list[int] | None = None
        self._value = ""

    def value(self) -> str:
        """Return the digest of the weights as they are."""
        seen = [_checksum(tensor) for tensor in self._network.state_dict().values()]
        if seen != self._seen:
            self._value, self._seen = weights_digest(self._network), seen
        return self._value


def _checksum(tensor: Tensor) -> int:
    """Sum the bits of a tensor's storage as integers: as fast as the memory can be read."""
    storage = tensor.detach().untyped_storage()
    octets = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
    words = octets[: len(octets) // 4 * 4].view(torch.int32)
    rest = octets[len(octets) // 4 * 4 :]
    return int(words.sum(dtype=torch.int64)) + int(rest.sum(dtype=torch.int64))
