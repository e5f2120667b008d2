"""The canonical state of a model: everything that what it predicts or draws is a function of."""

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from erasable.memory import Memory, encode_key, plain
from erasable.models._memory_classifier import MemoryClassifier
from erasable.models._memory_model import MemoryModel

if TYPE_CHECKING:
    from erasable.models._spm_generator import SPMGenerator

_READING = ("reduction", "k", "candidates", "search", "attention", "temperature")


def canonical_digest(model: MemoryModel, memory: Memory, weights: str) -> str:
    """Return hex SHA-256 of a model's canonical state, were ``memory`` its memory."""
    digest = hashlib.sha256(b"erasable.canonical.1")
    for part in canonical_state(model, memory, weights):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def canonical_state(model: MemoryModel, memory: Memory, weights: str) -> Iterator[bytes]:
    """Yield the bytes that define a model: configuration, digest of its weights, memory.

    Args:
        model: The model.
        memory: The memory it reads; its own one, or another in its place.
        weights: The digest of its weights.
    """
    if isinstance(model, MemoryClassifier):
        own = _of_classifier(model)
    else:
        own = _of_generator(cast("SPMGenerator", model), memory)
    configuration = {
        "kind": type(model).__name__,
        "input_shape": list(model.input_shape_),
        "weights": weights,
        **own,
    }
    yield json.dumps(configuration, sort_keys=True).encode()
    yield from memory.canonical_state()


def _of_classifier(model: MemoryClassifier) -> dict[str, Any]:
    network, parameters = model.network_, model.get_params(deep=False)
    return {
        "reading": {k: plain(parameters[k]) for k in _READING if k in parameters},
        "encoder": [network.encoder.name, network.encoder.options()],
        "norm": type(network.norm).__name__,
        "scale": None if network.fusion is None else plain(network.fusion.factor),
        "set_encoder": None if network.set_encoder is None else network.set_encoder.name,
    }


def _of_generator(model: "SPMGenerator", memory: Memory) -> dict[str, Any]:
    names = model.numbers_.left(memory.classes).names
    return {
        "reading": {"rows_per_class": plain(model.rows_per_class), "kernel": model.kernel},
        "architecture": model.built_,
        "numbers": [None if name is None else encode_key(name) for name in names],
    }
