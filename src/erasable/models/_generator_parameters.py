"""What generators ask of their parameters, and of the rows that they are to learn from."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from erasable.errors import ArgumentError, Problems, listing
from erasable.fusion import get_kernels
from erasable.memory import plain
from erasable.training import steps_per_epoch

if TYPE_CHECKING:
    from erasable.models._spm_generator import SPMGenerator

BRANCHES = ("fixed", "follow")
LABELS = ("none", "plain", "permuted")

_MANY_ALONE = 0.5
"""Share of images without a row to read from which a training is hardly one."""

log = logging.getLogger(__name__)


def whole_numbers(name: str, values: Any) -> tuple[int, ...]:
    """Return a parameter that has a number per level.

    Args:
        name: Name of the parameter.
        values: What it is.
    """
    is_sequence = isinstance(values, (Sequence, np.ndarray)) and not isinstance(values, str)
    if not is_sequence or not all(isinstance(one, (int, np.integer)) for one in values):
        raise ArgumentError(f"Expected {name} to be a list of ints, but got {values!r}.")
    return tuple(int(one) for one in values)


def is_share(value: Any) -> bool:
    """Tell whether something is a number from 0 to below 1."""
    return isinstance(value, (int, float, np.number)) and bool(0 <= value < 1)


def require_reading_parameters(model: "SPMGenerator") -> None:
    """Refuse parameters of how rows are read that mean nothing."""
    problems = Problems("SPMGenerator")
    for name, known in (("branch", BRANCHES), ("labels", LABELS)):
        value = getattr(model, name)
        if value not in known:
            problems.note(f"Expected {name} to be {listing(known)}, but got {value!r}.")
    if not is_share(model.drop):
        problems.note(f"Expected drop from 0 to below 1, but got {model.drop!r}.")
    has_gradient, most = plain(model.support_gradient), plain(model.rows_per_class)
    if type(has_gradient) is not bool:
        problems.note(f"Expected support_gradient True or False, but got {has_gradient!r}.")
    if most is not None and (type(most) is not int or most < 1):
        problems.note(f"Expected rows_per_class to be a positive int or None, but got {most!r}.")
    if type(model.support_size) is not int or model.support_size < 0:
        problems.note(
            f"Expected support_size to be 0 or a positive int, but got {model.support_size!r}."
        )
    problems.raise_if_any()
    get_kernels(model.kernel)


def require_partners(classes: Tensor, *, batch_size: int, support_size: int) -> None:
    """Refuse rows that nothing can be learnt from: an image learns from others of its class.

    Args:
        classes: Class index of each row, (rows,).
        batch_size: Images per step.
        support_size: Rows besides the batch that are its memory; 0: half of the batch is.
    """
    if not (classes.bincount() > 1).any():
        raise ArgumentError(
            "Expected a class with two images at least, since an image learns to be drawn from "
            f"others of its class, but each of {len(classes)} is alone. With steps=0 nothing is "
            "trained."
        )
    if support_size and steps_per_epoch(len(classes), batch_size) < 2:
        raise ArgumentError(
            f"Expected more images than a batch of batch_size={batch_size} has, since "
            f"support_size={support_size} draws rows from the others, but got {len(classes)}. "
            "Take a smaller batch_size, or support_size=0."
        )


def warn_if_alone(history: Sequence[dict[str, float]]) -> None:
    """Say so if most images of a training had nothing to read.

    Args:
        history: What a training noted.
    """
    shares = [entry["alone"] for entry in history if "alone" in entry]
    if shares and (share := float(np.mean(shares))) > _MANY_ALONE:
        log.warning(
            "%.0f %% of images had no row of their class to read and were left out of training: "
            "take a larger batch_size or support_size, or fewer classes",
            100 * share,
        )
