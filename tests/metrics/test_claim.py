import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given
from scipy.stats import entropy

from erasable.metrics.functional import ClaimBounds, accuracy_gap, claim, prediction_gap
from metrics.strategies import labelled_models, models_with_margin, unhurried

HELD = ClaimBounds(0.1, 0.2, 0.5, 0.3, 0.4)


def test_the_bounds_have_their_closed_form():
    unlearned, oracle = np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([[0.75, 0.25], [0.2, 0.8]])
    found = claim(unlearned, oracle, labels=np.array([0, 0]))
    printed = 0.5 * math.log(4 / 3) / 2
    released = (0.75 * math.log(1.5) - 0.25 * math.log(2)) / 2
    assert found.margin == pytest.approx(0.5)
    assert found.bound_unlearned_oracle == pytest.approx(math.sqrt(2 * printed) / 0.5)
    assert found.bound_oracle_unlearned == pytest.approx(math.sqrt(2 * released) / 0.5)


@unhurried
@given(models_with_margin())
def test_the_claim_holds_in_both_directions_for_an_oracle_with_a_margin(case):
    unlearned, oracle, labels, margin = case
    gap = prediction_gap(unlearned, oracle)
    assert accuracy_gap(unlearned, oracle, labels=labels) <= gap
    for divergence in (entropy(unlearned, oracle, axis=1), entropy(oracle, unlearned, axis=1)):
        mean = max(divergence.mean(), 0)
        assert gap <= math.sqrt(2 * mean) / margin + 1e-6


@unhurried
@given(models_with_margin())
def test_the_reported_margin_is_at_least_the_enforced_one_and_both_sides_hold(case):
    unlearned, oracle, labels, margin = case
    found = claim(unlearned, oracle, labels=labels)
    assert found.margin >= margin - 1e-12
    assert (found.left_holds, found.right_holds) == (True, True)


@unhurried
@given(labelled_models())
def test_the_reported_numbers_are_those_of_the_other_metrics(case):
    unlearned, oracle, labels = case
    found = claim(unlearned, oracle, labels=labels)
    assert found.accuracy_gap == accuracy_gap(unlearned, oracle, labels=labels)
    assert found.prediction_gap == prediction_gap(unlearned, oracle)
    ranked = np.sort(np.hstack([np.zeros((len(oracle), 1)), oracle]), axis=1)
    assert found.margin == pytest.approx((ranked[:, -1] - ranked[:, -2]).min(), abs=1e-15)


@unhurried
@given(labelled_models())
def test_both_sides_hold_with_ties_and_zero_probabilities(case):
    unlearned, oracle, labels = case
    found = claim(unlearned, oracle, labels=labels)
    assert (found.left_holds, found.right_holds) == (True, True)


def test_identical_models_have_bounds_of_zero():
    model = np.array([[0.7, 0.3], [0.1, 0.9]])
    found = claim(model, model.copy(), labels=np.array([0, 0]))
    assert (found.bound_unlearned_oracle, found.bound_oracle_unlearned) == (0.0, 0.0)
    assert not found.is_vacuous


def test_one_near_tie_makes_the_bound_vacuous():
    oracle = np.array([[0.9, 0.1], [0.5001, 0.4999]])
    unlearned = np.array([[0.8, 0.2], [0.5001, 0.4999]])
    labels = np.array([0, 0])
    assert claim(unlearned, oracle, labels=labels).is_vacuous
    assert not claim(unlearned[:1], oracle[:1], labels=labels[:1]).is_vacuous


def test_a_tie_of_the_oracle_gives_an_infinite_bound_even_for_identical_models():
    tied = np.array([[0.4, 0.4, 0.2]])
    found = claim(tied, tied.copy(), labels=np.array([0]))
    assert found.margin == 0.0
    assert (found.bound_unlearned_oracle, found.bound_oracle_unlearned) == (math.inf, math.inf)
    assert found.is_vacuous
    assert found.right_holds


def test_zero_probabilities_are_not_floored():
    found = claim(np.array([[0.8, 0.2]]), np.array([[1.0, 0.0]]), labels=np.array([0]))
    assert found.bound_unlearned_oracle == math.inf
    assert found.bound_oracle_unlearned == pytest.approx(math.sqrt(2 * math.log(1 / 0.8)))


def test_a_single_finite_bound_below_one_is_not_vacuous():
    assert not claim(
        np.array([[0.8, 0.2]]), np.array([[1.0, 0.0]]), labels=np.array([0])
    ).is_vacuous


def test_a_single_class_has_a_margin_of_one():
    found = claim(np.ones((2, 1)), np.ones((2, 1)), labels=np.array([0, 0]))
    assert (found.margin, found.bound_unlearned_oracle) == (1.0, 0.0)


def test_float_rounding_does_not_break_the_right_side_near_a_tie():
    step = 5.178e-13  # here the bound comes out as 1 − 7e-5 instead of just above 1
    oracle, unlearned = np.array([[0.5 - step, 0.5 + step]]), np.array([[0.5, 0.5]])
    found = claim(unlearned, oracle, labels=np.array([0]))
    assert found.prediction_gap == 1.0
    assert found.right_holds


def test_sums_within_tolerance_do_not_break_the_right_side():
    scale = 1 + 9e-7
    oracle = scale * np.array([[0.5 - 1e-4, 0.5 + 1e-4]])
    unlearned = scale * np.array([[0.5, 0.5]])
    found = claim(unlearned, oracle, labels=np.array([0]))
    assert found.prediction_gap == 1.0
    assert found.right_holds


def test_numbers_that_break_the_left_side_are_reported():
    assert HELD.left_holds
    assert not replace(HELD, accuracy_gap=0.21).left_holds


@pytest.mark.parametrize("name", ["bound_unlearned_oracle", "bound_oracle_unlearned"])
def test_numbers_that_break_the_right_side_in_one_direction_are_reported(name):
    assert HELD.right_holds
    assert not replace(HELD, **{name: 0.19}).right_holds


def test_a_bound_of_exactly_one_is_vacuous():
    above = replace(HELD, bound_unlearned_oracle=1.5)
    assert replace(above, bound_oracle_unlearned=1.0).is_vacuous
    assert not replace(above, bound_oracle_unlearned=0.99).is_vacuous


def test_the_bounds_cannot_be_edited():
    with pytest.raises(FrozenInstanceError):
        HELD.margin = 1.0
