"""What training minimises, for semi-parametric and for parametric networks."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from erasable.fusion import Reduction


@dataclass(frozen=True)
class StepResult:
    """Loss of a step, and how many of how many queries it got right.

    ``counted`` is below the batch size where queries had no partner of their class.
    """

    loss: Tensor
    correct: int
    counted: int


class Objective(ABC):
    """From a network and a batch to a loss."""

    needs_partners: bool

    @abstractmethod
    def __call__(self, network: nn.Module, inputs: Tensor, classes: Tensor) -> StepResult:
        """Return the loss of a batch (n, …) with class indices (n,)."""

    @abstractmethod
    def describe(self) -> str:
        """Name the objective and its settings, for telling runs apart."""


@final
class InBatchMemory(Objective):
    """Each batch is queries and memory at once; every query reads the batch without its own row.

    Args:
        reduction: How the batch is read.
        label_smoothing: Share of the target spread over the classes of the batch.
    """

    needs_partners = True

    def __init__(self, reduction: Reduction, *, label_smoothing: float = 0.0) -> None:
        self._reduction = reduction
        self._smoothing = label_smoothing

    def __call__(self, network: nn.Module, inputs: Tensor, classes: Tensor) -> StepResult:
        """Read the batch as its own memory; queries without a partner do not count."""
        embeddings, readers = network(inputs)
        labels, index = torch.unique(classes, return_inverse=True)
        logs = self._reduction.in_batch(readers, embeddings, index, len(labels))
        own = logs.gather(1, index[:, None])[:, 0]
        has_partner = own != -torch.inf  # a NaN is no missing partner: it must reach the loss
        loss = smoothed_loss(logs, own, self._smoothing)[has_partner].sum()
        counted = int(has_partner.sum())
        correct = int((logs.argmax(1) == index)[has_partner].sum())
        return StepResult(loss / max(1, counted), correct, counted)

    def describe(self) -> str:
        """Name the reduction and the smoothing."""
        return f"in-batch {self._reduction.name}, smoothing {self._smoothing}"


@final
class CrossEntropy(Objective):
    """Cross-entropy of a network that returns logits."""

    needs_partners = False

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self._smoothing = label_smoothing

    def __call__(self, network: nn.Module, inputs: Tensor, classes: Tensor) -> StepResult:
        """Return the mean cross-entropy of the batch."""
        logits = network(inputs)
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
