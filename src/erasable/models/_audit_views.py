"""Every way in which a classifier reads rows, and what it keeps of them, compared."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from erasable.fusion import REDUCTIONS
from erasable.memory import (
    Difference,
    LiveRows,
    Memory,
    ProductCodes,
    Readable,
    SecondMoments,
    Selection,
    canonical_order,
    compare_codes,
    compare_moments,
    compare_rows,
    kept,
)
from erasable.models._audit_answers import Answers, Compared, spread
from erasable.models._memory_classifier import MemoryClassifier
from erasable.models._reader import Reader
from erasable.models._relational import GraphRows
from erasable.typing import Float64s

_PROBES = 64

ROUNDING = 1e-9
"""How far log probabilities may lie apart, relative to themselves, by rounding alone.

Not probabilities: where a model is sure, next to nothing shows in them.
"""


@dataclass(frozen=True)
class Views(Answers):
    """A classifier's ways of reading rows, tried on embedded queries.

    Attributes:
        model: The model; only its network and parameters are used.
        batches: Embeddings of queries, (queries, dim) in all.
    """

    model: MemoryClassifier
    batches: Sequence[Tensor]

    @property
    def names(self) -> list[str]:
        """Every way in which the model's memory can be read, its own first."""
        if not hasattr(self.model, "reduction"):
            return [self.model._reduction().name]
        own: str = self.model.reduction
        return [own, *(name for name in REDUCTIONS if name not in (own, "knn"))]

    def warm(self, rows: Readable) -> None:
        """Read rows once as the model does, so that what it keeps of them is there."""
        self._answers(self._reader(rows, self.names[0]), self.batches[0][:1])

    def compare(
        self, mine: LiveRows, anew: LiveRows, compared: Compared, on_step: Callable[[str], None]
    ) -> Difference | None:
        """Compare what is kept of rows as they are, and answers, with those of rows built anew."""
        ids = [info.id for info in mine.table.infos]
        anew = laid_out(anew, anew.table.positions(ids))
        on_step("comparing what is kept of rows")
        found = compare_kept(mine, anew, compared)
        if found is not None:
            return found
        compared.queries = sum(map(len, self.batches))
        for name in self.names:
            on_step(f"reading {name}")
            found = self._compare(name, mine, anew, compared)
            if found is not None:
                return found
            compared.views.append(name)
        return None

    def _compare(
        self, name: str, mine: LiveRows, anew: LiveRows, compared: Compared
    ) -> Difference | None:
        ours, theirs = self._reader(mine, name), self._reader(anew, name)
        theirs = _moved(theirs, like=ours.rows.live)
        answers = self._answers(ours, *self.batches), self._answers(theirs, *self.batches)
        apart = _apart(*answers)
        if not apart.any():
            return None
        if apart.max() <= ROUNDING and self._is_equal_afresh(ours, theirs):
            compared.largest = max(compared.largest, float(apart.max()))
            return None
        query, column = np.unravel_index((apart > 0).argmax(), apart.shape)
        label = ours.rows.classes[column]
        where = f"query {query}, log probability of class {label!r}"
        left, right = (repr(float(logs[query, column])) for logs in answers)
        return Difference(f"answers by {name}", where, left, right)

    def _is_equal_afresh(self, ours: Reader, theirs: Reader) -> bool:
        """Tell whether models loaded from the rows of both answer bit for bit the same."""
        ours, theirs = (_afresh(reader) for reader in (ours, theirs))
        left, right = (self._answers(reader, *self.batches) for reader in (ours, theirs))
        return not _apart(left, right).any()

    def _reader(self, rows: Readable, name: str) -> Reader:
        twin = copy.copy(self.model)
        twin.memory_ = rows  # type: ignore[assignment]  # to read, rows are enough
        if hasattr(twin, "reduction"):
            twin.reduction = name
        return twin._reader()

    def _answers(self, reader: Reader, *batches: Tensor) -> Float64s:
        return reader.log_probabilities(iter(batches), None)


