"""Rows in ``.npz`` files."""

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.errors import ArgumentError, Problems

_KNOWN = ("X", "y", "ids", "groups")
_UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class Arrays:
    """Inputs and, where the file has them, labels, ids and groups."""

    X: npt.NDArray[Any]
    y: npt.NDArray[Any] | None
    ids: list[Any] | None
    groups: list[list[Any]] | None

    def __len__(self) -> int:
        return len(self.X)


def read_arrays(path: Path, *, needs_labels: bool = False) -> Arrays:
    """Read ``X`` and, if there, ``y``, ``ids`` and ``groups`` from an ``.npz`` file.

    ``groups`` is (rows,) for one group per row or (rows, k) for several; empty text means none.
    Nothing in the file is ever run: arrays of Python objects are refused.

    Raises:
        ArgumentError: If the file is missing, damaged, incomplete or inconsistent; all at once.
    """
    arrays = _read(path)
    problems = Problems(str(path))
    needed = ("X", "y") if needs_labels else ("X",)
    problems.note_items(
        [name for name in needed if name not in arrays],
        f"Expected arrays named {' and '.join(needed)}, and ids and groups if there are any, but "
        "these are missing",
        remedy="Write them with numpy.savez(path, X=…, y=…).",
    )
    problems.note_items(
        sorted(set(arrays) - set(_KNOWN)), f"Expected only {', '.join(_KNOWN)}, but also got"
    )
    lengths = {name: array.shape[:1] for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        problems.note(f"Expected arrays of one length, but got {lengths}.")
    if "X" in arrays and not len(arrays["X"]):
        problems.note("Expected at least one row, but there is none.")
    problems.raise_if_any()
    ids = arrays["ids"].tolist() if "ids" in arrays else None
    groups = _groups(arrays["groups"]) if "groups" in arrays else None
    return Arrays(arrays["X"], arrays.get("y"), ids, groups)


def _read(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with path.open("rb") as handle:
            file = np.load(handle, allow_pickle=False)
            if isinstance(file, np.lib.npyio.NpzFile):
                return {name: _array(file[name], name) for name in file.files}
    except FileNotFoundError:
        raise ArgumentError(f"Expected an .npz file, but there is no {path}.") from None
    except _UNREADABLE as error:
        raise ArgumentError(
            f"Expected an .npz file of plain arrays, but {path} cannot be read: {error}"
        ) from error
    raise ArgumentError(f"Expected an .npz file, but {path} holds a single array.")


def _array(found: Any, name: str) -> npt.NDArray[Any]:
    if not isinstance(found, np.ndarray):  # numpy hands out other members of a zip file as bytes
        raise ValueError(f"{name!r} is not an array.")
    if not found.ndim:
        raise ValueError(f"{name!r} is a single value, not one per row.")
    return found


def _groups(array: npt.NDArray[Any]) -> list[list[Any]]:
    rows = array.reshape(len(array), -1).tolist()
    return [[group for group in row if group != ""] for row in rows]
