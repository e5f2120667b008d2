"""Class forms of the Kullback-Leibler divergences."""

import torch

from erasable.metrics._base import QueryMean
from erasable.metrics.functional._convert import Array
from erasable.metrics.functional._kl import check_logs, divergences


class KLUnlearnedOracle(QueryMean):
    """Accumulate `kl_unlearned_oracle` over batches: the paper's PG_S as printed, in nats.

    Range 0 to ∞, lower is better, not symmetric, and the oracle's value is 0. It does not show how
    many predictions change: one confident query can dominate the mean.

    Args:
        **options: Those of `torchmetrics.Metric`, such as ``sync_on_compute``.

    Examples:
        >>> import torch
        >>> metric = KLUnlearnedOracle()
        >>> metric.update(torch.tensor([[1.0, 0.0]]).log(), torch.tensor([[0.5, 0.5]]).log())
        >>> print(f"{metric.compute().item():.4f}")
        0.6931
    """

    sum_name = "nats_unlearned_oracle"
    sum_type = torch.float64

    def update(self, log_unlearned: Array, log_oracle: Array) -> None:
        """Add a batch of queries.

        Args:
            log_unlearned: Log-probabilities (n, classes) of the unlearned model; −inf stands for
                zero probability.
            log_oracle: Log-probabilities (n, classes) of the oracle, for the same queries and
                classes.

        Raises:
            ArgumentError: If an argument is malformed; the metric is then unchanged.
        """
        call = "KLUnlearnedOracle.update()"
        unlearned, oracle = check_logs(call, log_unlearned, log_oracle)
        self._add(float(divergences(unlearned, oracle).sum()), len(oracle))


class KLOracleUnlearned(QueryMean):
    """Accumulate `kl_oracle_unlearned` over batches: PG_S as the paper's released code has it.

    Range 0 to ∞, lower is better, not symmetric, and the oracle's value is 0. It does not show how
    many predictions change: a model that was made extreme on a few queries scores in the hundreds.

    Args:
        **options: Those of `torchmetrics.Metric`, such as ``sync_on_compute``.

    Examples:
        >>> import torch
        >>> metric = KLOracleUnlearned()
        >>> metric.update(torch.tensor([[1.0, 0.0]]).log(), torch.tensor([[0.5, 0.5]]).log())
        >>> metric.compute().item()
        inf
    """

    sum_name = "nats_oracle_unlearned"
    sum_type = torch.float64

    def update(self, log_unlearned: Array, log_oracle: Array) -> None:
        """Add a batch of queries.

        Args:
            log_unlearned: Log-probabilities (n, classes) of the unlearned model; −inf stands for
                zero probability.
            log_oracle: Log-probabilities (n, classes) of the oracle, for the same queries and
                classes.

        Raises:
            ArgumentError: If an argument is malformed; the metric is then unchanged.
        """
        call = "KLOracleUnlearned.update()"
        unlearned, oracle = check_logs(call, log_unlearned, log_oracle)
        self._add(float(divergences(oracle, unlearned).sum()), len(oracle))
