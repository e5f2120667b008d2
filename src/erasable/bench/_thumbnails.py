"""Small pictures of inputs for a page: images as PNG, feature vectors as bars."""

import math
import struct
import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.bench._figures import data_url
from erasable.errors import ArgumentError

_SIDE = 96
_BARS = 64
_HEIGHT = 32
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}  # channels to PNG's colour type
_Bytes = npt.NDArray[np.uint8]


def thumbnails(inputs: Sequence[Any]) -> list[str]:
    """Draw inputs as HTML: images as ``<img>``, feature vectors as ``<svg>``.

    Inputs of the same shape share one scale, so that they can be compared. Bytes, and numbers from
    0 to 1, are shown as they are; other images are stretched from their smallest to their largest
    value. Of feature vectors every feature has a scale of its own.

    Args:
        inputs: Images (height, width), (height, width, channels) or (channels, height, width), and
            feature vectors (features,).
    """
    arrays = [_checked(one) for one in inputs]
    alike = defaultdict(list)
    for place, array in enumerate(arrays):
        alike[array.shape, array.dtype == np.uint8].append(place)
    drawn = [""] * len(arrays)
    for places in alike.values():
        stack = np.stack([arrays[place] for place in places])
        pictures = _bars(stack) if stack.ndim == 2 else _images(stack)
        for place, picture in zip(places, pictures, strict=True):
            drawn[place] = picture
    return drawn


def png(pixels: _Bytes) -> bytes:
    """Return pixels (height, width, channels) with 1, 3 or 4 channels as a PNG file."""
    height, width, channels = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each line after its filter: none
    lines[:, 1:] = pixels.reshape(height, -1)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _checked(one: Any) -> npt.NDArray[Any]:
    array = np.asarray(one)
    if array.dtype.kind not in "fiub" or array.ndim not in (1, 2, 3) or not array.size:
        raise ArgumentError(
            "Expected a picture to be numbers of shape (features,), (height, width), (height, "
            "width, channels) or (channels, height, width), but got "
            f"{array.shape} of dtype {array.dtype}."
        )
    return array


def _images(stack: npt.NDArray[Any]) -> list[str]:
    """Draw images (n, height, width) or with channels; the layout is told as models tell it."""
    if stack.ndim == 3:
        stack = stack[..., None]
    elif stack.shape[3] not in _COLOUR_TYPES or stack.shape[1] in _COLOUR_TYPES:
        stack = stack.transpose(0, 2, 3, 1)
    pixels = _levels(stack)
    if pixels.shape[3] not in _COLOUR_TYPES:
        pixels = _rounded(pixels.mean(axis=3, keepdims=True))
    return [f'<img src="{data_url(png(_shrunk(one)))}" alt="">' for one in pixels]


def _levels(stack: npt.NDArray[Any]) -> _Bytes:
    if stack.dtype == np.uint8:
        return stack
    low, high = _range(stack.reshape(-1, 1))
    if low[0] >= 0 and high[0] <= 1:
        low, high = np.zeros(1), np.ones(1)
    return _rounded(255 * _stretched(stack, low, high))


def _shrunk(pixels: _Bytes) -> _Bytes:
    """Average pixels in squares, so that no side is longer than a thumbnail needs."""
    factor = math.ceil(max(pixels.shape[:2]) / _SIDE)
    if factor == 1:
        return pixels
    return _rounded(_grouped(_grouped(pixels, factor, 0), factor, 1))


def _bars(stack: npt.NDArray[Any]) -> list[str]:
    """Draw feature vectors (n, features), neighbouring features averaged if there are many."""
    values = _stretched(stack, *_range(stack))
    values = _grouped(values, math.ceil(values.shape[1] / _BARS), 1)
    return [_svg(heights) for heights in np.rint(1 + (_HEIGHT - 1) * values).astype(int).tolist()]


def _svg(heights: list[int]) -> str:
    path = "".join(f"M{place} {_HEIGHT}v-{h}h.8v{h}z" for place, h in enumerate(heights))
    return (
        f'<svg viewBox="0 0 {len(heights)} {_HEIGHT}" preserveAspectRatio="none">'
        f'<path d="{path}"/></svg>'
    )


def _range(stack: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the smallest and largest finite value of each column; 0 and 1 if there is none."""
    numbers = stack.astype(np.float64)
    is_finite = np.isfinite(numbers)
    low = np.where(is_finite, numbers, np.inf).min(axis=0)
    high = np.where(is_finite, numbers, -np.inf).max(axis=0)
    return np.where(low <= high, low, 0.0), np.where(low <= high, high, 1.0)


def _stretched(
    stack: npt.NDArray[Any], low: npt.NDArray[Any], high: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Map low … high to 0 … 1; what is not a number, and what never changes, to 0."""
    width = np.where(high > low, high - low, 1.0)
    values = np.nan_to_num(stack.astype(np.float64), nan=-np.inf)
    stretched: npt.NDArray[Any] = ((values - low) / width).clip(0, 1)
    return stretched


def _rounded(values: npt.NDArray[Any]) -> _Bytes:
    pixels: _Bytes = np.rint(values).astype(np.uint8)
    return pixels


def _grouped(values: npt.NDArray[Any], size: int, axis: int) -> npt.NDArray[Any]:
    """Average runs of ``size`` along an axis; the last run may be shorter."""
    starts = np.arange(0, values.shape[axis], size)
    lengths = np.diff(np.append(starts, values.shape[axis]))
    lengths = lengths.reshape([-1 if place == axis else 1 for place in range(values.ndim)])
    averaged: npt.NDArray[Any] = np.add.reduceat(values.astype(np.float64), starts, axis) / lengths
    return averaged
