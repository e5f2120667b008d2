"""What there is to say about a data set: for people, and for the command line."""

from collections import Counter
from pathlib import Path
from typing import Any

from erasable.data._cache import data_folder, read_entry, verify
from erasable.data._load import load_dataset
from erasable.data._specs import KNOWN
from erasable.data._split import Dataset
from erasable.data._table import Columns
from erasable.errors import StoreError

_DIGITS = {
    "name": "digits",
    "title": "small handwritten digits",
    "rows": {"all": 1797},
    "shape": [8, 8],
    "classes": 10,
    "bytes": 1797 * 8 * 8 * 4,
    "cached": "built in",
}


def known_datasets(*, cache: Path | str | None = None) -> list[dict[str, Any]]:
    """Return the known data sets with rows, shape, classes, bytes, and whether they are cached.

    ``cached`` is ``yes``, ``no``, ``damaged``, or ``built in``.
    """
    root, found = data_folder(cache), [dict(_DIGITS)]
    for spec in KNOWN.values():
        try:
            cached = "no" if read_entry(spec, root) is None else "yes"
        except StoreError:
            cached = "damaged"
        found.append(
            {
                "name": spec.name,
                "title": spec.title,
                "rows": dict(spec.rows),
                "shape": list(spec.shape),
                "classes": spec.count,
                "bytes": spec.size,
                "cached": cached,
            }
        )
    return found


def describe_dataset(
    name: str | Path,
    *,
    cache: Path | str | None = None,
    test_share: float = 0.2,
    seed: int = 0,
    columns: Columns | None = None,
    should_verify: bool = False,
) -> dict[str, Any]:
    """Return rows per class, splits with digests, source, and files with SHA-256; fetch nothing.

    What is not in the cache is read throughout: images are decoded once.

    Args:
        name: As for `load_dataset`.
        cache: Where data sets are kept; by default ``$ERASABLE_DATA`` or the user's cache folder.
        test_share: Share of each class in the test rows, where the data set has no split.
        seed: Seed of that split.
        columns: Which column of a table is what.
        should_verify: Whether to compare cached files with their SHA-256.

    Raises:
        ArgumentError: If there is no such data set, or something in it is wrong; all at once.
        StoreError: If it is not in the cache, or damaged.
    """
    files: dict[str, Any] = {}
    spec = KNOWN.get(str(name))
    if spec is not None:
        entry = read_entry(spec, data_folder(cache))
        if entry is None:
            raise StoreError(
                f"Expected {spec.name} in {data_folder(cache)}, but it is not there. Run "
                f"`erasable data get {spec.name}` first."
            )
        if should_verify:
            verify(spec, entry)
        files = {file: dict(found) for file, found in entry.files.items()}
    dataset = load_dataset(
        name,
        cache=cache,
        test_share=test_share,
        seed=seed,
        columns=columns,
        check=spec is None,
    )
    return {
        **dataset.record(),
        "shape": list(dataset.train.X.shape[1:]),
        "dtype": str(dataset.train.X.dtype),
        "rows_per_class": _per_class(dataset),
        "files": files,
        "checked": should_verify or spec is None,
        "remarks": list(dataset.remarks),
    }


def _per_class(dataset: Dataset) -> list[dict[str, Any]]:
    train = Counter(dataset.train.y.tolist())
    test = Counter([] if dataset.test is None else dataset.test.y.tolist())
    return [{"label": label, "train": train[label], "test": test[label]} for label in sorted(train)]
