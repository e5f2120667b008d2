"""Rows that are drawn for a batch of queries to read: the paper's separate support."""

from dataclasses import dataclass

import numpy as np

from erasable.errors import ArgumentError, listing
from erasable.typing import Ints

SAMPLINGS = ("uniform", "balanced")


@dataclass(frozen=True)
class Support:
    """How many rows are drawn for each batch, and how.

    Attributes:
        size: Number of rows; fewer where there are not as many outside the batch.
        sampling: ``uniform``: any rows outside the batch. ``balanced``: equally many of each class
            of the batch, as the paper's released code does.
    """

    size: int
    sampling: str = "uniform"

    def __post_init__(self) -> None:
        if type(self.size) is not int or self.size < 2:
            raise ArgumentError(f"Expected support_size to be an int ≥ 2, but got {self.size!r}.")
        if self.sampling not in SAMPLINGS:
            raise ArgumentError(
                f"Expected support_sampling {listing(SAMPLINGS)}, but got {self.sampling!r}."
            )

    def draw(self, classes: Ints, batch: Ints, rng: np.random.Generator) -> Ints:
        """Return rows outside the batch, without repetition, in random order.

        Args:
            classes: Class index of every row, (rows,).
            batch: Rows of the batch.
            rng: Source of the draw.
        """
        is_free = np.ones(len(classes), bool)
        is_free[batch] = False
        order = rng.permutation(np.flatnonzero(is_free))
        if self.sampling == "uniform":
            return order[: self.size]
        present = rng.permutation(np.unique(classes[batch]))[: self.size]
        share = self.size // len(present)
        picked = [order[classes[order] == label][:share] for label in present]
        drawn = rng.permutation(np.concatenate(picked))
        return drawn if len(drawn) else order[: self.size]  # rather others than none
