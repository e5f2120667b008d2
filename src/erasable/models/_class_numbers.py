"""The numbers by which the weights of a generator know classes."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self, final

from erasable.errors import ArgumentError, listing
from erasable.memory import encode_key
from erasable.typing import Label

LabelKey = tuple[type, Label | None]
"""A label with its type: 1 and True are two classes."""


@final
@dataclass(frozen=True)
class ClassNumbers:
    """What training fixed: which class has which number, as long as the class has rows.

    Classes that came later are not in here: their numbers are computed when they are needed, from
    the classes that have rows then, so that no earlier request can show in them.

    Attributes:
        names: The class of each number; None where the class has no rows any more.
        checksum: Sum of a hash of each number and its class. It shows a change of ``names`` that
            this library did not make.
    """

    names: tuple[Label | None, ...]
    checksum: int

    @classmethod
    def of(cls, names: Iterable[Label | None]) -> Self:
        """Return the numbers of classes, given in the order of the numbers.

        Args:
            names: The classes; None where a number has none.
        """
        found = tuple(names)
        return cls(found, _checksum(enumerate(found)))

    @property
    def is_sound(self) -> bool:
        """Whether the names are those that were given first, but for classes without rows."""
        return self.checksum == _checksum(enumerate(self.names))

    def left(self, live: Iterable[Label]) -> Self:
        """Return the numbers without the names of classes that have no rows.

        Args:
            live: The classes that have rows.
        """
        there = {label_key(label) for label in live}
        gone = {
            number: name
            for number, name in enumerate(self.names)
            if name is not None and label_key(name) not in there
        }
        names = tuple(None if at in gone else name for at, name in enumerate(self.names))
        # Taken away, not summed up again: a change behind the library's back must still show.
        return type(self)(names, (self.checksum - _checksum(gone.items())) % _MODULUS)

    def told(self, live: Sequence[Label], *, is_filled: bool) -> dict[LabelKey, int]:
        """Return the number of each class that has rows and a number.

        Args:
            live: The classes that have rows, sorted.
            is_filled: Whether later classes take the numbers that are free: the first of them the
                lowest.
        """
        left = self.left(live).names
        numbers = {label_key(name): at for at, name in enumerate(left) if name is not None}
        if not is_filled:
            return numbers
        later = [label_key(label) for label in live if label_key(label) not in numbers]
        free = [at for at, name in enumerate(left) if name is None]
        return numbers | dict(zip(later, free, strict=False))


def label_key(label: Label | None) -> LabelKey:
    """Return a label with its type."""
    return type(label), label


_MODULUS = 2**256


def _checksum(names: Iterable[tuple[int, Label | None]]) -> int:
    keys = [f"{at}:{encode_key(name)}" for at, name in names if name is not None]
    digests = [hashlib.sha256(key.encode()).digest() for key in keys]
    return sum(int.from_bytes(digest, "big") for digest in digests) % _MODULUS


def require_among(labels: Iterable[Label], known: Iterable[Label]) -> None:
    """Refuse labels that are not among the classes; 1 and True are two.

    Raises:
        ArgumentError: If there are some.
    """
    there = {label_key(label) for label in known}
    missing = [label for label in labels if label_key(label) not in there]
    if missing:
        raise ArgumentError(f"Expected labels among classes, but got {listing(missing)}.")
