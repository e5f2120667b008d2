"""Digests by which the input of a row is recognised, also in another form of the same numbers.

A content is a sequence of digests of 32 bytes. The first is SHA-256 of the float32 numbers that the
network sees; earlier versions wrote this one alone. The second is the same of the numbers that all
forms of the input share: a picture of bytes has the second digest that it has as floats. A third is
there for images in colour and for vectors, by which an image is recognised that was flattened pixel
after pixel.
"""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.typing import Float32s, Ints

DIGEST_SIZE = 32
"""Bytes of one digest."""

_HEAD = b"erasable.input.1:"  # as earlier versions have it: their digests are found again
_PIXELS = b"erasable.pixels.1:"
_COLOURS = (3, 4)

_FEWEST = 16
"""A row of fewer numbers is no picture, and rounded it could be another row."""

_HALF = 2.0**-11
"""Half precision moves a number by less than this share of it."""

_SLACK = 1e-4
"""Single precision moves a byte that was divided by 255 by less than this, in steps of 1/255."""

_SMALLEST = 2.0**-14
"""Half precision holds smaller numbers with fewer digits."""

Levels = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


def content_parts(content: bytes) -> tuple[bytes, ...]:
    """Return the digests of a content, each once: inputs that share one of them are the same.

    Examples:
        >>> [part[:1] for part in content_parts(b"a" * 32 + b"a" * 32 + b"b" * 32)]
        [b'a', b'b']
        >>> content_parts(b"made elsewhere")
        (b'made elsewhere',)
    """
    if not content or len(content) % DIGEST_SIZE:
        return (content,)
    return tuple(
        dict.fromkeys(content[i : i + DIGEST_SIZE] for i in range(0, len(content), DIGEST_SIZE))
    )


def has_forms(content: bytes | None) -> bool:
    """Tell whether a content recognises other forms of the same numbers; old ones do not."""
    return content is not None and len(content) > DIGEST_SIZE


def contents_of(numbers: npt.NDArray[Any], *, levels: Levels | None = None) -> list[bytes]:
    """Return the content of each input.

    Args:
        numbers: Inputs as the network sees them, (rows, …); of images, channels come first.
        levels: The bytes that became these numbers, if so, of the same shape.
    """
    rows = np.ascontiguousarray(numbers, "<f4").reshape(len(numbers), -1)
    if levels is None:
        rows = rows + np.float32(0)  # a minus before zero does not show
    exact = _digests(_HEAD, rows)
    found = [digest * 2 for digest in exact]
    if rows.shape[1] < _FEWEST or not len(rows):
        return found
    levels, shared, is_bytes = _in_common(rows, numbers.shape, levels)
    others = [] if shared is rows else np.flatnonzero((shared != rows).any(axis=1)).tolist()
    for place in others:
        found[place] = exact[place] + _digests(_HEAD, shared[place : place + 1])[0]
    if numbers.ndim != 2 and (numbers.ndim != 4 or numbers.shape[1] not in _COLOURS):
        return found
    for places, values in (
        (np.flatnonzero(is_bytes), levels),
        (np.flatnonzero(~is_bytes), shared.reshape(numbers.shape)),
    ):
        pixels = _by_pixel(_at(values, places))
        for place, digest in zip(places.tolist(), _digests(_PIXELS, pixels), strict=True):
            found[place] += digest
    return found


def _in_common(
    rows: Float32s, shape: tuple[int, ...], given: Levels | None
) -> tuple[Levels, Float32s, Bools]:
    """Return what all forms of rows share: bytes, rows of numbers, and which rows are bytes.

    A mask of 0 and 1 counts as one of 0 and 255: as a number, 1 may be either.
    """
    is_bytes = np.ones(len(rows), bool)
    levels = given
    if levels is None:
        levels, is_bytes = _levels_of(rows)
        levels = levels.reshape(shape)
    is_mask = levels.max(axis=tuple(range(1, levels.ndim)), keepdims=True) == 1
    if given is not None and not is_mask.any():
        return levels, rows, is_bytes
    levels = np.where(is_mask, levels * np.uint8(255), levels)
    shared: Float32s = levels.reshape(rows.shape).astype(np.float32)
    shared /= np.float32(255)
    if not is_bytes.all():
        shared[~is_bytes] = _rounded(rows[~is_bytes])
    return levels, shared, is_bytes


def _at(values: npt.NDArray[Any], places: Ints) -> npt.NDArray[Any]:
    """Return the rows at some places, without a copy if these are all."""
    return values if len(places) == len(values) else values[places]


def _by_pixel(inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return images, whose channels come first, pixel after pixel; vectors as they are."""
    return inputs if inputs.ndim == 2 else np.ascontiguousarray(inputs.transpose(0, 2, 3, 1))


def _rounded(rows: Float32s) -> Float32s:
    """Return rows (rows, numbers) in half precision, where that can stand for them.

    It cannot for whole numbers that it would round: they may count something, or name it.
    """
    with np.errstate(over="ignore"):
        halves = rows.astype(np.float16).astype(np.float32)
    is_within = np.isfinite(halves).all(axis=1) & (np.abs(rows).max(axis=1) >= _SMALLEST)
    is_whole = (rows == np.rint(rows)).all(axis=1)
    stands = is_within & (~is_whole | (halves == rows).all(axis=1))
    return np.where(stands[:, None], halves, rows) + np.float32(0)


def _levels_of(rows: Float32s) -> tuple[Levels, Bools]:
    """Return rows (rows, numbers) as bytes, and which of them are bytes: over 255, or as they are.

    Rows that are not bytes come out as zeros.
    """
    least, most = rows.min(axis=1), rows.max(axis=1)
    is_unit = (least >= -_SLACK) & (most <= 1 + _SLACK)
    is_byte = (least >= 0) & (most <= 255) & ~is_unit
    levels, is_bytes = np.zeros(rows.shape, np.uint8), np.zeros(len(rows), bool)
    for candidates, factor, share, slack in (
        (is_unit, 255.0, _HALF, _SLACK),
        (is_byte, 1.0, 0.0, 0.0),
    ):
        places = np.flatnonzero(candidates)
        scaled = _at(rows, places) * np.float32(factor)
        near = np.rint(scaled)
        scaled -= near
        is_near = (np.abs(scaled, out=scaled) <= near * share + slack).all(axis=1)
        levels[places[is_near]] = _at(near, np.flatnonzero(is_near))
        is_bytes[places] = is_near
    return levels, is_bytes


def _digests(head: bytes, rows: npt.NDArray[Any]) -> list[bytes]:
    start, found = hashlib.sha256(head), []
    for row in rows:
        digest = start.copy()
        digest.update(row)
        found.append(digest.digest())
    return found
