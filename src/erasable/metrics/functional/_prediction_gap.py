"""PG_H: how often two models predict different classes."""

from erasable.metrics.functional._check import check_pair
from erasable.metrics.functional._convert import Array
from erasable.typing import Float64s


def count_disagreements(unlearned: Float64s, oracle: Float64s) -> int:
    """Count the queries with different predictions; a tie goes to the first column in both."""
    return int((unlearned.argmax(axis=1) != oracle.argmax(axis=1)).sum())


def prediction_gap(unlearned: Array, oracle: Array) -> float:
    """Compute the share of queries where unlearned model and oracle predict different classes.

    The paper's PG_H: ``mean(argmax unlearned ≠ argmax oracle)``. Of equally probable classes the
    first column is predicted, for both models.

    Range 0 to 1, lower is better, symmetric, and the oracle's value is 0. It does not show that the
    weights forgot: equal predictions can differ in confidence (see `kl_unlearned_oracle`), and a
    second retraining also differs from the first, so read it beside that gap.

    Args:
        unlearned: Probabilities (n, classes) of the unlearned model.
        oracle: Probabilities (n, classes) of the oracle, for the same queries and classes.

    Returns:
        A fraction, not percent.

    Raises:
        ArgumentError: If an argument is malformed; one message names every problem.

    Examples:
        >>> import numpy as np
        >>> unlearned = np.array([[0.9, 0.1], [0.3, 0.7]])
        >>> oracle = np.array([[0.8, 0.2], [0.6, 0.4]])
        >>> prediction_gap(unlearned, oracle)
        0.5
    """
    first, second = check_pair("prediction_gap()", unlearned, oracle)
    return count_disagreements(first, second) / len(first)
