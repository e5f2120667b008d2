"""Embeddings by a frozen encoder on disk, so that every row is encoded once.

A cache is a folder with one folder per encoder, its *shelf*, and in it segments: files of up to a
thousand rows, written atomically and read by memory mapping. A row is found by its id *and* its
content, so a row whose pixels changed is encoded anew. Removing a row overwrites its entry with
zeros, in place and on every shelf: nothing derived from the row stays.

Nothing but shelves, which are named by the digest of their description, is ever read or removed. A
link among them is refused: what it leads to need not be ours.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from erasable.errors import StateError, StoreError
from erasable.files import require_writable, write_atomically
from erasable.store._segments import (
    DESCRIPTION,
    KEY,
    Bools,
    Embeddings,
    each_segment,
    find_keys,
    is_among,
    is_shelf,
    read_segments,
    require_ours,
    shelf_name,
    write_segment,
)
from erasable.typing import Ints

FORMAT = "erasable.embeddings.1"
SEGMENT = 1024
_TOLERANCE = 1e-3  # other batch sizes and machines round differently, other code does more
_FOLDER = re.compile(r"[0-9a-f]{32}")

Compute = Callable[[Ints], Embeddings]
OnProgress = Callable[[int, int], None]


class EmbeddingCache:
    """Embeddings of rows, by encoder, id and content.

    Args:
        folder: Where they lie; created when the first ones are written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def encode(
        self,
        encoder: Mapping[str, Any],
        ids: Sequence[bytes],
        contents: Sequence[bytes],
        compute: Compute,
        *,
        on_progress: OnProgress | None = None,
    ) -> Embeddings:
        """Return the embeddings of rows, (rows, dim), computing those that are not there.

        What was computed is on disk after each segment; an interrupted call goes on from there.

        Args:
            encoder: Plain values that identify the encoder, its weights and what it does to inputs.
            ids: An encoded id per row.
            contents: A 32-byte digest per row of what the encoder sees.
            compute: From places among the rows to their embeddings, (places, dim).
            on_progress: Called with the number of rows that are there, and of all.

        Raises:
            StateError: If the encoder no longer returns what the cache holds.
        """
        folder = self._shelf(encoder)
        keys = _keys(ids, contents)
        with _lock(folder):
            found, known = _read(folder, keys)
        if len(known):
            _require_same(known, found, compute, folder)
        missing = np.setdiff1d(np.arange(len(keys)), known)
        rows = _Collected(len(keys), known, found)
        report = on_progress or (lambda done, total: None)
        report(len(known), len(keys))
        for start in range(0, len(missing), SEGMENT):
            places = missing[start : start + SEGMENT]
            computed = np.ascontiguousarray(compute(places))
            rows.put(places, computed)
            with _lock(folder):
                write_segment(folder, keys[places], computed)
            report(len(known) + start + len(places), len(keys))
        return rows.array

    def remove(self, ids: Sequence[bytes], contents: Sequence[bytes] = ()) -> int:
        """Overwrite every entry of these encoded ids, or of these contents; return how many.

        Entries of any encoder go: an input may have been encoded under another id, too.

        Everything is flushed to disk before this returns.

        Raises:
            StoreError: If the cache cannot be written to, or something in it is a link; nothing
                was removed then.
        """
        wanted = _digests(ids)
        inputs = np.frombuffer(b"".join(contents), np.uint8).reshape(len(contents), 32)

        def matches(index: npt.NDArray[Any]) -> Bools:
            found: Bools = is_among(index["id"], wanted) | is_among(index["content"], inputs)
            return found

        return self._remove(matches)

    def sweep(self, is_forgotten: Callable[[bytes], bool]) -> int:
        """Overwrite every entry whose content digest is said to be forgotten; return how many."""
        return self._remove(_by_content(is_forgotten))

    def count_forgotten(self, is_forgotten: Callable[[bytes], bool]) -> int:
        """Return how many entries `sweep` would overwrite."""
        return sum(len(index) for index in self._each(_by_content(is_forgotten)))

    def count(self, ids: Sequence[bytes] | None = None) -> int:
        """Return the number of entries of all encoders, or only of some encoded ids."""
        return sum(len(index) for index in self._entries(ids))

    def held(self, ids: Sequence[bytes]) -> int:
        """Return of how many of these encoded ids there is an entry, of any encoder."""
        return len({one.tobytes() for index in self._entries(ids) for one in index["id"]})

    # -- inside ----------------------------------------------------------------------------------

    def _remove(self, matches: Callable[[npt.NDArray[Any]], Bools]) -> int:
        for folder in self._shelves():
            require_ours(folder)
        try:
            return sum(len(index) for index in self._each(matches, removes=True))
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(
                f"Expected to remove rows from the embeddings in {self.folder}, but: {error}. Make "
                "the folder writable, or delete it, and try again."
            ) from error

    def _entries(self, ids: Sequence[bytes] | None) -> Iterator[npt.NDArray[Any]]:
        if ids is None:
            return self._each(lambda index: np.ones(len(index), bool))
        wanted = _digests(ids)
        return self._each(lambda index: is_among(index["id"], wanted))

    def _each(
        self, matches: Callable[[npt.NDArray[Any]], Bools], *, removes: bool = False
    ) -> Iterator[npt.NDArray[Any]]:
        for folder in self._shelves():
            require_ours(folder)  # before the lock, which is a file in it
            with _lock(folder):
                yield from each_segment(folder, matches, removes=removes)

    def _shelf(self, encoder: Mapping[str, Any]) -> Path:
        description = json.dumps({"format": FORMAT, **encoder}, sort_keys=True, indent=2).encode()
        folder = self.folder / shelf_name(description)
        require_writable(self.folder)
        folder.mkdir(exist_ok=True)
        require_ours(folder)
        require_writable(folder)
        with _lock(folder):
            if not is_shelf(folder):
                write_atomically(folder / DESCRIPTION, description)
        return folder

    def _shelves(self) -> list[Path]:
        """Return every folder that may hold segments, also one whose description was lost."""
        if not self.folder.is_dir():
            return []
        named = (path for path in self.folder.iterdir() if _FOLDER.fullmatch(path.name))
        return sorted(path for path in named if path.is_dir())


