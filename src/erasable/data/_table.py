"""Tables: CSV with nothing but Python, Parquet with pyarrow."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from erasable.data._folder import RESOLUTION
from erasable.data._lazy import LazyImages, reasons
from erasable.data._split import Dataset, Split, drawn, require_unique
from erasable.errors import ArgumentError, MissingExtraError, Problems
from erasable.files import open_regular
from erasable.npz import ALWAYS, FOLD
from erasable.typing import Float32s

_LONGEST_LINE = 2**24
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


@dataclass(frozen=True)
class Columns:
    """Which column of a table is what.

    Attributes:
        label: Labels. Required.
        id: Ids; without this column, the image's path, else the table's name and the number of the
            row from 0.
        group: Data subjects; an empty cell means none, a list several.
        path: Paths of images, relative to the table's folder. With this column the inputs are
            images, without it they are the features.
        features: Columns with numbers; by default all that are nothing else.
    """

    label: str = "label"
    id: str = "id"
    group: str = "group"
    path: str = "path"
    features: tuple[str, ...] | None = None


Cells = dict[str, list[Any]]


def load_table(
    path: Path,
    *,
    columns: Columns | None = None,
    test_share: float = 0.2,
    seed: int = 0,
    resolution: int | None = None,
    check: bool = False,
) -> Dataset:
    """Read a ``.csv`` or ``.parquet`` file: features or image paths, labels, ids and groups.

    A CSV file has no types: labels that all read as whole numbers are numbers, else text. Ids and
    groups are always text.

    Args:
        path: The file.
        columns: Which column is what.
        test_share: Share of each class in the test rows.
        seed: Seed of the split.
        resolution: Height and width of images, if the table has paths.
        check: Whether to decode every image once, and name those that are broken.

    Raises:
        ArgumentError: If the file cannot be read, a column is missing, or a cell is not what its
            column asks for; all at once.
        MissingExtraError: If the file is Parquet and pyarrow is not installed.
    """
    columns = columns or Columns()
    cells = _parquet(path) if path.suffix.lower() == ".parquet" else _csv(path)
    problems = Problems(str(path))
    chosen = _features(cells, columns)
    _note_columns(problems, cells, columns, chosen)
    problems.raise_if_any()
    labels = _labels(cells[columns.label], problems, is_typed=path.suffix.lower() == ".parquet")
    X: Any
    features: tuple[str, ...] | None = None
    if columns.path in cells:
        X = _images(path, cells[columns.path], resolution or RESOLUTION, problems, check=check)
    else:
        if resolution is not None:
            problems.note("Expected no resolution, because the table has features, not images.")
        X, features = _numbers(cells, chosen, problems), chosen
    ids = _ids(path, cells, columns, len(labels), problems)
    groups = _groups(cells[columns.group], problems) if columns.group in cells else None
    problems.raise_if_any()
    require_unique(ids, path)
    rows = Split(X, labels, ids, groups, features)
    return drawn(str(path), rows, source=str(path), test_share=test_share, seed=seed)


def _csv(path: Path) -> Cells:
    problems = Problems(str(path))
    try:
        with open_regular(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
            reader = csv.reader(_lines(file), strict=True)
            header = next(reader, [])
            rows = [(reader.line_num, row) for row in reader if row]
    except FileNotFoundError:
        raise ArgumentError(f"Expected a table, but there is no {path}.") from None
    except (OSError, ValueError, csv.Error) as error:
        raise ArgumentError(
            f"Expected a CSV file in UTF-8, but {path} cannot be read: {error}."
        ) from error
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    problems.note_items(twice, "Expected a name of its own for each column, but got twice")
    odd = [line for line, row in rows if len(row) != len(header)]
    problems.note_items(odd, f"Expected {len(header)} cells in each row, but not in these lines")
    problems.raise_if_any()
    cells = zip(*(row for _, row in rows), strict=True)
    return dict(zip(header, map(list, cells), strict=True)) if rows else {n: [] for n in header}


def _lines(file: IO[str]) -> Iterator[str]:
    """Yield the lines of a file, none of which may fill the memory."""
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise ValueError(f"it has a line of {_LONGEST_LINE:,} characters or more")
        yield line


def _parquet(path: Path) -> Cells:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingExtraError(
            "Reading Parquet needs pyarrow. Install it with: pip install 'erasable[table]'"
        ) from error
    try:
        with open_regular(path) as file:
            table = parquet.ParquetFile(file)
            _require_modest(table.metadata, path.stat().st_size)
            found: Cells = table.read().to_pydict()
    except FileNotFoundError:
        raise ArgumentError(f"Expected a table, but there is no {path}.") from None
    except (ArrowException, OSError, ValueError) as error:
        raise ArgumentError(
            f"Expected a Parquet file, but {path} cannot be read: {error}."
        ) from error
    return found


def _require_modest(metadata: Any, size: int) -> None:
    """Refuse a file that would expand beyond what one of its size can reasonably hold."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    expanded = max(
        sum(group.total_byte_size for group in groups),
        metadata.num_rows * metadata.num_columns,  # a column of one value takes no bytes
    )
    if expanded > max(ALWAYS, FOLD * size):
        raise ValueError(
            f"it has {size:,} bytes and would expand to {expanded:,}. If that is right, write it "
            "without compression and without dictionaries"
        )


