"""A convolutional network that learns in few passes."""

import math
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from erasable.encoders._base import Encoder, check_images, check_positive
from erasable.errors import ArgumentError, listing

_WIDTHS = (64, 256, 256)
STEMS = ("drawn", "whitened")
_WHITENED_PIXELS = 5000 * 32 * 32
_AT_ONCE = 250
_SMALLEST = 5e-4
"""What is added to a variance before it is divided by: patches hardly vary in some directions."""
_MOMENTUM = 0.4
"""How much of a running statistic one batch replaces, in a network that is trained in few steps."""


@final
class FastCNN(Encoder):
    """2×2 convolutions, then three blocks that shrink the image early; GELU throughout.

    After the networks of airbench (Jordan 2024), which were made to learn CIFAR-10 in seconds.

    Args:
        input_shape: (channels, height, width) of one image.
        width: Factor on the channels of the blocks; the default suits two cores.
        dim: Size of an embedding, by one more linear layer; None for the last block's channels.
        stem: ``drawn``: the first layer is drawn at random like all others, so a network that was
            not trained knows nothing of any row. ``whitened``: as published, the first layer is
            computed from the rows before they are trained on, and stays; normalisation layers then
            have no scale, and follow their batches faster.
        widths: Channels of the blocks, before the factor.
        depth: Convolutions per block, 2 or 3; the third is added to what comes before it.
    """

    name = "fast_cnn"

    def __init__(
        self,
        input_shape: tuple[int, ...],
        *,
        width: float = 0.5,
        dim: int | None = None,
        stem: str = "drawn",
        widths: Sequence[int] = _WIDTHS,
        depth: int = 2,
    ) -> None:
        super().__init__()
        check_images(self.name, input_shape)
        if not isinstance(width, (int, float)) or not 0 < width < math.inf:
            raise ArgumentError(f"Expected width to be a factor above 0, but got {width!r}.")
        if dim is not None:
            check_positive("dim", dim)
        if stem not in STEMS:
            raise ArgumentError(f"Expected stem to be {listing(STEMS)}, but got {stem!r}.")
        if not isinstance(widths, Sequence) or not widths:
            raise ArgumentError(f"Expected widths of one block or more, but got {widths!r}.")
        for one in widths:
            check_positive("widths", one)
        if depth not in (2, 3):
            raise ArgumentError(f"Expected depth to be 2 or 3, but got {depth!r}.")
        self._width, self._linear_dim, self._stem = width, dim, stem
        self._widths, self._depth = tuple(widths), depth
        channels, *sides = input_shape
        kernel = (min(2, sides[0]), min(2, sides[1]))
        first = 2 * channels * math.prod(kernel)  # twice the values of a patch, for both signs
        is_fixed = stem == "whitened"
        layers: list[nn.Module] = [
            nn.BatchNorm2d(channels, affine=False),
            nn.Conv2d(channels, first, kernel),
            nn.GELU(),
        ]
        channels, side = first, max(1, min(sides) - 1)
        for block in (max(1, round(width * base)) for base in self._widths):
            layers += _block(channels, block, depth, is_pooled=side > 3, is_fixed=is_fixed)
            channels, side = block, side // 2 if side > 3 else side
        self.layers = nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten())
        self.output = nn.Identity() if dim is None else nn.Linear(channels, dim)
        self._dim = channels if dim is None else dim
        self._rows_needed = 0
        if is_fixed:
            self._first.weight.requires_grad_(False)
            self._rows_needed = max(_AT_ONCE, _WHITENED_PIXELS // math.prod(sides))

    @property
    def dim(self) -> int:
        """Size of an embedding."""
        return self._dim

    @property
    def _first(self) -> nn.Conv2d:
        layer = self.layers[1]
        assert isinstance(layer, nn.Conv2d)  # noqa: S101 - as built
        return layer

    @property
    def rows_needed(self) -> int:
        """How many rows a whitened first layer is computed from."""
        return self._rows_needed

    def options(self) -> dict[str, Any]:
        """Return what the network is built with."""
        return {
            "width": self._width,
            "dim": self._linear_dim,
            "stem": self._stem,
            "widths": list(self._widths),
            "depth": self._depth,
        }

    def prepare(self, inputs: Tensor) -> None:
        """Compute the first layer from patches of rows, if it is to be whitened.

        Its outputs are then uncorrelated, of variance one, and come with both signs.
        """
        if not self.rows_needed:
            return
        images = inputs.float()
        spread, mean = torch.var_mean(images, dim=(0, 2, 3), keepdim=True)
        height, width = self._first.kernel_size
        moments, count = torch.zeros(()).double(), 0
        for start in range(0, len(images), _AT_ONCE):
            part = images[start : start + _AT_ONCE]
            normal = (part - mean) / (spread + 1e-5).sqrt()  # as the layer before does
            patches = normal.unfold(2, height, 1).unfold(3, width, 1)
            flat = patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(0, 2).double()
            moments, count = moments + flat.T @ flat, count + len(flat)
        values, vectors = torch.linalg.eigh(moments / count)
        whitening = (vectors / (values + _SMALLEST).sqrt()).T.float()
        kernels = whitening.reshape(-1, *self._first.weight.shape[1:])
        with torch.no_grad():
            self._first.weight.copy_(torch.cat([kernels, -kernels]))
            nn.init.zeros_(self._first.bias)  # type: ignore[arg-type]  # it has one

    def forward(self, inputs: Tensor) -> Tensor:
        """Encode images (n, channels, height, width) into (n, dim)."""
        encoded: Tensor = self.output(self.layers(inputs))
        return encoded


class _Added(nn.Sequential):
    """Layers whose output is added to their input."""

    def forward(self, inputs: Tensor) -> Tensor:
        found = inputs
        for layer in self:
            found = layer(found)
        return inputs + found


def _block(
    channels: int, width: int, depth: int, *, is_pooled: bool, is_fixed: bool
) -> list[nn.Module]:
    """Return two or three convolutions; pooling before the first norm spares the others work."""
    kind = {"is_fixed": is_fixed}
    layers = [
        _conv(channels, width, **kind),
        *([nn.MaxPool2d(2)] if is_pooled else []),
        _norm(width, **kind),
        nn.GELU(),
        _conv(width, width, **kind),
        _norm(width, **kind),
        nn.GELU(),
    ]
    if depth == 3:
        layers += [_Added(_conv(width, width, **kind), _norm(width, **kind)), nn.GELU()]
    return layers


def _norm(width: int, *, is_fixed: bool) -> nn.BatchNorm2d:
    if not is_fixed:
        return nn.BatchNorm2d(width)
    norm = nn.BatchNorm2d(width, momentum=_MOMENTUM)
    norm.weight.requires_grad_(False)
    return norm


def _conv(channels: int, width: int, *, is_fixed: bool) -> nn.Conv2d:
    """Return a 3×3 convolution whose first outputs repeat its inputs, so that depth costs less.

    The other outputs are drawn large enough that untrained embeddings do not vanish; smaller, as
    published, where the network is always trained.
    """
    conv = nn.Conv2d(channels, width, 3, padding=1, bias=False)
    if not is_fixed:
        nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
    with torch.no_grad():
        nn.init.dirac_(conv.weight[:channels])
    return conv
