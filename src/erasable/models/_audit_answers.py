"""What an audit compares of every kind of model: answers by its rows, and by rows built anew."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from erasable.memory import Difference, LiveRows, Memory, Readable, Selection


@dataclass
class Compared:
    """What was compared, as far as it came.

    Attributes:
        views: Ways of reading the memory.
        kept: What is kept of the rows.
        not_compared: Names of what is kept and was compared by answers only.
        queries: Number of queries that were answered.
        images: Number of images that were drawn.
        largest: The largest difference between log probabilities.
    """

    views: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    queries: int = 0
    images: int = 0
    largest: float = 0.0


class Answers(ABC):
    """How a model of some kind answers from rows, and what it keeps for that."""

    def check(self) -> Difference | None:
        """Return the first way in which what the model knows besides rows contradicts itself."""
        return None

    @abstractmethod
    def warm(self, rows: Readable) -> None:
        """Answer once by rows as the model does, so that what it keeps of them is there."""

    @abstractmethod
    def compare(
        self, mine: LiveRows, anew: LiveRows, compared: Compared, on_step: Callable[[str], None]
    ) -> Difference | None:
        """Compare what is kept of rows, and answers, with the same by rows built anew.

        Args:
            mine: The rows of the model, or of a copy of it.
            anew: The same rows, built anew; they lie in another order.
            compared: Where to note what was compared.
            on_step: Where to tell of steps.
        """


Answering = Callable[[Memory, Selection], Answers]
"""Return the answers to compare, given the memory and the rows that are to leave it."""


def spread(places: list[int], count: int) -> list[int]:
    """Return as many of some places, evenly spaced and in order; all of them if there are fewer."""
    if len(places) <= count:
        return places
    return [places[i] for i in np.linspace(0, len(places) - 1, count).astype(int).tolist()]
