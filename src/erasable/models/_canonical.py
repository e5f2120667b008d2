"""The canonical state of a model: everything that its predictions are a function of."""

import hashlib
import json
from collections.abc import Iterator

from erasable.memory import Memory, plain
from erasable.models._memory_classifier import MemoryClassifier

_READING = ("reduction", "k", "candidates", "search", "attention", "temperature")


def canonical_digest(model: MemoryClassifier, memory: Memory, weights: str) -> str:
    """Return hex SHA-256 of a model's canonical state, were ``memory`` its memory."""
    digest = hashlib.sha256(b"erasable.canonical.1")
    for part in canonical_state(model, memory, weights):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def canonical_state(model: MemoryClassifier, memory: Memory, weights: str) -> Iterator[bytes]:
    """Yield the bytes that define a model: configuration, digest of its weights, memory.

    Args:
        model: The model.
        memory: The memory it reads; its own one, or another in its place.
        weights: The digest of its weights.
    """
    network, parameters = model.network_, model.get_params(deep=False)
    configuration = {
        "kind": type(model).__name__,
        "input_shape": list(model.input_shape_),
        "reading": {k: plain(parameters[k]) for k in _READING if k in parameters},
        "encoder": [network.encoder.name, network.encoder.options()],
        "norm": type(network.norm).__name__,
        "scale": None if network.fusion is None else plain(network.fusion.factor),
        "set_encoder": None if network.set_encoder is None else network.set_encoder.name,
        "weights": weights,
    }
    yield json.dumps(configuration, sort_keys=True).encode()
    yield from memory.canonical_state()
