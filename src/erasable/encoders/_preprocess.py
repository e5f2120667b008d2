"""What a network was trained to get: its own mean, deviation and size, or a function of yours."""

import hashlib
import importlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from erasable.errors import ArgumentError, StateError, listing

Preprocess = Mapping[str, Any] | str
"""``{"mean": […], "std": […], "size": 224}``, or the import path of a function."""

_KNOWN = ("mean", "std", "size")
_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_LEAST, _MOST = -0.5, 1.5  # with room for what resizing and noise do


class Preprocessing(nn.Module, ABC):
    """A step before a network: from numbers from 0 to 1 to what the network was trained on.

    What defines the step is among its buffers, so that it is part of the digest of the weights.
    """

    @abstractmethod
    def options(self) -> Any:
        """Return what `build_preprocessing` needs to build this step again."""

    @abstractmethod
    def change(self, inputs: Tensor) -> Tensor:
        """Return inputs as the network was trained on them."""

    def output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one input after this step."""
        return tuple(self.change(torch.zeros(2, *input_shape)).shape[1:])

    def forward(self, inputs: Tensor) -> Tensor:
        """Check that inputs lie from 0 to 1, and change them."""
        low, high = inputs.min().item(), inputs.max().item()
        if not _LEAST <= low <= high <= _MOST:
            raise ArgumentError(
                "Expected bytes, or numbers from 0 to 1, because the model has a preprocessing of "
                f"its own, but got numbers from {low:.4g} to {high:.4g}. Pass them as they were "
                "before any scaling."
            )
        return self.change(inputs)


@final
class Standardise(Preprocessing):
    """Cut images to the square in the middle, resize them, subtract a mean, divide by a deviation.

    Args:
        mean: Mean per channel, of numbers from 0 to 1.
        std: Deviation per channel.
        size: Height and width after resizing (bilinear, antialiased); None to keep images.
    """

    def __init__(
        self, mean: Sequence[float], std: Sequence[float], size: int | None = None
    ) -> None:
        super().__init__()
        self._options = {"mean": [float(m) for m in mean], "std": [float(s) for s in std]}
        self._size = size
        self.register_buffer("mean", torch.tensor(self._options["mean"])[:, None, None])
        self.register_buffer("std", torch.tensor(self._options["std"])[:, None, None])
        self.register_buffer("size", torch.tensor(size or 0))

    def options(self) -> dict[str, Any]:
        """Return mean, deviation and size."""
        return {**self._options, **({} if self._size is None else {"size": self._size})}

    def change(self, inputs: Tensor) -> Tensor:
        """Return images (n, channels, size, size) around zero."""
        channels = len(self._options["mean"])
        if inputs.ndim != 4 or channels not in (1, inputs.shape[1]):
            raise ArgumentError(
                f"Expected images with {channels} channels for the preprocessing, but got inputs "
                f"of shape {tuple(inputs.shape[1:])}."
            )
        shown = inputs if self._size is None else _resized(inputs, self._size)
        return (shown - self.get_buffer("mean")) / self.get_buffer("std")

    def extra_repr(self) -> str:
        """Name the options in the printed form."""
        return ", ".join(f"{name}={value}" for name, value in self.options().items())


@final
class Imported(Preprocessing):
    """A function that is imported by its path; the path is saved, never the function.

    Args:
        path: Import path, ``package.module:function``. The function takes and returns a tensor
            (n, …), each input by itself.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._function = _import(path)
        name = hashlib.sha256(path.encode()).digest()
        self.register_buffer("name", torch.frombuffer(bytearray(name), dtype=torch.uint8).clone())

    def options(self) -> str:
        """Return the import path."""
        return self._path

    def change(self, inputs: Tensor) -> Tensor:
        """Return what the function makes of inputs."""
        changed = self._function(inputs)
        if not isinstance(changed, Tensor) or len(changed) != len(inputs):
            raise ArgumentError(
                f"Expected {self._path!r} to return a tensor with one entry per input, but got "
                f"{type(changed).__name__}."
            )
        return changed

    def extra_repr(self) -> str:
        """Name the path in the printed form."""
        return repr(self._path)


def build_preprocessing(preprocess: Preprocess) -> Preprocessing:
    """Return a step from its options.

    Args:
        preprocess: Mean, deviation and, as needed, size; or the import path of a function.

    Raises:
        ArgumentError: If the options mean nothing.
        StateError: If the function cannot be imported.
    """
    if isinstance(preprocess, str):
        return Imported(preprocess)
    if not isinstance(preprocess, Mapping):
        raise ArgumentError(
            "Expected preprocess to be a dict with mean, std and size, or the import path of a "
            f"function such as 'package.module:function', but got {preprocess!r}."
        )
    unknown = sorted(set(preprocess) - set(_KNOWN))
    missing = [name for name in ("mean", "std") if name not in preprocess]
    if unknown or missing:
        raise ArgumentError(
            f"Expected preprocess with mean and std, and size if images are resized, but got "
            f"{listing(preprocess)}."
        )
    mean, std, size = preprocess["mean"], preprocess["std"], preprocess.get("size")
    if not (_are_numbers(mean) and _are_numbers(std) and len(mean) == len(std) and min(std) > 0):
        raise ArgumentError(
            "Expected mean and std of preprocess to be lists with one finite number per channel, "
            f"those of std above 0, but got {mean!r} and {std!r}."
        )
    if size is not None and (type(size) is not int or size < 1):
        raise ArgumentError(
            f"Expected size of preprocess to be a positive int or None, but got {size!r}."
        )
    return Standardise(mean, std, size)


def _are_numbers(values: Any) -> bool:
    is_list = isinstance(values, (list, tuple)) and len(values) > 0
    return is_list and all(type(one) in (int, float) and math.isfinite(one) for one in values)


def _import(path: str) -> Callable[[Tensor], Any]:
    if not _PATH.fullmatch(path):
        raise ArgumentError(
            "Expected preprocess to be the import path of a function, such as "
            f"'package.module:function', but got {path!r}."
        )
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise StateError(
            f"Expected to import {path!r}, the preprocessing of this model, but: {error}. Install "
            "the package, or put its folder on the Python path."
        ) from error
    if not callable(found):
        raise StateError(f"Expected {path!r} to be a function, but it is {type(found).__name__}.")
    function: Callable[[Tensor], Any] = found
    return function


def _resized(images: Tensor, size: int) -> Tensor:
    height, width = images.shape[2:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = images[:, :, top : top + side, left : left + side]
    if side == size:
        return square
    return nn.functional.interpolate(square, size=(size, size), mode="bilinear", antialias=True)
