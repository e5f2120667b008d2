"""Rows with stable ids, and what a data set is made of."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.data._named import NamedFeatures
from erasable.errors import ArgumentError, Problems, listing
from erasable.typing import Ints

_CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Split:
    """Some rows of a data set, each with the id it has in all of them.

    Attributes:
        X: Inputs, (rows, …): an array, or `LazyImages` that are decoded when they are indexed.
        y: Labels, (rows,).
        ids: Stable ids: from the data set and the original index or path, never from a position.
        groups: The data subject of each row; None if the data set does not say.
        features: Names of the columns of ``X``; None if they have none.
    """

    X: Any
    y: npt.NDArray[Any]
    ids: list[Any]
    groups: list[Any] | None = None
    features: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def named(self) -> Any:
        """Inputs with the names of their columns, if these have names."""
        return self.X if self.features is None else NamedFeatures(self.X, self.features)

    @property
    def digest(self) -> str:
        """Hex SHA-256 of the sorted ids, to record which rows a split holds."""
        return hashlib.sha256(json.dumps(sorted(self.ids)).encode()).hexdigest()

    @property
    def contents_digest(self) -> str:
        """Hex SHA-256 of labels and inputs: the same ids can stand for other pixels or labels.

        Of images in files, names, sizes and the resolution stand for the pixels.
        """
        digest = hashlib.sha256(json.dumps([str(label) for label in self.y.tolist()]).encode())
        digest.update(f"{self.X.shape[1:]}{self.X.dtype}".encode())
        if not isinstance(self.X, np.ndarray):
            digest.update(self.X.digest.encode())
            return digest.hexdigest()
        for start in range(0, len(self), _CHUNK):
            digest.update(np.ascontiguousarray(self.X[start : start + _CHUNK]).tobytes())
        return digest.hexdigest()

    def where(self, keep: npt.NDArray[np.bool_]) -> "Split":
        """Return only the rows where ``keep`` (rows,) is true."""
        mask = np.asarray(keep)
        if mask.dtype != bool or mask.shape != (len(self),):
            raise ArgumentError(
                f"Expected a mask of {len(self)} booleans, but got shape {mask.shape} of "
                f"{mask.dtype}."
            )
        return self.take(np.flatnonzero(mask))

    def take(self, index: npt.ArrayLike) -> "Split":
        """Return the rows at these positions, in this order; lazy images stay lazy."""
        index = np.asarray(index, dtype=np.int64).reshape(-1)
        X = self.X[index] if isinstance(self.X, np.ndarray) else self.X.take(index)
        groups = None if self.groups is None else [self.groups[i] for i in index]
        ids = [self.ids[i] for i in index]
        return Split(X, self.y[index], ids, groups, self.features)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set with its training and test rows.

    Attributes:
        name: Name of a known data set, or the path it was read from.
        train: Rows to learn from.
        test: Rows to measure on; None if none were wanted.
        source: Where the bytes came from.
        seed: Seed of the split, if one was drawn; None if the data set has its own.
        test_share: Share of each class that was drawn for the test rows, if a split was drawn.
        remarks: What a person should know about how the data were read.
    """

    name: str
    train: Split
    test: Split | None
    source: str
    seed: int | None = None
    test_share: float | None = None
    remarks: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return what a results page records: name, sizes, the split's seed, all digests."""
        return {
            "name": self.name,
            "source": self.source,
            "classes": len(set(self.train.y.tolist())),
            "train_rows": len(self.train),
            "test_rows": 0 if self.test is None else len(self.test),
            "seed": self.seed,
            "test_share": self.test_share,
            "train_digest": self.train.digest,
            "test_digest": None if self.test is None else self.test.digest,
            "train_contents": self.train.contents_digest,
            "test_contents": None if self.test is None else self.test.contents_digest,
        }


def drawn(
    name: str,
    rows: Split,
    *,
    source: str,
    test_share: float,
    seed: int,
    remarks: tuple[str, ...] = (),
) -> Dataset:
    """Draw test rows from each class, and return both parts.

    The draw depends on the labels, the order of the rows, the share and the seed, on nothing else.
    """
    require_share(test_share)
    is_test = mark_test_rows(rows.y, test_share, np.random.default_rng(seed))
    if not is_test.any():
        return Dataset(name, rows, None, source, remarks=remarks)
    train, test = rows.where(~is_test), rows.where(is_test)
    return Dataset(name, train, test, source, seed, test_share, remarks)


def require_share(test_share: float) -> None:
    """Refuse a share that would leave nothing to learn from."""
    if not 0 <= test_share < 1:
        raise ArgumentError(f"Expected test_share from 0 to below 1, but got {test_share}.")


def mark_test_rows(
    y: npt.NDArray[Any], share: float, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Mark a random share of each class, (rows,), but never all of it; classes in sorted order."""
    is_test = np.zeros(len(y), bool)
    for label in np.unique(y):
        members: Ints = rng.permutation(np.flatnonzero(y == label))
        is_test[members[: min(round(share * len(members)), len(members) - 1)]] = True
    return is_test


def require_unique(ids: list[Any], source: object) -> None:
    """Refuse ids that are there more than once.

    Raises:
        ArgumentError: If there are any.
    """
    if len(set(ids)) < len(ids):
        twice = [row_id for row_id, count in Counter(ids).items() if count > 1]
        raise ArgumentError(
            f"Expected an id of its own for each row of {source}, but these are there more than "
            f"once: {listing(twice)}."
        )


def require_known_labels(
    train: npt.NDArray[Any], test: npt.NDArray[Any], problems: Problems
) -> None:
    """Note labels that are in the test rows only: no model could ever predict them."""
    problems.note_items(
        sorted(set(test.tolist()) - set(train.tolist())),
        "Expected every label of the test rows in the training rows too, but these are not there",
    )
