"""How a network is trained, as one value."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Self, get_args

from erasable.errors import ArgumentError, Problems, listing
from erasable.memory import plain
from erasable.training._batches import SAMPLERS

Augmentation = Literal["none", "crop", "flip", "crop_flip", "resized_crop_flip"]
AUGMENTATIONS: tuple[str, ...] = get_args(Augmentation)

_CHOICES: dict[str, tuple[str, ...]] = {
    "support_sampling": ("uniform", "balanced"),
    "sampler": SAMPLERS,
    "schedule": ("cosine", "linear", "steps", "constant"),
    "average": ("none", "lookahead"),
    "augmentation": AUGMENTATIONS,
    "edge": ("zeros", "reflect"),
    "flips": ("random", "turns"),
    "precision": ("auto", "float32", "bfloat16"),
}
_RANGES: tuple[tuple[str, type, float, float], ...] = (
    ("momentum", float, 0, 1),
    ("weight_decay", float, 0, 1),
    ("warmup", float, 0, 1),
    ("first_rate", float, 0, 1),
    ("last_rate", float, 0, 1),
    ("milestone_factor", float, 0, 1),
    ("bias_rate", float, 0, 10**4),
    ("head_rate", float, 0, 10**4),
    ("clip", float, 0, math.inf),
    ("shift", int, 0, 10**4),
    ("cutout", int, 0, 10**4),
    ("label_smoothing", float, 0, 0.99),
    ("support_size", int, 2, 10**9),
)
_MAY_BE_NONE = {"clip", "shift", "support_size"}
_OUTSIDE = {"checkpoint", "verbose"}
"""What no weight depends on."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a network is trained, apart from epochs, batch size and learning rate.

    Attributes:
        support_size: Train as the paper does: draw this many further rows per batch to be its
            memory. None: the batch is its own memory, which costs less. Only `SPMClassifier` reads
            a memory while it trains; others leave this and ``support_sampling`` aside.
        support_sampling: ``uniform``, or ``balanced`` over the classes of the batch.
        sampler: How batches are drawn: ``uniform``; ``classes``: P classes × K rows; ``auto``:
            ``classes`` if there are too many classes for random batches.
        momentum: Momentum of SGD.
        nesterov: Whether it is Nesterov's.
        weight_decay: L2 penalty on matrices and kernels.
        schedule: What the learning rate does after the warm-up: ``cosine`` or ``linear``: fall to
            ``last_rate``; ``steps``: be multiplied by ``milestone_factor`` at each of the
            ``milestones``; ``constant``.
        warmup: Share of the steps with a rising learning rate.
        first_rate: Share of the learning rate that the warm-up starts from.
        last_rate: Share of the learning rate that is left in the end.
        milestones: Shares of the steps at which the learning rate falls.
        milestone_factor: What it is multiplied by then.
        bias_rate: Factor on the learning rate of the biases of normalisation layers; unless it is
            1, they have the penalty of kernels, too.
        head_rate: Factor on the learning rate of what reads embeddings: W_q and W_k, or the linear
            head of an ordinary network.
        clip: Largest norm of a gradient; None: any.
        average: ``lookahead``: every five steps the weights are put back towards their running
            mean, less and less far back; ``none``.
        augmentation: For images. ``crop``: shift them; ``flip``: mirror them; ``crop_flip``: both;
            ``resized_crop_flip``: cut out a part of 8 to 100 % of the area, resize and mirror it.
        shift: Pixels that a crop shifts by at most, and never more than half of the shorter side;
            None: an eighth of it.
        edge: What is shifted in: ``zeros``, or the image's own edge (``reflect``).
        flips: Of ``flip`` and ``crop_flip``. ``random``: half of the images; ``turns``: each image
            in every other epoch.
        cutout: Side of the square that is blanked in each image, at most half of the shorter side;
            0: none.
        label_smoothing: Share of the target spread evenly over the classes at hand.
        label_permutation: Draw a new numbering of the classes at each step (paper sec. 3).
        precision: ``bfloat16``: encode in half precision while training; ``float32``; ``auto``:
            half precision on a GPU that has it. Weights, and all else, are in full precision.
        checkpoint: Folder for the state after each epoch; a run that was interrupted goes on there.
        verbose: Whether to show a progress bar.
    """

    support_size: int | None = None
    support_sampling: str = "uniform"
    sampler: str = "auto"
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4
    schedule: str = "cosine"
    warmup: float = 0.15
    first_rate: float = 0.0
    last_rate: float = 0.0
    milestones: tuple[float, ...] = ()
    milestone_factor: float = 0.1
    bias_rate: float = 1.0
    head_rate: float = 1.0
    clip: float | None = None
    average: str = "none"
    augmentation: Augmentation = "none"
    shift: int | None = None
    edge: str = "zeros"
    flips: str = "random"
    cutout: int = 0
    label_smoothing: float = 0.0
    label_permutation: bool = False
    precision: str = "auto"
    checkpoint: str | Path | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))
        given: Any = self.milestones
        if isinstance(given, Iterable) and not isinstance(given, tuple):
            milestones = tuple(map(plain, given))
            if all(map(_is_share, milestones)):
                object.__setattr__(self, "milestones", milestones)
        if self.verbose in (0, 1):
            object.__setattr__(self, "verbose", bool(self.verbose))
        problems = Problems("Training()")
        self._check_numbers(problems)
        self._check_choices(problems)
        problems.raise_if_any()

    def _check_numbers(self, problems: Problems) -> None:
        for name, kind, low, high in _RANGES:
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            is_kind = isinstance(value, int if kind is int else (int, float))
            if not is_kind or isinstance(value, bool) or not low <= value <= high:
                article = " to be an int" if kind is int else ""
                problems.note(f"Expected {name}{article} in [{low}, {high}], but got {value!r}.")
        if self.clip == 0:
            problems.note("Expected clip above 0, but got 0: no gradient would be left.")
        given: Any = self.milestones
        if not isinstance(given, tuple) or not all(map(_is_share, given)):
            problems.note(f"Expected milestones between 0 and 1, but got {self.milestones!r}.")

    def _check_choices(self, problems: Problems) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                problems.note(f"Expected {name} to be {listing(known)}, but got {value!r}.")
        for name in ("nesterov", "label_permutation", "verbose"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                problems.note(f"Expected {name} to be True or False, but got {value!r}.")
        checkpoint: Any = self.checkpoint
        if not isinstance(checkpoint, (str, Path, NoneType)):
            problems.note(f"Expected checkpoint to be a folder, but got {checkpoint!r}.")

    def rate_at(self, learning_rate: float, step: int, steps: int) -> float:
        """Return the learning rate of a step.

        Args:
            learning_rate: The largest.
            step: The step, from 0.
            steps: Steps in all.
        """
        rise = max(1, round(self.warmup * steps))
        if step < rise:
            first = learning_rate * self.first_rate
            return first + learning_rate * (1 - self.first_rate) * (step + 1) / rise
        if self.schedule == "constant":
            return learning_rate
        if self.schedule == "steps":
            passed = sum(step >= one * steps for one in self.milestones)
            return learning_rate * self.milestone_factor**passed
        done = (step - rise) / max(1, steps - rise)
        falling = learning_rate * (1 - self.last_rate)
        if self.schedule == "cosine":
            falling = falling * 0.5 * (1 + math.cos(math.pi * done))
        else:
            falling = falling * (1 - done)
        return learning_rate * self.last_rate + falling

    def changed(self, **values: Any) -> Self:
        """Return a training with other values."""
        unknown = sorted(values.keys() - {field.name for field in fields(self)})
        if unknown:
            raise ArgumentError(f"Expected parameters of Training, but got {listing(unknown)}.")
        return replace(self, **values)

    def settings(self) -> dict[str, Any]:
        """Return what a run depends on, as plain values."""
        found = {name: value for name, value in asdict(self).items() if name not in _OUTSIDE}
        return {**found, "milestones": list(self.milestones)}  # as a file would have them

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return every value by its name, so that scikit-learn lists and clones them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 < value < 1


_FAST = Training(
    momentum=0.85,
    weight_decay=0.00133,
    schedule="linear",
    warmup=0.23,
    first_rate=0.2,
    last_rate=0.07,
    bias_rate=64.0,
    head_rate=0.02,
    average="lookahead",
    augmentation="crop_flip",
    shift=2,
    edge="reflect",
    flips="turns",
    label_smoothing=0.2,
    precision="bfloat16",
)


TRAININGS = {"standard": Training(), "fast": _FAST, "accurate": replace(_FAST, cutout=8)}
"""Trainings by name."""


def as_training(given: str | Training) -> Training:
    """Return a training by its name, or as it is."""
    if isinstance(given, Training):
        return given
    if not isinstance(given, str) or given not in TRAININGS:
        raise ArgumentError(
            f"Expected training to be {listing(TRAININGS)} or a Training, but got {given!r}."
        )
    return TRAININGS[given]
