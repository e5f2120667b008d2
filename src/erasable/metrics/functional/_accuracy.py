"""Accuracy, error rate, and the gap in accuracy between two models."""

from erasable.metrics.functional._check import Checker, check_pair_and_labels
from erasable.metrics.functional._convert import Array
from erasable.typing import Float64s, Ints


def count_correct(probabilities: Float64s, labels: Ints) -> int:
    """Count the queries whose most probable class is the label; a tie goes to the first column."""
    return int((probabilities.argmax(axis=1) == labels).sum())


def accuracy(probabilities: Array, labels: Array) -> float:
    """Compute the share of queries whose most probable class is the right one.

    RA is this on the retain set, TA on the test set. Of equally probable classes the first column
    is predicted.

    Range 0 to 1, higher is better. The oracle's value is whatever retraining reaches; compare with
    it by `accuracy_gap`. It does not show which queries are right: two models with one accuracy may
    disagree on most of them.

    Args:
        probabilities: (n, classes), each query summing to 1.
        labels: (n,), the column of each query's class.

    Returns:
        A fraction, not percent.

    Raises:
        ArgumentError: If an argument is malformed; one message names every problem.

    Examples:
        >>> import numpy as np
        >>> accuracy(np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0, 0]))
        0.5
    """
    predictions, truth = _check("accuracy()", probabilities, labels)
    return count_correct(predictions, truth) / len(truth)


def error_rate(probabilities: Array, labels: Array) -> float:
    """Compute the share of queries whose most probable class is a wrong one.

    UA is this on the forget set. Of equally probable classes the first column is predicted.

    Range 0 to 1. On a forget set neither direction is better: the aim is the oracle's value, 1 for
    a class it has never seen and close to its test error for rows drawn at random. It does not show
    that the rows left no trace: a model can be wrong on them in a way that gives them away.

    Args:
        probabilities: (n, classes), each query summing to 1.
        labels: (n,), the column of each query's class.

    Returns:
        A fraction, not percent.

    Raises:
        ArgumentError: If an argument is malformed; one message names every problem.

    Examples:
        >>> import numpy as np
        >>> error_rate(np.array([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8]]), np.array([1, 1, 1]))
        0.3333333333333333
    """
    predictions, truth = _check("error_rate()", probabilities, labels)
    return (len(truth) - count_correct(predictions, truth)) / len(truth)


def accuracy_gap(unlearned: Array, oracle: Array, *, labels: Array) -> float:
    """Compute how far the unlearned model's accuracy is from the oracle's.

    ``|Acc(unlearned) − Acc(oracle)|``: ΔUA on the forget set, ΔRA on the retain set, ΔTA on the
    test set. Error rates have the same gap as accuracies.

    Range 0 to 1, lower is better, and the oracle's value is 0. It does not show agreement: two
    models that are wrong on different queries can have a gap of 0 (see `prediction_gap`).

    Args:
        unlearned: Probabilities (n, classes) of the unlearned model.
        oracle: Probabilities (n, classes) of the oracle, for the same queries and classes.
        labels: (n,), the column of each query's class.

    Returns:
        A fraction, not percent.

    Raises:
        ArgumentError: If an argument is malformed; one message names every problem.

    Examples:
        >>> import numpy as np
        >>> unlearned = np.array([[0.9, 0.1], [0.3, 0.7]])
        >>> oracle = np.array([[0.8, 0.2], [0.6, 0.4]])
        >>> accuracy_gap(unlearned, oracle, labels=np.array([0, 0]))
        0.5
    """
    first, second, truth = check_pair_and_labels("accuracy_gap()", unlearned, oracle, labels)
    return abs(count_correct(first, truth) - count_correct(second, truth)) / len(truth)


def _check(call: str, probabilities: Array, labels: Array) -> tuple[Float64s, Ints]:
    check = Checker(call)
    checked = check.probabilities("probabilities", probabilities), check.labels(labels)
    check.done()
    return checked
