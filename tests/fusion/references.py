"""Slow, obvious versions of the fusion formulas, and strategies that draw what they read."""

import contextlib
import math

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from erasable.fusion import PrototypesReduction, RowsReduction
from erasable.memory import Memory, RowsView

REDUCTIONS = pytest.mark.parametrize("reduction", [RowsReduction(), PrototypesReduction()])


class Scene:
    """A memory, readers of some queries, and the memory's rows by position."""

    def __init__(self, embeddings, labels, readers, chunk):
        self.labels = labels
        self.chunk = chunk
        self.memory = Memory(len(embeddings[0]))
        self.memory.add(embeddings, labels)
        self.readers = torch.tensor(readers, dtype=torch.float64)

    @property
    def rows(self):
        """(embedding, place of the class) per position."""
        classes = self.memory.classes
        return [
            (embedding.tolist(), classes.index(label))
            for embedding, label in zip(self.memory.table.embeddings, self.labels, strict=True)
        ]

    def rebuilt(self, positions):
        """Build a memory of the rows at these positions, in this order."""
        memory = Memory(self.memory.dim)
        memory.add(self.memory.table.embeddings[positions], [self.labels[p] for p in positions])
        return memory


@st.composite
def arrays(draw, *shape, bound=3.0):
    """Draw floats within the bound."""
    return draw(hnp.arrays(np.float64, shape, elements=st.floats(-bound, bound, width=32)))


@st.composite
def scenes(draw, min_rows=1, labels="abc"):
    """Draw rows (copies among them, classes of one row), readers and a chunk size."""
    count, dim = draw(st.integers(min_rows, 9)), draw(st.integers(1, 4))
    rows = draw(arrays(count, dim))
    source = draw(st.lists(st.integers(0, count - 1), min_size=count, max_size=count))
    given = draw(st.lists(st.sampled_from(labels), min_size=count, max_size=count))
    readers = draw(arrays(draw(st.integers(1, 4)), dim))
    return Scene(rows[source], given, readers, draw(st.integers(1, 10)))


@contextlib.contextmanager
def chunked(size):
    """Let every view yield chunks of this many rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowsView.chunks, "__defaults__", (size,))
        yield


def dot(left, right):
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def slow_softmax(scores):
    """Exponentiate and divide; −inf has weight 0."""
    peak = max(scores)
    weights = [math.exp(score - peak) for score in scores]
    return [weight / math.fsum(weights) for weight in weights]


def slow_weights(reader, rows):
    """Return each row's attention weight."""
    return slow_softmax([dot(reader, embedding) for embedding, _ in rows])


def slow_terms(reader, rows):
    """Return each row's term in the logit of its class."""
    counts = [sum(other == place for _, other in rows) for _, place in rows]
    return [dot(reader, row) / count for (row, _), count in zip(rows, counts, strict=True)]


def slow_probabilities(reduction, reader, rows, count):
    """Return class probabilities from (embedding, class) pairs, 0 for classes without rows."""
    places = [place for _, place in rows]
    if reduction.name == "rows":
        weights = slow_weights(reader, rows)
        return [
            math.fsum(w for w, p in zip(weights, places, strict=True) if p == c)
            for c in range(count)
        ]
    terms = slow_terms(reader, rows)
    return slow_softmax(
        [
            math.fsum(t for t, p in zip(terms, places, strict=True) if p == c)
            if c in places
            else -math.inf
            for c in range(count)
        ]
    )


SLOW_VOTES = {"rows": slow_weights, "prototypes": slow_terms}
