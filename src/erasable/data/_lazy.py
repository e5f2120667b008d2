"""Images in files, decoded when they are indexed."""

import contextlib
import hashlib
import operator
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from erasable.errors import ArgumentError, listing
from erasable.files import open_regular
from erasable.typing import Ints

if TYPE_CHECKING:
    from PIL import Image

UInt8s = npt.NDArray[np.uint8]
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""What files are read as, whatever their names say: formats that need no other program."""

_LARGE = 2**24
"""Images of more pixels are decoded one at a time: a small file can hold hundreds of megabytes."""

_one_large = threading.Lock()
_AT_ONCE = 256
_MOST_WORKERS = 16


class LazyImages:
    """An array (rows, resolution, resolution, 3) of bytes whose rows are files.

    Indexing decodes: a number gives one image, a slice, positions or a mask give an array. Each
    image is turned upright as its EXIF data say, converted to RGB, cut to the square in its middle
    and resized to the resolution (bicubic, antialiased). The same file gives the same pixels,
    whatever else is decoded with it.

    Args:
        root: Folder that the names are relative to.
        names: Names of the files.
        resolution: Height and width of every image.
        workers: Threads that decode; by default one per core.
    """

    dtype = np.dtype(np.uint8)
    ndim = 4

    def __init__(
        self,
        root: Path | str,
        names: Sequence[str],
        *,
        resolution: int = 224,
        workers: int | None = None,
    ) -> None:
        if resolution < 1:
            raise ArgumentError(f"Expected a resolution of at least 1, but got {resolution}.")
        self._root = Path(root)
        self._names = names
        self._resolution = resolution
        self._workers = workers or min(_MOST_WORKERS, _cores())

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the array that decoding everything would give."""
        return (len(self._names), self._resolution, self._resolution, 3)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"LazyImages({str(self._root)!r}, shape={self.shape})"

    def __getitem__(self, index: Any) -> UInt8s:
        if isinstance(index, SupportsIndex) and not isinstance(index, (np.ndarray, bool, np.bool_)):
            images = self._decoded([self._names[operator.index(index)]])
            return images.reshape(self.shape[1:])
        return self._decoded([self._names[i] for i in self._positions(index)])

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("Expected copy to be allowed: images in files have to be decoded.")
        return self._decoded(self._names).astype(dtype or self.dtype, copy=False)

    def take(self, index: npt.ArrayLike) -> "LazyImages":
        """Return the rows at these positions, in this order, without decoding them."""
        names = [self._names[i] for i in self._positions(index)]
        return LazyImages(self._root, names, resolution=self._resolution, workers=self._workers)

    @property
    def digest(self) -> str:
        """Hex SHA-256 of the files' names and sizes and of the resolution; nothing is decoded."""
        digest = hashlib.sha256(str(self._resolution).encode())
        for name in self._names:
            digest.update(f"{len(name)}:{name}:{(self._root / name).stat().st_size}:".encode())
        return digest.hexdigest()

    def broken(self) -> dict[str, str]:
        """Decode every file, keep nothing, and return those that fail with the reason."""
        found: dict[str, str] = {}
        for start in range(0, len(self), _AT_ONCE):
            found |= self._fill(self._names[start : start + _AT_ONCE], out=None)
        return found

    def _positions(self, index: Any) -> Ints:
        """Turn a slice, a mask or positions into positions (rows,) from 0."""
        if isinstance(index, slice):
            return np.arange(len(self), dtype=np.int64)[index]
        found = np.asarray(index)
        if found.dtype == bool and found.shape == (len(self),):
            return np.flatnonzero(found)
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise IndexError(
                f"Expected a number, a slice, positions or a mask of {len(self)}, but got shape "
                f"{found.shape} of {found.dtype}."
            )
        positions: Ints = np.arange(len(self), dtype=np.int64)[found.astype(np.int64)]
        return positions

    def _decoded(self, names: Sequence[str]) -> UInt8s:
        out = np.empty((len(names), *self.shape[1:]), np.uint8)
        broken = self._fill(names, out=out)
        if broken:
            raise ArgumentError(
                f"Expected images that can be decoded, but these cannot: {reasons(broken)}."
            )
        return out

    def _fill(self, names: Sequence[str], *, out: UInt8s | None) -> dict[str, str]:
        """Decode into ``out`` if there is one; return the files that fail."""

        def one(place: int) -> tuple[str, str] | None:
            try:
                pixels = decode_image(self._root / names[place], self._resolution)
            except Exception as error:
                return names[place], str(error) or type(error).__name__
            if out is not None:
                out[place] = pixels
            return None

        places = range(len(names))
        workers = min(self._workers, len(names))
        if workers <= 1:
            return dict(found for found in map(one, places) if found)
        with ThreadPoolExecutor(workers) as pool:
            return dict(found for found in pool.map(one, places) if found)


def decode_image(path: Path, resolution: int) -> UInt8s:
    """Return one image, (resolution, resolution, 3).

    Raises:
        OSError: If the file is missing, damaged or not an image.
        ValueError: If it is too large, or its pixels have no fixed range.
    """
    from PIL import Image, ImageOps

    try:
        with open_regular(path) as file, Image.open(file, formats=FORMATS) as image:
            _require_ordinary(image)
            is_large = image.width * image.height > _LARGE
            with _one_large if is_large else contextlib.nullcontext():
                colours = _eight_bits(ImageOps.exif_transpose(image)).convert("RGB")
                square = (resolution, resolution)
                fitted = ImageOps.fit(colours, square, Image.Resampling.BICUBIC)
                return np.asarray(fitted, np.uint8)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(str(error)) from error


def reasons(broken: dict[str, str]) -> str:
    """Name at most five broken files, each with what is wrong with it, and count the rest."""
    return listing(_Named(name, reason) for name, reason in broken.items())


class _Named:
    """A file and its reason, quoted as one item."""

    def __init__(self, name: str, reason: str) -> None:
        self._text = f"{name!r} ({reason})"

    def __repr__(self) -> str:
        return self._text


def _require_ordinary(image: "Image.Image") -> None:
    from PIL import Image

    most = Image.MAX_IMAGE_PIXELS
    if most is not None and image.width * image.height > most:
        raise ValueError(f"{image.width}×{image.height} pixels, at most {most} are read")


def _eight_bits(image: "Image.Image") -> "Image.Image":
    """Return 16-bit greys as 8-bit ones, which Pillow would cut off at 255."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of mode {image.mode}, which have no fixed range")
    return image


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        return os.cpu_count() or 1
