"""The residual network that most of the literature compares with."""

from typing import Any, Literal, final

from torch import Tensor, nn

from erasable.encoders._base import Encoder, check_images, check_positive
from erasable.errors import ArgumentError

Stem = Literal["auto", "cifar", "imagenet"]

_SMALL = 64  # an image with a shorter side would be nearly gone after the large stem


@final
class ResNet18(Encoder):
    """ResNet-18 (He et al. 2016): four stages of two residual blocks, average pooling at the end.

    Its weights have the names and shapes of torchvision's ``resnet18``, so a state dict made there
    loads here once the entries of ``fc`` are left out (stem ``imagenet``, width 64, dim None). Such
    weights expect inputs standardised as they were trained with; from scratch, inputs need no
    standardising, as the first layer is followed by batch normalisation.

    Args:
        input_shape: (channels, height, width) of one image.
        stem: ``cifar``: a 3×3 convolution at full size. ``imagenet``: 7×7 with stride 2, then max
            pooling with stride 2. ``auto``: ``cifar`` if the shorter side is below 64 pixels.
        width: Channels of the first stage; they double with each of the other three.
        dim: Size of an embedding, by one more linear layer; None for the pooled 8·width channels.
    """

    name = "resnet18"

    def __init__(
        self,
        input_shape: tuple[int, ...],
        *,
        stem: Stem = "auto",
        width: int = 64,
        dim: int | None = None,
    ) -> None:
        super().__init__()
        check_images(self.name, input_shape)
        check_positive("width", width)
        if dim is not None:
            check_positive("dim", dim)
        self._stem, self._width, self._linear_dim = _resolve(stem, input_shape), width, dim
        is_large = self._stem == "imagenet"
        self.conv1 = _conv(input_shape[0], width, 7 if is_large else 3, stride=1 + is_large)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if is_large else nn.Identity()
        self.layer1 = _stage(width, width, stride=1)
        self.layer2 = _stage(width, 2 * width, stride=2)
        self.layer3 = _stage(2 * width, 4 * width, stride=2)
        self.layer4 = _stage(4 * width, 8 * width, stride=2)
        self.output = nn.Identity() if dim is None else nn.Linear(8 * width, dim)

    @property
    def dim(self) -> int:
        """Size of an embedding."""
        return 8 * self._width if self._linear_dim is None else self._linear_dim

    def options(self) -> dict[str, Any]:
        """Return the stem that was chosen, the first stage's channels, and the linear layer's."""
        return {"stem": self._stem, "width": self._width, "dim": self._linear_dim}

    def forward(self, inputs: Tensor) -> Tensor:
        """Encode images (n, channels, height, width) into (n, dim)."""
        images = self.maxpool(self.relu(self.bn1(self.conv1(inputs))))
        images = self.layer4(self.layer3(self.layer2(self.layer1(images))))
        encoded: Tensor = self.output(images.mean((2, 3)))
        return encoded


@final
class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut.

    The last batch normalisation starts at one, not at zero as Goyal et al. (2017) propose: with
    zeros an untrained network would be little more than its shortcuts, and untrained encoders are
    used here, too.
    """

    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(channels, width, 3, stride=stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _conv(width, width, 3, stride=1)
        self.bn2 = nn.BatchNorm2d(width)
        # Not one 1×1 convolution with a stride: for fewer than 16 channels its gradient corrupts
        # memory on CPUs (uxlfoundation/oneDNN#6035). Subsampling first computes the same.
        self.subsample = nn.Identity() if stride == 1 else nn.AvgPool2d(1, stride)
        self.downsample = (
            nn.Identity()
            if stride == 1 and channels == width
            else nn.Sequential(_conv(channels, width, 1, stride=1), nn.BatchNorm2d(width))
        )

    def forward(self, images: Tensor) -> Tensor:
        """Map images (n, channels, height, width) to (n, width, height/stride, width/stride)."""
        branch = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(images)))))
        merged: Tensor = self.relu(branch + self.downsample(self.subsample(images)))
        return merged


def _stage(channels: int, width: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(
        BasicBlock(channels, width, stride=stride), BasicBlock(width, width, stride=1)
    )


def _conv(channels: int, width: int, kernel: int, *, stride: int) -> nn.Conv2d:
    conv = nn.Conv2d(channels, width, kernel, stride=stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


def _resolve(stem: Stem, input_shape: tuple[int, ...]) -> Stem:
    if stem not in ("auto", "cifar", "imagenet"):
        raise ArgumentError(f"Expected stem 'auto', 'cifar' or 'imagenet', but got {stem!r}.")
    if stem != "auto":
        return stem
    return "cifar" if min(input_shape[1:]) < _SMALL else "imagenet"
