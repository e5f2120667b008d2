"""What a training run is defined by."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from erasable.errors import Problems, listing
from erasable.training._batches import SAMPLERS

Augmentation = Literal["none", "crop", "flip", "crop_flip"]
AUGMENTATIONS: tuple[str, ...] = get_args(Augmentation)


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of stochastic gradient descent.

    Attributes:
        epochs: Passes over the rows.
        batch_size: Rows per step; batches of an epoch differ by at most one row.
        learning_rate: Largest learning rate, reached after the warm-up.
        momentum: Nesterov momentum.
        weight_decay: L2 penalty, on matrices and kernels only.
        warmup: Share of the steps with a rising learning rate; afterwards it falls as a cosine.
        label_smoothing: Share of the target spread evenly over the classes at hand.
        label_permutation: Draw a new numbering of the classes at each step (paper sec. 3).
        augmentation: ``none``; ``crop``: shift images by up to an eighth of their side; ``flip``:
            mirror them; ``crop_flip``: both.
        sampler: How batches are drawn: ``auto``, ``uniform``, or ``classes`` (P classes × K rows).
        encoder_lr_factor: Factor on the learning rate of the encoder alone.
        seed: Everything random follows from it and the epoch's number.
    """

    epochs: int = 30
    batch_size: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup: float = 0.15
    label_smoothing: float = 0.0
    label_permutation: bool = False
    augmentation: Augmentation = "none"
    sampler: str = "auto"
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
        if self.augmentation not in AUGMENTATIONS:
            known = listing(AUGMENTATIONS)
            problems.note(f"Expected augmentation {known}, but got {self.augmentation!r}.")
        if self.sampler not in SAMPLERS:
            known = listing(SAMPLERS)
            problems.note(f"Expected sampler to be {known}, but got {self.sampler!r}.")
        problems.raise_if_any()

    def learning_rate_at(self, step: int, steps: int) -> float:
        """Return the learning rate of a step: linear warm-up, then cosine decay to zero."""
        rise = max(1, round(self.warmup * steps))
        if step < rise:
            return self.learning_rate * (step + 1) / rise
        done = (step - rise) / max(1, steps - rise)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * done))

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("epochs", 0, 10**6),
    ("batch_size", 2, 10**6),
    ("learning_rate", 0, 1000),
    ("momentum", 0, 1),
    ("weight_decay", 0, 1),
    ("warmup", 0, 1),
    ("label_smoothing", 0, 0.99),
    ("encoder_lr_factor", 0, 1000),
    ("seed", 0, 2**63 - 1),
)
_COUNTS = ("epochs", "batch_size", "seed")
