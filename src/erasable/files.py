"""Writing files so that a crash leaves either the old one or the new one."""

import os
import secrets
from pathlib import Path

from erasable.errors import StoreError


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
