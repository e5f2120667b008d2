"""What shadow models are made of and asked about, and what builds them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from erasable.data import Split
from erasable.errors import Problems
from erasable.typing import Float64s, Ints

Bools = npt.NDArray[np.bool_]

WORLDS = ("unlearned", "oracle", "second_oracle")
"""Each draws its shadows' rows by itself."""


@dataclass(frozen=True, eq=False)
class ShadowSets:
    """The rows that shadow models are made of and asked about.

    Attributes:
        train: Rows to build models from.
        validation: Rows that no model holds.
        is_forgotten: Whether each training row is in the forget set, (rows,).
        is_watched: Whether margins of a retained training row are recorded, (rows,). Every model
            holds these rows, so their margins are those of a row the model knows.
    """

    train: Split
    validation: Split
    is_forgotten: Bools
    is_watched: Bools

    def __post_init__(self) -> None:
        problems = Problems("ShadowSets()")
        for name in ("is_forgotten", "is_watched"):
            mask, size = getattr(self, name), len(self.train)
            kind = str(getattr(mask, "dtype", type(mask).__name__))
            if kind != "bool" or np.shape(mask) != (size,) or not mask.any():
                problems.note(
                    f"Expected '{name}' to be an array of {size} booleans, not all false, but got "
                    f"shape {np.shape(mask)} of {kind}. Pass one per training row."
                )
        problems.raise_if_any()
        both = np.flatnonzero(self.is_forgotten & self.is_watched).tolist()
        problems.note_items(both, "Expected rows to be forgotten or watched, but got as both")
        if len(self.others) < 2:
            problems.note(
                "Expected at least 2 training rows that are neither forgotten nor watched, to draw "
                f"halves of, but got {len(self.others)}. Watch fewer rows."
            )
        unknown = sorted(set(self.validation.y.tolist()) - set(self.classes))
        problems.note_items(unknown, "Expected validation labels of training rows, but also got")
        if not len(self.validation):
            problems.note("Expected at least one validation row, but got none.")
        problems.raise_if_any()

    @cached_property
    def classes(self) -> list[Any]:
        """Labels of training rows, sorted."""
        found: list[Any] = np.unique(self.train.y).tolist()
        return found

    @cached_property
    def others(self) -> Ints:
        """Positions of the training rows that halves are drawn of."""
        return np.flatnonzero(~(self.is_forgotten | self.is_watched))

    @cached_property
    def queries(self) -> Split:
        """The rows that margins are recorded of: forget set, watched rows, validation rows."""
        asked = [self.train.where(mask) for mask in (self.is_forgotten, self.is_watched)]
        parts = [*asked, self.validation]
        return Split(
            np.concatenate([np.asarray(part.X) for part in parts]),
            np.concatenate([part.y for part in parts]),
            [row_id for part in parts for row_id in part.ids],
        )

    def draw(self, world: str, index: int, *, seed: int) -> Bools:
        """Return which rows shadow ``index`` of a world holds besides the forget set, (rows,).

        All watched rows and a random half of the others; it depends on the arguments only.
        """
        rng = np.random.default_rng([seed, WORLDS.index(world), index])
        holds = self.is_watched.copy()
        holds[rng.permutation(self.others)[: len(self.others) // 2]] = True
        return holds


@dataclass(frozen=True, eq=False)
class Margins:
    """Log odds of each row's own label, (models, rows), see `erasable.metrics.margins`."""

    forget: Float64s
    retain: Float64s
    validation: Float64s

    @classmethod
    def of(cls, sets: ShadowSets, found: Float64s) -> "Margins":
        """Cut margins (models, queries) at the limits of the three sets."""
        cuts = np.cumsum([sets.is_forgotten.sum(), sets.is_watched.sum()])
        return cls(*np.split(found, cuts, axis=1))


@dataclass(frozen=True, eq=False)
class Unlearned:
    """Models that held the forget set, before and after they forgot it.

    Attributes:
        before: Margins while they held it: whether an attack finds what *is* there.
        after: Margins once it was forgotten.
        is_equal: Whether each model's digest, counts and sums are then those of one built from its
            other rows alone, (models,).
        is_checked: Whether each model was also built by the library itself, and its whole state
            compared byte for byte, (models,).
    """

    before: Margins
    after: Margins
    is_equal: Bools
    is_checked: Bools


class ShadowMaker(ABC):
    """Builds models from given rows, and makes them forget; one implementation per level."""

    level: ClassVar[str]
    sets: ShadowSets

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return plain values that say what is built from what: a run goes on if they are equal."""

    @abstractmethod
    def unlearn(self, holds: Bools) -> Unlearned:
        """Build models from the forget set and the rows that each is to hold, then forget it.

        Args:
            holds: Which rows each model is left with, (models, rows).
        """

    @abstractmethod
    def build(self, holds: Bools) -> Margins:
        """Build oracles: a fresh model from the rows that each is to hold, (models, rows)."""
