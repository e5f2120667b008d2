"""What the class forms share: a sum over queries, divided by their number."""

from abc import ABC
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchmetrics import Metric

from erasable.errors import StateError


class QueryMean(Metric, ABC):
    """Accumulate a sum over queries in batches and processes.

    Subclasses name their own sum: a torchmetrics collection treats metrics whose states have equal
    names and equal first values as one metric.

    Args:
        **options: Those of `torchmetrics.Metric`, such as ``sync_on_compute``.
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    sum_name: ClassVar[str]
    sum_type: ClassVar[torch.dtype]
    queries: Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        zero = torch.zeros((), dtype=self.sum_type)
        self.add_state(self.sum_name, zero, dist_reduce_fx="sum")
        self.add_state("queries", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def _add(self, total: float, queries: int) -> None:
        setattr(self, self.sum_name, getattr(self, self.sum_name) + total)
        self.queries = self.queries + queries

    def compute(self) -> Tensor:
        """Return the metric over all queries so far, a float64 scalar.

        Raises:
            StateError: If there were no queries.
        """
        if self.queries == 0:
            raise StateError(
                f"{type(self).__name__}.compute(): Expected at least one query, but got none. "
                "Call update() first."
            )
        total: Tensor = getattr(self, self.sum_name)
        return total.abs().double() / self.queries