class _Collected:
    """Embeddings of all rows, put together from what was known and what is computed."""

    def __init__(self, count: int, known: Ints, found: Embeddings) -> None:
        self._count = count
        self.array: Embeddings = np.empty((count, 0), np.float32)
        if len(known):
            self.put(known, found)

    def put(self, places: Ints, embeddings: Embeddings) -> None:
        if not self.array.shape[1]:
            self.array = np.empty((self._count, embeddings.shape[1]), embeddings.dtype)
        self.array[places] = embeddings


def _by_content(is_forgotten: Callable[[bytes], bool]) -> Callable[[npt.NDArray[Any]], Bools]:
    def matches(index: npt.NDArray[Any]) -> Bools:
        return np.array([is_forgotten(content.tobytes()) for content in index["content"]], bool)

    return matches


def _lock(folder: Path) -> FileLock:
    """Return the lock that keeps readers and writers of all processes apart."""
    return FileLock(folder / ".lock")


def _read(folder: Path, keys: npt.NDArray[Any]) -> tuple[Embeddings, Ints]:
    """Return the embeddings that are there, and the places among ``keys`` they belong to."""
    parts: list[Embeddings] = []
    places: list[Ints] = [np.empty(0, np.int64)]
    missing = np.arange(len(keys))
    for segment in read_segments(folder):
        at, among = find_keys(segment.index, keys[missing])
        if not all(segment.is_sound(entry) for entry in at.tolist()):
            segment.discard()
            continue
        parts.append(segment.embeddings[at])
        places.append(missing[among])
        missing = np.setdiff1d(missing, places[-1])
    known = np.concatenate(places)
    return np.concatenate(parts) if len(known) else np.empty((0, 0), np.float32), known


def _keys(ids: Sequence[bytes], contents: Sequence[bytes]) -> npt.NDArray[Any]:
    keys = np.zeros(len(ids), KEY)
    keys["id"] = _digests(ids)
    keys["content"] = np.frombuffer(b"".join(contents), np.uint8).reshape(len(ids), 32)
    return keys


def _digests(ids: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    joined = b"".join(hashlib.sha256(b"erasable.row-id.1:" + row_id).digest() for row_id in ids)
    return np.frombuffer(joined, np.uint8).reshape(len(ids), 32)


def _require_same(known: Ints, found: Embeddings, compute: Compute, folder: Path) -> None:
    """Encode a few known rows again: an encoder's code can change where its weights do not."""
    computed = compute(known[:4])
    scale = max(float(np.abs(computed).max()), 1e-30)
    if computed.shape != found[:4].shape or np.abs(computed - found[:4]).max() > _TOLERANCE * scale:
        raise StateError(
            f"Expected the embeddings in {folder} to be those of this encoder, but it encodes the "
            "same rows differently now. If its code was changed, delete that folder."
        )
