"""Files of embeddings: keys first, so that looking for a row does not touch the others' values.

A folder and its files are opened themselves, never what a link of their name leads to, and files
are removed relative to the open folder: whoever exchanges one for a link gets nothing removed.
"""

import contextlib
import hashlib
import logging
import os
import re
import secrets
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from erasable.errors import StoreError
from erasable.files import open_regular, write_atomically
from erasable.terminal import printable
from erasable.typing import Ints

KEY = np.dtype([("id", "u1", 32), ("content", "u1", 32)])
"""A row's key: digests of its id and of its content."""

DESCRIPTION = "encoder.json"
"""The file that marks a folder as a shelf: the folder is named by its digest."""

_LONGEST_DESCRIPTION = 2**24
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

    Attributes:
        path: Where the file lies, for messages.
        index: Keys and checksums, (entries,), mapped.
        embeddings: (entries, dim), mapped.
        file: The open file.
        folder: Handle of the folder that it lies in.
    """

    path: Path
    index: npt.NDArray[Any]
    embeddings: Embeddings
    file: IO[bytes]
    folder: int

    @property
    def is_live(self) -> Bools:
        """Whether each entry is that of a row, (entries,)."""
        live: Bools = (self.index["id"] != 0).any(axis=1)
        return live

    def is_sound(self, entry: int) -> bool:
        """Tell whether an entry and its embedding are as they were written."""
        return bool(_checksum(self.index[entry], self.embeddings[entry]) == self.index[entry][2])

    def overwrite(self, hit: Bools) -> None:
        """Put zeros over entries and their embeddings, and flush them to disk.

        A file that has another name, as a copy made of hard links has, is left under that name as
        it is: zeros would reach beyond the cache.
        """
        if os.fstat(self.file.fileno()).st_nlink > 1:
            self._replace_without(hit)
            return
        self.embeddings[hit] = 0
        self.index[hit] = np.zeros((), _INDEX)
        for part in (self.embeddings, self.index):
            part.flush()  # type: ignore[attr-defined]  # a memory map
        # If this is not reached, the file no longer fits its head and is deleted as damaged.
        self.file.seek(0)
        self.file.write(_head(self.index, self.embeddings))
        self.file.flush()
        if not self.is_live.any():
            os.unlink(self.path.name, dir_fd=self.folder)

    def discard(self) -> None:
        """Delete a damaged file."""
        _discard(self.folder, self.path)

    def _replace_without(self, hit: Bools) -> None:
        log.warning(
            "%s has a second name elsewhere, under which removed embeddings stay: delete it",
            printable(str(self.path)),
        )
        kept = self.is_live & ~hit
        if not kept.any():
            os.unlink(self.path.name, dir_fd=self.folder)
            return
        index, embeddings = self.index[kept], self.embeddings[kept]
        data = _head(index, embeddings) + index.tobytes() + embeddings.tobytes()
        write_atomically(self.path, data)


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

    Raises:
        StoreError: If the folder or a file of it is a link.
    """
    with _opened(folder) as handle:
        for name in sorted(os.listdir(handle)):
            if _LEFT_OVER.fullmatch(name) and is_shelf(folder):
                os.unlink(name, dir_fd=handle)
            elif _NAME.fullmatch(name):
                yield from _segment(handle, folder / name, mode)


def shelf_name(description: bytes) -> str:
    """Return the name of the folder for an encoder: a digest of its description."""
    return hashlib.sha256(description).hexdigest()[:32]


def is_shelf(folder: Path) -> bool:
    """Tell whether a folder is one that a cache made: it is named by the description in it."""
    try:
        with open_regular(folder / DESCRIPTION) as file:
            return shelf_name(file.read(_LONGEST_DESCRIPTION)) == folder.name
    except OSError:
        return False


def require_ours(folder: Path) -> None:
    """Refuse a folder of segments that is a link or has one in it, or that has files of others.

    Raises:
        StoreError: If there is something that this library did not write.
    """
    with _opened(folder) as handle, os.scandir(handle) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                path = folder / entry.name
                if not entry.is_file(follow_symlinks=False):
                    raise _linked(path)
                if not _is_ours(path):
                    raise StoreError(
                        f"Expected embeddings of this library in {path}, but it is another file, "
                        f"in a folder without the {DESCRIPTION} that names it. Nothing was "
                        "removed. Delete the file, or take its folder out of the cache."
                    )


def _is_ours(path: Path) -> bool:
    """Tell whether this library wrote a segment, damaged or not: by its folder, or by its head."""
    if is_shelf(path.parent):
        return True
    with open_regular(path) as file:
        return file.read(len(_MAGIC)) == _MAGIC


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """Open a folder itself, not one that a link leads to."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if folder.is_symlink():
            raise _linked(folder) from error
        raise
    try:
        yield handle
    finally:
        os.close(handle)


def _segment(handle: int, path: Path, mode: Literal["r", "r+"]) -> Iterator[Segment]:
    access = os.O_RDWR if mode == "r+" else os.O_RDONLY
    flags = access | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.fdopen(os.open(path.name, flags, dir_fd=handle), f"{mode}b")
    except FileNotFoundError:
        return  # somebody else deleted it just now
    except OSError as error:
        is_link = stat.S_ISLNK(os.lstat(path.name, dir_fd=handle).st_mode)
        raise (_linked(path) if is_link else error) from error
    with file:
        found = _read(file, handle, path, mode)
        if found is None:
            _discard(handle, path)
        else:
            yield found


def _discard(handle: int, path: Path) -> None:
    log.warning("%s is damaged: it is deleted, and its rows are encoded anew", printable(str(path)))
    os.unlink(path.name, dir_fd=handle)


def _linked(path: Path) -> StoreError:
    return StoreError(
        f"Expected {path} to be a folder or file of embeddings, but it is a link or a special "
        "file, and nothing behind it is read or removed. Delete it; what it leads to is yours to "
        "delete."
    )


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


def _read(file: IO[bytes], folder: int, path: Path, mode: Literal["r", "r+"]) -> Segment | None:
    """Return a segment, or None if the file is not one."""
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise _linked(path)
    size, head = found.st_size, file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    _, rows, dim, width, _, _ = _HEAD.unpack(head)
    numbers = _NUMBERS.get(width)
    middle = _HEAD.size + rows * _INDEX.itemsize
    if numbers is None or not rows or not dim or size != middle + rows * dim * width:
        return None
    index = _map(file, mode, _INDEX, _HEAD.size, (rows,))
    embeddings = _map(file, mode, numbers, middle, (rows, dim))
    is_sound = head == _head(index, embeddings)
    return Segment(path, index, embeddings, file, folder) if is_sound else None


def _map(
    file: IO[bytes],
    mode: Literal["r", "r+"],
    dtype: np.dtype[Any],
    offset: int,
    shape: tuple[int, ...],
) -> npt.NDArray[Any]:
    mapped: npt.NDArray[Any]
    mapped = np.memmap(file, dtype=dtype, mode=mode, offset=offset, shape=shape)
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
