"""Class form of the Fréchet distance: features come in batches, moments are kept."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from erasable.errors import ArgumentError, StateError
from erasable.metrics.functional._convert import Array, as_numpy
from erasable.metrics.functional._frechet import gaussian_distance


class FrechetDistance(Metric):
    """Accumulate `frechet_distance` over batches of two sets of features.

    Range 0 to infinity, lower is better, and 0 for equal sets. Sums are kept in float64.

    Args:
        dim: Size of the features.
        **options: Those of `torchmetrics.Metric`.

    Examples:
        >>> import torch
        >>> features = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
        >>> metric = FrechetDistance(3)
        >>> metric.update(features, is_first=True)
        >>> metric.update(features + 1, is_first=False)
        >>> round(metric.compute().item(), 4)
        3.0
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    def __init__(self, dim: int, **options: Any) -> None:
        super().__init__(**options)
        self.dim = dim
        for name in ("first", "second"):
            total = torch.zeros(dim, dtype=torch.float64)
            square = torch.zeros(dim, dim, dtype=torch.float64)
            self.add_state(f"{name}_sum", total, dist_reduce_fx="sum")
            self.add_state(f"{name}_square", square, dist_reduce_fx="sum")
            self.add_state(
                f"{name}_count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum"
            )

    def update(self, features: Array, *, is_first: bool) -> None:
        """Add a batch of features.

        Args:
            features: (n, dim).
            is_first: Which of the two sets they belong to.

        Raises:
            ArgumentError: If they are malformed; the metric is then unchanged.
        """
        found = as_numpy(features)
        if found is None or found.ndim != 2 or found.shape[1] != self.dim:
            shape = getattr(features, "shape", type(features).__name__)
            raise ArgumentError(
                f"FrechetDistance.update(): Expected features (n, {self.dim}), but got {shape}."
            )
        if not np.isfinite(found).all():
            raise ArgumentError(
                "FrechetDistance.update(): Expected finite features, but got NaN or infinity."
            )
        values = torch.from_numpy(found).double().to(self.device)
        name = "first" if is_first else "second"
        for part, more in (
            ("sum", values.sum(dim=0)),
            ("square", values.T @ values),
            ("count", len(values)),
        ):
            setattr(self, f"{name}_{part}", getattr(self, f"{name}_{part}") + more)

    def compute(self) -> Tensor:
        """Return the distance of all features so far, a float64 scalar.

        Raises:
            StateError: If a set has fewer than two features.
        """
        moments = [self._moments(name) for name in ("first", "second")]
        (mean, covariance), (other, other_covariance) = moments
        distance = gaussian_distance(
            mean.numpy(), covariance.numpy(), other.numpy(), other_covariance.numpy()
        )
        return torch.tensor(distance, dtype=torch.float64)

    def _moments(self, name: str) -> tuple[Tensor, Tensor]:
        count = int(getattr(self, f"{name}_count"))
        if count < 2:
            raise StateError(
                f"FrechetDistance.compute(): Expected at least two features of the {name} set, but "
                f"got {count}. Call update() first."
            )
        mean = (getattr(self, f"{name}_sum") / count).cpu()
        square = getattr(self, f"{name}_square").cpu()
        return mean, (square - count * torch.outer(mean, mean)) / (count - 1)
