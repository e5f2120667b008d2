"""Encoders of feature vectors: none at all, random features, a multi-layer perceptron."""

import math
from typing import Any, final

import torch
from torch import Tensor, nn

from erasable.encoders._base import Encoder, check_widths
from erasable.errors import ArgumentError


@final
class Identity(Encoder):
    """The input, flattened, is the embedding: nothing is learnt, so nothing is kept."""

    name = "identity"
    is_precise = True

    def __init__(self, input_shape: tuple[int, ...]) -> None:
        super().__init__()
        self._dim = math.prod(input_shape)

    @property
    def dim(self) -> int:
        """Number of values in an input."""
        return self._dim

    def options(self) -> dict[str, Any]:
        """Return no options: there are none."""
        return {}

    def forward(self, inputs: Tensor) -> Tensor:
        """Flatten inputs (n, …) to (n, dim)."""
        return inputs.flatten(1)


@final
class RandomFeatures(Encoder):
    """Random Fourier features: dot products approximate the kernel ``exp(−gamma ‖x − x'‖²)``.

    The weights are drawn, never trained, so they know nothing of any row. ``√2 cos`` features have
    mean square one, like a layer-normalised embedding.

    Args:
        input_shape: Shape of one input.
        dim: Number of features.
        gamma: Inverse squared width of the kernel; 1/number of inputs if not given.
    """

    name = "random_features"
    is_precise = True

    def __init__(
        self, input_shape: tuple[int, ...], *, dim: int = 1024, gamma: float | None = None
    ) -> None:
        super().__init__()
        size = math.prod(input_shape)
        self._dim = dim
        self._gamma = 1 / size if gamma is None else float(gamma)
        if self._dim < 1 or not 0 < self._gamma < math.inf:
            raise ArgumentError(f"Expected dim ≥ 1 and gamma > 0, but got {dim} and {gamma}.")
        self.register_buffer("directions", torch.randn(size, dim) * math.sqrt(2 * self._gamma))
        self.register_buffer("phases", torch.rand(dim) * 2 * math.pi)

    @property
    def dim(self) -> int:
        """Number of features."""
        return self._dim

    def options(self) -> dict[str, Any]:
        """Return the number of features and the kernel's width."""
        return {"dim": self._dim, "gamma": self._gamma}

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, …) to features (n, dim)."""
        angles = inputs.flatten(1) @ self.get_buffer("directions") + self.get_buffer("phases")
        return math.sqrt(2) * torch.cos(angles)


@final
class MLP(Encoder):
    """Standardise the inputs, then fully connected layers with ReLU.

    Args:
        input_shape: Shape of one input.
        hidden: Widths of the hidden layers.
        dim: Size of an embedding.
    """

    name = "mlp"
    is_precise = True

    def __init__(
        self, input_shape: tuple[int, ...], *, hidden: tuple[int, ...] = (256,), dim: int = 128
    ) -> None:
        super().__init__()
        self._hidden, self._dim = tuple(hidden), dim
        check_widths("hidden", self._hidden, dim)
        size = math.prod(input_shape)
        layers: list[nn.Module] = [nn.Flatten(), nn.BatchNorm1d(size, affine=False)]
        for width in self._hidden:
            layers += [nn.Linear(size, width), nn.ReLU()]
            size = width
        self.layers = nn.Sequential(*layers, nn.Linear(size, dim))

    @property
    def dim(self) -> int:
        """Size of an embedding."""
        return self._dim

    def options(self) -> dict[str, Any]:
        """Return the widths of the layers."""
        return {"hidden": list(self._hidden), "dim": self._dim}

    def forward(self, inputs: Tensor) -> Tensor:
        """Encode inputs (n, …) into (n, dim)."""
        encoded: Tensor = self.layers(inputs)
        return encoded
