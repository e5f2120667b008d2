"""Which rows, and which of their patches, an image draws on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from erasable.diffusion import make_scheduler
from erasable.errors import ArgumentError
from erasable.fusion import additive_votes
from erasable.models._inputs import as_labels
from erasable.typing import Float64s

if TYPE_CHECKING:
    from erasable.models._spm_generator import SPMGenerator

_TIMES = 10


@dataclass(frozen=True)
class PatchVotes:
    """The rows behind images, heaviest first.

    Attributes:
        ids: Row ids, (images, top); None where there are fewer rows.
        labels: Labels of those rows, (images, top).
        weights: Their votes: the share of what the image's patches read that is of this row,
            (images, top).
        rest: The sum of all other rows' votes, (images,).
        patches: How a row's vote is spread over its patches, (images, top, height, width); sums to
            the vote.
    """

    ids: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    weights: Float64s
    rest: Float64s
    patches: Float64s


@torch.no_grad()
def patch_votes(
    model: "SPMGenerator", images: Any, class_labels: Any, top: int, seed: int
) -> PatchVotes:
    """Average what an image's patches read over some time steps."""
    inputs = model._check_inputs(images, reset=False)
    labels = as_labels(class_labels)
    if len(labels) != len(inputs):
        raise ArgumentError(f"Expected {len(inputs)} class labels, but got {len(labels)}.")
    reading = model.reading(labels, stand_in=None, rows_per_class=model.rows_per_class)
    network, scheduler, memory = model.network_, make_scheduler(), reading.memory()
    clean = (2 * inputs[:] - 1).to(network.device)
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed))
    noise = noise.to(network.device)
    grid = model.patch_grid
    total = np.zeros((len(inputs), len(reading.rows), grid[0] * grid[1]))
    scheduler.set_timesteps(_TIMES)
    groups = reading.groups.cpu().numpy()
    for timestep in scheduler.timesteps:
        times = timestep.to(network.device).expand(len(clean))
        noisy = scheduler.add_noise(clean, noise, times)
        patches = network.encode(noisy, times, reading.labels)
        readers = network.fusion.to_query(patches)
        keys = memory(timestep).keys
        for place, group in enumerate(reading.reads.tolist()):
            mine = np.flatnonzero(groups == group)
            votes = additive_votes(readers[place], keys[mine].flatten(0, 1), network.fusion.weight)
            total[place, mine] += votes.mean(dim=0).view(len(mine), -1).cpu().double().numpy()
    return _heaviest(model, total / _TIMES, reading.rows, top, grid)


def _heaviest(
    model: "SPMGenerator",
    votes: Float64s,
    rows: npt.NDArray[np.int64],
    top: int,
    grid: tuple[int, int],
) -> PatchVotes:
    of_rows = votes.sum(axis=2)
    order = np.argsort(-of_rows, axis=1, kind="stable")[:, :top]
    weights = np.take_along_axis(of_rows, order, axis=1)
    is_read = weights > 0
    ids = np.full(order.shape, None, dtype=object)
    labels = np.full(order.shape, None, dtype=object)
    for place in zip(*np.nonzero(is_read), strict=True):
        record = model.memory_.record(int(rows[order[place]]))
        ids[place], labels[place] = record.id, record.label
    patches = np.take_along_axis(votes, order[:, :, None], axis=1)
    return PatchVotes(
        ids,
        labels,
        weights,
        (1 - weights.sum(axis=1)).clip(min=0),
        patches.reshape(*order.shape, *grid),
    )
