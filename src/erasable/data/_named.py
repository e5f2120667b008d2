"""Feature vectors whose columns have names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from erasable.errors import Problems
from erasable.typing import Float32s


@final
@dataclass(frozen=True, eq=False)
class NamedFeatures:
    """Feature vectors, (rows, features), and the name of each column.

    Models keep the names of the columns they were trained on and find them by name later.

    Attributes:
        values: The numbers, (rows, features).
        names: One name per column, each once.
    """

    values: Float32s
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, and of columns."""
        return self.values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.values.dtype

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> "NamedFeatures":
        """Return some of the rows; ``rows`` is a slice or an array."""
        return NamedFeatures(self.values[rows], self.names)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the numbers, without the names."""
        return np.array(self.values, dtype=dtype, copy=copy)

    def ordered(self, names: Sequence[str]) -> Float32s:
        """Return the columns with these names, in this order.

        Raises:
            ArgumentError: If a column is missing, or one is there that is not among the names.
        """
        problems = Problems("columns")
        remedy = "Rename the columns, or leave out those that the model does not know."
        problems.note_items(
            [name for name in names if name not in self.names],
            "Expected the columns that the model was trained on, but these are missing",
            remedy=remedy,
        )
        problems.note_items(
            [name for name in self.names if name not in names],
            "Expected no other columns than those the model was trained on, but got",
            remedy=remedy,
        )
        problems.raise_if_any()
        return self.values[:, [self.names.index(name) for name in names]]
