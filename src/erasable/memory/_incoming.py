"""Checking what a caller wants to add: every problem found, nothing changed."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from erasable.errors import ArgumentError, Problems, RowIdError
from erasable.memory._grid import Grid
from erasable.memory._keys import as_group, as_id, as_label, encode_key, in_one_form
from erasable.typing import Float32s, Group, Label, RowId

T = TypeVar("T")

MAX_ROWS = 2**22
"""Beyond this many rows the integer sums of squares could overflow."""


@dataclass(frozen=True)
class Incoming:
    """Rows that are well formed: rounded embeddings (rows, dim) and plain values.

    ``ids`` is None where ids are to be generated. Ids and groups are as they were given, because an
    earlier version may have marked them so; `in_one_form` returns the rows as they are stored.
    """

    embeddings: Float32s
    labels: list[Label]
    ids: list[RowId] | None
    groups: list[tuple[Group, ...]]
    contents: list[bytes | None]

    def __len__(self) -> int:
        return len(self.labels)

    def keep(self, positions: list[int]) -> "Incoming":
        """Return only the rows at these positions."""
        return Incoming(
            self.embeddings[positions],
            [self.labels[p] for p in positions],
            None if self.ids is None else [self.ids[p] for p in positions],
            [self.groups[p] for p in positions],
            [self.contents[p] for p in positions],
        )

    def in_one_form(self) -> "Incoming":
        """Return the rows with ids and groups in the form that is stored."""
        ids = None if self.ids is None else [in_one_form(row_id) for row_id in self.ids]
        return replace(self, ids=ids, groups=[_sorted(map(in_one_form, g)) for g in self.groups])


def check_embeddings(values: Any, dim: int, problems: Problems) -> npt.NDArray[Any] | None:
    """Return ``values`` as a float array of shape (n, dim), or note why that is not possible."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError):
        problems.note(f"Expected embeddings to be numbers of shape (n, {dim}).")
        return None
    if array.ndim != 2 or array.shape[1] != dim:
        problems.note(f"Expected embeddings of shape (n, {dim}), but got {array.shape}.")
        return None
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def check_incoming(
    problems: Problems,
    grid: Grid,
    dim: int,
    *,
    embeddings: Any,
    labels: Any,
    ids: Any,
    groups: Any,
    contents: Sequence[bytes | None] | None,
) -> Incoming:
    """Check the rows themselves, and note every problem; whether they fit is checked elsewhere.

    What is returned is only good for storing if no problem was noted.
    """
    array = check_embeddings(embeddings, dim, problems)
    rounded = (
        np.zeros((0, dim), np.float32) if array is None else round_to_grid(array, grid, problems)
    )
    count = None if array is None else len(array)
    plain_labels = as_column(labels, as_label, "labels", count, problems)
    plain_ids = None if ids is None else as_column(ids, as_id, "ids", count, problems)
    plain_groups = _groups(groups, count, problems)
    plain_contents = (
        None if contents is None else as_column(contents, _as_content, "contents", count, problems)
    )
    _note_repeats(plain_ids or [], problems)
    size = len(plain_labels)
    return Incoming(
        rounded,
        plain_labels,
        plain_ids,
        plain_groups if groups is not None else [()] * size,
        plain_contents if plain_contents is not None else [None] * size,
    )


def as_list(values: Any, name: str) -> list[Any]:
    """Return a caller's collection as a list; a lone string or number is refused."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ArgumentError(
            f"Expected {name} to be a list, but got {values!r}. Write [{values!r}]."
        )
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ArgumentError(f"Expected {name} to be 1-D, but got shape {values.shape}.")
    return list(values)


def round_to_grid(array: npt.NDArray[Any], grid: Grid, problems: Problems) -> Float32s:
    """Return ``array`` (rows, dim) on the grid, or note the rows that have no place there."""
    rounded, not_finite, too_large = grid.round(array)
    problems.note_items(not_finite, "Expected finite embeddings, but got NaN or infinity in rows")
    problems.note_items(
        too_large,
        f"Expected embeddings below {grid.bound:g} in magnitude, but got larger ones in rows",
        remedy="Normalise or scale the embeddings, or use a coarser grid (fewer bits).",
    )
    return rounded


def as_column(
    values: Any, convert: Callable[[Any], T], name: str, count: int | None, problems: Problems
) -> list[T]:
    """Return a caller's collection as plain values, and note what is wrong with it.

    Args:
        values: The collection.
        convert: From one value to its plain form.
        name: What to call the values.
        count: How many there must be, or None for any number.
        problems: Where to note.
    """
    try:
        found = as_list(values, name)
    except ArgumentError as error:
        problems.note(str(error))
        return []
    if count is not None and len(found) != count:
        problems.note(f"Expected {count} {name}, one per embedding, but got {len(found)}.")
    converted: list[T] = []
    bad: list[str] = []
    for value in found:
        try:
            converted.append(convert(value))
        except ArgumentError as error:
            bad.append(str(error))
    if bad:
        more = f" ({len(bad) - 1} more of the {name} are not valid.)" if len(bad) > 1 else ""
        problems.note(bad[0] + more)
    return converted


def _groups(groups: Any, count: int | None, problems: Problems) -> list[tuple[Group, ...]]:
    if groups is None:
        return []
    if isinstance(groups, np.ndarray):
        groups = list(groups)
    return as_column(groups, _groups_of_row, "groups", count, problems)


def _groups_of_row(value: Any) -> tuple[Group, ...]:
    if value is None:
        return ()
    is_many = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
    return _sorted(map(as_group, value if is_many else [value]))


def _sorted(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Return groups, each once, in the order of their keys."""
    found = {encode_key(group): group for group in groups}
    return tuple(found[key] for key in sorted(found))


def _as_content(value: Any) -> bytes | None:
    if value is not None and type(value) is not bytes:
        raise ArgumentError(f"Expected a content of type bytes or None, but got {value!r}.")
    return value


def _note_repeats(ids: list[RowId], problems: Problems) -> None:
    counts = Counter(map(in_one_form, ids))
    repeated = [row_id for row_id, count in counts.items() if count > 1]
    problems.note_items(repeated, "Expected each id once, but got again", kind=RowIdError)
