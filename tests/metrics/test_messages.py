import re

import numpy as np
import pytest
import torch

from erasable.errors import ArgumentError
from erasable.metrics import AccuracyGap, KLOracleUnlearned, KLUnlearnedOracle, PredictionGap
from erasable.metrics import functional as F

EVEN = np.array([[0.5, 0.5], [0.5, 0.5]])
LABELS = np.array([0, 1])


def message_of(function, *args, **kwargs):
    with pytest.raises(ArgumentError) as caught:
        function(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize("values", ["ab", None, [[1.0], [0.5, 0.5]], np.array([["a", "b"]])])
def test_what_is_not_numbers_is_refused_with_its_type(values):
    kind = getattr(values, "dtype", type(values).__name__)
    assert message_of(F.prediction_gap, values, EVEN) == (
        "prediction_gap(): Expected 'unlearned' to be numbers of shape (n, classes), "
        f"but got {kind}. Pass a NumPy array or a torch tensor."
    )


@pytest.mark.parametrize(
    "values",
    [torch.eye(2, dtype=torch.complex64), torch.eye(2).to_sparse()],
    ids=["complex", "sparse"],
)
def test_tensors_that_are_not_dense_real_numbers_are_refused(values):
    assert f"but got {values.dtype}. Pass a NumPy array" in message_of(
        F.prediction_gap, values, EVEN
    )


@pytest.mark.parametrize("shape", [(2,), (1, 2, 2), (0, 2), (2, 0)])
def test_a_shape_other_than_queries_by_classes_is_refused(shape):
    assert message_of(F.prediction_gap, EVEN, np.zeros(shape)) == (
        "prediction_gap(): Expected 'oracle' to have shape (n, classes) with n ≥ 1, "
        f"but got {shape}. Pass one prediction per query."
    )


@pytest.mark.parametrize("oracle", [EVEN[:1], np.eye(3)[:2]])
def test_different_shapes_are_refused(oracle):
    assert message_of(F.prediction_gap, EVEN, oracle) == (
        "prediction_gap(): Expected 'oracle' to have shape (2, 2) to match 'unlearned', "
        f"but got {oracle.shape}. Predict the same queries with both models, "
        "aligned to one list of classes."
    )


def test_nan_is_reported_once_with_its_queries():
    values = np.array([[0.5, 0.5], [np.nan, 0.5]])
    assert message_of(F.prediction_gap, EVEN, values) == (
        "prediction_gap(): Expected 'oracle' to have no NaN, but not so at queries: 1. "
        "Check the model's outputs first."
    )


def test_nan_in_log_probabilities_is_refused():
    values = np.log([[0.5, 0.5], [0.5, 0.5]])
    values[0, 1] = np.nan
    assert message_of(F.kl_unlearned_oracle, values, np.log(EVEN)) == (
        "kl_unlearned_oracle(): Expected 'log_unlearned' to have no NaN, but not so at queries: 0. "
        "Check the model's outputs first."
    )


def test_sums_other_than_one_are_refused_with_the_first_sum():
    values = np.array([[0.5, 0.5], [0.5, 0.75]])
    assert message_of(F.floored_log, values) == (
        "floored_log(): Expected each query in 'probabilities' to sum to 1 within 1e-06 "
        "(the first sums to 1.25), but not so at queries: 1. "
        "Pass probabilities (float32 softmax of logits, exp of log-probabilities)."
    )


def test_at_most_five_queries_are_listed():
    assert "at queries: 0, 1, 2, 3, 4 and 2 more." in message_of(F.floored_log, np.ones((7, 2)))


def test_sums_are_accepted_within_a_millionth_and_refused_beyond():
    assert F.prediction_gap(np.array([[0.5, 0.5 + 9e-7]]), np.array([[0.5, 0.5 - 9e-7]])) == 1.0
    assert "(the first sums to 1.000002)" in message_of(F.floored_log, np.array([[0.5, 0.500002]]))


def test_infinite_entries_are_refused():
    values = np.array([[np.inf, -np.inf], [0.5, 0.5]])
    found = message_of(F.prediction_gap, values, EVEN)
    assert "no probability below 0, but not so at queries: 0." in found
    assert "(the first sums to nan), but not so at queries: 0." in found


def test_negative_probabilities_are_refused_even_if_they_sum_to_one():
    assert message_of(F.floored_log, np.array([[1.5, -0.5]])) == (
        "floored_log(): Expected 'probabilities' to have no probability below 0, "
        "but not so at queries: 0. Check the model's outputs first."
    )


@pytest.mark.parametrize("values", [EVEN, EVEN * 4000], ids=["probabilities", "logits"])
def test_the_divergences_refuse_what_is_not_log_probabilities(values):
    found = message_of(F.kl_oracle_unlearned, np.log(EVEN), values)
    assert found.startswith(
        "kl_oracle_unlearned(): Expected each query in 'log_oracle' to sum to 1"
    )
    assert found.endswith(
        "Pass log-probabilities (float32 log_softmax of logits, floored_log of votes)."
    )


@pytest.mark.parametrize(
    "labels", [np.array([0.0, 1.0]), np.array(["a", "b"]), torch.ones(2).bool()]
)
def test_labels_that_are_not_integers_are_refused(labels):
    assert message_of(F.accuracy, EVEN, labels) == (
        f"accuracy(): Expected 'labels' to be integers, but got {labels.dtype}. "
        "Pass the column of each query's class in the predictions."
    )


@pytest.mark.parametrize("labels", [np.array([0]), np.array([[0, 1]]), np.array(0)])
def test_another_number_of_labels_than_queries_is_refused(labels):
    assert message_of(F.error_rate, EVEN, labels) == (
        f"error_rate(): Expected 'labels' to have shape (2,), but got {labels.shape}. "
        "Pass one label per query."
    )


def test_labels_that_are_no_column_are_refused():
    assert message_of(F.accuracy_gap, EVEN, EVEN, labels=np.array([2, -1])) == (
        "accuracy_gap(): Expected 'labels' to be class columns in 0…1, but got: -1, 2. "
        "Pass the column of each query's class in the predictions."
    )


def test_labels_are_not_blamed_where_no_prediction_is_usable():
    found = message_of(F.accuracy, "ab", LABELS)
    assert "labels" not in found


def test_all_problems_are_raised_at_once():
    found = message_of(F.claim, EVEN * 2, np.ones((3, 1)), labels=np.array([0.5]))
    for part in (
        "'unlearned' to sum to 1",
        "'oracle' to have shape (2, 2)",
        "'labels' to be integers",
    ):
        assert part in found
    assert found.startswith("claim(): ")


@pytest.mark.parametrize("floor", [0.0, 1.0, -1e-8, float("nan")])
def test_a_floor_outside_zero_and_one_is_refused(floor):
    assert message_of(F.floored_log, EVEN, floor) == (
        f"floored_log(): Expected 'floor' to be between 0 and 1, but got {floor!r}. "
        "Pass a value like 1e-8."
    )


@pytest.mark.parametrize("kind", [PredictionGap, AccuracyGap, KLUnlearnedOracle, KLOracleUnlearned])
def test_a_refused_batch_names_the_class_and_changes_nothing(kind):
    metric = kind()
    labels = {"labels": LABELS} if kind is AccuracyGap else {}
    expected = re.escape(f"{kind.__name__}.update(): Expected ")
    with pytest.raises(ArgumentError, match=f"^{expected}"):
        metric.update(EVEN * 3, EVEN, **labels)
    assert all(value.item() == 0 for value in metric.metric_state.values())
