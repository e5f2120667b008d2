"""What the command line writes to a terminal, and how it ends."""

import logging
import sys
import warnings
from enum import IntEnum
from typing import Any

from erasable.errors import AlreadyForgottenError, NothingFoundError, StoreError, StoreRefusedError
from erasable.terminal import printable, printable_lines


class Status(IntEnum):
    """What the exit status of a command means."""

    DONE = 0
    """It was done."""

    REFUSED = 1
    """It was refused, and nothing was changed; or an audit found a difference."""

    USAGE = 2
    """The command line itself is wrong."""

    NOTHING_FOUND = 3
    """Nothing that was named is, or was, in the model."""

    ALREADY_FORGOTTEN = 4
    """Everything that was named was forgotten before."""

    DAMAGED = 5
    """Something on disk is damaged, missing or foreign."""

    INTERRUPTED = 130
    """It was interrupted."""


def status_of(error: BaseException) -> Status:
    """Return the status that an error ends the command line with."""
    for kind, status in _STATUSES.items():
        if isinstance(error, kind):
            return status
    return Status.REFUSED


_STATUSES: dict[type[BaseException], Status] = {
    StoreRefusedError: Status.REFUSED,
    StoreError: Status.DAMAGED,
    NothingFoundError: Status.NOTHING_FOUND,
    AlreadyForgottenError: Status.ALREADY_FORGOTTEN,
}


def print_line(text: str) -> None:
    """Print one line; what is not visible in it, but for tabs, is shown as an escape."""
    print("\t".join(map(printable, text.split("\t"))))


def print_error(message: str) -> None:
    """Print a message to standard error; lines after its first are indented.

    So a line break in a name cannot begin a line that looks like one of ours.
    """
    first, *more = message.split("\n")
    lines = [f"Error: {printable(first)}", *(f"  {printable(line)}" for line in more)]
    print("\n".join(lines), file=sys.stderr)


def guard() -> None:
    """Have warnings and the log written with everything that is not visible as an escape."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    plain = warnings.formatwarning

    def guarded(*args: Any, **kwargs: Any) -> str:
        return printable_lines(plain(*args, **kwargs))

    warnings.formatwarning = guarded


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))
