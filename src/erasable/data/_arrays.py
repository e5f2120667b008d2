"""Rows in ``.npz`` files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from erasable.errors import ArgumentError, Problems
from erasable.npz import UNREADABLE, read_npz

_KNOWN = ("X", "y", "ids", "groups")


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
    arrays, others = _read(path)
    problems = Problems(str(path))
    needed = ("X", "y") if needs_labels else ("X",)
    problems.note_items(
        [name for name in needed if name not in arrays],
        f"Expected arrays named {' and '.join(needed)}, and ids and groups if there are any, but "
        "these are missing",
        remedy="Write them with numpy.savez(path, X=…, y=…).",
    )
    problems.note_items(others, f"Expected only {', '.join(_KNOWN)}, but also got")
    lengths = {name: array.shape[:1] for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        problems.note(f"Expected arrays of one length, but got {lengths}.")
    if "X" in arrays and not arrays["X"].size:
        problems.note("Expected at least one row of at least one number, but there is none.")
    problems.raise_if_any()
    ids = arrays["ids"].tolist() if "ids" in arrays else None
    groups = _groups(arrays["groups"]) if "groups" in arrays else None
    return Arrays(arrays["X"], arrays.get("y"), ids, groups)


def _read(path: Path) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    try:
        arrays, others = read_npz(path, _KNOWN)
    except FileNotFoundError:
        raise ArgumentError(f"Expected an .npz file, but there is no {path}.") from None
    except UNREADABLE as error:
        raise ArgumentError(
            f"Expected an .npz file of plain arrays, but {path} cannot be read: "
            f"{str(error) or type(error).__name__}."
        ) from error
    single = [name for name, array in arrays.items() if not array.ndim]
    if single:
        raise ArgumentError(
            f"Expected arrays with one value per row in {path}, but {single[0]!r} is a single "
            "value."
        )
    return arrays, others


def _groups(array: npt.NDArray[Any]) -> list[list[Any]]:
    rows = array.reshape(len(array), -1).tolist()
    return [[group for group in row if group != ""] for row in rows]
