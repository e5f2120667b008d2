"""Class forms of the metrics on predicted classes."""

import torch

from erasable.metrics._base import QueryMean
from erasable.metrics.functional._accuracy import count_correct
from erasable.metrics.functional._check import check_pair, check_pair_and_labels
from erasable.metrics.functional._convert import Array
from erasable.metrics.functional._prediction_gap import count_disagreements


class PredictionGap(QueryMean):
    """Accumulate `prediction_gap` (PG_H) over batches.

    Range 0 to 1, lower is better, symmetric, and the oracle's value is 0. It does not show that the
    weights forgot: equal predictions can differ in confidence, and a second retraining also differs
    from the first, so read it beside that gap.

    Args:
        **options: Those of `torchmetrics.Metric`, such as ``sync_on_compute``.

    Examples:
        >>> import torch
        >>> metric = PredictionGap()
        >>> metric.update(torch.tensor([[0.9, 0.1]]), torch.tensor([[0.8, 0.2]]))
        >>> metric.update(torch.tensor([[0.3, 0.7]]), torch.tensor([[0.6, 0.4]]))
        >>> metric.compute().item()
        0.5
    """

    sum_name = "disagreements"
    sum_type = torch.int64

    def update(self, unlearned: Array, oracle: Array) -> None:
        """Add a batch of queries.

        Args:
            unlearned: Probabilities (n, classes) of the unlearned model.
            oracle: Probabilities (n, classes) of the oracle, for the same queries and classes.

        Raises:
            ArgumentError: If an argument is malformed; the metric is then unchanged.
        """
        first, second = check_pair("PredictionGap.update()", unlearned, oracle)
        self._add(count_disagreements(first, second), len(first))


class AccuracyGap(QueryMean):
    """Accumulate `accuracy_gap` over batches: ΔUA, ΔRA or ΔTA, by the set the queries are from.

    The gap is that of all queries together, not the mean of the batches' gaps.

    Range 0 to 1, lower is better, and the oracle's value is 0. It does not show agreement: two
    models that are wrong on different queries can have a gap of 0.

    Args:
        **options: Those of `torchmetrics.Metric`, such as ``sync_on_compute``.

    Examples:
        >>> import torch
        >>> metric = AccuracyGap()
        >>> unlearned = torch.tensor([[0.9, 0.1], [0.3, 0.7]])
        >>> oracle = torch.tensor([[0.8, 0.2], [0.6, 0.4]])
        >>> metric.update(unlearned, oracle, labels=torch.tensor([0, 0]))
        >>> metric.compute().item()
        0.5
    """

    sum_name = "correct_difference"
    sum_type = torch.int64

    def update(self, unlearned: Array, oracle: Array, *, labels: Array) -> None:
        """Add a batch of queries.

        Args:
            unlearned: Probabilities (n, classes) of the unlearned model.
            oracle: Probabilities (n, classes) of the oracle, for the same queries and classes.
            labels: (n,), the column of each query's class.

        Raises:
            ArgumentError: If an argument is malformed; the metric is then unchanged.
        """
        call = "AccuracyGap.update()"
        first, second, truth = check_pair_and_labels(call, unlearned, oracle, labels)
        self._add(count_correct(first, truth) - count_correct(second, truth), len(truth))
