"""The forms in which known data sets are handed round: IDX files, CIFAR's records, PNG sheets.

A layout names the files it needs and turns their bytes into arrays. Nothing is unpickled: CIFAR-10
is read in its binary version only.
"""

import gzip
import hashlib
import io
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from erasable.errors import ArgumentError
from erasable.files import parse_json

if TYPE_CHECKING:
    from erasable.data._specs import Spec

UInt8s = npt.NDArray[np.uint8]
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, eq=False)
class Decoded:
    """Images (rows, height, width[, 3]) and class numbers (rows,) of one split."""

    images: UInt8s
    labels: UInt8s


class Layout(ABC):
    """A set of files that together hold a data set."""

    @property
    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """Names of the files, as `canonical` gives them."""

    @abstractmethod
    def decode(self, contents: Mapping[str, bytes], spec: "Spec") -> dict[str, Decoded]:
        """Turn the files' bytes into arrays by split.

        Raises:
            ArgumentError: If a file does not hold what it should; it is named.
        """


class IdxLayout(Layout):
    """Four files of the form that MNIST made known, each gzipped or not."""

    _STEMS = (("train", "train"), ("test", "t10k"))

    @property
    def files(self) -> tuple[str, ...]:
        """Images and labels of both splits."""
        kinds = ("images-idx3-ubyte", "labels-idx1-ubyte")
        return tuple(f"{stem}-{kind}" for _, stem in self._STEMS for kind in kinds)

    def decode(self, contents: Mapping[str, bytes], spec: "Spec") -> dict[str, Decoded]:
        """Read the headers, compare them with what the data set has, and take the rest."""
        found = {}
        for split, stem in self._STEMS:
            rows = spec.rows[split]
            names = (f"{stem}-images-idx3-ubyte", f"{stem}-labels-idx1-ubyte")
            images = _idx(names[0], contents, (rows, *spec.shape))
            found[split] = Decoded(images, _idx(names[1], contents, (rows,)))
        return found


class CifarBinaryLayout(Layout):
    """The official binary version: records of a class number and 3,072 bytes, colour by colour."""

    @property
    def files(self) -> tuple[str, ...]:
        """Five files to train on and one to test on."""
        return (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")

    def decode(self, contents: Mapping[str, bytes], spec: "Spec") -> dict[str, Decoded]:
        """Split the records and move the colours last."""
        *batches, test = self.files
        share = spec.rows["train"] // len(batches)
        parts = [self._records(name, contents, share, spec) for name in batches]
        train = Decoded(
            np.concatenate([part.images for part in parts]),
            np.concatenate([part.labels for part in parts]),
        )
        return {
            "train": train,
            "test": self._records(test, contents, spec.rows["test"], spec),
        }

    @staticmethod
    def _records(name: str, contents: Mapping[str, bytes], rows: int, spec: "Spec") -> Decoded:
        height, width, colours = spec.shape
        size = 1 + prod(spec.shape)
        data = unpacked(name, contents[name], rows * size)
        if len(data) != rows * size:
            raise ArgumentError(
                f"Expected {name} to have {rows * size} bytes, but it has {len(data)}."
            )
        records = np.frombuffer(data, np.uint8).reshape(rows, size)
        images = records[:, 1:].reshape(rows, colours, height, width).transpose(0, 2, 3, 1)
        return Decoded(np.ascontiguousarray(images), records[:, 0].copy())


class CifarSheetLayout(Layout):
    """Six PNG files in which each line of pixels is one image, and the labels as JSON."""

    _LABELS = (("train", "train_lables.json"), ("test", "test_lables.json"))  # sic

    @property
    def files(self) -> tuple[str, ...]:
        """Sheets and labels."""
        sheets = tuple(f"data_batch_{number}.png" for number in range(1, 6))
        return (*sheets, "test_batch.png", *(name for _, name in self._LABELS))

    def decode(self, contents: Mapping[str, bytes], spec: "Spec") -> dict[str, Decoded]:
        """Decode the sheets; PNG loses nothing."""
        batches = self.files[:5]
        share = spec.rows["train"] // len(batches)
        train = np.concatenate([self._sheet(n, contents, share, spec) for n in batches])
        images = {
            "train": train,
            "test": self._sheet(self.files[5], contents, spec.rows["test"], spec),
        }
        return {
            split: Decoded(images[split], _json_labels(name, contents, spec.rows[split]))
            for split, name in self._LABELS
        }

    @staticmethod
    def _sheet(name: str, contents: Mapping[str, bytes], rows: int, spec: "Spec") -> UInt8s:
        from PIL import Image, UnidentifiedImageError

        height, width, colours = spec.shape
        try:
            with Image.open(io.BytesIO(contents[name]), formats=["PNG"]) as sheet:
                if sheet.size != (height * width, rows) or sheet.mode != "RGB":
                    raise ArgumentError(
                        f"Expected {name} to be {height * width}×{rows} RGB pixels, but got "
                        f"{sheet.size[0]}×{sheet.size[1]} {sheet.mode}."
                    )
                pixels = np.asarray(sheet)
        except (
            UnidentifiedImageError,
            Image.DecompressionBombError,
            OSError,
            SyntaxError,
            ValueError,
            zlib.error,
        ) as error:
            if isinstance(error, ArgumentError):
                raise
            raise ArgumentError(f"Expected a PNG file, but {name} is damaged: {error}.") from error
        return pixels.reshape(rows, height, width, colours)


def canonical(name: str) -> str:
    """Return the name of a file without folder, without ``.gz``, in the usual spelling."""
    base = name.rsplit("/", 1)[-1].removesuffix(".gz")
    return base.replace("-images.idx", "-images-idx").replace("-labels.idx", "-labels-idx")


def unpacked(name: str, data: bytes, size: int) -> bytes:
    """Undo gzip where there is any, but never beyond one byte more than ``size``."""
    if not data.startswith(_GZIP):
        return data
    try:
        with gzip.open(io.BytesIO(data)) as file:
            return file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ArgumentError(f"Expected a gzip file, but {name}.gz is damaged: {error}.") from error


def decoded_digest(splits: Mapping[str, Decoded]) -> str:
    """Return hex SHA-256 over shapes and bytes of all arrays; the same for every source."""
    digest = hashlib.sha256(b"erasable.data.1")
    for split in sorted(splits):
        for array in (splits[split].images, splits[split].labels):
            digest.update(f":{split}:{array.shape}:".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _idx(name: str, contents: Mapping[str, bytes], shape: tuple[int, ...]) -> UInt8s:
    """Read one IDX file of unsigned bytes: 0, 0, 8, axes, then each length as four bytes."""
    header = 4 + 4 * len(shape)
    data = unpacked(name, contents[name], header + prod(shape))
    expected = bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape)
    if data[:header] != expected or len(data) != header + prod(shape):
        raise ArgumentError(
            f"Expected {name} to be an IDX file of bytes with shape {shape}, but it is not: its "
            f"header is {data[:header].hex()} and its length {len(data)}."
        )
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def _json_labels(name: str, contents: Mapping[str, bytes], rows: int) -> UInt8s:
    try:
        labels = parse_json(contents[name])
    except ValueError as error:
        raise ArgumentError(f"Expected JSON, but {name} is damaged: {error}.") from error
    is_list = isinstance(labels, list) and len(labels) == rows
    if not is_list or any(type(label) is not int or not 0 <= label < 256 for label in labels):
        raise ArgumentError(f"Expected {name} to be a list of {rows} class numbers.")
    return np.array(labels, np.uint8)
