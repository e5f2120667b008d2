"""Inputs as a network reads them: float32, converted when they are asked for."""

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from erasable.memory import DIGEST_SIZE, contents_of
from erasable.typing import Ints

_CHANNELS = (1, 3, 4)
_CHUNK = 2**18  # numbers that are held at once


@final
class Inputs:
    """Inputs of a network, (rows, …), of which only those asked for are held as float32.

    Bytes, as most images are, become numbers from 0 to 1, and images of bytes become (channels,
    height, width). So a data set of bytes, also one on disk, is never blown up as a whole.

    Args:
        source: Finite float32 numbers as the network takes them, or bytes, (rows, …): an array, or
            anything with its ``shape``, ``dtype`` and indexing by slices and by arrays of places,
            such as images that are decoded when they are read.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self.is_bytes = source.dtype == np.uint8
        own: tuple[int, ...] = source.shape[1:]
        self.shape = (len(source), *(input_shape(source) if self.is_bytes else own))

    @property
    def ndim(self) -> int:
        """Number of axes, rows included."""
        return len(self.shape)

    @property
    def is_decoded(self) -> bool:
        """Whether reading takes work: the source is no array, but images in files."""
        return not isinstance(self._source, np.ndarray)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest number; bytes range from 0 to 1."""
        if self.is_bytes:
            return 0.0, 1.0
        return float(np.min(self._source)), float(np.max(self._source))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: slice | Ints) -> Tensor:
        """Return inputs at some places as a float32 tensor of their own."""
        # A copy, also of numbers: tensors must not share read-only memory.
        numbers = np.asarray(self._source[index]).astype(np.float32)
        if not self.is_bytes:
            return torch.from_numpy(numbers)
        numbers /= np.float32(255)
        return torch.from_numpy(as_images(numbers))

    def take(self, places: list[int] | Ints) -> "Inputs":
        """Return the inputs at some places; they are read when asked for."""
        chosen = np.asarray(places, np.int64)
        if np.array_equal(chosen, np.arange(len(self))):
            return self
        return Inputs(_Part(self._source, chosen))

    @cached_property
    def contents(self) -> list[bytes]:
        """What each input is recognised by, also in another form; see `contents_of`.

        The shape is left out: an image and the same image flattened are copies.
        """
        found: list[bytes] = []
        size = max(1, _CHUNK // max(1, math.prod(self.shape[1:])))
        for start in range(0, len(self), size):
            part = np.asarray(self._source[start : start + size])
            if self.is_bytes:
                levels = as_images(part)
                numbers = levels.astype(np.float32, "C")
                numbers /= np.float32(255)
                found += contents_of(numbers, levels=levels)
            else:
                found += contents_of(part)
        return found

    @property
    def digests(self) -> list[bytes]:
        """A digest per input of exactly the numbers that the network sees."""
        return [content[:DIGEST_SIZE] for content in self.contents]


def read_ahead(inputs: Inputs, batches: Iterable[Ints]) -> Iterator[tuple[Ints, Tensor]]:
    """Yield each batch's rows and inputs; what has to be decoded is read one batch ahead.

    Args:
        inputs: The inputs.
        batches: The rows of each batch.
    """
    if not inputs.is_decoded:
        yield from ((rows, inputs[rows]) for rows in batches)
        return
    with ThreadPoolExecutor(max_workers=1) as pool:
        waiting: list[tuple[Ints, Future[Tensor]]] = []
        for rows in batches:
            waiting.append((rows, pool.submit(inputs.__getitem__, rows)))
            if len(waiting) > 1:
                due, coming = waiting.pop(0)
                yield due, coming.result()
        for due, coming in waiting:
            yield due, coming.result()


class _Part:
    """Some rows of a source."""

    def __init__(self, source: Any, places: Ints) -> None:
        self._source, self._places = source, places
        self.shape, self.dtype = (len(places), *source.shape[1:]), source.dtype

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: slice | Ints) -> Any:
        return self._source[self._places[index]]


def input_shape(X: Any) -> tuple[int, ...]:
    """Return the shape of one of (rows, …) inputs as networks take it: channels first."""
    return as_images(np.broadcast_to(np.uint8(0), (1, *X.shape[1:]))).shape[1:]


def as_images(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return images as (n, channels, height, width); anything else as it is.

    (n, height, width) gains a channel. Of four axes, the last is the channels if its size is 1, 3
    or 4 and the second one's is not; otherwise the second is.
    """
    if array.ndim == 3:
        return array[:, None]
    if array.ndim == 4 and array.shape[3] in _CHANNELS and array.shape[1] not in _CHANNELS:
        return array.transpose(0, 3, 1, 2)
    return array
