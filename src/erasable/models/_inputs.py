"""From what users pass to what networks take."""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from erasable.errors import ArgumentError
from erasable.memory import as_label
from erasable.typing import Float32s, Label

_CHANNELS = (1, 3, 4)


def as_images(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return images as (n, channels, height, width).

    (n, height, width) gains a channel. Of four axes, the last is the channels if its size is 1, 3
    or 4 and the second one's is not; otherwise the second is.
    """
    if array.ndim == 3:
        return array[:, None]
    if array.ndim == 4 and array.shape[3] in _CHANNELS and array.shape[1] not in _CHANNELS:
        return array.transpose(0, 3, 1, 2)
    return array


def as_float32(array: npt.NDArray[Any]) -> Float32s:
    """Return inputs as float32; bytes become numbers from 0 to 1.

    Raises:
        ArgumentError: If a value is not finite, or too large for float32.
    """
    if array.dtype == np.uint8:
        return array.astype(np.float32) / np.float32(255)
    with np.errstate(over="ignore"):
        inputs = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(inputs).all():
        raise ArgumentError(
            "Expected finite inputs, but X contains NaN, infinity or a value too large for float32."
        )
    return inputs


def content_digests(inputs: Float32s) -> list[bytes]:
    """Return a digest per input of exactly what the network sees, so that copies are recognised.

    The shape is left out: an image and the same image flattened are copies.
    """
    head = b"erasable.input.1:"
    rows = np.ascontiguousarray(inputs, "<f4").reshape(len(inputs), -1) + np.float32(0)
    return [hashlib.sha256(head + row.tobytes()).digest() for row in rows]


def as_labels(y: Any) -> list[Label]:
    """Return labels as plain values, each with its own type.

    Raises:
        ArgumentError: If one is missing, continuous or of another type.
    """
    if y is None:
        raise ArgumentError("fit() requires y to be passed, but the target y is None.")
    if isinstance(y, (list, tuple)) and not y:
        return []
    is_mixed = isinstance(y, (list, tuple)) and len({type(value) for value in y}) > 1
    try:
        column = np.array(y, dtype=object) if is_mixed else column_or_1d(y, warn=True)
        if column.dtype.kind == "f":
            if not np.isfinite(column).all():
                raise ArgumentError("Expected finite labels, but y contains NaN or infinity.")
            check_classification_targets(column)
    except ValueError as error:
        raise ArgumentError(str(error)) from error
    return [as_label(label) for label in column.tolist()]


def labels_array(labels: list[Label]) -> npt.NDArray[Any]:
    """Return labels as an array of their own type, or of objects if the types are mixed."""
    is_mixed = len({type(label) for label in labels}) > 1
    return np.array(labels, dtype=object if is_mixed else None)


def as_tensor(inputs: Float32s) -> torch.Tensor:
    """Return inputs as a tensor that does not share memory with a read-only array."""
    return torch.from_numpy(inputs if inputs.flags.writeable else inputs.copy())
