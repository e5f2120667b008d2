import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import embeddings, row_lists
from erasable.errors import ArgumentError
from erasable.memory import Grid, Match, Memory, _find


def memory_of(rows, ids, dim=2):
    memory = Memory(dim)
    memory.add(np.array(rows, float).reshape(-1, dim), ["x"] * len(ids), ids=ids)
    return memory


def slow_find(memory, queries, tolerance):
    """Measure every distance."""
    found = []
    for query in np.array(queries):
        reach = tolerance * np.sqrt(query @ query) + memory.grid.step / 2 * np.sqrt(memory.dim)
        near = [(float(np.sqrt(((query - r.embedding) ** 2).sum())), r.id) for r in memory]
        found.append({row_id for distance, row_id in near if distance <= reach * (1 + 1e-12)})
    return found


@given(row_lists(2), st.lists(embeddings(2), max_size=3), st.sampled_from([0, 0.01, 0.3, 2.0]))
def test_matches_are_those_of_measuring_every_distance(rows, queries, tolerance):
    memory = memory_of([row.embedding for row in rows], [row.id for row in rows])
    found = memory.find(np.array(queries).reshape(-1, 2), tolerance=tolerance)
    expected = slow_find(memory, queries, tolerance)
    assert [{match.id for match in matches} for matches in found] == expected


@given(embeddings(3))
def test_the_embedding_a_row_was_made_from_finds_it_without_tolerance(embedding):
    memory = memory_of([embedding], ["a"], dim=3)
    assert [match.id for match in memory.find([embedding], tolerance=0)[0]] == ["a"]


def test_a_match_says_its_distance():
    memory = memory_of([[3, 4]], ["a"])
    assert memory.find([[0, 8]], tolerance=1) == [[Match("a", 5.0, 0.625)]]


def test_the_nearest_comes_first():
    memory = memory_of([[1.2, 0], [1, 0], [1.1, 0]], ["far", "near", "between"])
    found = memory.find([[1, 0]], tolerance=0.5)[0]
    assert [match.id for match in found] == ["near", "between", "far"]


def test_copies_are_in_order_of_their_encoded_ids():
    memory = memory_of([[1, 0]] * 4, ["b", 2, "a", 10])
    assert [match.id for match in memory.find([[1, 0]])[0]] == [10, 2, "a", "b"]


def test_tolerance_is_relative_to_the_querys_length():
    memory = memory_of([[10.05, 0], [0.15, 0]], ["long", "short"])
    found = memory.find([[10, 0], [0.1, 0]], tolerance=0.01)
    assert [[match.id for match in matches] for matches in found] == [["long"], []]


def test_a_row_just_beyond_the_reach_that_the_screen_lets_pass_is_no_match():
    # The screen compares squares and allows 1e-9 of them; the distance itself decides.
    memory = Memory(1, grid=Grid(20))
    memory.add([[0.75]], ["x"], ids=["a"])
    reach = memory.grid.step / 2
    assert memory.find([[0.75 + 1.5 * reach]], tolerance=0) == [[]]


def test_chunks_do_not_change_matches(monkeypatch):
    monkeypatch.setattr(_find, "_CHUNK", 2)
    memory = memory_of([[1, 0], [0, 1], [1, 0], [0, 1], [1, 0]], list("abcde"))
    found = memory.find([[1, 0], [0, 1]])
    assert [[match.id for match in matches] for matches in found] == [["a", "c", "e"], ["b", "d"]]


def test_a_forgotten_row_is_not_found():
    memory = memory_of([[1, 0], [1, 0]], ["a", "b"])
    memory.forget(ids=["a"])
    assert [match.id for match in memory.find([[1, 0]])[0]] == ["b"]


def test_an_empty_memory_has_no_matches():
    assert Memory(2).find([[1, 0], [0, 1]]) == [[], []]


def test_no_queries_have_no_matches():
    assert memory_of([[1, 0]], ["a"]).find(np.zeros((0, 2))) == []


def test_queries_of_another_size_are_refused():
    with pytest.raises(ArgumentError) as caught:
        Memory(2).find([[1, 2, 3]])
    assert str(caught.value) == "find(): Expected embeddings of shape (n, 2), but got (1, 3)."


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_queries_that_are_not_finite_are_refused(value):
    with pytest.raises(ArgumentError) as caught:
        memory_of([[1, 0]], ["a"]).find([[0, 0], [value, 0]])
    expected = "find(): Expected finite embeddings, but got NaN or infinity in rows: 1."
    assert str(caught.value) == expected


def test_queries_beyond_the_grid_are_refused():
    with pytest.raises(ArgumentError, match=r"Expected embeddings below 64 in magnitude"):
        memory_of([[1, 0]], ["a"]).find([[1e300, 0]])
