"""A copy of a memory with everything that is kept of its rows."""

import copy
from typing import Any

from erasable.memory._live import Follower, LiveRows
from erasable.memory._memory import Memory


def copy_with_kept(memory: Memory) -> Memory:
    """Return a copy of a memory and, unlike ``copy.deepcopy``, of its followers as they are.

    What a follower of the copy says is what the memory's own one says, right or wrong; the memory
    itself is neither read through its followers nor changed.
    """
    with memory.live.lock.writing():  # nobody derives anything meanwhile either
        memo: dict[int, Any] = {id(info): info for info in memory.table.infos}  # never changed
        twin = copy.deepcopy(memory, memo)
        _copy_kept(memory.live, twin.live, memo)
    return twin


def kept(live: LiveRows) -> dict[str, Follower]:
    """Return what is kept of rows besides the rows and their sums, by name."""
    with live.lock.reading():
        return dict(live._followers)


def _copy_kept(live: LiveRows, twin: LiveRows, memo: dict[int, Any]) -> None:
    """Copy followers; what they refer to is in the memo, so they follow the copy's rows."""
    for name, follower in kept(live).items():
        copied = copy.deepcopy(follower, memo)
        twin._followers[name] = copied
        for attribute, value in vars(follower).items():
            if isinstance(value, LiveRows) and value is not live:  # rows of its own, followed too
                _copy_kept(value, getattr(copied, attribute), memo)
