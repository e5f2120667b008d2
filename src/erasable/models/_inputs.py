"""From what users pass to what networks take."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from erasable.errors import ArgumentError
from erasable.memory import as_id, as_label, encode_key, plain, sort_labels
from erasable.typing import Float32s, Label, RowId


def as_float32(array: npt.NDArray[Any]) -> Float32s:
    """Return inputs as float32.

    Raises:
        ArgumentError: If a value is not finite, or too large for float32.
    """
    with np.errstate(over="ignore"):
        inputs = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(inputs).all():
        raise ArgumentError(
            "Expected finite inputs, but X contains NaN, infinity or a value too large for float32."
        )
    return inputs


def is_lazy(X: Any) -> bool:
    """Tell whether inputs are not an array but bytes that are decoded when they are indexed."""
    dtype, shape = getattr(X, "dtype", None), getattr(X, "shape", None)
    is_array = isinstance(X, (np.ndarray, Tensor))
    is_bytes = isinstance(dtype, np.dtype) and dtype == np.uint8
    return not is_array and is_bytes and isinstance(shape, tuple) and len(shape) in (3, 4)


def listed(values: Any) -> Any:
    """Return a column that can be read more than once, its cells included; None stays None.

    What is no column at all is returned as it is, for the memory to refuse.
    """
    if values is None or isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        return values
    return [
        list(value)
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        else value
        for value in values
    ]


def as_ids(ids: Any, count: int) -> list[RowId]:
    """Return one plain id per input.

    Raises:
        ArgumentError: If there are more or fewer, or one is neither text nor a whole number.
    """
    found = [as_id(row_id) for row_id in ids]
    if len(found) != count:
        raise ArgumentError(f"Expected {count} ids, but got {len(found)}.")
    return found


def as_labels(y: Any) -> list[Label]:
    """Return labels as plain values, each with its own type.

    Raises:
        ArgumentError: If one is missing, continuous or of another type.
    """
    if y is None:
        raise ArgumentError("fit() requires y to be passed, but the target y is None.")
    if isinstance(y, (list, tuple)) and not y:
        return []
    is_mixed = isinstance(y, (list, tuple)) and len({type(value) for value in y}) > 1
    try:
        column = np.array(y, dtype=object) if is_mixed else column_or_1d(y, warn=True)
        if column.dtype.kind == "f":
            if not np.isfinite(column).all():
                raise ArgumentError("Expected finite labels, but y contains NaN or infinity.")
            check_classification_targets(column)
    except ValueError as error:
        raise ArgumentError(str(error)) from error
    return [as_label(label) for label in column.tolist()]


def distinct(labels: list[Label]) -> list[Label]:
    """Return each label once, sorted."""
    return sort_labels(list({encode_key(label): label for label in labels}.values()))


def labels_array(labels: list[Label]) -> npt.NDArray[Any]:
    """Return labels as an array of their own type, or of objects if the types are mixed."""
    is_mixed = len({type(label) for label in labels}) > 1
    return np.array(labels, dtype=object if is_mixed else None)


def at_places(places: list[int], values: Any) -> list[Any] | None:
    """Return the values at some places; None if there are no values."""
    if values is None:
        return None
    found = [plain(value) for value in values]
    return found if len(places) == len(found) else [found[place] for place in places]
