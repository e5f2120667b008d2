"""Linear discriminants of the rows: exact second moments, and what is solved from them."""

import copy

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import softmax

from erasable.memory import GaussianView, Memory
from erasable.memory import _gaussian as gaussian
from fusion.references import arrays

SHARE = 0.1


def memory_of(rows, labels):
    memory = Memory(len(rows[0]))
    memory.add(rows, labels)
    return memory


def slow_moments(memory):
    """Add up outer products of grid units in Python's integers."""
    units = [[int(v) for v in row] for row in memory.grid.units(memory.table.embeddings).tolist()]
    return [
        [sum(row[i] * row[j] for row in units) for j in range(memory.dim)]
        for i in range(memory.dim)
    ]


def slow_matrix(memory):
    """Return ``A`` and the class means, from centred rows."""
    rows = memory.table.embeddings.astype(np.float64)
    ranks = memory.sums.rank_of_slots()[memory.table.slots]
    means = np.stack([rows[ranks == c].mean(axis=0) for c in range(len(memory.classes))])
    apart = rows - means[ranks]
    covariance = apart.T @ apart / len(rows)
    size = np.trace(covariance) / memory.dim
    if not size:
        return np.eye(memory.dim), means
    return np.linalg.inv(covariance + SHARE * size * np.eye(memory.dim)), means


def slow_logits(memory, queries):
    A, means = slow_matrix(memory)
    return np.array([[z @ A @ mu - 0.5 * mu @ A @ mu for mu in means] for z in queries])


