"""Rows of a memory as a denoising network reads them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from erasable.diffusion import PatchMemory
from erasable.errors import ArgumentError, StateError
from erasable.fusion import Kernels
from erasable.memory import Grid

if TYPE_CHECKING:
    from erasable.models._spm_generator import SPMGenerator

ROWS_AT_ONCE = 256
"""Images of rows that are encoded together."""


class Reading:
    """Rows that requests read, as a network takes them; those of the moment it was made.

    Attributes:
        reads: Which of the groups of rows each image reads, (n,).
        labels: What the network is told of each image's class, if anything, (n,).
        rows: Positions of the rows, group by group.
        groups: Group of each row, (rows,).
    """

    def __init__(
        self,
        model: "SPMGenerator",
        reads: Tensor,
        chosen: list[npt.NDArray[np.int64]],
        labels: Tensor | None,
    ) -> None:
        device = model.network_.device
        self._model = model
        self.reads = reads.to(device)
        self.labels = None if labels is None else labels.to(device)
        self.rows = np.concatenate(chosen)
        self._held = model.memory_.table.embeddings[self.rows]  # a copy: places may change hands
        self._sizes = [len(part) for part in chosen]
        self.largest = max(self._sizes)
        self.groups = torch.repeat_interleave(
            torch.arange(len(chosen)), torch.tensor(self._sizes)
        ).to(device)

    def tell(self, numbers: Any, embeddings: int) -> None:
        """Tell the network classes by number, instead of those that labels have.

        Args:
            numbers: Per image the number of a class embedding; −1 for none.
            embeddings: How many there are.
        """
        found = torch.as_tensor(numbers)
        is_sound = found.shape == self.reads.shape and found.dtype == torch.int64
        if not is_sound or bool(((found < -1) | (found >= embeddings)).any()):
            raise ArgumentError(
                f"Expected class_numbers to be {len(self.reads)} ints from -1 to {embeddings - 1}, "
                f"as there are {embeddings} label embeddings, but got {numbers!r}."
            )
        self.labels = found.to(self.reads.device) if embeddings else None

    def memory(self, kernels: Kernels | None = None) -> Callable[[Tensor], PatchMemory]:
        """Return the rows as they are read at a time step; each is encoded once per step at most.

        Groups are encoded apart: the last bit of a product may depend on how many rows it has, and
        what is drawn of a class must not depend on how many other classes have.

        Args:
            kernels: How patches are compared.
        """
        network = self._model.network_
        stored = torch.from_numpy(self._held).to(network.device)

        @torch.no_grad()
        def fixed() -> PatchMemory:
            patches = stored.view(len(stored), -1, self._model.channels[-1])
            parts = [network.fusion.project(part) for part in torch.split(patches, self._sizes)]
            return PatchMemory(torch.cat(parts), self.groups, kernels=kernels)

        @torch.no_grad()
        def at(timestep: Tensor) -> PatchMemory:
            images = stored.view(len(stored), *self._model.input_shape_)
            images = images.contiguous(memory_format=torch.channels_last)
            parts = [
                network.fusion.project(network.encode(part, timestep.expand(len(part))))
                for group in torch.split(images, self._sizes)
                for part in torch.split(group, ROWS_AT_ONCE)
            ]
            return PatchMemory(torch.cat(parts), self.groups, kernels=kernels)

        if not self._model.is_following:
            once = fixed()
            return lambda timestep: once
        last: dict[int, PatchMemory] = {}

        def kept(timestep: Tensor) -> PatchMemory:
            step = int(timestep)
            if step not in last:
                last.clear()
                last[step] = at(timestep)
            return last[step]

        return kept


def require_on_grid(features: npt.NDArray[Any], grid: Grid) -> None:
    """Refuse features of a trained network that rounding cannot hold, and say what can."""
    largest = float(np.abs(features).max(initial=0.0))
    if not largest < grid.bound:
        raise StateError(
            f"Expected features below {grid.bound:g}, as grid_bits={grid.bits} holds, but the "
            f"trained network has {largest:.4g}. Fit again with fewer grid_bits; with the same "
            "checkpoint the training is not repeated."
        )
