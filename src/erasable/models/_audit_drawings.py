"""What a generator draws of some classes, by its rows and by the same rows built anew."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch

from erasable.memory import (
    Difference,
    LiveRows,
    Marks,
    Memory,
    Readable,
    Selection,
    first_unequal,
    kept,
)
from erasable.models._audit_answers import Answers, Compared, spread
from erasable.models._class_numbers import ClassNumbers
from erasable.typing import Label
from erasable.weights import load_weights, weights_of

if TYPE_CHECKING:
    from erasable.models._patch_votes import PatchVotes
    from erasable.models._spm_generator import SPMGenerator

_CLASSES = 4
"""Classes that are drawn: half of them, if there are as many, those that lose rows."""

_EMPTIED = 2
"""Classes that lose all rows and are drawn from those of another one."""

_EACH = 2
"""Images per class."""

_STEPS = 3
"""Denoising steps. Few: bits that differ after the first would differ after the last."""

_TOP = 5
"""Rows per image whose votes are compared."""


@dataclass(frozen=True)
class Drawings(Answers):
    """Images of a few classes and the votes behind them, always from the same noise.

    The other side is a generator built anew, not only its rows, so that nothing which the model or
    its network keeps of rows can speak for both.

    Attributes:
        model: The generator.
        classes: Classes to draw from their own rows.
        emptied: Classes to draw from the rows of another one.
        numbers: The generator's numbers of classes, as they were when the audit began.
    """

    model: "SPMGenerator"
    classes: list[Label]
    emptied: list[Label]
    numbers: ClassNumbers

    @classmethod
    def of(cls, model: "SPMGenerator", memory: Memory, selection: Selection) -> Self:
        """Return what to draw once a selection has left a memory.

        Args:
            model: The generator.
            memory: The memory, with the rows that are to leave it.
            selection: Those rows.
        """
        table, sums = memory.table, memory.sums
        is_gone = np.zeros(len(table), bool)
        is_gone[memory.positions(selection.ids)] = True
        leaving = set(table.slots[is_gone].tolist())
        staying = set(table.slots[~is_gone].tolist())
        losing = spread([s for s in sums.order.tolist() if s in leaving & staying], _CLASSES // 2)
        others = [s for s in sums.order.tolist() if s in staying - set(losing)]
        chosen = [*losing, *spread(others, _CLASSES - len(losing))]
        emptied = spread([s for s in sums.order.tolist() if s in leaving - staying], _EMPTIED)
        classes, gone = ([sums.label_at(slot) for slot in slots] for slots in (chosen, emptied))
        return cls(model, classes, gone, model.numbers_)

    def check(self) -> Difference | None:
        """Return a change of the numbers of classes that this library did not make."""
        numbers, count = self.numbers, self.model._class_count
        where = "numbers of classes"
        if len(numbers.names) != count:
            found, expected = f"{len(numbers.names)} of them", f"{count} embeddings"
            return Difference(where, "", found, expected, "in the network")
        if not numbers.is_sound:
            return Difference(where, "", "changed names", "the names", "as training fixed them")
        return None

    def warm(self, rows: Readable) -> None:
        """Draw as the comparison will, so that whatever is kept of rows is there."""
        generator = self._reading(rows)
        for classes in (self.classes, self.emptied):
            if classes:
                _drawn(generator, _asked(classes))

    def compare(
        self, mine: LiveRows, anew: LiveRows, compared: Compared, on_step: Callable[[str], None]
    ) -> Difference | None:
        """Compare images and votes of rows as they are with those of rows built anew."""
        compared.not_compared += list(kept(mine))
        ours, theirs = self._reading(mine), self._built_anew(anew)
        asked = _asked(self.classes)
        on_step("drawing images")
        images = [_drawn(one, asked) for one in (ours, theirs)]
        found = _compare_images("drawings", asked, *images)
        if found is None and self.emptied:
            on_step("drawing from a stand-in")
            found = self._compare_stand_in(ours, theirs)
        if found is None:
            on_step("reading votes")
            votes = [one.votes(images[0], asked, _TOP) for one in (ours, theirs)]
            found = _compare_votes(asked, *votes)
        if found is None:
            views = {"drawings": True, "drawings by a stand-in": self.emptied, "votes": True}
            compared.views += [name for name, is_there in views.items() if is_there]
            compared.images = len(asked) + _EACH * len(self.emptied)
        return found

    def _compare_stand_in(self, ours: "SPMGenerator", theirs: "SPMGenerator") -> Difference | None:
        asked = _asked(self.emptied)
        first = ours.memory_.classes[0]
        images = [_drawn(one, asked, stand_in=first) for one in (ours, theirs)]
        return _compare_images("drawings by a stand-in", asked, *images)

    def _reading(self, rows: Readable) -> "SPMGenerator":
        twin = copy.copy(self.model)
        twin.memory_ = rows.live  # type: ignore[assignment]  # to read, rows are enough
        twin.numbers_, twin.verbose = self.numbers, 0
        return twin

    def _built_anew(self, rows: LiveRows) -> "SPMGenerator":
        """Return a generator of the same parameters and weights that shares no object with it."""
        model = self.model
        anew = type(model)(**{**model.get_params(deep=False), "verbose": 0})
        anew.input_shape_ = model.input_shape_
        anew._start(0, Marks(), known=self.numbers.names, classes=model._class_count)
        load_weights(anew.network_.to(model.network_.device), weights_of(model.network_))
        anew.memory_ = rows  # type: ignore[assignment]  # to read, rows are enough
        return anew


def _asked(classes: list[Label]) -> list[Label]:
    return [label for label in classes for _ in range(_EACH)]


def _drawn(generator: "SPMGenerator", asked: list[Label], **options: Any) -> npt.NDArray[Any]:
    noise = torch.Generator().manual_seed(0)
    return generator.sample(asked, num_inference_steps=_STEPS, generator=noise, **options)


def _compare_images(
    part: str, asked: list[Label], ours: npt.NDArray[Any], theirs: npt.NDArray[Any]
) -> Difference | None:
    place = first_unequal(ours, theirs)
    if place is None:
        return None
    where = f"image {place[0]}, of class {asked[place[0]]!r}, value {place[1:]}"
    return Difference(part, where, repr(float(ours[place])), repr(float(theirs[place])))


def _compare_votes(
    asked: list[Label], ours: "PatchVotes", theirs: "PatchVotes"
) -> Difference | None:
    for field in fields(ours):
        left, right = getattr(ours, field.name), getattr(theirs, field.name)
        for image, pair in enumerate(zip(left, right, strict=True)):
            shown = [repr(np.asarray(one).tolist()) for one in pair]
            if shown[0] != shown[1]:
                where = f"{field.name} of image {image}, of class {asked[image]!r}"
                return Difference("votes", where, *shown)
    return None
