"""What a training run is defined by."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

from erasable.errors import Problems
from erasable.training._training import Training


@dataclass(frozen=True)
class TrainingConfig:
    """A run of stochastic gradient descent.

    Attributes:
        epochs: Passes over the rows.
        batch_size: Rows per step; batches of an epoch differ by at most one row.
        learning_rate: Largest learning rate, reached after the warm-up.
        how: All other settings.
        encoder_lr_factor: Factor on the learning rate of the encoder alone.
        seed: Everything random follows from it and the epoch's number.
    """

    epochs: int = 30
    batch_size: int = 128
    learning_rate: float = 0.1
    how: Training = field(default_factory=Training)
    encoder_lr_factor: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        problems = Problems("fit()")
        for name, low, high in _RANGES:
            value = getattr(self, name)
            is_count = name in _COUNTS
            is_number = isinstance(value, int if is_count else (int, float))
            if not is_number or isinstance(value, bool) or not low <= value <= high:
                kind = "to be an int in" if is_count else "in"
                problems.note(f"Expected {name} {kind} [{low}, {high}], but got {value!r}.")
        problems.raise_if_any()

    def learning_rate_at(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, from 0."""
        return self.how.rate_at(self.learning_rate, step, steps)

    def trained(self, **values: Any) -> Self:
        """Return the same run, trained in another way."""
        return replace(self, how=self.how.changed(**values))

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "encoder_lr_factor": self.encoder_lr_factor,
            "seed": self.seed,
            **self.how.settings(),
        }


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("epochs", 0, 10**6),
    ("batch_size", 2, 10**6),
    ("learning_rate", 0, 1000),
    ("encoder_lr_factor", 0, 1000),
    ("seed", 0, 2**63 - 1),
)
_COUNTS = ("epochs", "batch_size", "seed")
