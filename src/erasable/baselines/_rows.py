"""Rows as methods read them: inputs of a network, and places among its outputs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from erasable.data import Split
from erasable.errors import ArgumentError, listing
from erasable.training import Augmentation, Inputs, Training, as_images, augment
from erasable.typing import Ints


class Draw:
    """Everything random of one run, from one seed.

    Args:
        seed: The seed.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.generator = torch.Generator().manual_seed(int(self.rng.integers(2**62)))

    def labels(self, count: int, classes: int) -> Tensor:
        """Return class indices, uniformly from all classes, (count,)."""
        return torch.randint(classes, (count,), generator=self.generator)


@dataclass(frozen=True)
class Rows:
    """Inputs and class indices of some rows.

    Attributes:
        inputs: Inputs, (rows, …).
        classes: Place of each row's label among the outputs of the network, (rows,).
    """

    inputs: Inputs
    classes: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def steps(self, size: int) -> int:
        """Return how many batches a pass takes; none has a single row, unless there is only one."""
        return max(1, min(math.ceil(len(self) / size), len(self) // 2))

    def batches(
        self, size: int, draw: Draw, augmentation: Augmentation | Training = "none"
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs and class indices of every row once, in random order.

        Batches are nearly equal, so that none has a single row, which has no batch statistics.

        Args:
            size: Largest size of a batch.
            draw: Source of the order and of the augmentation.
            augmentation: How images are varied.
        """
        if not len(self):
            return
        for places in np.array_split(draw.rng.permutation(len(self)), self.steps(size)):
            inputs, classes = self.take(places)
            yield _laid_out(augment(inputs, augmentation, draw.generator)), classes

    def take(self, places: Ints) -> tuple[Tensor, Tensor]:
        """Return inputs and class indices of the rows at some places."""
        return _laid_out(self.inputs[places]), self.classes[places]


def _laid_out(inputs: Tensor) -> Tensor:
    """Return images with their channels last in memory, as networks here read them."""
    return inputs.contiguous(memory_format=torch.channels_last) if inputs.ndim == 4 else inputs


def as_rows(split: Split, classes: list[Any]) -> Rows:
    """Return rows whose labels are numbered by a network's outputs.

    Args:
        split: The rows; labels of their own.
        classes: The label of each output.
    """
    place = {label: index for index, label in enumerate(classes)}
    unknown = {label for label in split.y.tolist() if label not in place}
    if unknown:
        raise ArgumentError(
            f"Expected labels among the {len(classes)} outputs of the network, but got "
            f"{listing(sorted(unknown, key=str))}."
        )
    X = split.X
    if X.dtype != np.uint8:
        X = np.ascontiguousarray(as_images(np.asarray(X)), np.float32)
    indices = [place[label] for label in split.y.tolist()]
    return Rows(Inputs(X), torch.tensor(indices, dtype=torch.int64))
