"""Which rows make up each batch of an epoch."""

import math
from collections.abc import Iterator

import numpy as np

from erasable.typing import Ints

MIN_PER_CLASS = 8
"""With fewer rows per class in a random batch, classes are drawn in groups instead."""

GROUP = 4
"""Rows of one class drawn together then; each has at least three partners."""


def steps_per_epoch(count: int, batch_size: int) -> int:
    """Return how many batches an epoch of ``count`` rows has; none is smaller than two rows."""
    return max(1, min(math.ceil(count / batch_size), count // 2))


SAMPLERS = ("auto", "uniform", "classes")


def epoch_batches(
    classes: Ints,
    batch_size: int,
    rng: np.random.Generator,
    *,
    needs_partners: bool,
    sampler: str = "auto",
) -> Iterator[Ints]:
    """Yield the rows of each batch, every row about once per epoch.

    Args:
        classes: Class index per row, (rows,).
        batch_size: Largest size of a batch.
        rng: Source of the order.
        needs_partners: Whether a row needs others of its class in the batch.
        sampler: ``uniform``: rows in random order. ``classes``: P classes × K rows, that is, in
            groups of `GROUP` or more of one class. ``auto``: ``classes`` if rows need partners and
            random batches would hold fewer than `MIN_PER_CLASS` rows per class.
    """
    classes_present = len(np.unique(classes))
    is_sparse = min(batch_size, len(classes)) < MIN_PER_CLASS * classes_present
    if sampler == "classes" or (sampler == "auto" and needs_partners and is_sparse):
        order = _grouped_order(classes, rng)
    else:
        order = rng.permutation(len(classes))
    # Nearly equal batches: a tiny last one would starve batch normalisation and the memory.
    yield from np.array_split(order, steps_per_epoch(len(order), batch_size))


def _grouped_order(classes: Ints, rng: np.random.Generator) -> Ints:
    groups: list[Ints] = []
    for label in np.unique(classes):
        members = rng.permutation(np.flatnonzero(classes == label))
        # array_split keeps every group at GROUP or more, unless the class itself is smaller.
        groups += np.array_split(members, max(1, len(members) // GROUP))
    return np.concatenate([groups[i] for i in rng.permutation(len(groups))])
