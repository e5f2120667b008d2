"""A convolutional network that learns in few passes."""

import math
from typing import Any, final

import torch
from torch import Tensor, nn

from erasable.encoders._base import Encoder, check_images, check_positive
from erasable.errors import ArgumentError, listing

_WIDTHS = (64, 256, 256)
PRECISIONS = ("float32", "bfloat16")


@final
class FastCNN(Encoder):
    """2×2 convolutions, then three blocks that shrink the image early; GELU throughout.

    After the network of airbench (Jordan 2024), which was made to learn CIFAR-10 in seconds. Its
    first layer, however, is drawn at random like all others, not computed from the rows: a network
    that was not trained knows nothing of any row.

    Args:
        input_shape: (channels, height, width) of one image.
        width: Factor on the channels (64, 256, 256) of the blocks; the default suits two cores.
        dim: Size of an embedding, by one more linear layer; None for the last block's channels.
        precision: ``float32``; ``bfloat16``: convolve in half precision while training, which is
            faster on processors made for it and slower on others. Weights, and everything outside
            of training, stay in float32.
    """

    name = "fast_cnn"

    def __init__(
        self,
        input_shape: tuple[int, ...],
        *,
        width: float = 0.5,
        dim: int | None = None,
        precision: str = "float32",
    ) -> None:
        super().__init__()
        check_images(self.name, input_shape)
        if not isinstance(width, (int, float)) or not 0 < width < math.inf:
            raise ArgumentError(f"Expected width to be a factor above 0, but got {width!r}.")
        if dim is not None:
            check_positive("dim", dim)
        if precision not in PRECISIONS:
            known = listing(PRECISIONS)
            raise ArgumentError(f"Expected precision to be {known}, but got {precision!r}.")
        self._width, self._linear_dim, self._precision = width, dim, precision
        channels, *sides = input_shape
        kernel = (min(2, sides[0]), min(2, sides[1]))
        stem = 2 * channels * math.prod(kernel)  # twice the values of a patch, for both signs
        layers: list[nn.Module] = [
            nn.BatchNorm2d(channels, affine=False),
            nn.Conv2d(channels, stem, kernel),
            nn.GELU(),
        ]
        channels, side = stem, max(1, min(sides) - 1)
        for block in (max(1, round(width * base)) for base in _WIDTHS):
            layers += _block(channels, block, is_pooled=side > 3)
            channels, side = block, side // 2 if side > 3 else side
        self.layers = nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten())
        self.output = nn.Identity() if dim is None else nn.Linear(channels, dim)
        self._dim = channels if dim is None else dim

    @property
    def dim(self) -> int:
        """Size of an embedding."""
        return self._dim

    def options(self) -> dict[str, Any]:
        """Return the factor on the channels, the size of the linear layer, and the precision."""
        return {"width": self._width, "dim": self._linear_dim, "precision": self._precision}

    def extra_repr(self) -> str:
        """Name the precision, which no layer shows: a training must not go on in another one."""
        return "" if self._precision == "float32" else f"precision={self._precision}"

    def forward(self, inputs: Tensor) -> Tensor:
        """Encode images (n, channels, height, width) into (n, dim)."""
        encoded: Tensor
        if not self.training or self._precision == "float32":
            encoded = self.output(self.layers(inputs))
            return encoded
        with torch.autocast(inputs.device.type, torch.bfloat16):
            encoded = self.output(self.layers(inputs))
        return encoded.float()


def _block(channels: int, width: int, *, is_pooled: bool) -> list[nn.Module]:
    """Return two convolutions; pooling before the first normalisation spares the others work."""
    return [
        _conv(channels, width),
        *([nn.MaxPool2d(2)] if is_pooled else []),
        nn.BatchNorm2d(width),
        nn.GELU(),
        _conv(width, width),
        nn.BatchNorm2d(width),
        nn.GELU(),
    ]


def _conv(channels: int, width: int) -> nn.Conv2d:
    """Return a 3×3 convolution whose first outputs repeat its inputs, so that depth costs less.

    The other outputs are drawn large enough that untrained embeddings do not vanish.
    """
    conv = nn.Conv2d(channels, width, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
    with torch.no_grad():
        nn.init.dirac_(conv.weight[:channels])
    return conv
