import numpy as np
import pytest
import torch
from hypothesis import given
from sklearn.metrics import accuracy_score, zero_one_loss

from erasable.metrics.functional import accuracy, accuracy_gap, error_rate
from metrics.strategies import labelled_models, unhurried

THREE_OF_FOUR = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])
LABELS = np.array([0, 1, 0, 1])


def test_accuracy_is_the_share_of_right_predictions():
    assert accuracy(THREE_OF_FOUR, LABELS) == 0.75


def test_error_rate_is_the_share_of_wrong_predictions():
    assert error_rate(THREE_OF_FOUR, LABELS) == 0.25


def test_a_tie_is_predicted_as_the_first_column():
    tied = np.array([[0.2, 0.4, 0.4]])
    assert [accuracy(tied, np.array([label])) for label in (1, 2)] == [1.0, 0.0]


@unhurried
@given(labelled_models())
def test_accuracy_equals_that_of_scikit_learn(case):
    model, _, labels = case
    assert accuracy(model, labels) == pytest.approx(accuracy_score(labels, model.argmax(axis=1)))


@unhurried
@given(labelled_models())
def test_error_rate_equals_zero_one_loss_of_scikit_learn(case):
    model, _, labels = case
    expected = zero_one_loss(labels, model.argmax(axis=1))
    assert error_rate(model, labels) == pytest.approx(expected)


def test_accuracy_gap_is_the_absolute_difference():
    all_right = np.eye(2)[LABELS]
    all_wrong = 1 - all_right
    assert accuracy_gap(THREE_OF_FOUR, all_right, labels=LABELS) == 0.25
    assert accuracy_gap(THREE_OF_FOUR, all_wrong, labels=LABELS) == 0.75


def test_accuracy_gap_of_a_model_with_itself_is_zero():
    assert accuracy_gap(THREE_OF_FOUR, THREE_OF_FOUR, labels=LABELS) == 0.0


def test_accuracy_gap_is_blind_to_errors_on_different_queries():
    first, second = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 1.0]])
    assert accuracy_gap(first, second, labels=np.array([0, 1])) == 0.0


@unhurried
@given(labelled_models())
def test_accuracy_gap_is_symmetric_within_bounds_and_equal_to_the_error_gap(case):
    unlearned, oracle, labels = case
    gap = accuracy_gap(unlearned, oracle, labels=labels)
    assert 0 <= gap <= 1
    assert gap == accuracy_gap(oracle, unlearned, labels=labels)
    assert gap == pytest.approx(abs(error_rate(unlearned, labels) - error_rate(oracle, labels)))


def test_torch_tensors_give_the_same_as_arrays():
    predictions = torch.tensor(THREE_OF_FOUR, dtype=torch.float32, requires_grad=True)
    assert accuracy(predictions, torch.tensor(LABELS, dtype=torch.int32)) == 0.75
