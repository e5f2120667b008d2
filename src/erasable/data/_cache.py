"""Data sets on disk: one folder each, arrays that are mapped into memory, and a commit point.

``data.json`` is written last. It names every file with its size and SHA-256; without it the folder
does not count.
"""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from erasable.data._layouts import Decoded, UInt8s, decoded_digest
from erasable.data._specs import Spec
from erasable.data._split import Split
from erasable.errors import StoreError, listing
from erasable.files import parse_json, read_bounded, sync_folder, write_atomically

FORMAT = "erasable.data.1"
COMMIT = "data.json"
MARKER = ".erasable-data"
"""There while files are written: the folder is one that this library made."""

PARTIAL = ".partial-"
"""How names begin that are of no use once their process has ended."""


@dataclass(frozen=True)
class Entry:
    """A data set in the cache.

    Attributes:
        folder: Where it is.
        source: Where its bytes came from.
        files: Size and SHA-256 by file name.
    """

    folder: Path
    source: str
    files: Mapping[str, Mapping[str, Any]]


def data_folder(cache: Path | str | None = None) -> Path:
    """Return where data sets are kept: ``cache``, ``$ERASABLE_DATA``, or the user's cache."""
    named = cache or os.environ.get("ERASABLE_DATA")
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "erasable" / "data"


