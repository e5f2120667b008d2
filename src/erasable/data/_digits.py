"""scikit-learn's handwritten digits: real data that needs no download."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.typing import Float32s


@dataclass(frozen=True)
class Split:
    """Some rows of a data set, each with the id it has in all of them.

    Attributes:
        X: Inputs, (rows, …).
        y: Labels, (rows,).
        ids: Stable ids: the data set's name and the original index.
        groups: The data subject of each row; simulated where the data set has none.
    """

    X: Float32s
    y: npt.NDArray[Any]
    ids: list[str]
    groups: list[str]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def digest(self) -> str:
        """Hex SHA-256 of the ids, to record which rows a split holds."""
        return hashlib.sha256(json.dumps(sorted(self.ids)).encode()).hexdigest()

    def where(self, keep: npt.NDArray[np.bool_]) -> "Split":
        """Return only the rows where ``keep`` (rows,) is true."""
        index = np.flatnonzero(keep)
        return Split(
            self.X[index],
            self.y[index],
            [self.ids[i] for i in index],
            [self.groups[i] for i in index],
        )


def load_digits(
    *, test_share: float = 0.2, subjects: int = 40, seed: int = 0
) -> tuple[Split, Split]:
    """Return training and test rows of the 8×8 digits: 1,797 images, pixels from 0 to 1.

    The data set does not say who wrote which digit, so subjects are *simulated*: each row is given
    to one of ``subjects`` writers at random.

    Args:
        test_share: Share of each class in the test split.
        subjects: Number of simulated writers.
        seed: Seed of split and subjects.
    """
    from sklearn import datasets

    digits = datasets.load_digits()
    rng = np.random.default_rng(seed)
    is_test = np.zeros(len(digits.target), bool)
    for label in range(10):
        members = rng.permutation(np.flatnonzero(digits.target == label))
        is_test[members[: round(test_share * len(members))]] = True
    writers = rng.integers(subjects, size=len(is_test))
    everything = Split(
        (digits.images / 16).astype(np.float32),
        digits.target.astype(np.int64),
        [f"digits/{index}" for index in range(len(is_test))],
        [f"subject-{writer:02d}" for writer in writers],
    )
    return everything.where(~is_test), everything.where(is_test)
