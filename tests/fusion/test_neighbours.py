"""Reading only the rows nearest to each query: attention over them, and equal votes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from erasable.fusion import Attention, KNNReduction, NeighboursReduction, RowsReduction
from erasable.fusion import _neighbours as neighbours
from erasable.memory import ExactSearch, Memory, encode_key
from fusion.references import arrays, dot, slow_softmax

KINDS = {"neighbours": NeighboursReduction, "knn": KNNReduction}
BOTH = pytest.mark.parametrize("name", KINDS)
STEP = 2.0**-14


def reduction(name, k):
    return KINDS[name](k, ExactSearch())


class Scene:
    """A memory with ids that sort differently from how they came, and queries."""

    def __init__(self, rows, labels, queries, k):
        self.rows, self.labels, self.k = rows, labels, k
        self.queries = torch.from_numpy(np.asarray(queries, np.float64))
        self.ids = [f"id {(7 * place) % 10}" for place in range(len(rows))]
        self.memory = self.without(-1)

    def without(self, gone):
        memory = Memory(len(self.rows[0]))
        keep = [place for place in range(len(self.rows)) if place != gone]
        memory.add(self.rows[keep], [self.labels[p] for p in keep], ids=[self.ids[p] for p in keep])
        return memory


@st.composite
def scenes(draw, min_rows=1):
    """Draw rows on a coarse grid (ties and copies), labels, queries on the grid, and k."""
    count, dim = draw(st.integers(min_rows, 8)), draw(st.integers(1, 3))
    rows = np.round(draw(arrays(count, dim)) * 2) / 2
    labels = draw(st.lists(st.sampled_from("abc"), min_size=count, max_size=count))
    queries = np.round(draw(arrays(draw(st.integers(1, 4)), dim)) * 4) / 4
    return Scene(rows, labels, queries, draw(st.integers(1, 10)))


def slow_nearest(memory, query, k):
    """Return positions of the nearest rows, nearest first, ties by encoded id."""
    infos, rows = memory.table.infos, memory.table.embeddings.tolist()
    return sorted(
        range(len(rows)), key=lambda p: (math.dist(rows[p], query), encode_key(infos[p].id))
    )[:k]


def slow_votes(name, memory, query, k):
    """Return {position: weight} of the rows that vote."""
    places = slow_nearest(memory, query, k)
    rows = memory.table.embeddings.tolist()
    scores = [dot(rows[p], query) if name == "neighbours" else 0.0 for p in places]
    return dict(zip(places, slow_softmax(scores), strict=True))


def slow_probabilities(name, memory, query, k, classes):
    chances = dict.fromkeys(classes, 0.0)
    for place, weight in slow_votes(name, memory, query, k).items():
        chances[memory.record(place).label] += weight
    return [chances[label] for label in classes]


def read(name, scene, **options):
    logs = reduction(name, scene.k).log_probabilities(scene.queries, scene.memory, **options)
    return logs.exp().numpy()


# -- probabilities ---------------------------------------------------------------------------------


@BOTH
@given(scene=scenes())
def test_probabilities_equal_the_slow_loop(name, scene):
    expected = [
        slow_probabilities(name, scene.memory, query, scene.k, scene.memory.classes)
        for query in scene.queries.tolist()
    ]
    np.testing.assert_allclose(read(name, scene), expected, rtol=0, atol=1e-12)


@BOTH
@given(scene=scenes())
def test_each_query_reads_its_own_neighbours_whatever_the_batch(name, scene):
    together = read(name, scene)
    alone = [
        reduction(name, scene.k).log_probabilities(query[None], scene.memory).exp()[0].tolist()
        for query in scene.queries
    ]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)


@given(scene=scenes())
def test_with_as_many_neighbours_as_rows_attention_is_over_every_row(scene):
    logs = RowsReduction().log_probabilities(scene.queries, scene.memory)
    scene.k = 10
    np.testing.assert_allclose(read("neighbours", scene), logs.exp(), rtol=0, atol=1e-12)


@BOTH
@given(scene=scenes(min_rows=2), data=st.data())
def test_leaving_a_row_out_equals_a_memory_without_it(name, scene, data):
    places = st.integers(-1, len(scene.rows) - 1)
    size = len(scene.queries)
    exclude = np.array(data.draw(st.lists(places, min_size=size, max_size=size)))
    got = read(name, scene, exclude=exclude)
    for query, gone in enumerate(exclude.tolist()):
        wanted = scene.queries[query].tolist()
        expected = slow_probabilities(
            name, scene.without(gone), wanted, scene.k, scene.memory.classes
        )
        np.testing.assert_allclose(got[query], expected, rtol=0, atol=1e-12)


@BOTH
def test_a_query_without_any_row_left_gets_nan_not_a_class(name):
    scene = Scene(np.ones((1, 2)), ["a"], np.ones((2, 2)), 3)
    got = read(name, scene, exclude=np.array([0, -1]))
    np.testing.assert_array_equal(got, [[math.nan], [1.0]])


@BOTH
def test_a_query_without_an_embedding_gets_nan_not_a_class(name):
    scene = Scene(np.eye(3), ["a", "b", "c"], [[math.nan, 0.0, 0.0]], 2)
    assert np.isnan(read(name, scene)).all()


@BOTH
def test_no_queries_have_no_probabilities(name):
    assert read(name, Scene(np.eye(2), ["a", "b"], np.zeros((0, 2)), 1)).shape == (0, 2)


def test_a_class_without_a_neighbour_has_probability_zero():
    scene = Scene(np.array([[0.0], [1.0], [9.0]]), ["a", "a", "b"], [[0.5]], 2)
    assert read("neighbours", scene)[0, 1] == 0


@pytest.mark.parametrize("cells", [1, 20])
def test_the_size_of_a_part_does_not_change_the_scores(cells, monkeypatch):
    rng = np.random.default_rng(0)
    scene = Scene(rng.normal(size=(8, 3)), [*"abababab"], rng.normal(size=(6, 3)), 4)
    expected = read("neighbours", scene)
    monkeypatch.setattr(neighbours, "_CELLS", cells)
    np.testing.assert_allclose(read("neighbours", scene), expected, rtol=0, atol=1e-12)


# -- attention -------------------------------------------------------------------------------------


def attention(dim, **options):
    rng = np.random.default_rng(1)
    W_q, W_k = (torch.from_numpy(rng.normal(size=(dim, dim))) for _ in range(2))
    return Attention(0.5, W_q=W_q, W_k=W_k, **options)


def test_neighbours_are_scored_by_attention_but_found_by_distance():
    rng = np.random.default_rng(0)
    scene = Scene(rng.normal(size=(8, 3)), [*"abababab"], rng.normal(size=(4, 3)), 3)
    given_ = attention(3, temperature=2.0)
    found = read("neighbours", scene, attention=given_)
    for query, row in zip(scene.queries, found, strict=True):
        places = slow_nearest(scene.memory, query.tolist(), 3)
        rows = torch.from_numpy(scene.memory.table.embeddings[places]).double()
        weights = given_.scores(query[None], rows)[0].softmax(0).tolist()
        labels = [scene.memory.record(place).label for place in places]
        expected = sum(w for w, label in zip(weights, labels, strict=True) if label == "a")
        assert row[0] == pytest.approx(expected, abs=1e-12)


def test_equal_votes_know_no_attention():
    rng = np.random.default_rng(0)
    scene = Scene(rng.normal(size=(8, 3)), [*"abababab"], rng.normal(size=(4, 3)), 3)
    found = read("knn", scene, attention=attention(3))
    np.testing.assert_array_equal(found, read("knn", scene))


# -- votes -----------------------------------------------------------------------------------------


@BOTH
@given(scene=scenes(), top=st.integers(1, 9))
def test_votes_equal_the_slow_loop(name, scene, top):
    found = reduction(name, scene.k).votes(scene.queries, scene.memory, top)
    for query, places, weights, rest in zip(
        scene.queries.tolist(), found.positions, found.weights, found.rest, strict=True
    ):
        slow = slow_votes(name, scene.memory, query, scene.k)
        largest = sorted(slow.values(), reverse=True)
        np.testing.assert_allclose(weights, largest[:top], rtol=0, atol=1e-12)
        np.testing.assert_allclose([slow[p] for p in places], weights, rtol=0, atol=1e-12)
        assert rest == pytest.approx(math.fsum(largest[top:]), abs=1e-12)


@BOTH
@given(scene=scenes(), top=st.integers(1, 9))
def test_votes_and_the_rest_sum_to_one(name, scene, top):
    found = reduction(name, scene.k).votes(scene.queries, scene.memory, top)
    np.testing.assert_allclose(found.weights.sum(1) + found.rest, 1, atol=1e-12)


@given(scene=scenes())
def test_equal_votes_come_nearest_first(scene):
    found = KNNReduction(scene.k, ExactSearch()).votes(scene.queries, scene.memory, 9)
    rows = scene.memory.table.embeddings.tolist()
    for query, places in zip(scene.queries.tolist(), found.positions, strict=True):
        apart = [math.dist(rows[place], query) for place in places]
        assert apart == sorted(apart)


@BOTH
@given(scene=scenes(min_rows=2), data=st.data())
def test_votes_without_a_row_are_those_of_a_memory_without_it(name, scene, data):
    gone = data.draw(st.integers(0, len(scene.rows) - 1))
    exclude = np.full(len(scene.queries), gone)
    found = reduction(name, scene.k).votes(scene.queries, scene.memory, 9, exclude=exclude)
    other = scene.without(gone)
    for query, places, weights in zip(
        scene.queries.tolist(), found.positions, found.weights, strict=True
    ):
        slow = slow_votes(name, other, query, scene.k)
        by_id = {other.record(p).id: weight for p, weight in slow.items()}
        got = {
            scene.memory.record(p).id: weight
            for p, weight in zip(places, weights, strict=True)
            if p >= 0
        }
        assert got == pytest.approx(by_id, abs=1e-12)


@BOTH
def test_a_place_without_a_row_has_no_vote(name):
    scene = Scene(np.eye(2), ["a", "b"], np.ones((1, 2)), 5)
    found = reduction(name, 5).votes(scene.queries, scene.memory, 5, exclude=np.array([0]))
    assert (found.positions.tolist(), found.weights.tolist()) == ([[1, -1]], [[1.0, 0.0]])


# -- training --------------------------------------------------------------------------------------


@BOTH
def test_in_training_every_row_of_the_batch_is_read(name):
    rng = np.random.default_rng(0)
    readers, rows = (torch.from_numpy(rng.normal(size=(6, 3))) for _ in range(2))
    classes, own = torch.tensor([0, 0, 1, 1, 2, 2]), torch.arange(6)
    found = reduction(name, 2).fuse(readers, rows, classes, 3, own=own)
    expected = RowsReduction().fuse(readers, rows, classes, 3, own=own)
    assert torch.equal(found, expected)