def stored_queries(memory: Memory, selection: Selection) -> Tensor:
    """Return stored embeddings to ask with, those of selected rows first, (≤ 64, dim)."""
    order = canonical_order(memory.live)
    gone = set(selection.ids)
    named = [place for place in order if memory.table.infos[place].id in gone]
    others = [place for place in order if memory.table.infos[place].id not in gone]
    chosen = spread(named, _PROBES // 2)
    chosen += spread(others, _PROBES - len(chosen))
    return torch.from_numpy(memory.table.embeddings[chosen])


def compare_kept(mine: LiveRows, anew: LiveRows, compared: Compared) -> Difference | None:
    """Compare everything that is kept of rows with the same built anew."""
    for name, follower in kept(mine).items():
        if isinstance(follower, SecondMoments):
            found = compare_moments(follower, anew)
        elif isinstance(follower, ProductCodes):
            found = compare_codes(follower, anew)
        elif isinstance(follower, GraphRows):
            found = _compare_graph(follower, anew, compared)
        else:
            compared.not_compared.append(name)
            continue
        if found is not None:
            return found
        compared.kept.append(name)
    return None


def laid_out(rows: LiveRows, order: Sequence[int]) -> LiveRows:
    """Return a copy of rows with those at the given positions, in this order."""
    moved = LiveRows(rows.dim, rows.grid)
    records = [rows.record(place) for place in order]
    moved.append(rows.table.embeddings[list(order)], records)
    return moved


def _moved(reader: Reader, *, like: LiveRows) -> Reader:
    """Return a reader of the same rows, each where it lies in ``like``."""
    rows, ids = reader.rows.live, [info.id for info in like.table.infos]
    if [info.id for info in rows.table.infos] == ids:
        return reader
    moved = laid_out(rows, rows.table.positions(ids))
    return Reader(reader.reduction, reader.attention, moved)


def _afresh(reader: Reader) -> Reader:
    rows = reader.rows.live
    return Reader(reader.reduction, reader.attention, laid_out(rows, canonical_order(rows)))


def _apart(left: Float64s, right: Float64s) -> Float64s:
    """Return how far logs lie apart, relative to them if they are large; 0 is bit for bit."""
    is_equal = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        apart = np.abs(left - right) / np.maximum(1.0, np.abs(right))
    return np.where(is_equal, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _compare_graph(mine: GraphRows, anew: LiveRows, compared: Compared) -> Difference | None:
    part = "rows after the set encoder"
    theirs = anew.follower(
        "graph",
        lambda live: GraphRows(live, mine._encoder),
        is_current=lambda rows: rows.fits(mine._encoder),
    )
    found = compare_rows(mine.rows, theirs.rows, part=part) or _compare_neighbours(mine, theirs)
    if found is not None:
        return found
    inner = Compared()
    found = compare_kept(mine.rows, theirs.rows, inner)
    compared.kept += [f"{name} of {part}" for name in inner.kept]
    compared.not_compared += [f"{name} of {part}" for name in inner.not_compared]
    return found


def _compare_neighbours(mine: GraphRows, anew: GraphRows) -> Difference | None:
    ours, theirs = mine._graph._neighbours, anew._graph._neighbours
    for row_id in [*ours, *(row_id for row_id in theirs if row_id not in ours)]:
        left, right = ours.get(row_id), theirs.get(row_id)
        if left != right:
            return Difference("class graph", f"neighbours of row {row_id!r}", f"{left}", f"{right}")
    graph = mine._graph
    for name, ids in (
        ("heard", list(graph._heard_by)),
        ("last", list(graph._last)),
        ("encoded", list(mine.encoded)),
    ):
        gone = [row_id for row_id in ids if row_id not in theirs]
        if gone:
            return Difference("class graph", f"row {gone[0]!r}", f"named in {name!r}", "not named")
    return None
