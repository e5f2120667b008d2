"""A few images as text: small enough to stand in the result of a run."""

import base64
import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image


def as_strip(images: npt.NDArray[np.uint8]) -> str:
    """Return images (n, channels, height, width) side by side, as a PNG in base64."""
    count, channels, height, width = images.shape
    strip = images.transpose(2, 0, 3, 1).reshape(height, count * width, channels)
    stream = io.BytesIO()
    Image.fromarray(strip[:, :, 0] if channels == 1 else strip).save(stream, "PNG", optimize=True)
    return base64.b64encode(stream.getvalue()).decode()


def from_strip(text: str, count: int) -> npt.NDArray[np.uint8]:
    """Return what `as_strip` was given.

    Args:
        text: What it returned.
        count: How many images they were.
    """
    with Image.open(io.BytesIO(base64.b64decode(text))) as picture:
        strip: npt.NDArray[Any] = np.asarray(picture)
    height = len(strip)
    parts = strip.reshape(height, count, strip.shape[1] // count, -1)
    return np.ascontiguousarray(parts.transpose(1, 3, 0, 2))
