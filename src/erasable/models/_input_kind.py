"""In which form a model was given its first rows, and how later inputs are brought to it."""

from enum import StrEnum
from typing import Any, Never

import numpy as np

from erasable.errors import ArgumentError

_SCALE = "Scale them as the first rows were."
_LARGEST = {True: 1, False: 31}  # bytes up to here may be numbers: in images, in feature vectors


class InputKind(StrEnum):
    """Form of the first rows; one word is kept, no value of any row."""

    BYTES = "bytes"
    """Bytes, which the network takes as numbers from 0 to 1."""
    FLAGS = "bytes of 0 and 1"
    """Bytes of which the largest is 1; the network takes it as 1/255."""
    UNIT = "numbers from 0 to 1"
    """Numbers, all from 0 to 1."""
    SIGNED = "numbers around 0"
    """Numbers from −10 to 10, some of them negative, as after standardising."""
    WHOLE = "whole numbers from 0 to 255"
    """Whole numbers in another type than bytes; they are not divided by 255."""
    NUMBERS = "numbers"
    """Any other numbers."""


_LIMITS = {
    InputKind.BYTES: (-0.5, 1.5),
    InputKind.UNIT: (-0.5, 1.5),
    InputKind.SIGNED: (-30, 30),
    InputKind.WHOLE: (-128, 383),
    InputKind.NUMBERS: (-np.inf, np.inf),
}
"""Where images of numbers lie, with room for what resizing and noise do."""


def as_kind(name: Any) -> InputKind | None:
    """Return a form by its saved name; None if none was recorded."""
    return None if name is None else InputKind(name)


def kind_of(source: Any) -> InputKind:
    """Return the form of inputs, (rows, …): bytes, also in files, or finite float32 numbers."""
    if source.dtype == np.uint8:
        is_flags = isinstance(source, np.ndarray) and source.max() == 1
        return InputKind.FLAGS if is_flags else InputKind.BYTES
    low, high = source.min(), source.max()
    if low >= 0 and high <= 1:
        return InputKind.UNIT
    if low >= 0 and high <= 255 and _are_whole(source):
        return InputKind.WHOLE
    return InputKind.SIGNED if -10 <= low < 0 and high <= 10 else InputKind.NUMBERS


def as_recorded(source: Any, kind: InputKind, *, is_integer: bool, is_image: bool) -> Any:
    """Return inputs in the form of the first rows.

    How an input is converted depends on the types alone, never on the inputs beside it; its values
    only decide whether it is refused.

    Args:
        source: Bytes, also in files, or finite float32 numbers, (rows, …).
        kind: Form of the first rows.
        is_integer: Whether the numbers were given in a type of whole numbers.
        is_image: Whether inputs are images, not feature vectors.

    Raises:
        ArgumentError: If it is not certain what the inputs mean in that form.
    """
    if source.dtype == np.uint8:
        return _from_bytes(source, kind, is_image=is_image)
    low, high = float(source.min()), float(source.max())
    if kind in (InputKind.BYTES, InputKind.FLAGS):
        if is_integer and low >= 0 and high <= (255 if kind == InputKind.BYTES else 1):
            return source.astype(np.uint8)
        if kind == InputKind.FLAGS or is_integer:
            _refuse(kind, _span(low, high), "Pass them as bytes, X.astype('uint8').")
    least, most = _LIMITS[kind]
    if (is_image or kind == InputKind.BYTES) and not least <= low <= high <= most:
        is_bytes = kind == InputKind.BYTES
        remedy = "Pass bytes, or numbers from 0 to 1." if is_bytes else _SCALE
        _refuse(kind, _span(low, high), remedy)
    is_scaled = kind == InputKind.WHOLE and is_image and low >= 0 and high <= 1
    if is_scaled and not _are_whole(source):
        _refuse(kind, _span(low, high), "Multiply them by 255.")
    return source


def _from_bytes(source: Any, kind: InputKind, *, is_image: bool) -> Any:
    if kind in (InputKind.BYTES, InputKind.FLAGS):
        return source
    if kind == InputKind.WHOLE:
        return np.asarray(source[:], np.float32)
    if kind != InputKind.UNIT:
        _refuse(kind, "bytes", f"{_SCALE} If they are scaled so already, pass X.astype('float32').")
    if isinstance(source, np.ndarray) and 0 < source.max() <= _LARGEST[is_image]:
        _refuse(
            kind,
            f"bytes up to {source.max()}",
            "Pass X / 255 if they are pixels, or X.astype('float32') if they are numbers.",
        )
    return source


def _refuse(kind: InputKind, got: str, remedy: str) -> Never:
    raise ArgumentError(
        f"Expected inputs like the first rows of this model, {kind.value}, but got {got}. {remedy}"
    )


def _span(low: float, high: float) -> str:
    return f"numbers from {low:.4g} to {high:.4g}"


def _are_whole(numbers: Any) -> bool:
    return bool((numbers == np.floor(numbers)).all())
