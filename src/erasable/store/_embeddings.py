"""Embeddings by a frozen encoder on disk, so that every row is encoded once.

A cache is a folder with one folder per encoder, and in it segments: files of up to a thousand rows,
written atomically and read by memory mapping. A row is found by its id *and* its content, so a row
whose pixels changed is encoded anew. Removing a row overwrites its entry with zeros, in place and
in every encoder's folder: nothing derived from the row stays.
"""

import hashlib
import io
import json
import logging
import re
import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from erasable.errors import StateError, StoreError
from erasable.files import require_writable, write_atomically
from erasable.typing import Ints

FORMAT = "erasable.embeddings.1"
SEGMENT = 1024
_TOLERANCE = 1e-3  # other batch sizes and machines round differently, other code does more
_FOLDER = re.compile(r"[0-9a-f]{32}")
_NO_ENTRY = np.zeros(32, np.uint8)

Embeddings = npt.NDArray[Any]
Compute = Callable[[Ints], Embeddings]
OnProgress = Callable[[int, int], None]

log = logging.getLogger(__name__)


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
        shelf = self._shelf(encoder)
        keys = _keys(ids, contents)
        with shelf.lock():
            found, known = shelf.read(keys)
        if len(known):
            _require_same(known, found[: len(known)], compute, shelf.folder)
        missing = np.setdiff1d(np.arange(len(keys)), known)
        rows = _Collected(len(keys), known, found)
        report = on_progress or (lambda done, total: None)
        report(len(known), len(keys))
        for start in range(0, len(missing), SEGMENT):
            places = missing[start : start + SEGMENT]
            computed = np.ascontiguousarray(compute(places))
            rows.put(places, computed)
            with shelf.lock():
                shelf.append(keys[places], computed)
            report(len(known) + start + len(places), len(keys))
        return rows.array

    def remove(self, ids: Sequence[bytes]) -> int:
        """Overwrite every entry of these encoded ids, of any encoder and content; return how many.

        Memory maps are flushed to disk before this returns.
        """
        wanted = _digests(ids)
        return self._remove(lambda entries: _is_among(entries["id"], wanted))

    def sweep(self, is_forgotten: Callable[[bytes], bool]) -> int:
        """Overwrite every entry whose content digest is said to be forgotten; return how many."""

        def matches(entries: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
            return np.array([is_forgotten(content.tobytes()) for content in entries["content"]])

        return self._remove(matches)

    def count(self, ids: Sequence[bytes] | None = None) -> int:
        """Return the number of entries, or of those that these encoded ids have."""
        wanted = None if ids is None else _digests(ids)
        total = 0
        for shelf in self._shelves():
            for _, entries in shelf.segments():
                live = _is_live(entries)
                total += int((live if wanted is None else _is_among(entries["id"], wanted)).sum())
        return total

    # -- inside ----------------------------------------------------------------------------------

    def _remove(self, matches: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]) -> int:
        removed = 0
        for shelf in self._shelves():
            with shelf.lock():
                removed += shelf.overwrite(matches)
        return removed

    def _shelf(self, encoder: Mapping[str, Any]) -> "_Shelf":
        description = json.dumps({"format": FORMAT, **encoder}, sort_keys=True, indent=2)
        name = hashlib.sha256(description.encode()).hexdigest()[:32]
        shelf = _Shelf(self.folder / name)
        require_writable(shelf.folder)
        if not (shelf.folder / "encoder.json").exists():
            write_atomically(shelf.folder / "encoder.json", description.encode() + b"\n")
        return shelf

    def _shelves(self) -> list["_Shelf"]:
        if not self.folder.is_dir():
            return []
        return [_Shelf(p) for p in sorted(self.folder.iterdir()) if _FOLDER.fullmatch(p.name)]


