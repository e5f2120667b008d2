"""Which rows requests for classes read."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erasable.errors import RowIdError, listing
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


@dataclass(frozen=True)
class RequestedRows:
    """Rows that requests for some classes read.

    Attributes:
        reads: Which of the groups each request reads.
        groups: Positions of rows, one group per class that is asked for.
        told: The class whose rows each request reads.
    """

    reads: list[int]
    groups: list[Ints]
    told: list[Label | None]


def requested_rows(
    memory: Memory, labels: Sequence[Label], *, stand_in: Label | None, count: int | None
) -> RequestedRows:
    """Return the rows that requests read; those of another class where one has none.

    Args:
        memory: The memory.
        labels: The class of each request.
        stand_in: Whose rows are read where a class has none; None to refuse that.
        count: Rows at most per class; None for all.
    """
    wanted = list(dict.fromkeys((type(label), label) for label in labels))
    chosen = {key: chosen_rows(memory, key[1], count) for key in wanted}
    empty = [key for key in wanted if not len(chosen[key])]
    if empty and stand_in is None:
        raise RowIdError(
            f"Expected classes with rows ({listing(memory.classes)}), but got "
            f"{listing([label for _, label in empty])}. Remember rows of it, or name a "
            "stand_in (--stand-in), a class whose rows are read instead."
        )
    if stand_in is not None:  # also where it is not needed yet: a typing error shows at once
        instead = chosen_rows(memory, stand_in, count)
        if not len(instead):
            raise RowIdError(
                f"Expected stand_in to be a class with rows ({listing(memory.classes)}), but got "
                f"{stand_in!r}."
            )
        chosen |= dict.fromkeys(empty, instead)
    place = {key: index for index, key in enumerate(wanted)}
    # Where another class stands in, the weights are told that class, too.
    told = [stand_in if (type(label), label) in empty else label for label in labels]
    reads = [place[type(label), label] for label in labels]
    return RequestedRows(reads, [chosen[key] for key in wanted], told)
