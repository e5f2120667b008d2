"""Which rows of a class are read, when not all are."""

import hashlib

import numpy as np

from erasable.memory import Memory, encode_key
from erasable.typing import Ints, Label


def chosen_rows(memory: Memory, label: Label, count: int | None) -> Ints:
    """Return positions of at most ``count`` rows of a class, in an order of their own.

    Rows are ranked by a hash of their id, so the choice depends on the ids alone: to forget a row
    makes room for the next one and moves no other, whatever the order in which rows came.

    Args:
        memory: The memory.
        label: The class.
        count: Rows at most; None for all.
    """
    slot = memory.sums.slot(label)
    if slot is None:
        return np.zeros(0, np.int64)
    infos = memory.table.infos
    places = np.flatnonzero(memory.table.slots == slot)
    ranks = [hashlib.sha256(encode_key(infos[p].id).encode()).digest() for p in places.tolist()]
    order = sorted(range(len(places)), key=ranks.__getitem__)
    return places[order if count is None else order[:count]]
