"""From embeddings of queries, in batches, to probabilities and votes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from erasable.errors import ArgumentError
from erasable.fusion import Attention, Reduction
from erasable.memory import Readable
from erasable.models._inputs import as_labels
from erasable.models._votes import Votes
from erasable.typing import Float64s, Ints, Label

if TYPE_CHECKING:
    from erasable.models._memory_classifier import MemoryClassifier

_BATCH = 256


@dataclass(frozen=True)
class Reader:
    """Rows, and how they are read; to be used while their lock is held for reading.

    Attributes:
        reduction: How the memory is read.
        attention: How queries score rows, for evaluation.
        rows: The rows that a prediction reads.
    """

    reduction: Reduction
    attention: Attention
    rows: Readable

    def log_probabilities(self, batches: Iterable[Tensor], exclude: Ints | None) -> Float64s:
        """Return log class probabilities of queries, (queries, classes).

        Args:
            batches: Embeddings of the queries, (queries, dim) in all.
            exclude: Per query the position of one row to leave out, or −1, (queries,).
        """
        parts = [
            self.reduction.log_probabilities(
                queries.double(), self.rows, attention=self.attention, exclude=own
            )
            for queries, own in self._with_own(batches, exclude)
        ]
        logs: Float64s = (torch.cat(parts) if len(parts) > 1 else parts[0]).numpy()
        return logs

    def own_accuracy(self, embeddings: npt.NDArray[Any]) -> float:
        """Return the share of rows that the others predict correctly.

        Args:
            embeddings: Embeddings of all rows, in the order of their positions.
        """
        starts = range(0, len(embeddings), _BATCH)
        batches = (torch.from_numpy(embeddings[at : at + _BATCH]) for at in starts)
        live = self.rows.live
        ranks = live.sums.rank_of_slots()[live.table.slots]
        best = self.log_probabilities(batches, np.arange(len(embeddings))).argmax(axis=1)
        return float(np.mean(best == ranks))

    def votes(self, batches: Iterable[Tensor], top: int, exclude: Ints | None) -> Votes:
        """Return the ``top`` heaviest votes of queries; for the rest see `log_probabilities`."""
        parts = [
            self.reduction.votes(
                queries.double(), self.rows, top, attention=self.attention, exclude=own
            )
            for queries, own in self._with_own(batches, exclude)
        ]
        places = np.concatenate([part.positions for part in parts])
        live = self.rows.live
        records = {p: live.record(p) for p in np.unique(places[places >= 0]).tolist()}
        ids = [[records[p].id if p >= 0 else None for p in query] for query in places.tolist()]
        labels = [
            [records[p].label if p >= 0 else None for p in query] for query in places.tolist()
        ]
        return Votes(
            ids=_object_array(ids),
            labels=_object_array(labels),
            weights=np.concatenate([part.weights for part in parts]),
            rest=np.concatenate([part.rest for part in parts]),
            kind=self.reduction.vote_kind,
        )

    def _with_own(
        self, batches: Iterable[Tensor], exclude: Ints | None
    ) -> Iterator[tuple[Tensor, Ints | None]]:
        """Pair queries, as many at once as the reduction likes, with their exclusions."""
        start = 0
        for queries in _joined(batches, self.reduction.queries_at_once):
            yield queries, None if exclude is None else exclude[start : start + len(queries)]
            start += len(queries)


def read_embedded(
    model: "MemoryClassifier",
    embeddings: npt.NDArray[Any],
    *,
    classes: Sequence[Label] | None = None,
    exclude_ids: Any = None,
) -> Float64s:
    """Return log class probabilities of queries that are embedded already, (queries, classes).

    Args:
        model: A classifier with rows in its memory.
        embeddings: What its `embed` returned for the queries, (queries, dim).
        classes: Columns of the answer; default: the classes that have rows.
        exclude_ids: Per query the id of one row to leave out, or None.
    """
    model._require_fitted()
    found = np.asarray(embeddings)
    dim = model.memory.dim
    is_numbers = found.dtype in (np.float32, np.float64)
    if found.ndim != 2 or found.shape[1] != dim or not len(found) or not is_numbers:
        raise ArgumentError(
            f"Expected embeddings of shape (queries, {dim}) of float32 or float64, at least one, "
            f"but got {found.dtype} of shape {found.shape}."
        )
    if not np.isfinite(found).all():
        raise ArgumentError("Expected finite embeddings, but got NaN or infinity.")
    own = model._own_ids(exclude_ids, len(found))
    embeddings = found if found.flags.writeable else found.copy()
    starts = range(0, len(embeddings), _BATCH)
    batches = (torch.from_numpy(embeddings[at : at + _BATCH]) for at in starts)
    with model._reading() as reader:
        logs = reader.log_probabilities(batches, model._own_positions(own))
        return logs if classes is None else align(logs, model.memory.classes, classes)


def align(logs: Float64s, live: list[Label], classes: Sequence[Label]) -> Float64s:
    """Return log-probabilities (queries, live) in the order of ``classes``; −inf where absent."""
    wanted = as_labels(list(classes))
    place = {(type(label), label): column for column, label in enumerate(live)}
    aligned = np.full((len(logs), len(wanted)), -np.inf)
    for column, label in enumerate(wanted):
        if (type(label), label) in place:
            aligned[:, column] = logs[:, place[type(label), label]]
    return aligned


def no_probabilities(*, has_exclusions: bool) -> str:
    """Say why there are no probabilities."""
    if has_exclusions:
        return "Expected a row to vote, but the excluded row was the only one left."
    return "Expected finite embeddings of the queries, but the encoder returned NaN or infinity."


def _joined(batches: Iterable[Tensor], size: int) -> Iterator[Tensor]:
    """Join batches until they hold at least ``size`` queries; the last may hold fewer."""
    held: list[Tensor] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= size:
            yield torch.cat(held) if len(held) > 1 else held[0]
            held = []
    if held:
        yield torch.cat(held)


def _object_array(rows: list[list[Any]]) -> npt.NDArray[Any]:
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    for index, row in enumerate(rows):
        array[index] = row
    return array