def assert_close(actual, expected):
    """Compare logits relative to the largest of them."""
    size = max(1.0, np.abs(expected[np.isfinite(expected)]).max(initial=0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-8 * size)


@st.composite
def sets(draw, min_rows=1, step=0.25):
    """Draw rows on a coarse grid (often equal), labels and queries."""
    count, dim = draw(st.integers(min_rows, 8)), draw(st.integers(1, 5))
    rows = np.round(draw(arrays(count, dim)) / step) * step
    labels = draw(st.lists(st.sampled_from("abc"), min_size=count, max_size=count))
    return rows, labels, draw(arrays(3, dim))


# -- second moments --------------------------------------------------------------------------------


@st.composite
def histories(draw):
    """Draw groups of rows (1 to 5, dim 2), and after each the share of ids to forget."""
    groups = draw(st.lists(arrays(draw(st.integers(1, 5)), 2, bound=63.0), max_size=4))
    return [(rows, draw(st.integers(0, 2**16))) for rows in groups]


@given(histories())
def test_second_moments_equal_the_slow_sum_after_any_history(steps):
    memory = Memory(2)
    view = GaussianView(memory)
    assert view.moments.total.tolist() == [[0, 0], [0, 0]]
    for rows, choice in steps:
        memory.add(rows, ["x"] * len(rows), reinstate=True)
        memory.forget(ids=[row.id for bit, row in enumerate(memory) if choice >> bit & 1])
        assert view.moments.total.tolist() == slow_moments(memory)


def test_second_moments_of_the_largest_values_are_exact(monkeypatch):
    monkeypatch.setattr(gaussian, "_CHUNK", 2)
    edge = 64 - 2.0**-14
    memory = memory_of(np.array([[edge, -edge]] * 5), ["x"] * 5)
    assert GaussianView(memory).moments.total.tolist() == slow_moments(memory)


def test_second_moments_follow_changes_instead_of_being_built_anew():
    memory = memory_of(np.eye(2), ["a", "b"])
    before = GaussianView(memory).moments
    memory.forget(classes=["a"])
    assert GaussianView(memory).moments is before


# -- logits ----------------------------------------------------------------------------------------


@given(sets())
def test_logits_equal_the_slow_formula(drawn):
    rows, labels, queries = drawn
    memory = memory_of(rows, labels)
    assert_close(GaussianView(memory).logits(queries), slow_logits(memory, queries))


@given(sets())
def test_readers_are_queries_times_the_matrix(drawn):
    rows, labels, queries = drawn
    memory = memory_of(rows, labels)
    assert_close(GaussianView(memory).readers(queries), queries @ slow_matrix(memory)[0])


def test_where_no_class_has_two_different_rows_the_metric_is_plain():
    memory = memory_of(np.array([[3.0, 1.0], [3.0, 1.0], [0.0, 2.0]]), ["a", "a", "b"])
    queries = np.array([[1.0, 2.0]])
    np.testing.assert_array_equal(GaussianView(memory).readers(queries), queries)


def test_the_metric_stretches_directions_in_which_classes_are_narrow():
    rows = np.array([[-3.0, 0.1], [3.0, -0.1], [-3.0, 0.9], [3.0, 1.1]])
    memory = memory_of(rows, ["low", "low", "high", "high"])
    assert GaussianView(memory).logits(np.array([[9.0, 0.9]])).argmax() == 0


@given(sets(), st.integers(0, 2**8))
def test_logits_after_a_forget_are_bit_equal_to_those_without_the_rows(drawn, choice):
    rows, labels, queries = drawn
    kept = [place for place in range(len(rows)) if not choice >> place & 1]
    assume(kept)
    memory = memory_of(rows, labels)
    view = GaussianView(memory)
    view.logits(queries)
    memory.forget(ids=[place for place in range(len(rows)) if place not in kept])
    other = memory_of(rows[kept], [labels[place] for place in kept])
    np.testing.assert_array_equal(view.logits(queries), GaussianView(other).logits(queries))


def test_logits_after_an_addition_are_those_with_the_row():
    rows = np.array([[0.0, 1.0], [2.0, 1.0], [1.0, 5.0]])
    memory = memory_of(rows[:2], ["a", "a"])
    view = GaussianView(memory)
    view.logits(rows)
    memory.add(rows[2:], ["b"])
    expected = GaussianView(memory_of(rows, ["a", "a", "b"])).logits(rows)
    np.testing.assert_array_equal(view.logits(rows), expected)


def test_a_copy_has_moments_of_its_own():
    memory = memory_of(np.array([[0.0, 1.0], [2.0, 1.0], [1.0, 5.0]]), ["a", "a", "b"])
    queries = np.ones((1, 2))
    before = GaussianView(memory).logits(queries)
    twin = copy.deepcopy(memory)
    twin.forget(ids=[0])
    GaussianView(twin).logits(queries)
    np.testing.assert_array_equal(GaussianView(memory).logits(queries), before)
    assert GaussianView(twin).moments is not GaussianView(memory).moments


def test_a_fit_does_not_change_with_the_sums_it_was_made_of():
    memory = memory_of(np.array([[0.0, 1.0], [2.0, 1.0]]), ["a", "b"])
    fit = GaussianView(memory).fit
    before = fit.means.copy()
    memory.add(np.array([[9.0, 9.0]]), ["a"])
    np.testing.assert_array_equal(fit.means, before)


# -- leaving a row out -----------------------------------------------------------------------------


def assert_left_out(rows, labels, queries, place):
    """Compare logits and readers without a row with those of a memory without it."""
    rows, labels = np.asarray(rows, np.float64), list(labels)
    memory = memory_of(rows, labels)
    other = memory_of(np.delete(rows, place, axis=0), labels[:place] + labels[place + 1 :])
    places = np.full(len(queries), place)
    found = GaussianView(memory).logits_without(queries, places)
    left = [label in other.classes for label in memory.classes]
    expected = GaussianView(other).logits(queries)
    assert (found[:, ~np.array(left)] == -np.inf).all()
    assert_close(found[:, left], expected)
    np.testing.assert_allclose(softmax(found[:, left], 1), softmax(expected, 1), atol=1e-6)
    readers = GaussianView(memory).readers_without(queries, places)
    assert_close(readers, GaussianView(other).readers(queries))


@given(sets(min_rows=2), st.data())
def test_leaving_a_row_out_equals_a_memory_without_it(drawn, data):
    rows, labels, queries = drawn
    place = data.draw(st.integers(0, len(rows) - 1))
    assert_left_out(rows, labels, queries, place)


NEAR = 2.0**-14
QUERIES = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]])
CASES = {
    "the only row of a class": ([[1, 2, 3], [2, 2, 1], [0, 1, 5]], "abb"),
    "one of two rows of a class": ([[1, 2, 3], [2, 2, 1], [0, 1, 5], [1, 1, 5]], "aabb"),
    "one of two rows, then nothing differs": ([[1, 2, 3], [2, 2, 1], [0, 1, 5]], "aab"),
    "a copy": ([[1, 2, 3], [1, 2, 3], [0, 1, 5], [4, 1, 5]], "aabb"),
    "all rows equal": ([[1, 2, 3]] * 4, "aabb"),
    "all rows of a class equal": ([[1, 2, 3], [1, 2, 3], [0, 1, 5], [0, 1, 5]], "aabb"),
    "one class": ([[1, 2, 3], [2, 2, 1], [0, 1, 5]], "aaa"),
    "fewer rows than dimensions": ([[1, 2, 3], [4, 1, 0]], "aa"),
    "the row that is nearly all of the covariance": (
        [[60, -60, 60], [0, 0, 0], [0, NEAR, 0], [5, 5, 5], [5, 5, 5 + NEAR]],
        "aaabb",
    ),
    "the row that is all of the covariance": ([[0, 0, 0.0625], [0, 0, 0], [0, 0, 0]], "aaa"),
    "all that differs, beside a class far away": (
        [[0.02, 0, 0], [0, 0, 0], [0, 0, 0], *[[23.2, 36.0, 42.8]] * 29],
        "a" * 3 + "b" * 29,
    ),
    "a large row beside rows that hardly differ": (
        [[0.888, 1.317, 1.241], *[[-0.6814, -0.2486, 0.2592]] * 2, [-0.6814, -0.2488, 0.2591]],
        "baaa",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_leaving_the_first_row_out_equals_a_memory_without_it(name):
    assert_left_out(*CASES[name], QUERIES, 0)


@pytest.mark.parametrize("cells", [1, 10, 2**22])
def test_rows_are_left_out_alike_in_parts_of_any_size(cells, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(9, 3))
    memory = memory_of(rows, [*"aaabbbccc"])
    places = np.arange(9)
    expected = GaussianView(memory).logits_without(rows, places)
    monkeypatch.setattr(gaussian, "_CELLS", cells)
    np.testing.assert_allclose(GaussianView(memory).logits_without(rows, places), expected)


def test_the_only_row_leaves_no_class():
    logits = GaussianView(memory_of(np.ones((1, 2)), ["a"])).logits_without(
        np.ones((1, 2)), np.array([0])
    )
    assert logits.tolist() == [[-np.inf]]


def test_leaving_a_row_out_leaves_it_in_the_memory():
    rows = np.array([[60.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    memory = memory_of(rows, [*"aaab"])
    before = GaussianView(memory).logits(rows)
    for place in range(4):
        GaussianView(memory).logits_without(rows, np.full(4, place))
    np.testing.assert_array_equal(GaussianView(memory).logits(rows), before)
    assert GaussianView(memory).moments.total.tolist() == slow_moments(memory)
