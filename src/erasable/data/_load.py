"""One function for every data set: known by name, or found at a path."""

from pathlib import Path

import numpy as np

from erasable.data._arrays import read_arrays
from erasable.data._cache import data_folder, read_entry, read_split
from erasable.data._digits import load_digits
from erasable.data._folder import load_folder
from erasable.data._get import fetch
from erasable.data._specs import KNOWN, Spec
from erasable.data._split import Dataset, Split, drawn, require_share, require_unique
from erasable.data._table import Columns, load_table
from erasable.errors import ArgumentError

KINDS = ("imagefolder", "arrays", "table")
"""What a path can hold; ``KIND:PATH`` says it, else the path's form does."""


def load_dataset(
    name: str | Path,
    *,
    cache: Path | str | None = None,
    test_share: float = 0.2,
    seed: int = 0,
    resolution: int | None = None,
    columns: Columns | None = None,
    check: bool = False,
) -> Dataset:
    """Return a data set with training and test rows, and ids that mean the same rows everywhere.

    Args:
        name: ``digits``, ``mnist``, ``fashion-mnist`` or ``cifar10``; or the path of a folder with
            one folder of images per class, of an ``.npz`` file, or of a ``.csv`` or ``.parquet``
            table. ``imagefolder:PATH``, ``arrays:PATH`` and ``table:PATH`` say which it is. A known
            data set that is not in the cache is fetched.
        cache: Where data sets are kept; by default ``$ERASABLE_DATA`` or the user's cache folder.
        test_share: Share of each class in the test rows, where the data set has no split; 0 for
            none.
        seed: Seed of that split.
        resolution: Height and width of images that come from files; 224 by default.
        columns: Which column of a table is what.
        check: Whether to read everything once: cached files against their SHA-256, images by
            decoding them.

    Raises:
        ArgumentError: If there is no such data set, or something in it is wrong; all at once.
        StoreError: If it is not in the cache and cannot be fetched, or the cache is damaged.
    """
    require_share(test_share)
    kind, path = _kind(str(name))
    if kind not in ("imagefolder", "table") and resolution is not None:
        raise ArgumentError(
            f"Expected no resolution for {str(name)!r}, whose images have a size of their own, but "
            f"got {resolution}."
        )
    if kind != "table" and columns is not None:
        raise ArgumentError(f"Expected columns for a table only, but {str(name)!r} is none.")
    if kind == "digits":
        return _digits(test_share, seed)
    if kind == "known":
        return _known(KNOWN[str(name)], data_folder(cache), check=check)
    if kind == "arrays":
        return _arrays(path, test_share, seed)
    if kind == "table":
        return load_table(
            path,
            columns=columns,
            test_share=test_share,
            seed=seed,
            resolution=resolution,
            check=check,
        )
    return load_folder(path, test_share=test_share, seed=seed, resolution=resolution, check=check)


def _kind(name: str) -> tuple[str, Path]:
    """Tell what a name or path stands for; a known name wins over a file of that name."""
    if name == "digits":
        return "digits", Path()
    if name in KNOWN:
        return "known", Path()
    kind, colon, rest = name.partition(":")
    if colon and kind in KINDS:
        return kind, Path(rest).expanduser()
    path = Path(name).expanduser()
    by_suffix = {".npz": "arrays", ".csv": "table", ".parquet": "table"}
    if path.suffix.lower() in by_suffix:
        return by_suffix[path.suffix.lower()], path
    if path.is_dir():
        return "imagefolder", path
    raise ArgumentError(
        f"Expected one of digits, {', '.join(KNOWN)}, or the path of a folder of images, an .npz "
        f"file, a .csv or a .parquet table, but got {name!r}."
    )


def _digits(test_share: float, seed: int) -> Dataset:
    train, test = load_digits(test_share=test_share, seed=seed)
    if not len(test):
        return Dataset("digits", train, None, "scikit-learn")
    return Dataset("digits", train, test, "scikit-learn", seed, test_share)


def _known(spec: Spec, root: Path, *, check: bool) -> Dataset:
    entry = None if check else read_entry(spec, root)
    if entry is None:  # fetching checks what is there
        entry = fetch(spec, root=root, progress=True)
    train, test = (read_split(spec, entry, split) for split in ("train", "test"))
    return Dataset(spec.name, train, test, entry.source)


def _arrays(path: Path, test_share: float, seed: int) -> Dataset:
    found = read_arrays(path, needs_labels=True)
    numbered = [f"{path.name}/{row}" for row in range(len(found))]
    ids = numbered if found.ids is None else found.ids
    require_unique(ids, path)
    rows = Split(found.X, np.asarray(found.y), ids, found.groups)
    return drawn(str(path), rows, source=str(path), test_share=test_share, seed=seed)
