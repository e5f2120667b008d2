"""Arrays in ``.npz`` files, read so that a hostile file can neither run code nor take all memory.

What a file says of itself is compared before anything is allocated: the sizes in the zip archive,
the shape and type in each array's header, and what a file of its size can reasonably hold.
"""

import struct
import zipfile
import zlib
from collections.abc import Collection
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from erasable.files import open_regular

ALWAYS = 2**28
"""Bytes that any file may expand to."""

FOLD = 100
"""How many times its own size a larger one may expand to; photographs and tables stay below 20."""

UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    OSError,
    EOFError,
    RuntimeError,
    MemoryError,
    OverflowError,
    SyntaxError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""What a file that is no, or a damaged, ``.npz`` file makes of its reader."""

_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_KINDS = "biufcUS"


def read_npz(
    path: Path, wanted: Collection[str] | None = None
) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """Return the wanted arrays of a file, and the names of the others, which are not read.

    Args:
        path: The file.
        wanted: Names of arrays; all if None.

    Raises:
        Exception: One of `UNREADABLE`, if the file is not what it must be.
    """
    with open_regular(path) as file:
        if file.read(6) == b"\x93NUMPY":
            raise ValueError("it holds a single array")
    with open_regular(path) as file, zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        names = [member.filename.removesuffix(".npy") for member in members]
        if len(set(names)) < len(names):
            raise ValueError("it has two arrays of one name")
        foreign = [m.filename for m in members if not m.filename.endswith(".npy")]
        if foreign:
            raise ValueError(f"{foreign[0]!r} is not an array")
        named = dict(zip(names, members, strict=True))
        chosen = {n: m for n, m in named.items() if wanted is None or n in wanted}
        _require_modest(path.stat().st_size, sum(member.file_size for member in chosen.values()))
        arrays = {name: _array(archive, name, member) for name, member in chosen.items()}
        return arrays, sorted(set(named) - set(chosen))


def _require_modest(size: int, expanded: int) -> None:
    if expanded > max(ALWAYS, FOLD * size):
        raise ValueError(
            f"it has {size:,} bytes and would expand to {expanded:,}. If that is right, write it "
            "without compression, by numpy.savez"
        )


def _array(archive: zipfile.ZipFile, name: str, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name!r} is compressed in a way that numpy does not write")
    with archive.open(member) as stream:
        _check_header(stream, name, member.file_size)
    with archive.open(member) as stream:
        found: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):
            raise ValueError(f"{name!r} goes on after its last value")
    return found


def _check_header(stream: IO[bytes], name: str, size: int) -> None:
    """Compare what an array says of itself with the bytes that there are, before they are read."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"{name!r} is written in version {version} of the format")
    shape, _, dtype = _HEADERS[version](stream)
    if dtype.kind not in _KINDS:
        raise ValueError(f"{name!r} holds {dtype}: Object arrays and records are not read")
    if not dtype.itemsize or min(shape, default=1) < 0:
        raise ValueError(f"{name!r} holds values without bytes")
    if prod(shape) * dtype.itemsize != size - stream.tell():
        raise ValueError(
            f"{name!r} says it has shape {shape} of {dtype}, which does not fit its {size:,} bytes"
        )
