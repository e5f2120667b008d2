"""Files of embeddings: keys first, so that looking for a row does not touch the others' values."""

import logging
import re
import secrets
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from erasable.errors import StoreError
from erasable.files import write_atomically
from erasable.typing import Ints

KEY = np.dtype([("id", "u1", 32), ("content", "u1", 32)])
"""A row's key: digests of its id and of its content."""

_MAGIC = b"erasable.embeddings.1\n\0\0"
_HEAD = struct.Struct("<24sIII4sI16x")  # magic, rows, dim, bytes per number, zeros, checksum
_INDEX = np.dtype([*((name, KEY[name]) for name in KEY.names or ()), ("checksum", "<u4")])
_NUMBERS: dict[int, np.dtype[Any]] = {4: np.dtype("<f4"), 8: np.dtype("<f8")}
_NAME = re.compile(r"[0-9a-f]{16}\.rows")
_LEFT_OVER = re.compile(r"\.[0-9a-f]{16}\.rows\.[0-9a-f]{16}\.tmp")

Embeddings = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Segment:
    """One file: an entry per row in the index, and its embedding.

    An entry of zeros is that of a row which was removed.
    """

    path: Path
    index: npt.NDArray[Any]
    embeddings: Embeddings

    @property
    def is_live(self) -> Bools:
        """Whether each entry is that of a row, (entries,)."""
        live: Bools = (self.index["id"] != 0).any(axis=1)
        return live

    def is_sound(self, entry: int) -> bool:
        """Tell whether an entry and its embedding are as they were written."""
        return bool(_checksum(self.index[entry], self.embeddings[entry]) == self.index[entry][2])

    def overwrite(self, hit: Bools) -> None:
        """Put zeros over entries and their embeddings, and flush them to disk."""
        self.embeddings[hit] = 0
        self.index[hit] = np.zeros((), _INDEX)
        for part in (self.embeddings, self.index):
            part.flush()  # type: ignore[attr-defined]  # a memory map
        # If this is not reached, the file no longer fits its head and is deleted as damaged.
        with self.path.open("r+b") as file:
            file.write(_head(self.index, self.embeddings))
        if not self.is_live.any():
            self.path.unlink()


def write_segment(folder: Path, keys: npt.NDArray[Any], embeddings: Embeddings) -> None:
    """Write a segment; it is there completely or not at all."""
    if embeddings.ndim != 2 or embeddings.dtype not in (np.float32, np.float64):
        raise StoreError(
            f"Expected embeddings (rows, dim) of float32 or float64, but got {embeddings.dtype} "
            f"of shape {embeddings.shape}."
        )
    values = np.ascontiguousarray(embeddings, _NUMBERS[embeddings.itemsize])
    index = np.zeros(len(keys), _INDEX)
    for name in KEY.names or ():
        index[name] = keys[name]
    index["checksum"] = [_checksum(e, v) for e, v in zip(index, values, strict=True)]
    data = _head(index, values) + index.tobytes() + values.tobytes()
    write_atomically(folder / f"{secrets.token_hex(8)}.rows", data)


def read_segments(folder: Path, mode: Literal["r", "r+"] = "r") -> Iterator[Segment]:
    """Yield every segment as a memory map; one that is damaged is deleted, not trusted.

    Call with the folder locked: what a killed write left behind is deleted as well.
    """
    for path in sorted(folder.iterdir()):
        if _LEFT_OVER.fullmatch(path.name):
            path.unlink()
        elif _NAME.fullmatch(path.name):
            try:
                found = _read(path, mode)
            except FileNotFoundError:
                continue  # somebody else deleted it just now
            if found is None:
                discard(path)
            else:
                yield found


def discard(path: Path) -> None:
    """Delete a damaged segment."""
    log.warning("%s is damaged: it is deleted, and its rows are encoded anew", path)
    path.unlink()


def find_keys(index: npt.NDArray[Any], keys: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Return pairs of an entry and a key with the same id and content, each key at most once."""
    if not len(index) or not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    theirs = _words(index["id"]) ^ _words(index["content"])
    ours = _words(keys["id"]) ^ _words(keys["content"])
    order = np.argsort(theirs, kind="stable")
    at = np.searchsorted(theirs, ours, sorter=order)
    candidates = order[np.minimum(at, len(order) - 1)]
    same = (index["id"][candidates] == keys["id"]).all(axis=1)
    same &= (index["content"][candidates] == keys["content"]).all(axis=1)
    among = np.flatnonzero(same)
    return candidates[among], among


def is_among(digests: npt.NDArray[np.uint8], wanted: npt.NDArray[np.uint8]) -> Bools:
    """Tell which digests (n, 32) are among others, (n,)."""
    known = {digest.tobytes() for digest in wanted}
    hit: Bools = np.isin(_words(digests), _words(wanted))
    hit[hit] = [digest.tobytes() in known for digest in digests[hit]]
    return hit


def each_segment(
    folder: Path, matches: Callable[[npt.NDArray[Any]], Bools], *, removes: bool
) -> Iterator[npt.NDArray[Any]]:
    """Yield the index entries that match, segment by segment, and overwrite them if asked to."""
    for segment in read_segments(folder, "r+" if removes else "r"):
        hit = segment.is_live & matches(segment.index)
        if hit.any():
            yield segment.index[hit]
            if removes:
                segment.overwrite(hit)


def _read(path: Path, mode: Literal["r", "r+"]) -> Segment | None:
    """Return a segment, or None if the file is not one."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    _, rows, dim, width, _, _ = _HEAD.unpack(head)
    numbers = _NUMBERS.get(width)
    middle = _HEAD.size + rows * _INDEX.itemsize
    if numbers is None or not rows or not dim or size != middle + rows * dim * width:
        return None
    index = _map(path, mode, _INDEX, _HEAD.size, (rows,))
    embeddings = _map(path, mode, numbers, middle, (rows, dim))
    return Segment(path, index, embeddings) if head == _head(index, embeddings) else None


def _map(
    path: Path,
    mode: Literal["r", "r+"],
    dtype: np.dtype[Any],
    offset: int,
    shape: tuple[int, ...],
) -> npt.NDArray[Any]:
    mapped: npt.NDArray[Any]
    mapped = np.memmap(path, dtype=dtype, mode=mode, offset=offset, shape=shape)
    return mapped


def _head(index: npt.NDArray[Any], values: Embeddings) -> bytes:
    facts = (_MAGIC, len(index), values.shape[1], values.itemsize, bytes(4))
    checksum = zlib.crc32(index.tobytes(), zlib.crc32(_HEAD.pack(*facts, 0)))
    return _HEAD.pack(*facts, checksum)


def _checksum(entry: Any, value: Embeddings) -> int:
    return zlib.crc32(value.tobytes(), zlib.crc32(entry["content"], zlib.crc32(entry["id"])))


def _words(digests: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return the first eight bytes of digests (n, 32) as numbers, to search by."""
    return np.ascontiguousarray(digests[:, :8]).view(np.uint64)[:, 0]
