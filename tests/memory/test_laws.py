"""The laws of deletion for the memory, read through each of its views."""

import numpy as np

from conformance import DeletionLaws, columns
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
