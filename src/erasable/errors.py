"""Exceptions, grouped by what the caller can do about them.

Every message says what was expected, what came, and what to do. A call that raises has changed
nothing.
"""

from collections.abc import Iterable, Sequence

SHOWN = 5


class ErasableError(Exception):
    """Catch this to catch everything the library raises on purpose."""


class ArgumentError(ErasableError, ValueError):
    """Signal an argument of the wrong type, shape, range or name: correct the call."""


class RowIdError(ErasableError, LookupError):
    """Signal an unknown, duplicate or forgotten row, group or class: correct the selection."""


class NothingFoundError(RowIdError):
    """Signal a request of which nothing is known: check the names."""


class AlreadyForgottenError(RowIdError):
    """Signal a request that was honoured before: nothing is left to do."""


class StateError(ErasableError, RuntimeError):
    """Signal an object that is not in the state the call needs: do the named step first."""


class StoreError(ErasableError, OSError):
    """Signal a saved model that is damaged, foreign or locked: restore or choose another one."""


class StoreRefusedError(StoreError):
    """Signal a place that is sound but full, locked, taken or an older copy: nothing is damaged.

    To restore a backup would bring forgotten rows back; do what the message says instead.
    """


class MissingExtraError(ErasableError, ImportError):
    """Signal an optional package that is not installed: install the named extra."""


def listing(items: Iterable[object]) -> str:
    """Quote at most five items and count the rest.

    Examples:
        >>> listing(["a", 2, "c", "d", "e", "f", "g"])
        "'a', 2, 'c', 'd', 'e' and 2 more"
    """
    found = list(items)
    text = ", ".join(repr(item) for item in found[:SHOWN])
    return text if len(found) <= SHOWN else f"{text} and {len(found) - SHOWN} more"


class Problems:
    """Collect every problem of a call, then raise once.

    Examples:
        >>> problems = Problems("add()")
        >>> problems.note("Expected 2 labels, but got 3.")
        >>> problems.raise_if_any()
        Traceback (most recent call last):
        ...
        erasable.errors.ArgumentError: add(): Expected 2 labels, but got 3.
    """

    def __init__(self, call: str) -> None:
        self._call = call
        self._found: list[tuple[type[ErasableError], str]] = []

    def note(self, message: str, *, kind: type[ErasableError] = ArgumentError) -> None:
        """Record one problem; nothing is raised yet."""
        self._found.append((kind, message))

    def note_items(
        self,
        items: Sequence[object],
        message: str,
        *,
        remedy: str = "",
        kind: type[ErasableError] = ArgumentError,
    ) -> None:
        """Record a problem that concerns ``items``, if there are any."""
        if items:
            self.note(f"{message}: {listing(items)}.{' ' + remedy if remedy else ''}", kind=kind)

    def __bool__(self) -> bool:
        return bool(self._found)

    def raise_if_any(self) -> None:
        """Raise one error that carries every recorded problem.

        The class is that of the problems if they agree, else `ArgumentError`.
        """
        if not self._found:
            return
        kinds = {kind for kind, _ in self._found}
        kind = kinds.pop() if len(kinds) == 1 else ArgumentError
        raise kind(f"{self._call}: " + " ".join(message for _, message in self._found))
