"""Writing files so that a crash leaves either the old one or the new one."""

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from erasable.errors import StoreError, StoreRefusedError


def write_atomically(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write to a temporary name beside ``path``, flush to disk, rename, flush the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)  # less the umask
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def open_regular(path: Path) -> IO[bytes]:
    """Open a file to read, but no device, pipe or folder: reading those may never end.

    Raises:
        OSError: If it is one of those, or cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would wait
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not an ordinary file", str(path))
    return os.fdopen(handle, "rb")


def read_bounded(path: Path, *, limit: int) -> bytes:
    """Return the bytes of an ordinary file of at most ``limit`` bytes.

    Raises:
        OSError: If it is no ordinary file, longer, or cannot be read.
    """
    with open_regular(path) as file:
        found = file.read(limit + 1)
    if len(found) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", str(path))
    return found


def parse_json(text: str | bytes) -> Any:
    """Return what a JSON text says.

    Raises:
        ValueError: If it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def require_writable(folder: Path) -> None:
    """Create a folder if need be, and make sure that files can be written to it.

    Raises:
        StoreError: If they cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{secrets.token_hex(8)}.tmp"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise StoreError(
            f"Expected a folder to write to, but {folder}: {error.strerror}."
        ) from error


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Say what to do where a file cannot be written."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StoreRefusedError(
                f"The disk of {path} is full. Free some space and repeat. Nothing was changed."
            ) from error
        raise StoreRefusedError(
            f"Expected to write {path}, but: {error.strerror or error}. Check the permissions of "
            "the folder and the disk. Nothing was changed."
        ) from error


def read_part(path: Path, *, limit: int, noun: str) -> bytes:
    """Return the bytes of a file that is part of a saved model.

    Raises:
        StoreError: If it is missing, no ordinary file, longer than it can be, or unreadable.
    """
    try:
        return read_bounded(path, limit=limit)
    except FileNotFoundError:
        problem = "the file is not there"
    except OSError as error:
        problem = error.strerror or str(error)
    raise StoreError(
        f"Expected {noun} in {path}, but {problem}. Restore the last copy of the whole directory."
    )
