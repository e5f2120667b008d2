"""Margins: a model's confidence in each row's own label, as log odds; checked for many models."""

import numpy as np
import numpy.typing as npt

from erasable.errors import Problems
from erasable.metrics.functional._check import TOLERANCE
from erasable.metrics.functional._convert import Array, as_numpy, type_of
from erasable.typing import Float64s, Ints

CLIP = 100.0
"""Margins beyond ± this are taken as this: a class without rows has margin −∞."""


def margins(log_probabilities: Array, *, labels: Array) -> Float64s:
    """Compute the log odds of each row's own label.

    ``φ = log p_y − log Σ_{c≠y} p_c``, from log-probabilities, so that a confident prediction keeps
    its digits where ``log(1 − p_y)`` would not. It is the logit-scaled confidence of LiRA (Carlini
    et al. 2022, "Membership Inference Attacks From First Principles") and the margin of KLOM, and
    is close to normally distributed over models, which ``p_y`` is not.

    Range −∞ (the label has probability 0) to ∞ (it has all of it). It does not show what the model
    predicts instead of the label.

    Args:
        log_probabilities: (rows, classes) of one model or (models, rows, classes) of several; −inf
            stands for zero probability.
        labels: (rows,), the column of each row's class.

    Returns:
        Margins, (rows,) or (models, rows).

    Raises:
        ArgumentError: If an argument is malformed; one message names every problem.

    Examples:
        >>> import numpy as np
        >>> found = margins(np.log([[0.75, 0.2, 0.05]]), labels=np.array([0]))
        >>> print(f"{found[0]:.4f} = log 3")
        1.0986 = log 3
    """
    problems = Problems("margins()")
    array = as_numpy(log_probabilities)
    is_one = array is not None and array.ndim == 2
    values = array[None] if array is not None and is_one else log_probabilities
    sets = margins_of_sets(problems, {"log_probabilities": values}, labels)
    problems.raise_if_any()
    found = sets["log_probabilities"]
    return np.asarray(found[0]) if is_one else found


def margins_of_sets(
    problems: Problems, sets: dict[str, Array], labels: Array | None
) -> dict[str, Float64s]:
    """Check sets of models on the same rows, and return the margins (models, rows) of each.

    Args:
        problems: Where problems are noted; what is returned is only good if there are none.
        sets: By name: margins (models, rows) if ``labels`` is None, else log-probabilities (models,
            rows, classes).
        labels: (rows,), the column of each row's class.
    """
    arrays = {name: _shaped(problems, name, values, labels) for name, values in sets.items()}
    first = next(iter(sets))
    for name, array in arrays.items():
        if array.shape[1:] != arrays[first].shape[1:] and array.size and arrays[first].size:
            problems.note(
                f"Expected '{name}' to have shape (models, "
                f"{', '.join(map(str, arrays[first].shape[1:]))}) to match '{first}', but got "
                f"{array.shape}. Ask all models for the same rows and classes."
            )
    if labels is not None:
        columns = _columns(problems, labels, arrays[first])
        for name, array in arrays.items():
            _note_sums(problems, name, array)
        return {} if problems else {name: _log_odds(a, columns) for name, a in arrays.items()}
    return arrays


def clipped(found: Float64s, clip: float) -> Float64s:
    """Return margins no further from 0 than ``clip``."""
    return np.asarray(np.clip(found, -clip, clip))


def require_clip(problems: Problems, clip: float) -> None:
    """Note a limit on margins that is none."""
    if not 0 < clip < np.inf:
        problems.note(
            f"Expected 'clip' to be above 0 and finite, but got {clip!r}. Pass a value like 100."
        )


def _shaped(problems: Problems, name: str, values: Array, labels: Array | None) -> Float64s:
    axes = "(models, rows)" if labels is None else "(models, rows, classes)"
    remedy = (
        "Pass margins, or log-probabilities with labels."
        if labels is None
        else "Pass log-probabilities, or margins without labels."
    )
    array = as_numpy(values)
    if array is None:
        problems.note(
            f"Expected '{name}' to be numbers of shape {axes}, but got {type_of(values)}. "
            "Pass a NumPy array or a torch tensor."
        )
    elif array.ndim != axes.count(",") + 1 or 0 in array.shape:
        problems.note(
            f"Expected '{name}' to have shape {axes} with at least one of each, but got "
            f"{array.shape}. {remedy}"
        )
    else:
        found = array.astype(np.float64)
        _note_models(problems, name, np.isnan(found), "to have no NaN")
        return found
    return np.empty((0, 0) if labels is None else (0, 0, 0))


def _note_models(
    problems: Problems, name: str, is_wrong: npt.NDArray[np.bool_], expected: str
) -> None:
    models = np.unique(np.nonzero(is_wrong)[0]).tolist()
    problems.note_items(
        models,
        f"Expected '{name}' {expected}, but not so of models",
        remedy="Check the models' outputs first.",
    )


def _note_sums(problems: Problems, name: str, logs: Float64s) -> None:
    with np.errstate(over="ignore"):
        sums = np.exp(logs).sum(axis=2)
    is_off = ~(np.abs(sums - 1) <= TOLERANCE) & ~np.isnan(sums)
    expected = f"to be log-probabilities, each row summing to 1 within {TOLERANCE:g}"
    _note_models(problems, name, is_off, expected)


def _columns(problems: Problems, labels: Array, logs: Float64s) -> Ints:
    array = as_numpy(labels)
    remedy = "Pass the column of each row's class in the predictions."
    if array is None or array.dtype.kind not in "iu":
        problems.note(f"Expected 'labels' to be integers, but got {type_of(labels)}. {remedy}")
        return np.empty(0, np.int64)
    rows, classes = logs.shape[1:]
    if logs.size and array.shape != (rows,):
        problems.note(
            f"Expected 'labels' to have shape ({rows},), but got {array.shape}. "
            "Pass one label per row."
        )
    if logs.size:
        outside = np.unique(array[(array < 0) | (array >= classes)]).tolist()
        expected = f"Expected 'labels' to be class columns in 0…{classes - 1}, but got"
        problems.note_items(outside, expected, remedy=remedy)
    return array.astype(np.int64)


def _log_odds(logs: Float64s, columns: Ints) -> Float64s:
    rows = np.arange(len(columns))
    own = logs[:, rows, columns]
    others = logs.copy()
    others[:, rows, columns] = -np.inf
    peak = others.max(axis=2)
    shift = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        rest = np.log(np.exp(others - shift[:, :, None]).sum(axis=2)) + shift
    return np.asarray(own - rest)
