"""Additive attention over patches of rows: the paper's fusion for generation (sec. 4)."""

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from erasable.fusion._additive_kernels import EagerKernels, Kernels

_CHUNK = 2048
"""Rows that are scored at once; what is kept besides inputs and outputs is queries × this."""


def additive_attention(
    queries: Tensor,
    rows: Tensor,
    weight: Tensor,
    *,
    query_owners: Tensor | None = None,
    row_owners: Tensor | None = None,
    kernels: Kernels | None = None,
) -> Tensor:
    """Mix rows by additive scores: ``Σ_k softmax_k(wᵀ ReLU(q + k)) k``, (queries, hidden).

    Scores are made chunk by chunk, forwards and again backwards, so that memory grows with
    queries + rows. Sums are in float32 where the inputs are shorter.

    Args:
        queries: Projected queries, bias included, (queries, hidden).
        rows: Projected rows, which are also what is mixed, (rows, hidden).
        weight: ``w``, (hidden,).
        query_owners: Per query whose it is, (queries,); a query does not read rows of its owner.
        row_owners: Per row whose it is, (rows,).
        kernels: How sums over pairs are made; default: eager.

    Returns:
        The mixtures; zeros for a query that has no row to read.
    """
    apply: Callable[..., Tensor] = _Additive.apply
    return apply(queries, rows, weight, query_owners, row_owners, kernels or EagerKernels())


@torch.no_grad()
def additive_votes(
    queries: Tensor, rows: Tensor, weight: Tensor, *, kernels: Kernels | None = None
) -> Tensor:
    """Return the weight of each row in each query's mixture, (queries, rows); no gradients."""
    precise = (_precise(part) for part in (queries, rows, weight))
    return (kernels or EagerKernels()).scores(*precise).softmax(dim=1)


@final
class AdditiveFusion(nn.Module):
    """``g`` of the generator: patches of a query read all patches of the rows of its class.

    ``z'[p] = Σ_s α(z[p], s) W_k s`` with ``α = softmax_s(wᵀ ReLU(W_q z[p] + W_k s + b))``: keys and
    values are the same projection, and nothing of z is added to the mixture (paper sec. 4).

    Args:
        dim: Size of a patch's features.
        hidden: Size of the projections; default: ``dim``. The mixture has this size.
    """

    def __init__(self, dim: int, *, hidden: int | None = None) -> None:
        super().__init__()
        hidden = dim if hidden is None else hidden
        self.to_query = nn.Linear(dim, hidden)  # its bias is the b of the score
        self.to_key = nn.Linear(dim, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden))
        self.null = nn.Parameter(torch.zeros(hidden))
        nn.init.normal_(self.weight, std=hidden**-0.5)

    def forward(
        self,
        queries: Tensor,
        query_classes: Tensor,
        keys: Tensor,
        key_classes: Tensor,
        *,
        own: Tensor | None = None,
        kernels: Kernels | None = None,
    ) -> Tensor:
        """Return the mixture that each patch of each query reads, (queries, patches, hidden).

        Args:
            queries: Patches of the queries, (queries, patches, dim).
            query_classes: Class that each query reads; −1 to read nothing: its patches are the
                learnt null token then, (queries,).
            keys: Patches of the rows as `project` returned them, (rows, patches, hidden).
            key_classes: Class of each row, (rows,); rows that are sorted by it are not copied.
            own: Per query the place of its own row among the rows, which it does not read, or −1,
                (queries,).
            kernels: How sums over pairs are made.
        """
        readers = self.to_query(queries)
        mixed = self.null.to(readers.dtype).expand(readers.shape)
        is_sorted = bool((key_classes[1:] >= key_classes[:-1]).all())
        for label in torch.unique(query_classes).tolist():
            answering = _places(key_classes, label, is_sorted=is_sorted)
            if label < 0 or not len(answering):
                continue
            asking = (query_classes == label).nonzero()[:, 0]
            # A slice is no copy: rows that lie together are read where they are.
            some = keys[answering[0] : answering[-1] + 1] if is_sorted else keys[answering]
            found = self._mix(readers[asking], some, own, asking, answering, kernels)
            mixed = mixed.index_copy(0, asking, found.to(mixed.dtype))
        return mixed

    def project(self, rows: Tensor) -> Tensor:
        """Return ``W_k s`` of patches of rows (rows, patches, dim); done once per memory."""
        keys: Tensor = self.to_key(rows)
        return keys

    def _mix(
        self,
        readers: Tensor,
        keys: Tensor,
        own: Tensor | None,
        asking: Tensor,
        answering: Tensor,
        kernels: Kernels | None,
    ) -> Tensor:
        shape = readers.shape
        readers, patches = readers.flatten(0, 1), keys.shape[1]
        if own is None:
            found = additive_attention(readers, keys.flatten(0, 1), self.weight, kernels=kernels)
            return found.view(shape)
        own = own[asking]
        found = additive_attention(
            readers,
            keys.flatten(0, 1),
            self.weight,
            query_owners=own.repeat_interleave(shape[1]),
            row_owners=answering.repeat_interleave(patches),
            kernels=kernels,
        )
        is_alone = (own[:, None] == answering).all(dim=1)  # its class has no row but its own
        return torch.where(is_alone[:, None, None], self.null.to(found.dtype), found.view(shape))