@contextlib.contextmanager
def cache_lock(spec: Spec, root: Path) -> Iterator[None]:
    """Keep other processes from writing the same data set; sweep what killed ones left.

    Raises:
        StoreError: If the folder cannot be written to.
    """
    folder = root / spec.name
    path = root / f".{spec.name}.lock"
    lock = FileLock(path)
    _require_ours(spec, folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise StoreError(
            f"Expected to write {spec.name} to {error.filename or root}, but: "
            f"{error.strerror or error}."
        ) from error
    try:
        for left in folder.glob(f"{PARTIAL}*"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
        yield
    finally:
        path.unlink(missing_ok=True)  # whoever waits for it finds the data set
        lock.release()


def read_entry(spec: Spec, root: Path) -> Entry | None:
    """Return what the cache has of a data set, or None if it has nothing.

    Raises:
        StoreError: If it is damaged: a file is missing or has another size than was recorded.
    """
    folder = root / spec.name
    path = folder / COMMIT
    try:
        document = parse_json(read_bounded(path, limit=2**24))
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise _damaged(spec, f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _damaged(spec, f"{path} is not of the format {FORMAT}")
    if document.get("digest") != spec.digest:
        raise _damaged(spec, f"{path} is about other data than {spec.name}")
    files = document.get("files")
    if not isinstance(files, dict) or not all(isinstance(one, dict) for one in files.values()):
        raise _damaged(spec, f"{path} does not name its files")
    entry = Entry(folder, str(document.get("source")), files)
    _require_sizes(spec, entry)
    return entry


def write_entry(spec: Spec, splits: Mapping[str, Decoded], *, source: str, root: Path) -> Entry:
    """Put decoded arrays into the cache, read them back, and commit.

    What is there already is left alone if it is whole: others may be reading it.

    Raises:
        StoreError: If the disk is full, cannot be written, or gives back other bytes; nothing
            half-written stays.
    """
    folder = root / spec.name
    with contextlib.suppress(StoreError):
        entry = read_entry(spec, root)
        if entry is not None:
            verify(spec, entry)
            return entry
    _require_ours(spec, folder)
    try:
        return _write(spec, splits, folder, source)
    except BaseException as error:
        for name in (*_files(spec), MARKER):  # without the commit point they are of no use
            with contextlib.suppress(OSError):
                (folder / name).unlink()
        if isinstance(error, OSError) and not isinstance(error, StoreError):
            raise StoreError(
                f"Expected to write {spec.name} to {error.filename or folder}, but: "
                f"{error.strerror or error}."
            ) from error
        raise


def _write(spec: Spec, splits: Mapping[str, Decoded], folder: Path, source: str) -> Entry:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()
    (folder / COMMIT).unlink(missing_ok=True)
    for split, found in splits.items():
        _write_array(folder / _file(split, "images"), found.images)
        _write_array(folder / _file(split, "labels"), found.labels)
    sync_folder(folder)
    files = {name: _fingerprint(folder / name) for name in _files(spec)}
    entry = Entry(folder, source, files)
    _require_digest(spec, entry)
    document = {
        "format": FORMAT,
        "name": spec.name,
        "source": source,
        "digest": spec.digest,
        "files": files,
    }
    write_atomically(folder / COMMIT, json.dumps(document, indent=1).encode())
    (folder / MARKER).unlink(missing_ok=True)
    return entry


def _require_ours(spec: Spec, folder: Path) -> None:
    """Refuse to write where a link or files of somebody else are.

    Raises:
        StoreError: If the folder is there and this library did not make it.
    """
    is_link = folder.is_symlink()
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    foreign = names & set(_files(spec)) and not names & {COMMIT, MARKER}
    if is_link or foreign:
        found = "a link" if is_link else "files of others, without the data.json that names them"
        raise StoreError(
            f"Expected to write {spec.name} to {folder}, but there is {found}. Nothing there was "
            "changed. Move it away, or name another folder by ERASABLE_DATA."
        )


def verify(spec: Spec, entry: Entry) -> None:
    """Read every file and compare its SHA-256 with the recorded one, and the whole with ours.

    Raises:
        StoreError: If files differ; they are named.
    """
    wrong = [
        str(entry.folder / name)
        for name in _files(spec)
        if _fingerprint(entry.folder / name) != entry.files[name]
    ]
    if wrong:
        raise _damaged(spec, f"these files differ from their recorded SHA-256: {listing(wrong)}")
    _require_digest(spec, entry)


def read_split(spec: Spec, entry: Entry, split: str) -> Split:
    """Map a split into memory; pixels are read from disk when they are used."""
    images, numbers = _arrays(spec, entry, split)
    if int(numbers.max()) >= spec.count:
        path = entry.folder / _file(split, "labels")
        raise _damaged(spec, f"{path} has labels that are not below {spec.count}")
    labels = numbers.astype(np.int64) if spec.classes is None else np.array(spec.classes)[numbers]
    ids = [f"{spec.name}/{split}/{index}" for index in range(len(images))]
    return Split(images, np.asarray(labels), ids)


def _file(split: str, kind: str) -> str:
    return f"{split}-{kind}.npy"


def _files(spec: Spec) -> list[str]:
    return [_file(split, kind) for split in spec.rows for kind in ("images", "labels")]


def _require_digest(spec: Spec, entry: Entry) -> None:
    """Decode what is on disk, and compare it with what the data set must be."""
    splits = {split: Decoded(*_arrays(spec, entry, split)) for split in spec.rows}
    if decoded_digest(splits) != spec.digest:
        raise _damaged(spec, f"{entry.folder} holds other pixels or labels")


def _arrays(spec: Spec, entry: Entry, split: str) -> tuple[UInt8s, UInt8s]:
    rows = spec.rows[split]
    images = _mapped(spec, entry.folder / _file(split, "images"), (rows, *spec.shape))
    return images, _mapped(spec, entry.folder / _file(split, "labels"), (rows,))


def _require_sizes(spec: Spec, entry: Entry) -> None:
    wrong = []
    for name in _files(spec):
        path, recorded = entry.folder / name, entry.files.get(name, {})
        if not path.is_file() or path.stat().st_size != recorded.get("bytes"):
            wrong.append(str(path))
    if wrong:
        raise _damaged(spec, f"these files are missing or have another size: {listing(wrong)}")


def _mapped(spec: Spec, path: Path, shape: tuple[int, ...]) -> UInt8s:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise _damaged(spec, f"{path} cannot be read: {error}") from error
    if array.shape != shape or array.dtype != np.uint8:
        raise _damaged(spec, f"{path} holds {array.dtype} of shape {array.shape}, not {shape}")
    found: UInt8s = array
    return found


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": file.tell(), "sha256": sha256}


def _write_array(path: Path, array: UInt8s) -> None:
    with _replaced(path) as temporary, temporary.open("xb") as file:
        # numpy.save hands the pixels to C, which does not tell when the disk takes only some.
        header = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(file, header)
        file.write(np.ascontiguousarray(array).data)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """Hand out a temporary name that takes the place of ``path``, or goes away on an error."""
    temporary = path.with_name(f"{PARTIAL}{path.name}.{secrets.token_hex(8)}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _damaged(spec: Spec, what: str) -> StoreError:
    return StoreError(
        f"Expected {spec.name} whole in the cache, but {what}. Run `erasable data get {spec.name}` "
        "to get it again."
    )
