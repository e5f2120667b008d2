"""Rows, their ids, and how test rows are drawn."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.data import Dataset, Split
from erasable.data._split import drawn, mark_test_rows
from erasable.errors import ArgumentError


def rows(labels, groups=None):
    number = len(labels)
    labels = list(labels)
    X = np.arange(2.0 * number).reshape(number, 2)
    return Split(X, np.array(labels), [f"set/{i}" for i in range(number)], groups)


LABELS = st.lists(st.sampled_from("abc"), min_size=1, max_size=30)


@given(LABELS, st.data())
def test_where_and_take_choose_the_same_rows(labels, data):
    split = rows(labels, groups=labels)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(split), max_size=len(split))))
    by_mask, by_position = split.where(keep), split.take(np.flatnonzero(keep))
    np.testing.assert_array_equal(by_mask.X, by_position.X)
    assert by_mask.ids == by_position.ids == [f"set/{i}" for i in np.flatnonzero(keep)]
    assert by_mask.groups == by_position.groups == by_mask.y.tolist()


@given(LABELS, st.floats(0, 0.99), st.integers(0, 5))
def test_an_id_means_the_same_row_whatever_the_seed(labels, share, seed):
    everything = rows(labels)
    dataset = drawn("set", everything, source="here", test_share=share, seed=seed)
    parts = [dataset.train] if dataset.test is None else [dataset.train, dataset.test]
    inputs = {key: x.tolist() for part in parts for key, x in zip(part.ids, part.X, strict=True)}
    assert inputs == {f"set/{i}": x.tolist() for i, x in enumerate(everything.X)}
    assert sum(map(len, parts)) == len(labels)


@given(LABELS, st.floats(0, 0.99), st.integers(0, 5))
def test_no_class_is_ever_in_the_test_rows_only(labels, share, seed):
    y = np.array(labels)
    is_test = mark_test_rows(y, share, np.random.default_rng(seed))
    assert set(y[~is_test]) == set(labels)


@given(LABELS, st.randoms())
def test_the_digest_does_not_depend_on_the_order(labels, random):
    split = rows(labels)
    order = list(range(len(split)))
    random.shuffle(order)
    assert split.take(order).digest == split.digest


def test_other_rows_have_another_digest():
    split = rows("abc")
    assert split.take([0, 1]).digest != split.take([0, 2]).digest


def test_rows_without_groups_stay_without():
    assert rows("ab").take([1]).groups is None


@pytest.mark.parametrize("mask", [[True], [1, 0, 1], [[True, False, True]]])
def test_a_mask_that_does_not_fit_is_refused(mask):
    with pytest.raises(ArgumentError, match="a mask of 3 booleans"):
        rows("abc").where(np.array(mask))


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, float("nan")])
def test_a_share_must_leave_something_to_learn_from(share):
    with pytest.raises(ArgumentError, match="test_share"):
        drawn("set", rows("ab"), source="", test_share=share, seed=0)


def test_a_share_of_nothing_gives_no_test_rows():
    dataset = drawn("set", rows("aabb"), source="", test_share=0, seed=0)
    assert (dataset.test, dataset.seed, len(dataset.train)) == (None, None, 4)


def test_the_record_is_plain_and_tells_which_rows_there_are():
    dataset = drawn("set", rows("aaaabbbb"), source="here", test_share=0.25, seed=3)
    record = json.loads(json.dumps(dataset.record()))
    assert record == {
        "name": "set",
        "source": "here",
        "classes": 2,
        "train_rows": 6,
        "test_rows": 2,
        "seed": 3,
        "test_share": 0.25,
        "train_digest": dataset.train.digest,
        "test_digest": dataset.test.digest,
        "train_contents": dataset.train.contents_digest,
        "test_contents": dataset.test.contents_digest,
    }
    assert record["train_contents"] != record["test_contents"]


def test_the_record_of_a_data_set_without_test_rows_says_so():
    record = Dataset("set", rows("ab"), None, "here").record()
    assert (record["test_rows"], record["test_digest"], record["seed"]) == (0, None, None)
