import numpy as np
import pytest
import torch
from hypothesis import given
from sklearn.metrics import hamming_loss

from erasable.metrics.functional import prediction_gap
from metrics.strategies import models, unhurried


def test_it_is_the_share_of_different_predictions():
    unlearned = np.array([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8], [0.1, 0.9]])
    oracle = np.array([[0.6, 0.4], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]])
    assert prediction_gap(unlearned, oracle) == 0.25


def test_it_is_one_where_every_prediction_differs():
    assert prediction_gap(np.eye(3), np.roll(np.eye(3), 1, axis=1)) == 1.0


def test_a_tie_in_both_models_is_broken_the_same_way():
    assert prediction_gap(np.array([[0.4, 0.4, 0.2]]), np.array([[0.5, 0.5, 0.0]])) == 0.0


def test_a_tie_is_predicted_as_the_first_column():
    tied = np.array([[0.5, 0.5]])
    assert prediction_gap(tied, np.array([[0.6, 0.4]])) == 0.0
    assert prediction_gap(tied, np.array([[0.4, 0.6]])) == 1.0


@unhurried
@given(models(count=1))
def test_identical_models_have_no_gap(case):
    (model,) = case
    assert prediction_gap(model, model.copy()) == 0.0


@unhurried
@given(models())
def test_it_is_symmetric_and_equals_hamming_loss_of_scikit_learn(case):
    unlearned, oracle = case
    gap = prediction_gap(unlearned, oracle)
    assert gap == prediction_gap(oracle, unlearned)
    expected = hamming_loss(oracle.argmax(axis=1), unlearned.argmax(axis=1))
    assert gap == pytest.approx(expected)


def test_a_tensor_can_be_compared_with_an_array():
    assert prediction_gap(torch.eye(2), np.array([[1.0, 0.0], [0.9, 0.1]])) == 0.5


def test_one_hot_integers_are_probabilities():
    assert prediction_gap(torch.tensor([[0, 1]]), np.array([[1, 0]])) == 1.0


def test_half_precision_tensors_are_compared():
    assert prediction_gap(torch.eye(2, dtype=torch.bfloat16), torch.eye(2).half().flip(0)) == 1.0