class _Additive(torch.autograd.Function):
    """Softmax over chunks of rows, with running maximum and sum; scores are made anew backwards."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        rows: Tensor,
        weight: Tensor,
        query_owners: Tensor | None,
        row_owners: Tensor | None,
        kernels: Kernels,
    ) -> Tensor:
        with torch.autocast(queries.device.type, enabled=False):  # sums stay in float32
            return _Additive._forward(ctx, queries, rows, weight, query_owners, row_owners, kernels)

    @staticmethod
    def _forward(
        ctx: Any,
        queries: Tensor,
        rows: Tensor,
        weight: Tensor,
        query_owners: Tensor | None,
        row_owners: Tensor | None,
        kernels: Kernels,
    ) -> Tensor:
        readers, keys, wide = _precise(queries), _precise(rows), _precise(weight)
        mixed = torch.zeros_like(readers)
        total = readers.new_full((len(readers), 1), -torch.inf)  # log of the sum of weights
        for start in range(0, len(keys), _CHUNK):
            part = keys[start : start + _CHUNK]
            scores = _scores(kernels, readers, part, wide, query_owners, row_owners, start)
            both = torch.logaddexp(total, scores.logsumexp(dim=1, keepdim=True))
            shift = both.nan_to_num(neginf=0.0)  # where there is nothing to read yet
            mixed *= (total - shift).exp()
            mixed.addmm_((scores - shift).exp(), part)
            total = both
        ctx.save_for_backward(queries, rows, weight, query_owners, row_owners, mixed, total)
        ctx.kernels = kernels
        return mixed.to(queries.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, pull: Tensor) -> tuple[Tensor | None, ...]:
        queries, rows, weight, query_owners, row_owners, mixed, total = ctx.saved_tensors
        readers, keys, wide = _precise(queries), _precise(rows), _precise(weight)
        pull = pull.to(readers.dtype)
        of_queries, of_rows = torch.zeros_like(readers), torch.zeros_like(keys)
        of_weight = torch.zeros_like(wide)
        share = (pull * mixed).sum(dim=1, keepdim=True)
        shift = total.nan_to_num(neginf=0.0)
        for start in range(0, len(keys), _CHUNK):
            part = slice(start, start + _CHUNK)
            scores = _scores(
                ctx.kernels, readers, keys[part], wide, query_owners, row_owners, start
            )
            votes = (scores - shift).exp()
            of_rows[part] += votes.T @ pull
            of_scores = votes * (pull @ keys[part].T - share)
            by_query, by_row = ctx.kernels.active_sums(readers, keys[part], of_scores)
            of_queries += by_query
            of_rows[part] += wide * by_row
            of_weight += (by_row * keys[part]).sum(dim=0)  # max(u, 0) = 1[u > 0] (q + k)
        of_weight += (of_queries * readers).sum(dim=0)
        return (
            (wide * of_queries).to(queries.dtype),
            of_rows.to(rows.dtype),
            of_weight.to(weight.dtype),
            None,
            None,
            None,
        )


def _places(classes: Tensor, label: int, *, is_sorted: bool) -> Tensor:
    """Return where the rows of a class lie."""
    if not is_sorted:
        return (classes == label).nonzero()[:, 0]
    ends = torch.tensor([label, label + 1], dtype=classes.dtype, device=classes.device)
    start, stop = torch.searchsorted(classes.contiguous(), ends).tolist()
    return torch.arange(start, stop, device=classes.device)


def _scores(
    kernels: Kernels,
    readers: Tensor,
    keys: Tensor,
    weight: Tensor,
    query_owners: Tensor | None,
    row_owners: Tensor | None,
    start: int,
) -> Tensor:
    """Return scores of a chunk of rows; −inf where a query may not read a row."""
    scores = kernels.scores(readers, keys, weight)
    if query_owners is None or row_owners is None:
        return scores
    is_own = query_owners[:, None] == row_owners[start : start + len(keys)]
    return scores.masked_fill(is_own, -torch.inf)


def _precise(values: Tensor) -> Tensor:
    """Return values in the precision of sums: float64 if they are, else float32."""
    return values if values.dtype == torch.float64 else values.float()
