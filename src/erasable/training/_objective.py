"""What training minimises, for semi-parametric and for parametric networks."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from erasable.errors import ArgumentError
from erasable.training._support import Support


@dataclass(frozen=True)
class StepResult:
    """Loss of a step, and how many of how many queries it got right.

    ``counted`` is below the batch size where queries had no partner of their class.
    """

    loss: Tensor
    correct: int
    counted: int


@dataclass(frozen=True)
class Batch:
    """What a step learns from: queries, and rows to read besides.

    Attributes:
        inputs: Inputs of the queries, (n, …).
        classes: Their class indices, (n,).
        support: Inputs of rows that are not among the queries, (rows, …).
        support_classes: Their class indices, (rows,).
    """

    inputs: Tensor
    classes: Tensor
    support: Tensor | None = None
    support_classes: Tensor | None = None


class Objective(ABC):
    """From a network and a batch to a loss.

    Attributes:
        needs_partners: Whether a query needs other rows of its class in the batch.
        support: Rows to draw for each batch besides the queries.
    """

    needs_partners: bool
    support: Support | None = None

    @abstractmethod
    def __call__(self, network: nn.Module, batch: Batch) -> StepResult:
        """Return the loss of a batch."""

    @abstractmethod
    def describe(self) -> str:
        """Name the objective and its settings, for telling runs apart."""


@final
class InBatchMemory(Objective):
    """Each batch is queries and memory at once; every query reads the batch without its own row.

    Args:
        label_smoothing: Share of the target spread over the classes of the batch.
    """

    needs_partners = True

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self._smoothing = label_smoothing

    def __call__(self, network: nn.Module, batch: Batch) -> StepResult:
        """Read the batch as its own memory; queries without a partner do not count."""
        labels, index = torch.unique(batch.classes, return_inverse=True)
        return vote_loss(network(batch.inputs, index, len(labels)), index, self._smoothing)

    def describe(self) -> str:
        """Name the memory and the smoothing."""
        return f"in-batch memory, smoothing {self._smoothing}"


@final
class SeparateSupport(Objective):
    """The paper's own training: queries read rows that are drawn and encoded for them.

    The rows of a batch are disjoint from its queries, so no row has to be left out.

    Args:
        support: How many rows, and which.
        label_smoothing: Share of the target spread over the classes of the rows.
    """

    needs_partners = False

    def __init__(self, support: Support, *, label_smoothing: float = 0.0) -> None:
        self.support = support
        self._smoothing = label_smoothing

    def __call__(self, network: nn.Module, batch: Batch) -> StepResult:
        """Read the rows; queries whose class none of them has do not count."""
        if batch.support is None or batch.support_classes is None or not len(batch.support):
            raise ArgumentError("Expected a batch with support rows, but it has none.")
        labels, index = torch.unique(batch.support_classes, return_inverse=True)
        logs = network(batch.inputs, index, len(labels), batch.support)
        wanted = torch.searchsorted(labels, batch.classes).clamp(max=len(labels) - 1)
        is_there = labels[wanted] == batch.classes
        return vote_loss(logs, wanted, self._smoothing, counts=is_there)

    def describe(self) -> str:
        """Name the rows and the smoothing."""
        return f"separate {self.support}, smoothing {self._smoothing}"


def vote_loss(
    logs: Tensor, classes: Tensor, smoothing: float, *, counts: Tensor | None = None
) -> StepResult:
    """Return the mean negative log-likelihood over queries whose class has a row to vote.

    Args:
        logs: Log class probabilities, −inf for classes without rows, (n, classes).
        classes: The true class of each query, (n,).
        smoothing: Share of the target that is spread over the other classes.
        counts: Which queries may count at all, (n,).
    """
    own = logs.gather(1, classes[:, None])[:, 0]
    is_counted = own != -torch.inf  # a NaN is no missing partner: it must reach the loss
    if counts is not None:
        is_counted = is_counted & counts
    loss = smoothed_loss(logs, own, smoothing)[is_counted].sum()
    counted = int(is_counted.sum())
    correct = int((logs.argmax(1) == classes)[is_counted].sum())
    return StepResult(loss / max(1, counted), correct, counted)


@final
class CrossEntropy(Objective):
    """Cross-entropy of a network that returns logits."""

    needs_partners = False

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self._smoothing = label_smoothing

    def __call__(self, network: nn.Module, batch: Batch) -> StepResult:
        """Return the mean cross-entropy of the batch."""
        logits, classes = network(batch.inputs), batch.classes
        loss = F.cross_entropy(logits, classes, label_smoothing=self._smoothing)
        return StepResult(loss, int((logits.argmax(1) == classes).sum()), len(classes))

    def describe(self) -> str:
        """Name the loss and the smoothing."""
        return f"cross-entropy, smoothing {self._smoothing}"


def smoothed_loss(logs: Tensor, own: Tensor, smoothing: float) -> Tensor:
    """Return the negative log-likelihood per query, the target smoothed over classes at hand.

    Args:
        logs: Log-probabilities, −inf for classes without rows, (n, classes).
        own: Log-probability of the true class, (n,).
        smoothing: Share of the target that is spread evenly.
    """
    if not smoothing:
        return -own
    is_live = logs.isfinite()
    spread = torch.where(is_live, logs, 0.0).sum(1) / is_live.sum(1).clamp(min=1)
    return -(1 - smoothing) * own - smoothing * spread
