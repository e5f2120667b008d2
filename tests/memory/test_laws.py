"""The laws of deletion for the memory, read through each of its views."""

import numpy as np
import torch

from conformance import DeletionLaws, columns
from erasable.fusion import Reading, get_reduction
from erasable.memory import Memory, PrototypesView, RowsView


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


class MemoryLaws(DeletionLaws):
    """The hooks for a bare memory; subclasses say how it is read."""

    def build(self, rows):
        memory = Memory(self.dim)
        self.add(memory, rows)
        return memory

    def add(self, subject, rows, *, reinstate=False, skip_forgotten=False):
        dim = len(rows[0].embedding) if rows else self.dim
        parts = columns(rows, dim)
        subject.add(
            parts.pop("embeddings"),
            parts.pop("labels"),
            **parts,
            reinstate=reinstate,
            skip_forgotten=skip_forgotten,
        )

    def forget(self, subject, **selectors):
        subject.forget(**selectors)

    def state(self, subject):
        return b"".join(subject.canonical_state())

    def digest(self, subject):
        return subject.digest

    def classes(self, subject):
        return subject.classes

    def rebuild(self, subject):
        other = Memory(self.dim, grid=subject.grid, tombstones=subject.tombstones.marks.copy())
        positions = [int(subject.positions([row.id])[0]) for row in subject]
        embeddings = subject.table.embeddings[positions]
        other.restore(embeddings, [subject.record(place) for place in positions])
        return other


class TestRowsReading(MemoryLaws):
    """Softmax attention of each query over every row, summed per class."""

    max_examples = 20

    def read(self, subject, queries):
        reading = np.zeros((len(queries), len(subject.classes)))
        chunks = list(RowsView(subject).chunks(3))
        rows = np.concatenate([embeddings for _, embeddings, _ in chunks]).astype(np.float64)
        votes = softmax(queries @ rows.T)
        for place, rank in enumerate(np.concatenate([ranks for _, _, ranks in chunks])):
            reading[:, rank] += votes[:, place]
        return reading


class TestPrototypesReading(MemoryLaws):
    """Softmax of each query's product with every class mean."""

    dim = 2
    max_examples = 10

    def read(self, subject, queries):
        return softmax(queries @ PrototypesView(subject).means.T)


class ReductionLaws(MemoryLaws):
    """A memory read by a reduction, which may keep what it derived from the rows."""

    is_reading_only = True
    max_examples = 12
    reduction = "rows"
    k = 256

    def build(self, rows):
        memory = super().build(rows)
        if rows:
            self.read(memory, np.zeros((1, self.dim)))  # what is kept must follow from here on
        return memory

    def read(self, subject, queries):
        reduction = get_reduction(self.reduction, Reading(self.k))
        return reduction.log_probabilities(torch.from_numpy(queries), subject).exp().numpy()


class TestRowsReduction(ReductionLaws):
    """Attention over every row."""


class TestPrototypesReduction(ReductionLaws):
    """Attention over class means."""

    reduction = "prototypes"


_RESCALES = "check_forgetting_a_class_only_rescales_the_others_when_read"
_NEIGHBOURS = {_RESCALES: "where a class leaves, rows farther off become neighbours"}
_GAUSSIAN = {_RESCALES: "a class that leaves takes its share of the covariance along"}
_ALL_VOTE = {
    "check_a_reading_follows_the_labels_of_near_rows_when_read": (
        "with more votes than rows, distance does not matter"
    )
}


class TestFewNeighbours(ReductionLaws):
    """Attention over fewer rows than there are."""

    reduction = "neighbours"
    k = 2
    exempt = _NEIGHBOURS


class TestAllNeighbours(ReductionLaws):
    """Attention over as many rows as there may be."""

    reduction = "neighbours"


class TestGaussian(ReductionLaws):
    """Class means in the metric of the rows, which follows the rows."""

    reduction = "gaussian"
    exempt = _GAUSSIAN


class TestFewVoters(ReductionLaws):
    """Equal votes of the nearest rows."""

    reduction = "knn"
    k = 3
    crowd = 3
    exempt = _NEIGHBOURS


class TestAllVoters(ReductionLaws):
    """Equal votes of every row."""

    reduction = "knn"
    exempt = _ALL_VOTE
