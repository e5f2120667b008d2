"""scikit-learn's handwritten digits: real data that needs no download."""

import numpy as np

from erasable.data._split import Split, mark_test_rows


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
    is_test = mark_test_rows(digits.target, test_share, rng)
    writers = rng.integers(subjects, size=len(is_test))
    everything = Split(
        (digits.images / 16).astype(np.float32),
        digits.target.astype(np.int64),
        [f"digits/{index}" for index in range(len(is_test))],
        [f"subject-{writer:02d}" for writer in writers],
    )
    return everything.where(~is_test), everything.where(is_test)
