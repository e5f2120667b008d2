"""The graph of nearest rows within classes: what it is, and how it follows changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.memory import ClassGraph, Follower, Memory, encode_key
from erasable.memory import _class_graph as class_graph

IDS = st.sampled_from([0, 1, 2, 10, "1", "a", "b", "c", "d", "e", "é", "zz"])
POINTS = st.tuples(*[st.sampled_from([0.0, 0.5, 1.0, 3.0])] * 2)  # few: many ties and copies


class Keeping(Follower):
    """Keep a graph by its changes, with what they returned."""

    def __init__(self, live, k):
        self.graph, self.returned = ClassGraph(live, k), []

    def add(self, infos, embeddings):
        self.returned = self.graph.added(infos)

    def remove(self, infos, embeddings):
        self.returned = self.graph.removed(infos)


def keeping(memory, k):
    return memory.live.follower("kept", lambda live: Keeping(live, k))


def slow_graph(memory, k):
    """Return each row's neighbours by comparing it with every other row of its class."""
    rows = list(memory)
    graph = {}
    for row in rows:
        others = [o for o in rows if encode_key(o.label) == encode_key(row.label) and o is not row]
        apart = [
            (float(((o.embedding - row.embedding) ** 2).sum()), encode_key(o.id)) for o in others
        ]
        nearest = sorted(zip(apart, [o.id for o in others], strict=True))[:k]
        graph[row.id] = [row_id for _, row_id in nearest]
    return graph


def neighbours(graph, memory):
    return {row.id: graph.neighbours(row.id) for row in memory}


def heard_by(graph):
    """Turn lists of neighbours around."""
    found = {}
    for row_id, mine in graph.items():
        for other in mine:
            found.setdefault(other, set()).add(row_id)
    return found


@st.composite
def histories(draw):
    """Draw steps: rows to add (id, label, point), or ids to forget."""
    row = st.tuples(IDS, st.sampled_from("xy"), POINTS)
    add = st.lists(row, min_size=1, max_size=5, unique_by=lambda row: row[0])
    forget = st.lists(IDS, min_size=1, max_size=4, unique=True)
    return draw(st.lists(add | forget, max_size=6))


def carry_out(memory, step):
    """Add the rows that are not there, or forget the ids that are."""
    if isinstance(step[0], tuple):
        news = [row for row in step if row[0] not in memory]
        if news:
            ids, labels, points = zip(*news, strict=True)
            memory.add(np.array(points), list(labels), ids=list(ids), reinstate=True)
        return
    memory.forget(ids=[row_id for row_id in step if row_id in memory])


@pytest.mark.parametrize("k", [1, 2, 16])
@given(steps=histories())
def test_a_graph_that_followed_any_history_is_the_slow_one(k, steps):
    memory = Memory(2)
    kept = keeping(memory, k).graph
    for step in steps:
        carry_out(memory, step)
        assert neighbours(kept, memory) == slow_graph(memory, k)


@pytest.mark.parametrize("k", [1, 2, 16])
@given(steps=histories())
def test_a_graph_built_anew_is_the_slow_one(k, steps):
    memory = Memory(2)
    for step in steps:
        carry_out(memory, step)
    assert neighbours(ClassGraph(memory.live, k), memory) == slow_graph(memory, k)


@pytest.mark.parametrize("k", [1, 2, 16])
@given(steps=histories())
def test_who_hears_a_row_is_the_graph_turned_around(k, steps):
    memory = Memory(2)
    kept = keeping(memory, k).graph
    for step in steps:
        carry_out(memory, step)
        found = {row_id: those for row_id, those in kept._heard_by.items() if those}
        assert found == heard_by(slow_graph(memory, k))


@pytest.mark.parametrize("k", [1, 2, 16])
@given(steps=histories())
def test_nothing_of_a_removed_row_remains(k, steps):
    memory = Memory(2)
    kept = keeping(memory, k).graph
    for step in steps:
        carry_out(memory, step)
        live = {row.id for row in memory}
        named = [*kept._neighbours, *kept._heard_by]
        named += [i for mine in kept._neighbours.values() for i in mine]
        named += [i for those in kept._heard_by.values() for i in those]
        assert set(named) <= live
        assert set(kept._neighbours) == live


@pytest.mark.parametrize("k", [1, 2, 16])
@given(steps=histories())
def test_a_change_returns_exactly_the_rows_whose_neighbours_changed(k, steps):
    memory = Memory(2)
    kept = keeping(memory, k)
    for step in steps:
        before = slow_graph(memory, k)
        kept.returned = []
        carry_out(memory, step)
        after = slow_graph(memory, k)
        changed = {row_id for row_id in after if after[row_id] != before.get(row_id)}
        assert sorted(map(encode_key, kept.returned)) == sorted(map(encode_key, changed))


def graph_of(rows, k, **options):
    memory = Memory(1)
    ids = list(rows)
    memory.add(np.array([[rows[i]] for i in ids]), ["x"] * len(ids), ids=ids, **options)
    return ClassGraph(memory.live, k)


def test_ties_go_to_the_smaller_encoded_id():
    # Encoded, ids are "i:10" < "i:2" < "s:1".
    graph = graph_of({"1": 1.0, 2: -1.0, 10: 1.0, "centre": 0.0}, 2)
    assert graph.neighbours("centre") == [10, 2]


def test_a_nearer_row_comes_before_a_smaller_id():
    graph = graph_of({"a": 2.0, "b": 1.0, "centre": 0.0}, 2)
    assert graph.neighbours("centre") == ["b", "a"]


def test_a_row_alone_in_its_class_has_no_neighbours():
    memory = Memory(1)
    memory.add(np.array([[0.0], [0.0]]), ["x", "y"], ids=["a", "b"])
    graph = ClassGraph(memory.live, 3)
    assert (graph.neighbours("a"), graph.neighbours("b")) == ([], [])


def test_distances_of_the_largest_values_are_told_apart():
    edge = 64 - 2.0**-14
    graph = graph_of({"a": -edge, "b": -edge + 2.0**-14, "c": edge}, 1)
    assert graph.neighbours("c") == ["b"]


@pytest.mark.parametrize("cells", [1, 7])
def test_the_size_of_a_part_does_not_change_the_graph(cells, monkeypatch):
    rows = {i: float(v) for i, v in enumerate(np.random.default_rng(0).normal(size=9))}
    expected = [graph_of(rows, 3).neighbours(i) for i in rows]
    monkeypatch.setattr(class_graph, "_CELLS", cells)
    assert [graph_of(rows, 3).neighbours(i) for i in rows] == expected
