from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.training import epoch_batches
from erasable.training._batches import steps_per_epoch

PARTNERS = pytest.mark.parametrize("needs_partners", [True, False])


def split(classes, batch_size, seed=0, *, needs_partners):
    rng = np.random.default_rng(seed)
    batches = epoch_batches(classes, batch_size, rng, needs_partners=needs_partners)
    return [batch.tolist() for batch in batches]


@st.composite
def epochs(draw):
    """Draw class indices, a batch size and a seed."""
    classes = draw(st.lists(st.integers(0, 12), min_size=2, max_size=60))
    return np.array(classes), draw(st.integers(2, 20)), draw(st.integers(0, 99))


@PARTNERS
@given(drawn=epochs())
def test_every_row_comes_exactly_once(needs_partners, drawn):
    batches = split(*drawn, needs_partners=needs_partners)
    assert sorted(row for batch in batches for row in batch) == list(range(len(drawn[0])))


@PARTNERS
@given(drawn=epochs())
def test_batches_differ_by_at_most_one_row(needs_partners, drawn):
    sizes = [len(batch) for batch in split(*drawn, needs_partners=needs_partners)]
    assert max(sizes) - min(sizes) <= 1


@PARTNERS
@given(drawn=epochs())
def test_no_batch_has_fewer_than_two_rows(needs_partners, drawn):
    assert min(len(batch) for batch in split(*drawn, needs_partners=needs_partners)) >= 2


@PARTNERS
@given(drawn=epochs())
def test_no_batch_is_larger_than_asked_for(needs_partners, drawn):
    # Three rows in batches of two: the odd one joins a batch rather than being alone.
    largest = max(drawn[1], 3)
    assert max(len(batch) for batch in split(*drawn, needs_partners=needs_partners)) <= largest


@PARTNERS
@given(drawn=epochs())
def test_the_number_of_steps_is_known_beforehand(needs_partners, drawn):
    batches = split(*drawn, needs_partners=needs_partners)
    assert len(batches) == steps_per_epoch(len(drawn[0]), drawn[1])


@PARTNERS
@given(drawn=epochs())
def test_the_same_source_gives_the_same_batches(needs_partners, drawn):
    first = split(*drawn, needs_partners=needs_partners)
    assert split(*drawn, needs_partners=needs_partners) == first


@PARTNERS
def test_another_source_gives_other_batches(needs_partners):
    classes = np.arange(60) % 10
    first = split(classes, 20, 0, needs_partners=needs_partners)
    assert split(classes, 20, 1, needs_partners=needs_partners) != first


@PARTNERS
def test_a_source_gives_another_order_in_the_next_epoch(needs_partners):
    classes, rng = np.arange(60) % 10, np.random.default_rng(0)
    first, second = (
        [b.tolist() for b in epoch_batches(classes, 20, rng, needs_partners=needs_partners)]
        for _ in range(2)
    )
    assert first != second


def lonely(classes, batches):
    """Count rows whose class has other rows, but none of them in the batch."""
    sizes = Counter(classes.tolist())
    count = 0
    for batch in batches:
        here = Counter(classes[batch].tolist())
        count += sum(sizes[label] > 1 and number == 1 for label, number in here.items())
    return count


@given(epochs())
def test_with_many_classes_only_groups_cut_by_a_batch_lose_their_partners(drawn):
    classes, batch_size, seed = drawn
    classes = np.concatenate([classes, np.arange(13)])  # at least 13 classes: always grouped
    batches = split(classes, batch_size, seed, needs_partners=True)
    assert lonely(classes, batches) <= 2 * (len(batches) - 1)


def test_with_many_classes_nearly_every_row_has_three_partners():
    classes = np.arange(800) % 100
    batches = split(classes, 64, needs_partners=True)
    partners = [np.sum(classes[batch] == classes[row]) for batch in batches for row in batch]
    assert np.mean(np.array(partners) >= 4) > 0.9


@given(st.integers(0, 99))
def test_groups_of_early_and_late_classes_are_mixed(seed):
    classes = np.arange(800) % 100
    first = classes[split(classes, 64, seed, needs_partners=True)[0]]
    assert min(first) < 50 <= max(first)


def test_without_need_of_partners_many_classes_are_mixed():
    classes = np.arange(800) % 100
    assert lonely(classes, split(classes, 64, needs_partners=False)) > 300


def test_with_few_classes_batches_are_random():
    classes = np.arange(64) % 4
    assert split(classes, 32, needs_partners=True) == split(classes, 32, needs_partners=False)


def test_one_row_less_than_eight_per_class_is_grouped():
    classes = np.arange(64) % 4
    assert split(classes, 31, needs_partners=True) != split(classes, 31, needs_partners=False)


def test_a_single_row_is_one_batch():
    assert split(np.array([0]), 8, needs_partners=True) == [[0]]


# -- samplers --------------------------------------------------------------------------------------


def sampled(sampler, classes, batch_size, *, needs_partners=False):
    rng = np.random.default_rng(0)
    batches = epoch_batches(
        classes, batch_size, rng, needs_partners=needs_partners, sampler=sampler
    )
    return [batch.tolist() for batch in batches]


@PARTNERS
@given(drawn=epochs())
def test_classes_are_drawn_together_when_asked_for(needs_partners, drawn):
    classes, batch_size, _ = drawn
    batches = sampled("classes", classes, batch_size, needs_partners=needs_partners)
    assert sorted(row for batch in batches for row in batch) == list(range(len(classes)))
    assert lonely(classes, batches) <= 2 * (len(batches) - 1)


@PARTNERS
def test_classes_are_drawn_together_even_if_there_are_few(needs_partners):
    classes = np.arange(64) % 4
    batches = sampled("classes", classes, 32, needs_partners=needs_partners)
    order = [row for batch in batches for row in batch]
    runs = np.diff(np.flatnonzero(np.diff(classes[order], prepend=-1, append=-1)))
    assert runs.min() >= 4


@PARTNERS
def test_rows_are_drawn_at_random_when_asked_for(needs_partners):
    classes = np.arange(800) % 100
    found = sampled("uniform", classes, 64, needs_partners=needs_partners)
    assert lonely(classes, found) > 300


@pytest.mark.parametrize(("size", "expected"), [(20, "classes"), (400, "uniform")])
def test_left_alone_the_number_of_classes_decides(size, expected):
    classes = np.arange(400) % 10
    found = sampled("auto", classes, size, needs_partners=True)
    assert found == sampled(expected, classes, size, needs_partners=True)
