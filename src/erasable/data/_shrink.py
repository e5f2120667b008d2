"""Smaller images of the same rows."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from erasable.data._split import Dataset, Split
from erasable.errors import ArgumentError


def shrunk(data: Dataset, side: int) -> Dataset:
    """Return a data set with images of ``side`` × ``side`` pixels; ids and labels stay.

    Images are padded with zeros to the next multiple of ``side``, then averaged over squares; so
    28 × 28 pixels become 16 × 16 by way of 32 × 32, without a blur.

    Args:
        data: A data set of images of bytes, (rows, height, width[, channels]).
        side: Height and width.
    """
    name = f"{data.name}, {side} × {side} pixels"
    test = None if data.test is None else _shrunk(data.test, side)
    return replace(data, name=name, train=_shrunk(data.train, side), test=test)


def in_bytes(data: Dataset) -> Dataset:
    """Return a data set whose images, numbers from 0 to 1, are rounded to bytes; or as it is."""
    test = None if data.test is None else _in_bytes(data.test)
    return replace(data, train=_in_bytes(data.train), test=test)


def _in_bytes(rows: Split) -> Split:
    if rows.X.dtype == np.uint8:
        return rows
    images = np.asarray(rows.X)
    if images.ndim not in (3, 4) or images.min() < 0 or images.max() > 1:
        raise ArgumentError(
            f"Expected images of bytes, or of numbers from 0 to 1, but got {images.dtype} of shape "
            f"{images.shape} from {images.min():.3g} to {images.max():.3g}."
        )
    return replace(rows, X=np.round(255 * images).astype(np.uint8))


def _shrunk(rows: Split, side: int) -> Split:
    images = np.asarray(rows.X)
    if images.ndim not in (3, 4) or images.dtype != np.uint8:
        raise ArgumentError(
            f"Expected images of bytes, (rows, height, width[, channels]), but got {images.dtype} "
            f"of shape {images.shape}."
        )
    if type(side) is not int or not 1 <= side <= max(images.shape[1:3]):
        raise ArgumentError(
            f"Expected a side of 1 to {max(images.shape[1:3])} pixels, but got {side!r}."
        )
    return replace(rows, X=_averaged(images, side))


def _averaged(images: npt.NDArray[np.uint8], side: int) -> npt.NDArray[np.uint8]:
    factor = -(-max(images.shape[1:3]) // side)
    missing = [factor * side - length for length in images.shape[1:3]]
    around = [(0, 0), *((m // 2, m - m // 2) for m in missing), *[(0, 0)] * (images.ndim - 3)]
    padded = np.pad(images, around)
    squares = padded.reshape(len(images), side, factor, side, factor, *images.shape[3:])
    means: npt.NDArray[np.uint8] = np.round(squares.mean(axis=(2, 4))).astype(np.uint8)
    return means
