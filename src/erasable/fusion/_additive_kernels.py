"""Sums over every pair of a query and a row, without keeping the pairs: eager, or compiled.

With ``u = q + k`` per pair and hidden unit, the additive score is ``Σ_h w_h max(u_h, 0)``, which is
``Σ_h w_h max(q_h, −k_h)`` and a term of the row alone: one operation less for each pair. It is also
``½ Σ_h w_h u_h + ½ Σ_h w_h |u_h|``, whose second half is a difference of two L1 distances. Nothing
of size queries × rows × hidden ever exists: eager kernels leave distances to faiss, and go through
tiles that fit a cache otherwise; compiled ones go through single pairs.
"""

import functools
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import final

import torch
from torch import Tensor

from erasable.errors import ArgumentError, StateError, listing

KERNELS = ("auto", "compiled", "eager")

_TILE = 2**20
"""Numbers in a tile: it must fit a cache."""

_BLOCK = 2**18
"""Numbers of rows that are compared with all queries at once: they must fit a cache."""

_WORTH_COMPILING = 2.0**35
"""Numbers to go through from which a minute of compiling is soon won back."""

log = logging.getLogger(__name__)


class Kernels(ABC):
    """The two sums that additive attention and its gradients are made of."""

    name: str

    @abstractmethod
    def scores(self, queries: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        """Return ``Σ_h w_h max(q_h + k_h, 0)``, (queries, rows).

        Args:
            queries: (queries, hidden).
            rows: (rows, hidden).
            weight: ``w``, (hidden,).
        """

    @abstractmethod
    def active_sums(self, queries: Tensor, rows: Tensor, pull: Tensor) -> tuple[Tensor, Tensor]:
        """Sum gradients of scores over the pairs where a hidden unit is active.

        Args:
            queries: (queries, hidden).
            rows: (rows, hidden).
            pull: Gradient of each score, (queries, rows).

        Returns:
            ``Σ_k g_qk 1[q_h + k_h > 0]``, (queries, hidden), and ``Σ_q g_qk 1[q_h + k_h > 0]``,
            (rows, hidden).
        """


@final
class EagerKernels(Kernels):
    """Distances, where faiss has them; else tiles of pairs, one after the other."""

    name = "eager"

    def scores(self, queries: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        """Compare, weigh and sum block by block, or tile by tile."""
        if queries.device.type == "cpu" and queries.dtype == torch.float32:
            return _scores_by_distances(queries, rows, weight)
        found, negative = (rows @ weight).repeat(len(queries), 1), -rows
        for some, others, tile in _tiles(queries, rows):
            larger = torch.maximum(queries[some, None], negative[others], out=tile)
            # Not a product with the weights: one core would fetch what the others have computed.
            found[some, others] += larger.mul_(weight).sum(dim=2)
        return found

    def active_sums(self, queries: Tensor, rows: Tensor, pull: Tensor) -> tuple[Tensor, Tensor]:
        """Weigh active units tile by tile."""
        of_queries, of_rows = torch.zeros_like(queries), torch.zeros_like(rows)
        for some, others, tile in _tiles(queries, rows):
            active = torch.add(queries[some, None], rows[others], out=tile).gt_(0)
            active *= pull[some, others, None]
            of_queries[some] += active.sum(dim=1)
            of_rows[others] += active.sum(dim=0)
        return of_queries, of_rows


@final
class CompiledKernels(Kernels):
    """Loops over pairs, compiled by torch for this machine when first called."""

    name = "compiled"

    def scores(self, queries: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        """Run the compiled sum over hidden units."""
        return _run(_weigh_larger, queries, -rows, weight).add_(rows @ weight)

    def active_sums(self, queries: Tensor, rows: Tensor, pull: Tensor) -> tuple[Tensor, Tensor]:
        """Run the compiled sum over rows, and the one over queries."""
        # The same kernel both ways: the sum is symmetric in queries and rows.
        turned = pull.T.contiguous()
        return _run(_sum_active, queries, rows, pull), _run(_sum_active, rows, queries, turned)


def get_kernels(name: str = "auto", *, work: float = 0.0, device: str = "cpu") -> Kernels:
    """Return kernels by name.

    Args:
        name: ``eager``; ``compiled``; or ``auto``: compiled where there is a compiler and enough to
            do. The choice follows from the arguments and the machine alone, so that a run that is
            resumed takes the same one.
        work: Numbers (queries × rows × hidden) that will be gone through in all.
        device: Type of the device that they will run on: a compiler is tried out there.

    Raises:
        StateError: If compiled ones are wanted and cannot be had.
    """
    if name not in KERNELS:
        raise ArgumentError(f"Expected kernel to be {listing(KERNELS)}, but got {name!r}.")
    if name == "eager" or (name == "auto" and work < _WORTH_COMPILING):
        return EagerKernels()
    problem = _compiler_problem(device)
    if problem is None:
        return CompiledKernels()
    if name == "compiled":
        raise StateError(
            f"Expected a compiler for kernel='compiled', but: {problem}. Install a C++ compiler, "
            "or pass kernel='eager'."
        )
    log.info("no compiled kernels (%s); eager ones are slower", problem)
    return EagerKernels()


def _scores_by_distances(queries: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """Return scores from ``|w_h| (u_h + |u_h|)``, over positive weights less over negative ones.

    A score depends on its own pair only: what else is asked or read does not change a bit of it.
    """
    import faiss  # 0.2 s to import, so only where it is used

    found = queries.new_zeros(len(queries), len(rows))
    height = max(1, _BLOCK // max(1, queries.shape[1]))
    for sign, is_used in ((1, ~(weight <= 0)), (-1, weight < 0)):  # what is no number stays one
        units = is_used.nonzero()[:, 0]
        if not len(units):
            continue
        scale = weight[units].abs()
        ends = queries[:, units] * scale
        for start in range(0, len(rows), height):
            some = slice(start, start + height)
            starts = rows[some][:, units] * -scale
            apart = faiss.pairwise_distances(ends.numpy(), starts.numpy(), metric=faiss.METRIC_L1)
            along = ends.sum(dim=1, keepdim=True) - starts.sum(dim=1)
            found[:, some].add_(along.add_(torch.from_numpy(apart)), alpha=sign / 2)
    return found


def _weigh_larger(queries: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    return (torch.maximum(queries[:, None], rows[None]) * weight).sum(dim=2)


def _sum_active(queries: Tensor, rows: Tensor, pull: Tensor) -> Tensor:
    is_active = queries[:, None] + rows[None] > 0
    return torch.where(is_active, pull[:, :, None], 0).sum(dim=1)


def _run(kernel: Callable[..., Tensor], *parts: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch, about torch
        return _compiled(kernel)(*parts)


@functools.cache
def _compiled(kernel: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return torch.compile(kernel, dynamic=True, fullgraph=True)


@functools.cache
def _compiler_problem(device: str) -> str | None:
    """Compile a kernel on next to nothing; return why that fails, or None."""
    try:
        parts = [torch.ones(shape, device=device) for shape in ((2, 8), (3, 8), (8,))]
        found = CompiledKernels().scores(parts[0], parts[1], parts[2]).cpu()
    except Exception as error:  # torch wraps whatever the compiler says in errors of its own
        lines = str(error).strip().splitlines()
        return " ".join(lines[:2]) if lines else type(error).__name__
    return None if torch.equal(found, torch.full((2, 3), 16.0)) else "its results are wrong"


def _tiles(queries: Tensor, rows: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield queries, rows and room for their pairs, until all pairs are covered.

    The room is the same for every tile: fresh memory for each would be handed out by the system
    page by page, which can take several times as long as the sums.
    """
    hidden = queries.shape[1]
    pairs = max(1, _TILE // max(1, hidden))
    height = max(1, min(len(queries), int(pairs**0.5)))
    width = max(1, min(len(rows), pairs // height))
    room = queries.new_empty((height * width, hidden))
    for top in range(0, len(queries), height):
        for left in range(0, len(rows), width):
            some = slice(top, min(top + height, len(queries)))
            others = slice(left, min(left + width, len(rows)))
            shape = (some.stop - top, others.stop - left)
            yield some, others, room[: shape[0] * shape[1]].view(*shape, hidden)
