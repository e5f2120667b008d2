import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from erasable.metrics.functional import floored_log, kl_oracle_unlearned, kl_unlearned_oracle
from metrics.strategies import logs, models, unhurried

SURE, EVEN = np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])


def test_a_sure_model_against_an_even_oracle_is_log_two_in_the_printed_direction():
    assert kl_unlearned_oracle(logs(SURE), logs(EVEN)) == pytest.approx(math.log(2), abs=1e-15)


def test_a_sure_model_against_an_even_oracle_is_infinite_in_the_released_direction():
    assert kl_oracle_unlearned(logs(SURE), logs(EVEN)) == math.inf


def test_an_even_model_against_a_sure_oracle_swaps_the_directions():
    assert kl_unlearned_oracle(logs(EVEN), logs(SURE)) == math.inf
    assert kl_oracle_unlearned(logs(EVEN), logs(SURE)) == pytest.approx(math.log(2), abs=1e-15)


def test_it_is_the_mean_over_queries():
    unlearned, oracle = np.vstack([SURE, EVEN, EVEN]), np.vstack([EVEN, EVEN, EVEN])
    assert kl_unlearned_oracle(logs(unlearned), logs(oracle)) == pytest.approx(math.log(2) / 3)


@unhurried
@given(models())
def test_both_directions_equal_scipy(case):
    unlearned, oracle = case
    first, second = logs(unlearned), logs(oracle)
    printed, released = entropy(unlearned, oracle, axis=1), entropy(oracle, unlearned, axis=1)
    assert kl_unlearned_oracle(first, second) == pytest.approx(printed.mean(), abs=1e-14)
    assert kl_oracle_unlearned(first, second) == pytest.approx(released.mean(), abs=1e-14)


@unhurried
@given(models(count=1))
def test_identical_models_have_exactly_zero(case):
    log = logs(case[0])
    assert kl_unlearned_oracle(log, log.copy()) == 0.0
    assert kl_oracle_unlearned(log, log.copy()) == 0.0


@unhurried
@given(models(has_zeros=False), st.floats(1e-12, 1))
def test_it_is_never_negative_however_close_the_models(case, share):
    unlearned, oracle = case
    near = (1 - share) * oracle + share * unlearned
    assert kl_unlearned_oracle(logs(near), logs(oracle)) >= 0
    assert kl_oracle_unlearned(logs(near), logs(oracle)) >= 0


def test_nearly_equal_models_keep_their_digits():
    step = 1e-9
    near, oracle = np.array([[0.5 + step, 0.5 - step]]), EVEN
    expected = 2 * step**2  # second order of the divergence; the next term is 1e-18 of it
    assert kl_unlearned_oracle(logs(near), logs(oracle)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("log", [-720.0, -4000.0], ids=["nearly underflows", "underflows"])
def test_an_exploded_model_is_finite_in_both_directions(log):
    exploded = np.array([[0.0, log]])
    assert kl_oracle_unlearned(exploded, logs(EVEN)) == pytest.approx(-log / 2 - math.log(2))
    assert kl_unlearned_oracle(exploded, logs(EVEN)) == pytest.approx(math.log(2))


@unhurried
@given(models(has_zeros=False), st.floats(-9e-7, 9e-7), st.floats(-9e-7, 9e-7))
def test_rounding_of_the_sums_does_not_change_the_result(case, first_shift, second_shift):
    unlearned, oracle = (logs(model) for model in case)
    shifted = kl_unlearned_oracle(unlearned + first_shift, oracle + second_shift)
    assert shifted == pytest.approx(kl_unlearned_oracle(unlearned, oracle), abs=1e-13)


def test_float32_log_softmax_of_a_thousand_classes_is_accepted():
    logits = torch.randn(64, 1000, generator=torch.Generator().manual_seed(0)) * 10
    uniform = np.full((64, 1000), -math.log(1000))
    expected = math.log(1000) - entropy(logits.double().softmax(1), axis=1).mean()
    found = kl_unlearned_oracle(logits.log_softmax(1), uniform)
    assert found == pytest.approx(expected, rel=1e-5)


@unhurried
@given(models(), st.sampled_from([1e-8, 1e-3, 0.2]))
def test_floored_log_equals_a_loop(case, floor):
    for model in case:
        expected = np.empty_like(model)
        for query, row in enumerate(model):
            raised = [value if value > floor else floor for value in row]
            expected[query] = [math.log(value / math.fsum(raised)) for value in raised]
        np.testing.assert_allclose(floored_log(model, floor), expected, rtol=1e-12, atol=1e-15)


def test_the_default_floor_is_one_in_a_hundred_million():
    found = floored_log(torch.tensor([[1.0, 0.0, 0.0]]))
    assert found[0, 1] == pytest.approx(math.log(1e-8 / (1 + 2e-8)), rel=1e-14)


@unhurried
@given(models())
def test_floored_votes_have_finite_divergences(case):
    unlearned, oracle = (floored_log(model) for model in case)
    assert math.isfinite(kl_unlearned_oracle(unlearned, oracle))
    assert math.isfinite(kl_oracle_unlearned(unlearned, oracle))
