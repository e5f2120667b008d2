"""Time_MU: how long forgetting takes."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class ForgetTime:
    """Wall-clock seconds that forgetting took, lower is better.

    The paper counts only the edit of the memory for models that have one; the whole procedure, so
    retraining for the oracle, for all others. Re-encoding the rows that stay is kept apart so that
    both ways of counting can be reported. It does not show that anything was forgotten, nor what
    the weights still carry.

    Attributes:
        edit_seconds: Removing the rows, or running the whole method.
        reencode_seconds: Encoding the retain set again afterwards; 0 if that was not done.

    Examples:
        >>> ForgetTime(edit_seconds=0.25, reencode_seconds=2.0).total
        2.25
    """

    edit_seconds: float
    reencode_seconds: float = 0.0

    @property
    def total(self) -> float:
        """Edit and re-encoding together."""
        return self.edit_seconds + self.reencode_seconds


def time_forget(
    edit: Callable[[], T],
    reencode: Callable[[], object] | None = None,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[T, ForgetTime]:
    """Forget and tell how long it took.

    Work left running on an accelerator is not counted: let the callables wait for their results.

    Args:
        edit: Forgets, for example ``lambda: model.forget(ids=["a17"])``.
        reencode: Encodes the retain set again, run after ``edit``; leave it out if the model needs
            none.
        clock: Seconds from any fixed point.

    Returns:
        What ``edit`` returned, and the times.

    Examples:
        >>> ticks = iter([0.0, 0.5, 2.5])
        >>> receipt, taken = time_forget(lambda: "receipt", lambda: None, clock=lambda: next(ticks))
        >>> receipt, taken.edit_seconds, taken.reencode_seconds
        ('receipt', 0.5, 2.0)
    """
    start = clock()
    result = edit()
    edited = clock()
    if reencode is None:
        return result, ForgetTime(edited - start)
    reencode()
    return result, ForgetTime(edited - start, clock() - edited)
