"""Checking what a metric is asked to compare: every problem found before anything is raised."""

import numpy as np
import numpy.typing as npt

from erasable.errors import Problems
from erasable.metrics.functional._convert import Array, as_numpy, type_of
from erasable.typing import Float64s, Ints

TOLERANCE = 1e-6
"""How far from 1 the probabilities of one query may sum, to leave room for float32 rounding."""

Bools = npt.NDArray[np.bool_]


class Checker:
    """Turn the arguments of one call into arrays; `done` raises all problems at once.

    Until `done` has passed, a refused argument is an empty array.
    """

    def __init__(self, call: str) -> None:
        self._problems = Problems(call)
        self._first: tuple[str, tuple[int, ...]] | None = None

    def probabilities(self, name: str, values: Array) -> Float64s:
        """Check probabilities (n, classes)."""
        array = self._matrix(name, values)
        below = array.min(axis=1, initial=0) < 0
        self._note(below, f"Expected '{name}' to have no probability below 0")
        with np.errstate(invalid="ignore"):
            sums = array.sum(axis=1)
        remedy = "probabilities (float32 softmax of logits, exp of log-probabilities)"
        self._note_sums(name, array, sums, remedy)
        return array

    def log_probabilities(self, name: str, values: Array) -> Float64s:
        """Check log-probabilities (n, classes), where −inf stands for zero probability."""
        array = self._matrix(name, values)
        with np.errstate(over="ignore"):
            sums = np.exp(array).sum(axis=1)
        remedy = "log-probabilities (float32 log_softmax of logits, floored_log of votes)"
        self._note_sums(name, array, sums, remedy)
        return array

    def labels(self, values: Array) -> Ints:
        """Check labels (n,) against the predictions that were checked before them."""
        array = as_numpy(values)
        if array is None or array.dtype.kind not in "iu":
            self._problems.note(
                f"Expected 'labels' to be integers, but got {type_of(values)}. "
                "Pass the column of each query's class in the predictions."
            )
        elif self._first is not None:
            return self._fitting(array, self._first[1])
        return np.empty(0, np.int64)

    def require(self, is_met: bool, message: str) -> None:
        """Note ``message`` unless the condition is met."""
        if not is_met:
            self._problems.note(message)

    def done(self) -> None:
        """Raise one error with every problem, if there are any."""
        self._problems.raise_if_any()

    def _matrix(self, name: str, values: Array) -> Float64s:
        array = as_numpy(values)
        if array is None:
            self._problems.note(
                f"Expected '{name}' to be numbers of shape (n, classes), "
                f"but got {type_of(values)}. Pass a NumPy array or a torch tensor."
            )
        elif array.ndim != 2 or 0 in array.shape:
            self._problems.note(
                f"Expected '{name}' to have shape (n, classes) with n ≥ 1, but got {array.shape}. "
                "Pass one prediction per query."
            )
        else:
            self._note_shape(name, array.shape)
            return array.astype(np.float64)
        return np.empty((0, 0))

    def _note_shape(self, name: str, shape: tuple[int, ...]) -> None:
        self._first = self._first or (name, shape)
        first, expected = self._first
        self.require(
            shape == expected,
            f"Expected '{name}' to have shape {expected} to match '{first}', but got {shape}. "
            "Predict the same queries with both models, aligned to one list of classes.",
        )

    def _note_sums(self, name: str, array: Float64s, sums: Float64s, remedy: str) -> None:
        is_nan = np.isnan(array.min(axis=1, initial=0))
        self._note(is_nan, f"Expected '{name}' to have no NaN")
        is_off = ~(np.abs(sums - 1) <= TOLERANCE) & ~is_nan
        got = "".join(f" (the first sums to {total:.7g})" for total in sums[is_off][:1])
        expected = f"Expected each query in '{name}' to sum to 1 within {TOLERANCE:g}{got}"
        self._note(is_off, expected, f"Pass {remedy}.")

    def _note(
        self, is_wrong: Bools, expected: str, remedy: str = "Check the model's outputs first."
    ) -> None:
        queries = np.flatnonzero(is_wrong).tolist()
        self._problems.note_items(queries, f"{expected}, but not so at queries", remedy=remedy)

    def _fitting(self, labels: Ints, shape: tuple[int, ...]) -> Ints:
        count, classes = shape
        if labels.shape != (count,):
            self._problems.note(
                f"Expected 'labels' to have shape ({count},), but got {labels.shape}. "
                "Pass one label per query."
            )
        outside = np.unique(labels[(labels < 0) | (labels >= classes)]).tolist()
        self._problems.note_items(
            outside,
            f"Expected 'labels' to be class columns in 0…{classes - 1}, but got",
            remedy="Pass the column of each query's class in the predictions.",
        )
        return labels.astype(np.int64)


def check_pair(call: str, unlearned: Array, oracle: Array) -> tuple[Float64s, Float64s]:
    """Check the probabilities of two models."""
    check = Checker(call)
    pair = check.probabilities("unlearned", unlearned), check.probabilities("oracle", oracle)
    check.done()
    return pair


def check_pair_and_labels(
    call: str, unlearned: Array, oracle: Array, labels: Array
) -> tuple[Float64s, Float64s, Ints]:
    """Check the probabilities of two models and the labels of the queries."""
    check = Checker(call)
    pair = check.probabilities("unlearned", unlearned), check.probabilities("oracle", oracle)
    truth = check.labels(labels)
    check.done()
    return *pair, truth