def _features(cells: Cells, columns: Columns) -> tuple[str, ...]:
    if columns.features is not None:
        return tuple(columns.features)
    others = {columns.label, columns.id, columns.group, columns.path}
    return tuple(name for name in cells if name not in others)


def _note_columns(
    problems: Problems, cells: Cells, columns: Columns, chosen: tuple[str, ...]
) -> None:
    has_images = columns.path in cells
    usual = Columns()
    named = [
        getattr(columns, what)
        for what in ("id", "group", "path")
        if getattr(columns, what) != getattr(usual, what)
    ]
    problems.note_items(
        [name for name in named if name not in cells],
        f"Expected the columns that were named, but {', '.join(cells) or 'an empty file'} has not",
    )
    missing = [name for name in (columns.label, *chosen) if name not in cells]
    problems.note_items(
        [] if has_images and columns.label in cells else missing,
        f"Expected columns, but of {', '.join(cells) or 'an empty file'} these are missing",
        remedy="Name the columns that the table has.",
    )
    if not has_images and not chosen:
        problems.note(
            f"Expected a column {columns.path!r} with paths of images, or columns of numbers, but "
            "there is neither."
        )
    if not any(cells.values()):
        problems.note("Expected at least one row, but there is none.")


def _labels(cells: list[Any], problems: Problems, *, is_typed: bool) -> npt.NDArray[Any]:
    missing = [row for row, cell in enumerate(cells) if _is_empty(cell)]
    problems.note_items(missing, "Expected a label in each row, but these rows have none")
    if not is_typed and all(_INTEGER.fullmatch(cell) for cell in cells):
        return np.array([int(cell) for cell in cells], np.int64)
    return np.array([str(cell) for cell in cells] if missing else cells)


def _numbers(cells: Cells, chosen: tuple[str, ...], problems: Problems) -> Float32s:
    out = np.zeros((len(cells[chosen[0]]), len(chosen)), np.float32)
    odd = []
    for place, name in enumerate(chosen):
        try:
            out[:, place] = cells[name]
        except (TypeError, ValueError):
            out[:, place] = [_number(cell) for cell in cells[name]]
        odd += [
            f"{cells[name][row]} in row {row} of {name}"
            for row in np.flatnonzero(~np.isfinite(out[:, place]))
        ]
    problems.note_items(
        odd,
        "Expected finite numbers in the columns of features, but got",
        remedy="Name the columns that hold numbers.",
    )
    return out


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _images(
    path: Path, cells: list[Any], resolution: int, problems: Problems, *, check: bool
) -> LazyImages:
    missing = [row for row, cell in enumerate(cells) if _is_empty(cell)]
    problems.note_items(missing, "Expected the path of an image, but these rows have none")
    problems.note_items(
        sorted({str(cell) for cell in cells if ".." in Path(str(cell)).parts}),
        "Expected paths that do not lead out of the table's folder, but got",
        remedy="Write absolute paths for images that lie elsewhere.",
    )
    images = LazyImages(path.parent, [str(cell) for cell in cells], resolution=resolution)
    broken = images.broken() if check and not missing else {}
    if broken:
        problems.note(
            f"Expected images that can be decoded, but {len(broken)} cannot: {reasons(broken)}."
        )
    return images


def _ids(path: Path, cells: Cells, columns: Columns, rows: int, problems: Problems) -> list[str]:
    for name in (columns.id, columns.path):
        if name in cells:
            ids = [_word(cell) for cell in cells[name]]
            problems.note_items(
                [row for row, row_id in enumerate(ids) if not row_id],
                "Expected an id in each row, text or a whole number, but not in these rows",
            )
            return [row_id or "" for row_id in ids]
    return [f"{path.name}/{row}" for row in range(rows)]


def _groups(cells: list[Any], problems: Problems) -> list[list[str]]:
    """Return the data subjects of each row."""
    found, odd = [], []
    for row, cell in enumerate(cells):
        several = cell if isinstance(cell, (list, tuple)) else [cell]
        words = [_word(one) for one in several if not _is_empty(one)]
        if None in words:
            odd.append(row)
        found.append([word for word in words if word is not None])
    problems.note_items(
        odd, "Expected groups as text, whole numbers or lists of them, but not in these rows"
    )
    return found


def _word(cell: Any) -> str | None:
    """Return a cell as a name: a whole number without its point; None for what is no name."""
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else None
    if isinstance(cell, (str, int)) and not isinstance(cell, bool):
        return str(cell) or None
    return None


def _is_empty(cell: Any) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and cell != cell)
