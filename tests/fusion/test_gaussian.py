"""Reading the memory by linear discriminants."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from erasable.fusion import Attention, GaussianReduction, PrototypesReduction
from erasable.memory import GaussianView, Memory
from fusion.references import arrays, chunked, slow_softmax

READ = GaussianReduction()


class Scene:
    """A memory of rows with labels, and queries."""

    def __init__(self, rows, labels, queries):
        self.rows, self.labels = np.asarray(rows, np.float64), list(labels)
        self.queries = torch.from_numpy(np.asarray(queries, np.float64))
        self.memory = self.without(-1)

    def without(self, gone):
        memory = Memory(self.rows.shape[1])
        keep = [place for place in range(len(self.rows)) if place != gone]
        memory.add(self.rows[keep], [self.labels[p] for p in keep], ids=keep)
        return memory


@st.composite
def scenes(draw, min_rows=1):
    """Draw rows on a coarse grid (copies, classes of one row), labels and queries."""
    count, dim = draw(st.integers(min_rows, 8)), draw(st.integers(1, 4))
    rows = np.round(draw(arrays(count, dim)) * 4) / 4
    labels = draw(st.lists(st.sampled_from("abc"), min_size=count, max_size=count))
    return Scene(rows, labels, draw(arrays(draw(st.integers(1, 3)), dim)))


def class_sums(found, scene, memory):
    """Add up votes per class, (queries, classes)."""
    sums = np.zeros((len(scene.queries), len(memory.classes)))
    for query, places in enumerate(found.positions):
        for place, weight in zip(places, found.weights[query], strict=True):
            if place >= 0:
                label = scene.memory.record(place).label
                sums[query, memory.classes.index(label)] += weight
    return sums


@given(scenes(), st.sampled_from([0.5, 1.0, 3.0]))
def test_probabilities_are_the_softmax_of_the_logits_over_the_temperature(scene, temperature):
    logits = GaussianView(scene.memory).logits(scene.queries.numpy()) / temperature
    found = READ.log_probabilities(
        scene.queries, scene.memory, attention=Attention(temperature=temperature)
    )
    expected = [slow_softmax(row) for row in logits.tolist()]
    np.testing.assert_allclose(found.exp(), expected, rtol=0, atol=1e-9)


@given(scenes())
def test_the_weights_of_attention_and_its_factor_are_not_used(scene):
    W = torch.full((scene.rows.shape[1],) * 2, 7.0, dtype=torch.float64)
    found = READ.log_probabilities(
        scene.queries, scene.memory, attention=Attention(0.3, W_q=W, W_k=W)
    )
    assert torch.equal(found, READ.log_probabilities(scene.queries, scene.memory))


@given(scenes(min_rows=2), st.data())
def test_leaving_a_row_out_equals_a_memory_without_it(scene, data):
    places = st.integers(-1, len(scene.rows) - 1)
    size = len(scene.queries)
    exclude = np.array(data.draw(st.lists(places, min_size=size, max_size=size)))
    got = READ.log_probabilities(scene.queries, scene.memory, exclude=exclude).exp()
    for query, gone in enumerate(exclude.tolist()):
        other = scene.without(gone)
        logs = READ.log_probabilities(scene.queries[query : query + 1], other)[0]
        left = dict(zip(other.classes, logs.exp().tolist(), strict=True))
        expected = [left.get(label, 0.0) for label in scene.memory.classes]
        np.testing.assert_allclose(got[query], expected, rtol=0, atol=1e-6)


def test_a_query_without_any_row_left_gets_nan_not_a_class():
    scene = Scene(np.ones((1, 2)), "a", np.ones((2, 2)))
    got = READ.log_probabilities(scene.queries, scene.memory, exclude=np.array([0, -1])).exp()
    np.testing.assert_array_equal(got, [[math.nan], [1.0]])


def test_no_queries_have_no_probabilities():
    scene = Scene(np.eye(2), "ab", np.zeros((0, 2)))
    assert READ.log_probabilities(scene.queries, scene.memory).shape == (0, 2)


@given(scenes(), st.sampled_from([1.0, 2.0]), st.integers(1, 9))
def test_votes_of_a_class_sum_to_the_linear_part_of_its_logit(scene, temperature, chunk):
    attention = Attention(temperature=temperature)
    with chunked(chunk):
        found = READ.votes(scene.queries, scene.memory, 9, attention=attention)
    fit = GaussianView(scene.memory).fit
    expected = scene.queries.numpy() @ fit.pulled / temperature
    np.testing.assert_allclose(class_sums(found, scene, scene.memory), expected, atol=1e-8)


@given(scenes(), st.integers(1, 4))
def test_the_rest_is_the_sum_of_all_other_votes(scene, top):
    every = READ.votes(scene.queries, scene.memory, 9)
    found = READ.votes(scene.queries, scene.memory, top)
    np.testing.assert_allclose(found.rest, every.weights[:, top:].sum(1), atol=1e-8)


@given(scenes(min_rows=2), st.data())
def test_votes_without_a_row_are_those_of_a_memory_without_it(scene, data):
    gone = data.draw(st.integers(0, len(scene.rows) - 1))
    other = scene.without(gone)
    exclude = np.full(len(scene.queries), gone)
    found = READ.votes(scene.queries, scene.memory, 9, exclude=exclude)
    expected = READ.votes(scene.queries, other, 9)
    np.testing.assert_allclose(found.weights[:, : len(other)], expected.weights, atol=1e-6)
    assert (found.positions[:, len(other) :] == -1).all()
    np.testing.assert_allclose(
        class_sums(found, scene, other),
        scene.queries.numpy() @ GaussianView(other).fit.pulled,
        atol=1e-6,
    )


def test_votes_leave_the_kept_fit_alone():
    scene = Scene(np.random.default_rng(0).normal(size=(6, 2)), "aabbcc", np.eye(2))
    before = READ.log_probabilities(scene.queries, scene.memory)
    READ.votes(scene.queries, scene.memory, 3, exclude=np.array([0, 4]))
    assert torch.equal(READ.log_probabilities(scene.queries, scene.memory), before)


def test_votes_where_nothing_differs_leave_the_queries_alone():
    scene = Scene(np.ones((4, 2)), "aabb", np.eye(2))
    READ.votes(scene.queries, scene.memory, 3, exclude=np.array([0, -1]))
    assert scene.queries.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("own", [None, torch.arange(6)])
def test_in_training_rows_are_read_as_prototypes(own):
    rng = np.random.default_rng(0)
    readers, rows = (torch.from_numpy(rng.normal(size=(6, 3))) for _ in range(2))
    classes = torch.tensor([0, 0, 1, 1, 2, 2])
    found = READ.fuse(readers, rows, classes, 3, own=own)
    assert torch.equal(found, PrototypesReduction().fuse(readers, rows, classes, 3, own=own))