class _Shelf:
    """The segments of one encoder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lock(self) -> FileLock:
        """Return the lock that keeps readers and writers of all processes apart."""
        return FileLock(self.folder / ".lock")

    def segments(self, mode: Literal["r", "r+"] = "r") -> Iterator[tuple[Path, npt.NDArray[Any]]]:
        """Yield every segment as a memory map; one that is damaged is deleted, not trusted."""
        for path in sorted(self.folder.glob("*.npy")):
            try:
                entries = np.load(path, mmap_mode=mode)
                is_sound = {"id", "content", "checksum", "embedding"} == set(entries.dtype.names)
            except (ValueError, OSError, EOFError, TypeError):
                is_sound = False
            if is_sound:
                yield path, entries
            else:
                _discard(path)

    def read(self, keys: npt.NDArray[Any]) -> tuple[Embeddings, Ints]:
        """Return the embeddings that are there, and the places among ``keys`` they belong to."""
        parts: list[Embeddings] = []
        places: list[Ints] = [np.empty(0, np.int64)]
        missing = np.arange(len(keys))
        for path, entries in self.segments():
            at, among = _matches(entries, keys[missing])
            taken = entries[at]
            if any(_checksum(entry) != entry["checksum"] for entry in taken):
                _discard(path)
                continue
            parts.append(taken["embedding"])
            places.append(missing[among])
            missing = np.setdiff1d(missing, places[-1])
        known = np.concatenate(places)
        return np.concatenate(parts) if len(known) else np.empty((0, 0), np.float32), known

    def append(self, keys: npt.NDArray[Any], embeddings: Embeddings) -> None:
        """Write a segment; it is there completely or not at all."""
        entries = np.zeros(len(keys), _entry(embeddings))
        entries["id"], entries["content"] = keys["id"], keys["content"]
        entries["embedding"] = embeddings
        entries["checksum"] = [_checksum(entry) for entry in entries]
        buffer = io.BytesIO()
        np.save(buffer, entries, allow_pickle=False)
        write_atomically(self.folder / f"{secrets.token_hex(8)}.npy", buffer.getvalue())

    def overwrite(self, matches: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]) -> int:
        """Put zeros over matching entries; a segment without any others is removed."""
        removed = 0
        for path, entries in self.segments("r+"):
            hit = _is_live(entries) & matches(entries)
            if not hit.any():
                continue
            entries[hit] = np.zeros((), entries.dtype)
            entries.flush()  # type: ignore[attr-defined]  # a memory map
            removed += int(hit.sum())
            if not _is_live(entries).any():
                path.unlink()
        return removed


def _discard(path: Path) -> None:
    log.warning("%s is damaged: it is deleted, and its rows are encoded anew", path)
    path.unlink()


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


def _entry(embeddings: Embeddings) -> np.dtype[Any]:
    if embeddings.ndim != 2 or embeddings.dtype not in (np.float32, np.float64):
        raise StoreError(
            f"Expected embeddings (rows, dim) of float32 or float64, but got {embeddings.dtype} "
            f"of shape {embeddings.shape}."
        )
    number = "<f4" if embeddings.dtype == np.float32 else "<f8"
    return np.dtype(
        [
            ("id", "u1", 32),
            ("content", "u1", 32),
            ("checksum", "<u4"),
            ("embedding", number, (embeddings.shape[1],)),
        ]
    )


def _keys(ids: Sequence[bytes], contents: Sequence[bytes]) -> npt.NDArray[Any]:
    keys = np.zeros(len(ids), [("id", "u1", 32), ("content", "u1", 32)])
    keys["id"] = _digests(ids)
    keys["content"] = np.frombuffer(b"".join(contents), np.uint8).reshape(len(ids), 32)
    return keys


def _digests(ids: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    joined = b"".join(hashlib.sha256(b"erasable.row-id.1:" + row_id).digest() for row_id in ids)
    return np.frombuffer(joined, np.uint8).reshape(len(ids), 32)


def _words(digests: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return the first eight bytes of digests (n, 32) as numbers, to search by."""
    return np.ascontiguousarray(digests[:, :8]).view(np.uint64)[:, 0]


def _matches(entries: npt.NDArray[Any], keys: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Return pairs of an entry and a key with the same id and content, each key at most once."""
    if not len(entries) or not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    theirs = _words(entries["id"]) ^ _words(entries["content"])
    ours = _words(keys["id"]) ^ _words(keys["content"])
    order = np.argsort(theirs, kind="stable")
    at = np.searchsorted(theirs, ours, sorter=order)
    candidates = order[np.minimum(at, len(order) - 1)]
    same = (entries["id"][candidates] == keys["id"]).all(axis=1)
    same &= (entries["content"][candidates] == keys["content"]).all(axis=1)
    among = np.flatnonzero(same)
    return candidates[among], among


def _is_among(
    digests: npt.NDArray[np.uint8], wanted: npt.NDArray[np.uint8]
) -> npt.NDArray[np.bool_]:
    known = {digest.tobytes() for digest in wanted}
    hit = np.isin(_words(digests), _words(wanted))
    hit[hit] = [digest.tobytes() in known for digest in digests[hit]]
    return hit


def _is_live(entries: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    live: npt.NDArray[np.bool_] = (entries["id"] != _NO_ENTRY).any(axis=1)
    return live


def _checksum(entry: Any) -> int:
    return zlib.crc32(entry["embedding"], zlib.crc32(entry["content"], zlib.crc32(entry["id"])))


def _require_same(known: Ints, found: Embeddings, compute: Compute, folder: Path) -> None:
    """Encode a few known rows again: an encoder's code can change where its weights do not."""
    computed = compute(known[:4])
    scale = max(float(np.abs(computed).max()), 1e-30)
    if computed.shape != found[:4].shape or np.abs(computed - found[:4]).max() > _TOLERANCE * scale:
        raise StateError(
            f"Expected the embeddings in {folder} to be those of this encoder, but it encodes the "
            "same rows differently now. If its code was changed, delete that folder."
        )
