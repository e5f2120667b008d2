"""Class means with one shared covariance, both read from the rows: linear discriminants."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy import linalg

from erasable.memory._grid import Grid
from erasable.memory._live import Follower, LiveRows
from erasable.memory._table import RowInfo
from erasable.memory._views import PrototypesView, Readable
from erasable.typing import Float32s, Float64s, Ints

SHRINKAGE = 0.1
"""Share of the mean variance added to every variance, so that the covariance has an inverse."""

_CHUNK = 4096
_CELLS = 2**22
_FLAT = 1e-9
_DELICATE = 1e-6


@final
class SecondMoments(Follower):
    """``Σ_i s_i s_iᵀ`` over all rows in grid units: int64, so exact in any order of changes.

    What is solved from it is kept only until the next change.
    """

    def __init__(self, live: LiveRows) -> None:
        self._live = live
        self._total: Ints = np.zeros((live.dim, live.dim), np.int64)
        self._fit: GaussianFit | None = None
        self._change(live.table.embeddings, np.add)

    @property
    def total(self) -> Ints:
        """The sum of outer products in squared grid units, (dim, dim)."""
        return self._total

    @property
    def fit(self) -> "GaussianFit":
        """Discriminants of the rows as they are now."""
        found = self._fit
        if found is not None:
            return found
        with self._live.building():
            if self._fit is None:
                self._fit = GaussianFit(self._live.grid, self._total, *self._sums)
            return self._fit

    def fit_without(self, position: int) -> "GaussianFit":
        """Return the discriminants without one row, solved anew."""
        live, (counts, sums) = self._live, self._sums
        units = live.grid.units(live.table.embeddings[position]).astype(np.int64)
        rank = live.sums.rank_of_slots()[live.table.slots[position]]
        counts[rank] -= 1
        sums[rank] -= units
        is_left = counts > 0
        moments = self._total - np.outer(units, units)
        return GaussianFit(live.grid, moments, counts[is_left], sums[is_left])

    def add(self, infos: Sequence[RowInfo], embeddings: Float32s) -> None:
        """Add rows (rows, dim)."""
        self._change(embeddings, np.add)

    def remove(self, infos: Sequence[RowInfo], embeddings: Float32s) -> None:
        """Subtract rows (rows, dim)."""
        self._change(embeddings, np.subtract)

    def _change(self, embeddings: Float32s, change: np.ufunc) -> None:
        self._fit = None
        for start in range(0, len(embeddings), _CHUNK):
            # Units are below 2**20: 4,096 products of two are exact in float64.
            units = self._live.grid.units(embeddings[start : start + _CHUNK]).astype(np.float64)
            change(self._total, (units.T @ units).astype(np.int64), out=self._total)

    @property
    def _sums(self) -> tuple[Ints, Ints]:
        """Copies of the counts (classes,) and sums (classes, dim) of live classes."""
        return self._live.sums.counts.copy(), self._live.sums.sums.copy()


class GaussianFit:
    """``A = (Σ + λ·mean diag Σ·I)⁻¹`` with the pooled covariance Σ within classes.

    Where rows do not differ within any class, Σ says nothing and A is the identity.

    Args:
        grid: The grid the rows lie on.
        moments: Their sum of outer products in squared grid units, (dim, dim).
        counts: Rows per class, (classes,).
        sums: Sums of rows per class in grid units, (classes, dim).
    """

    def __init__(self, grid: Grid, moments: Ints, counts: Ints, sums: Ints) -> None:
        self.count = int(counts.sum())
        self.means: Float64s = sums * grid.step / counts[:, None]
        roots = sums * (grid.step / np.sqrt(counts))[:, None]
        total = moments * grid.step**2
        self.scatter: Float64s = total - roots.T @ roots  # n Σ
        self.trace = float(np.trace(self.scatter))
        self.total_trace = float(np.trace(total))
        self.is_flat = self.trace <= _FLAT * self.total_trace
        self.pulled = self.means.T if self.is_flat else self._solve(self.means.T)  # A μ, (dim, c)
        self.bias = 0.5 * np.einsum("cd,dc->c", self.means, self.pulled)

    def logits(self, queries: Float64s) -> Float64s:
        """Return ``zᵀAμ_c − ½ μ_cᵀAμ_c``, (queries, classes)."""
        logits: Float64s = queries @ self.pulled - self.bias
        return logits

    def readers(self, queries: Float64s) -> Float64s:
        """Return ``A z``, (queries, dim)."""
        return queries if self.is_flat else self._solve(queries.T).T

    @cached_property
    def spectrum(self) -> tuple[Float64s, Float64s]:
        """Eigenvalues and eigenvectors of the scatter, for leaving rows out."""
        values, vectors = linalg.eigh(self.scatter, check_finite=False)
        return values.clip(min=0), vectors

    @cached_property
    def _factor(self) -> tuple[Float64s, bool]:
        ridge = SHRINKAGE * self.trace / len(self.scatter)
        matrix = (self.scatter + ridge * np.eye(len(self.scatter))) / self.count
        factor: tuple[Float64s, bool] = linalg.cho_factor(matrix, check_finite=False)
        return factor

    def _solve(self, columns: Float64s) -> Float64s:
        solved: Float64s = linalg.cho_solve(self._factor, columns, check_finite=False)
        return solved


@dataclass(frozen=True)
class GaussianView:
    """Linear discriminants of the live rows; solved again at the first reading after a change."""

    memory: Readable

    @property
    def moments(self) -> SecondMoments:
        """The second moments of the rows as they are now."""
        return self.memory.live.follower("second moments", SecondMoments)

    @property
    def fit(self) -> GaussianFit:
        """The discriminants of the rows as they are now."""
        return self.moments.fit

    def logits(self, queries: Float64s) -> Float64s:
        """Return the logit of each query (queries, dim) and class, (queries, classes)."""
        return self.fit.logits(queries)

    def readers(self, queries: Float64s) -> Float64s:
        """Return readers (queries, dim): a row's dot product with one, over n_c, is its vote."""
        return self.fit.readers(queries)

    def logits_without(self, queries: Float64s, positions: Ints) -> Float64s:
        """Return the logits without one row (its position) per query, −inf for a class it empties.

        The covariance without a row is a rank-one change of the scatter and another ridge, so in
        the scatter's eigenbasis nothing has to be solved again, unless the row is nearly all there
        is to the covariance.
        """
        logits = np.empty((len(queries), len(self.memory.classes)))
        size = max(1, _CELLS // max(1, logits.shape[1] * queries.shape[1]))
        for start in range(0, len(queries), size):
            part = slice(start, start + size)
            left_out = _LeftOut(self, positions[part])
            logits[part] = left_out.logits(queries[part])
            for place in left_out.delicate + start:
                is_left = logits[place] != -np.inf
                fit = self.moments.fit_without(positions[place])
                logits[place, is_left] = fit.logits(queries[place : place + 1])
        return logits

    def readers_without(self, queries: Float64s, positions: Ints) -> Float64s:
        """Return readers (queries, dim) by the covariance without one row per query."""
        left_out = _LeftOut(self, positions)
        readers = left_out.readers(queries)
        for place in left_out.delicate:
            fit = self.moments.fit_without(positions[place])
            readers[place] = fit.readers(queries[place : place + 1])
        return readers


class _LeftOut:
    """The fit without one row per query, in the eigenbasis of the scatter.

    Attributes:
        delicate: Queries (their places) whose row is nearly all of the scatter, or without which
            next to nothing of it is left: rounding would show.
    """

    def __init__(self, view: GaussianView, positions: Ints) -> None:
        fit = view.fit
        values, self._basis = fit.spectrum
        self._classes, means, self._left = PrototypesView(view.memory).without(positions)
        rows = view.memory.live.table.embeddings[positions].astype(np.float64)
        # Taking s out of a class of n rows lowers the scatter by (s − μ)(s − μ)ᵀ n / (n − 1).
        apart = rows - fit.means[self._classes]
        share = np.where(self._left > 0, (self._left + 1) / self._left.clip(min=1), 0.0)
        apart *= np.sqrt(share)[:, None]
        trace = fit.trace - np.einsum("qd,qd->q", apart, apart)
        is_delicate = trace <= _DELICATE * fit.total_trace
        ridge = np.where(is_delicate, 1.0, SHRINKAGE * trace / len(values))
        self._inverse = 1 / (values + ridge[:, None])
        self._change = (apart @ self._basis) * self._inverse
        self._gain = 1 - np.einsum("qd,qd->q", apart @ self._basis, self._change)
        is_delicate |= self._gain <= _DELICATE
        self._gain[is_delicate] = 1.0
        self.delicate: Ints = np.flatnonzero(is_delicate)
        self._count = fit.count - 1
        self._fit, self._own_means = fit, means

    def logits(self, queries: Float64s) -> Float64s:
        plain = np.repeat(self._fit.means[None], len(queries), axis=0)
        plain[np.arange(len(queries)), self._classes] = self._own_means
        linear = np.einsum("qd,qcd->qc", self.readers(queries), plain)
        means = plain @ self._basis
        along = np.einsum("qd,qcd->qc", self._change, means)
        square = np.einsum("qcd,qd->qc", means**2, self._inverse) + along**2 / self._gain[:, None]
        logits: Float64s = linear - 0.5 * self._count * square
        logits[np.arange(len(logits))[self._left == 0], self._classes[self._left == 0]] = -np.inf
        return logits

    def readers(self, queries: Float64s) -> Float64s:
        turned = queries @ self._basis
        along = np.einsum("qd,qd->q", turned, self._change) / self._gain
        solved = turned * self._inverse + self._change * along[:, None]
        readers: Float64s = self._count * solved @ self._basis.T
        return readers
