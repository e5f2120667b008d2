"""Which rows, and which of their patches, an image draws on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from erasable.diffusion import TIMESTEPS, make_scheduler
from erasable.fusion import additive_votes
from erasable.training import Inputs
from erasable.typing import Float64s, Ints

if TYPE_CHECKING:
    from erasable.models._generator_reading import Reading
    from erasable.models._spm_generator import SPMGenerator

_TIMES = 10
"""Time steps that votes are averaged over, from no noise to nothing but noise."""


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
    model: "SPMGenerator", inputs: Inputs, reading: "Reading", top: int, seed: int
) -> PatchVotes:
    """Average what an image's patches read over some time steps."""
    network, scheduler, memory = model.network_, make_scheduler(), reading.memory()
    clean = (2 * inputs[:] - 1).to(network.device)
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed))
    noise = noise.to(network.device)
    groups, reads = reading.groups.cpu().numpy(), reading.reads.tolist()
    members = [np.flatnonzero(groups == group) for group in range(max(reads) + 1)]
    patches = model.patch_grid[0] * model.patch_grid[1]
    totals = [np.zeros((len(members[group]), patches)) for group in reads]
    for timestep in torch.linspace(0, TIMESTEPS - 1, _TIMES).round().long():
        times = timestep.to(network.device).expand(len(clean))
        noisy = scheduler.add_noise(clean, noise, times)
        readers = network.fusion.to_query(network.encode(noisy, times, reading.labels))
        keys = memory(timestep).keys
        for place, group in enumerate(reads):
            mine = keys[members[group]].flatten(0, 1)
            votes = additive_votes(readers[place], mine, network.fusion.weight).mean(dim=0)
            totals[place] += votes.view(-1, patches).cpu().double().numpy() / _TIMES
    chosen = [reading.rows[members[group]] for group in reads]
    return _heaviest(model, totals, chosen, top)


def _heaviest(
    model: "SPMGenerator", votes: list[Float64s], rows: list[Ints], top: int
) -> PatchVotes:
    """Keep the rows with the largest votes of each image; None where there are fewer."""
    shape = len(votes), top
    ids, labels = np.full(shape, None, dtype=object), np.full(shape, None, dtype=object)
    weights, patches = np.zeros(shape), np.zeros((*shape, *model.patch_grid))
    for place, (own, positions) in enumerate(zip(votes, rows, strict=True)):
        order = np.argsort(-own.sum(axis=1), kind="stable")[:top]
        for rank, row in enumerate(order):
            record = model.memory_.record(int(positions[row]))
            ids[place, rank], labels[place, rank] = record.id, record.label
            weights[place, rank] = own[row].sum()
            patches[place, rank] = own[row].reshape(model.patch_grid)
    return PatchVotes(ids, labels, weights, (1 - weights.sum(axis=1)).clip(min=0), patches)
