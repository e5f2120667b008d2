"""Which rows, and which of their patches, an image draws on."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from erasable.diffusion import TIMESTEPS, PatchMemory, make_scheduler
from erasable.fusion import additive_votes
from erasable.memory import Record
from erasable.training import Inputs
from erasable.typing import Float64s, Ints

if TYPE_CHECKING:
    from erasable.models._generator_reading import Reading
    from erasable.models._spm_generator import SPMGenerator

_TIMES = 10
"""Time steps that votes are averaged over, from no noise to nothing but noise."""

_AT_ONCE = 256
"""Images that are looked at together: every one has a vote for each patch that it may read."""


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
    model: "SPMGenerator",
    inputs: Inputs,
    reading: "Reading",
    records: list[Record],
    *,
    top: int,
    seed: int,
) -> PatchVotes:
    """Average what an image's patches read over some time steps; the noise is that of every image.

    So what is found of an image does not depend on where in the call it stands.

    Args:
        model: The generator.
        inputs: The images.
        reading: The rows that they read.
        records: What is known of each of those rows.
        top: Rows per image.
        seed: Seed of the noise.
    """
    noise = torch.randn(model.input_shape_, generator=torch.Generator().manual_seed(seed))
    noise, memory = noise.to(model.network_.device), reading.memory()
    reads, found = reading.reads.tolist(), []
    groups = reading.groups.cpu().numpy()
    members = [np.flatnonzero(groups == group) for group in range(max(reads) + 1)]
    for start in range(0, len(inputs), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        labels = None if reading.labels is None else reading.labels[some]
        own = [members[group] for group in reads[some]]
        totals = _totals(model, inputs[some], noise, labels, memory, own)
        found.append(_heaviest(model, totals, own, records, top))
    return PatchVotes(
        *(
            np.concatenate([getattr(part, field.name) for part in found])
            for field in fields(PatchVotes)
        )
    )


def _totals(
    model: "SPMGenerator",
    images: Tensor,
    noise: Tensor,
    labels: Tensor | None,
    memory: Callable[[Tensor], PatchMemory],
    members: list[Ints],
) -> list[Float64s]:
    """Return, of each image, the vote for each patch of the rows that it may read."""
    network, scheduler = model.network_, make_scheduler()
    clean = (2 * images - 1).to(network.device)
    patches = model.patch_grid[0] * model.patch_grid[1]
    totals = [np.zeros((len(own), patches)) for own in members]
    for timestep in torch.linspace(0, TIMESTEPS - 1, _TIMES).round().long():
        times = timestep.to(network.device).expand(len(clean))
        noisy = scheduler.add_noise(clean, noise.expand(clean.shape), times)
        readers = network.fusion.to_query(network.encode(noisy, times, labels))
        keys = memory(timestep).keys
        for place, own in enumerate(members):
            mine = keys[own].flatten(0, 1)
            votes = additive_votes(readers[place], mine, network.fusion.weight).mean(dim=0)
            totals[place] += votes.view(-1, patches).cpu().double().numpy() / _TIMES
    return totals


def _heaviest(
    model: "SPMGenerator",
    votes: list[Float64s],
    members: list[Ints],
    records: list[Record],
    top: int,
) -> PatchVotes:
    """Keep the rows with the largest votes of each image; None where there are fewer."""
    shape = len(votes), top
    ids, labels = np.full(shape, None, dtype=object), np.full(shape, None, dtype=object)
    weights, patches = np.zeros(shape), np.zeros((*shape, *model.patch_grid))
    for place, (own, mine) in enumerate(zip(votes, members, strict=True)):
        order = np.argsort(-own.sum(axis=1), kind="stable")[:top]
        for rank, row in enumerate(order):
            record = records[mine[row]]
            ids[place, rank], labels[place, rank] = record.id, record.label
            weights[place, rank] = own[row].sum()
            patches[place, rank] = own[row].reshape(model.patch_grid)
    return PatchVotes(ids, labels, weights, (1 - weights.sum(axis=1)).clip(min=0), patches)
