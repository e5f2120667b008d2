"""What every method takes and returns."""

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from erasable.baselines._rows import Rows
from erasable.data import Split
from erasable.errors import ArgumentError, ErasableError
from erasable.training import Training


class DivergedError(ErasableError, ArithmeticError):
    """Signal an edit that ended in weights or losses that are no numbers: it has no score."""


@dataclass
class TimeAccount:
    """Where the time of an edit went.

    Everything that depends on the forget set counts, from masks to passes over retained rows.

    Attributes:
        parts: Seconds by what was done.
    """

    parts: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """All of it."""
        return sum(self.parts.values())

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time that the block takes."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.parts[name] = self.parts.get(name, 0.0) + spent


@dataclass(frozen=True)
class Budget:
    """What an edit may spend.

    Attributes:
        epochs: Epochs instead of the method's own number; None leaves it.
        passes: Rows that may be read, as a multiple of all rows: a method that reads a tenth of
            them per epoch may run ten epochs where one that reads all may run one. It lowers the
            number of epochs, to one at least. None for no limit.
        seconds: Time after which no further step begins; None for no limit.
    """

    epochs: int | None = None
    passes: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("passes", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ArgumentError(f"Expected {name} to be more than 0, but got {value!r}.")

    def allowed(self, epochs: int, share: float) -> int:
        """Return how many epochs may be run.

        Args:
            epochs: The method's own number.
            share: Rows that an epoch reads, as a multiple of all rows.
        """
        wanted = epochs if self.epochs is None else self.epochs
        if self.passes is None or wanted < 1:
            return wanted
        return max(1, min(wanted, int(self.passes / share + 1e-9)))


@dataclass(frozen=True)
class Unlearned:
    """An unlearned model and what it took.

    Attributes:
        model: The model: of the same kind as the original, which is as it was.
        method: Name of the method.
        settings: Its settings.
        account: Where the time went.
        figures: What the method measured of itself, such as how far batch normalisation drifted.
        is_complete: Whether the work ended before its budget did.
    """

    model: Any
    method: str
    settings: dict[str, Any]
    account: TimeAccount
    figures: dict[str, float]
    is_complete: bool = True


@dataclass
class Task:
    """One edit of weights: a copy of the network to work on, and what to work with.

    Attributes:
        network: The copy; a method changes it in place.
        forget: Rows to forget.
        retain: All others.
        count: Number of classes.
        budget: What may be spent.
        training: How the original was trained: its loss, and how images were varied.
        account: Where the time goes.
        figures: What the method measures of itself.
        verbose: Whether to show progress.
        is_complete: Set to False by a method that ran out of its budget.
    """

    network: nn.Module
    forget: Rows
    retain: Rows
    count: int
    budget: Budget = field(default_factory=Budget)
    training: Training = field(default_factory=Training)
    account: TimeAccount = field(default_factory=TimeAccount)
    figures: dict[str, float] = field(default_factory=dict)
    verbose: bool = False
    is_complete: bool = True

    def loss(self, logits: Tensor, classes: Tensor) -> Tensor:
        """Return the loss that the original was trained with."""
        return F.cross_entropy(logits, classes, label_smoothing=self.training.label_smoothing)


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A way to unlearn, with its settings as attributes.

    Attributes:
        name: What it is called in commands and tables.
        version: To be raised when its code changes what it does: kept results of older ones are
            then not taken for its own.
        needs_classes: Whether it can only forget classes as a whole.
        seed: Everything random follows from it.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    needs_classes: ClassVar[bool] = False
    seed: int = 0

    @property
    def settings(self) -> dict[str, Any]:
        """All settings as plain values."""
        return asdict(self)

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the values that tuning tries, by setting; none if there is nothing to tune."""
        return {}


class WeightMethod(Method):
    """A method that edits the weights of a network that returns logits."""

    @abstractmethod
    def edit(self, task: Task) -> None:
        """Change the copy of the network in place.

        Raises:
            DivergedError: If weights or losses are no numbers any more.
        """


class ModelMethod(Method):
    """A method that makes another model out of a model, rather than editing weights."""

    @abstractmethod
    def remake(
        self, original: Any, forget: Split, retain: Split, account: TimeAccount, *, verbose: bool
    ) -> tuple[Any, dict[str, float]]:
        """Return the unlearned model, and what was measured on the way."""
