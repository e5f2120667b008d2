"""Reading chosen files out of a folder, a tar or zip archive, or a Debian package.

Members are read by name into memory. Nothing is ever extracted, so no name in an archive can lead
out of a folder.
"""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Any

from erasable.data._layouts import canonical
from erasable.errors import ArgumentError
from erasable.files import open_regular, read_bounded

_DEPTH = 5
_FOLD = 4  # of the largest file that is wanted: archives have all of them, and other things
_COMPRESSED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"\x5d\0\0": lzma.LZMAFile,
}
_AR = b"!<arch>\n"
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    MemoryError,
    OverflowError,
)


def read_members(path: Path, wanted: Collection[str], *, limit: int) -> dict[str, bytes]:
    """Return the bytes of the wanted files that a folder or an archive has.

    Args:
        path: A folder, a tar archive (compressed or not), a zip archive, or a Debian package.
        wanted: Names as `canonical` gives them.
        limit: Most bytes that one file may have.

    Raises:
        ArgumentError: If there is nothing at ``path``, or it is damaged.
    """
    if path.is_dir():
        return _in_folder(path, wanted, limit)
    if canonical(path.name) in wanted:  # one of the files: the others lie beside it
        return read_members(path.parent, wanted, limit=limit)
    try:
        with open_regular(path) as file:
            return _in_archive(file, wanted, limit)
    except FileNotFoundError:
        raise ArgumentError(f"Expected a file or a folder, but there is no {path}.") from None
    except _DAMAGE as error:
        raise ArgumentError(
            f"Expected a whole archive, but {path} is damaged or not an archive: "
            f"{str(error) or type(error).__name__}. Fetch it again."
        ) from error


def places(path: Path, wanted: Collection[str]) -> list[Path]:
    """Return where a data set may lie: the folders that have most of its files, or ``path`` itself.

    There can be several: MNIST and Fashion-MNIST have files of the same names.
    """
    if not path.is_dir():
        return [path]
    best = max((len(found) for _, found in _folders(path, wanted)), default=0)
    chosen = [folder for folder, found in _folders(path, wanted) if best and len(found) == best]
    return chosen or [path]


def _in_folder(root: Path, wanted: Collection[str], limit: int) -> dict[str, bytes]:
    found = {}
    best = max(_folders(root, wanted), key=lambda one: len(one[1]))[1]  # the first of equal ones
    for name, file in best.items():
        try:
            found[name] = read_bounded(file, limit=limit)
        except (OSError, ValueError) as error:
            raise ArgumentError(
                f"Expected a file of the data set, but {file} cannot be read: {error}."
            ) from error
    return found


def _folders(root: Path, wanted: Collection[str]) -> Iterator[tuple[Path, dict[str, Path]]]:
    """Yield each folder, the root first, with the wanted files that it has."""
    for folder, below, files in os.walk(root):
        here = Path(folder)
        below[:] = sorted(below) if len(here.relative_to(root).parts) < _DEPTH else []
        found = {canonical(name): here / name for name in sorted(files)}
        yield (
            here,
            {name: file for name, file in found.items() if name in wanted and file.is_file()},
        )


def _in_archive(file: IO[bytes], wanted: Collection[str], limit: int) -> dict[str, bytes]:
    start = file.read(len(_AR))
    file.seek(0)
    if start == _AR:
        return _in_tar(io.BytesIO(_debian_data(file)), wanted, limit)
    if start.startswith(b"PK"):
        return _in_zip(file, wanted, limit)
    return _in_tar(file, wanted, limit)


def _in_tar(file: IO[bytes], wanted: Collection[str], limit: int) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    stream = _Bounded(_decompressed(file), _FOLD * limit)
    with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]  # only reads
        for member in archive:
            name = canonical(member.name)
            if name not in wanted or not member.isreg():
                continue
            _require_small(name, member.size, limit)
            content = archive.extractfile(member)
            found[name] = b"" if content is None else content.read()
    return found


def _decompressed(file: IO[bytes]) -> IO[bytes]:
    """Return what a tar archive was before it was compressed; told by its first bytes."""
    start = file.read(6)
    file.seek(0)
    for magic, opened in _COMPRESSED.items():
        if start.startswith(magic):
            stream: IO[bytes] = opened(file)
            return stream
    return file


class _Bounded:
    """A file to read from start to end, which ends with an error before it fills the memory.

    Args:
        file: The file.
        limit: Most bytes to read.
    """

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file = file
        self._left = limit

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        found = self._file.read(min(size, self._left + 1))
        self._left -= len(found)
        if self._left < 0:
            raise ValueError("it expands to far more than the data set has")
        return found


def _in_zip(file: IO[bytes], wanted: Collection[str], limit: int) -> dict[str, bytes]:
    found = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            name = canonical(member.filename)
            if name in wanted and not member.is_dir():
                _require_small(name, member.file_size, limit)
                found[name] = archive.read(member)
    return found


def _debian_data(file: IO[bytes]) -> bytes:
    """Return ``data.tar.*``: an ar archive is a magic word, then headers of 60 bytes and data."""
    file.seek(len(_AR))
    while len(header := file.read(60)) == 60:
        size = int(header[48:58])
        if header.startswith(b"data.tar.zst"):
            raise ValueError(
                "it is a Debian package compressed by zstd. Unpack it with `dpkg-deb -x FILE "
                "FOLDER` and name the folder"
            )
        if header.startswith(b"data.tar"):
            data = file.read(size)
            if len(data) != size:
                break
            return data
        file.seek(size + size % 2, io.SEEK_CUR)
    raise EOFError("it ends early")


def _require_small(name: str, size: int, limit: int) -> None:
    if size > limit:
        raise ValueError(f"{name} says it has {size} bytes, at most {limit} were expected")
