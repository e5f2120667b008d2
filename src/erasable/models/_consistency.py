"""Whether a generator, while it learns, draws what it is asked for."""

from typing import Any, Protocol, final

import numpy as np
import torch
from torch import Tensor, nn

from erasable.diffusion import (
    MemoryUNet,
    PatchMemory,
    Sampling,
    denoise,
    draw_noise,
    make_scheduler,
    memory_predictor,
)
from erasable.training import Inputs
from erasable.typing import Label

_EVERY = 500
_ROWS = 20
_IMAGES = 4
_STEPS = 10


class Judge(Protocol):
    """A classifier that tells what an image shows."""

    def predict(self, X: Any) -> Any:
        """Return one label per image (n, channels, height, width) from 0 to 1."""
        ...


@final
class Consistency:
    """Draw a few images of each class that has rows now and then, and ask what they are.

    Args:
        judge: The classifier.
        inputs: Images to read.
        classes: Their class indices, (rows,).
        known: Label of each class.
        last: The last step, at which it looks in any case.
        is_following: Whether rows are encoded at the query's time step.
    """

    def __init__(
        self,
        judge: Judge,
        inputs: Inputs,
        classes: Tensor,
        known: list[Label],
        *,
        last: int,
        is_following: bool,
    ) -> None:
        self._judge, self._known, self._is_following = judge, known, is_following
        self._last = last
        present = np.unique(classes.numpy())  # an oracle has no rows of the class that is forgotten
        rows = np.concatenate([np.flatnonzero(classes.numpy() == c)[:_ROWS] for c in present])
        self._rows = 2 * inputs[rows] - 1
        self._classes = classes[rows]
        self._asked = torch.from_numpy(present).repeat_interleave(_IMAGES)

    @torch.no_grad()
    def __call__(self, network: nn.Module, step: int) -> dict[str, float]:
        """Return the share of images that are taken for what was asked."""
        if (step % _EVERY and step != self._last) or not isinstance(network, MemoryUNet):
            return {}
        device = network.device
        rows = self._rows.to(device)

        def memory(timestep: Tensor) -> PatchMemory:
            time = timestep if self._is_following else torch.zeros_like(timestep)
            keys = network.fusion.project(network.encode(rows, time.expand(len(rows))))
            return PatchMemory(keys, self._classes.to(device))

        asked = self._asked.to(device)
        told = asked if network.class_embedding is not None else None
        noise = draw_noise(len(asked), tuple(rows.shape[1:]), torch.Generator().manual_seed(0))
        predict = memory_predictor(network, asked, memory, 0.3, told)
        images = denoise(predict, make_scheduler(), noise.to(device), Sampling(steps=_STEPS))
        answers = np.asarray(self._judge.predict(images.cpu().contiguous().numpy()))
        wanted = [self._known[index] for index in self._asked.tolist()]
        right = [bool(a == w) for a, w in zip(answers.tolist(), wanted, strict=True)]
        return {"consistency": float(np.mean(right))}
