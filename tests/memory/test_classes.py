from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import row_labels, shown
from erasable.memory import Grid, encode_key, sort_labels
from erasable.memory._classes import ClassSums
from erasable.memory._keys import as_label

GRID = Grid(2)


def rows_of(units):
    return np.array(units, np.int32).reshape(-1, 2)


def add(sums, labels, units):
    slot_of = sums.open(labels)
    slots = [slot_of[encode_key(label)] for label in labels]
    sums.add(slots, rows_of(units))
    return slots


def slow_sums(labels, units):
    """Sum with Python integers: (labels, counts, sums) in sorted order."""
    totals, names = defaultdict(lambda: [0, 0, 0]), {}
    for label, unit in zip(labels, units, strict=True):
        names[encode_key(label)] = label
        total = totals[encode_key(label)]
        totals[encode_key(label)] = [total[0] + 1, total[1] + unit[0], total[2] + unit[1]]
    order = sort_labels(list(names.values()))
    counts = [totals[encode_key(label)][0] for label in order]
    return order, counts, [totals[encode_key(label)][1:] for label in order]


UNITS = st.integers(-(2**20) + 1, 2**20 - 1)
LABELLED = st.lists(st.tuples(row_labels().map(as_label), st.tuples(UNITS, UNITS)), max_size=8)


@given(LABELLED, LABELLED)
def test_sums_are_those_of_python_integers(kept, gone):
    sums = ClassSums(2, GRID)
    both = kept + gone
    slots = add(sums, [label for label, _ in both], [unit for _, unit in both])
    sums.remove(slots[len(kept) :], rows_of([unit for _, unit in gone]))
    labels, counts, totals = slow_sums([label for label, _ in kept], [unit for _, unit in kept])
    assert shown(sums.labels) == shown(labels)
    assert (sums.counts.tolist(), sums.sums.tolist()) == (counts, totals)


@given(LABELLED.filter(bool))
def test_means_are_sums_over_counts(rows):
    sums = ClassSums(2, GRID)
    add(sums, [label for label, _ in rows], [unit for _, unit in rows])
    _, counts, totals = slow_sums([label for label, _ in rows], [unit for _, unit in rows])
    expected = [[x * GRID.step / n for x in total] for total, n in zip(totals, counts, strict=True)]
    assert sums.means.tolist() == expected


def test_means_follow_the_sorted_order_when_slots_do_not():
    sums = ClassSums(2, GRID)
    add(sums, ["b"], [(4, 0)])
    add(sums, ["a"], [(0, 4)])
    assert sums.means.tolist() == [[0, 1], [1, 0]]


def test_sums_do_not_round_where_float32_would():
    sums = ClassSums(2, GRID)
    add(sums, ["a"] * 41, [(2**20 - 1, 1)] * 41)
    assert sums.sums.tolist() == [[41 * (2**20 - 1), 41]]


def test_new_classes_take_slots_in_sorted_order():
    assert ClassSums(2, GRID).open(["b", "a", 3]) == {"s:b": 2, "s:a": 1, "i:3": 0}


def test_a_live_class_keeps_its_slot():
    sums = ClassSums(2, GRID)
    add(sums, ["b"], [(1, 1)])
    assert sums.open(["a", "b"]) == {"s:a": 1, "s:b": 0}


def emptied():
    sums = ClassSums(2, GRID)
    add(sums, ["a", "secret", "z"], [(1, 2), (3, 4), (5, 6)])
    sums.remove([1], rows_of([(3, 4)]))
    return sums


def test_an_emptied_class_is_not_listed():
    assert emptied().labels == ["a", "z"]


def test_an_emptied_class_has_no_slot():
    assert emptied().slot("secret") is None


def test_the_name_of_an_emptied_class_stays_nowhere():
    assert "secret" not in repr(vars(emptied()))


def test_the_numbers_of_an_emptied_class_are_wiped():
    sums = emptied()
    assert [sums.count(1), *sums.sum_at(1), *sums._means[1]] == [0] * 5


def test_the_slot_of_an_emptied_class_is_used_again():
    assert emptied().open(["new"]) == {"s:new": 1}


def test_the_lowest_free_slot_is_used_first():
    sums = emptied()
    sums.remove([2], rows_of([(5, 6)]))
    assert sums.open(["new"]) == {"s:new": 1}


def test_a_class_in_a_used_slot_starts_from_zero():
    sums = emptied()
    add(sums, ["new"], [(7, 8)])
    assert sums.sum_at(1).tolist() == [7, 8]


def test_free_slots_have_no_rank():
    sums = emptied()
    assert sums.rank_of_slots().tolist() == [0, -1, 1]


def test_ranks_are_places_in_sorted_order():
    sums = ClassSums(2, GRID)
    for label in ("c", "a", "b"):
        add(sums, [label], [(0, 0)])
    assert sums.rank_of_slots().tolist() == [2, 0, 1]


def test_order_lists_slots_by_sorted_label():
    sums = ClassSums(2, GRID)
    for label in ("c", "a", "b"):
        add(sums, [label], [(0, 0)])
    assert sums.order.tolist() == [1, 2, 0]


def test_many_classes_grow_the_arrays():
    sums = ClassSums(2, GRID)
    for label in range(40):
        add(sums, [label], [(label, -label)])
    assert sums.sums.tolist() == [[label, -label] for label in range(40)]


@pytest.mark.parametrize("change", ["add", "remove"])
def test_no_rows_change_nothing(change):
    sums = ClassSums(2, GRID)
    add(sums, ["a"], [(1, 2)])
    getattr(sums, change)(np.zeros(0, np.int64), rows_of([]))
    assert (sums.counts.tolist(), sums.sums.tolist()) == ([1], [[1, 2]])
