"""Digests of the tensors that trainings in this process produced, to know them elsewhere.

A tensor is known by its numbers, not by its place: a copy in another network is known, and so are
its rows (output by output, for kernels and matrices), also at a higher precision. Numbers that were
rounded, scaled, transposed or cut along another axis are not known.
"""

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from torch import Tensor, nn

from erasable.typing import Float32s
from erasable.weights import weights_of

_Options = ParamSpec("_Options")
_Result = TypeVar("_Result")

_FEWEST = 8  # numbers; fewer may agree by chance
_produced: set[bytes] = set()


def noting_what_it_produces(
    train: Callable[Concatenate[nn.Module, _Options], _Result],
) -> Callable[Concatenate[nn.Module, _Options], _Result]:
    """Have a function that trains a network note the tensors that it changed, however it ends."""

    @functools.wraps(train)
    def noting(network: nn.Module, /, *args: _Options.args, **options: _Options.kwargs) -> _Result:
        before = {name: _digest(_numbers(one)) for name, one in weights_of(network).items()}
        try:
            return train(network, *args, **options)
        finally:
            after = weights_of(network)
            note_produced(
                {n: one for n, one in after.items() if _digest(_numbers(one)) != before.get(n)}
            )

    return noting


def note_produced(tensors: Mapping[str, Tensor]) -> None:
    """Note tensors as produced by a training."""
    _produced.update(key for tensor in tensors.values() for key in _keys(tensor))


def produced_here(tensors: Mapping[str, Tensor]) -> list[str]:
    """Name the tensors that are, or hold rows of, tensors that a training here produced."""
    return [name for name, tensor in tensors.items() if not _produced.isdisjoint(_keys(tensor))]


def _keys(tensor: Tensor) -> Iterator[bytes]:
    """Yield digests of a tensor and of its rows; none of what may agree by chance."""
    if not tensor.is_floating_point():
        return
    numbers = _numbers(tensor)
    for part in (numbers, *(numbers if numbers.ndim > 1 else ())):
        if part.size >= _FEWEST and np.unique(part.ravel()[:_FEWEST]).size > 2:
            yield _digest(part)


def _numbers(tensor: Tensor) -> Float32s:
    numbers: Float32s = np.ascontiguousarray(tensor.detach().float().cpu().numpy())
    return numbers


def _digest(numbers: Float32s) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(numbers).data, digest_size=16).digest()
