import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import columns, row_lists, shown
from erasable.memory import Memory, PrototypesView, RowsView


def memory_of(rows, gone=()):
    memory = Memory(2)
    parts = columns(rows, 2)
    memory.add(parts.pop("embeddings"), parts.pop("labels"), **parts)
    memory.forget(ids=list(gone))
    return memory


def slow_mean(memory, label, left_out=None):
    """Average a class's rows in Python integers; return (mean, rows)."""
    step = memory.grid.step
    rows = [r for r in memory if shown([r.label]) == shown([label]) and r.id != left_out]
    sums = [
        sum(int(x / step) for x in column)
        for column in zip(*(r.embedding for r in rows), strict=True)
    ]
    return [total * step / len(rows) for total in sums] or [0, 0], len(rows)


@st.composite
def memories(draw, min_size=1):
    rows = draw(row_lists(2, min_size=min_size, max_size=8))
    return memory_of(rows, draw(st.sets(st.sampled_from([row.id for row in rows]))))


@given(memories())
def test_prototypes_are_the_means_of_the_rows(memory):
    expected = [slow_mean(memory, label)[0] for label in memory.classes]
    assert PrototypesView(memory).means.tolist() == expected


@given(memories())
def test_prototypes_count_their_rows(memory):
    expected = [slow_mean(memory, label)[1] for label in memory.classes]
    assert PrototypesView(memory).counts.tolist() == expected


@given(memories())
def test_a_row_left_out_leaves_the_mean_of_the_others(memory):
    rows = list(memory)
    _, means, _ = PrototypesView(memory).without(memory.positions([row.id for row in rows]))
    assert means.tolist() == [slow_mean(memory, row.label, row.id)[0] for row in rows]


@given(memories())
def test_a_row_left_out_is_not_counted(memory):
    rows = list(memory)
    _, _, left = PrototypesView(memory).without(memory.positions([row.id for row in rows]))
    assert left.tolist() == [slow_mean(memory, row.label, row.id)[1] for row in rows]


@given(memories())
def test_a_row_left_out_names_its_class(memory):
    rows = list(memory)
    places, _, _ = PrototypesView(memory).without(memory.positions([row.id for row in rows]))
    classes = memory.classes
    assert shown([classes[place] for place in places]) == shown([row.label for row in rows])


def test_the_only_row_of_a_class_leaves_zeros():
    memory = Memory(2)
    memory.add([[1, 2], [3, 4]], ["a", "b"], ids=["a", "b"])
    places, means, left = PrototypesView(memory).without(memory.positions(["b"]))
    assert (places.tolist(), means.tolist(), left.tolist()) == ([1], [[0, 0]], [0])


def test_leaving_a_row_out_changes_nothing():
    memory = Memory(2)
    memory.add([[1, 2], [3, 4]], ["a", "a"], ids=["a", "b"])
    PrototypesView(memory).without(memory.positions(["a", "b"]))
    assert PrototypesView(memory).means.tolist() == [[2, 3]]


@given(memories(), st.integers(1, 4))
def test_chunks_hold_every_live_row_once_with_its_class(memory, size):
    found = {}
    for start, embeddings, places in RowsView(memory).chunks(size):
        for offset, (embedding, place) in enumerate(zip(embeddings, places, strict=True)):
            row_id = memory.record(start + offset).id
            found[row_id] = (embedding.tolist(), shown([memory.classes[place]]))
    assert found == {row.id: (row.embedding.tolist(), shown([row.label])) for row in memory}


@pytest.mark.parametrize(("size", "expected"), [(2, [2, 2, 1]), (5, [5]), (9, [5])])
def test_chunks_have_the_size_asked_for(size, expected):
    memory = Memory(1)
    memory.add(np.zeros((5, 1)), [0] * 5)
    assert [len(embeddings) for _, embeddings, _ in RowsView(memory).chunks(size)] == expected


def test_a_view_follows_the_memory():
    memory = Memory(1)
    view = PrototypesView(memory)
    memory.add([[1.0], [3.0]], ["x", "x"], ids=["a", "b"])
    memory.forget(ids=["a"])
    assert view.means.tolist() == [[3.0]]


def test_chunks_copy_no_row():
    memory = Memory(1)
    memory.add([[1.0]], ["x"])
    ((_, embeddings, _),) = RowsView(memory).chunks()
    assert np.shares_memory(embeddings, memory.table.embeddings)


def test_an_empty_memory_has_no_chunks():
    assert list(RowsView(Memory(2)).chunks()) == []


def test_an_empty_memory_has_no_prototypes():
    assert PrototypesView(Memory(2)).means.shape == (0, 2)
