"""A convolutional network made for two cores."""

from typing import Any, final

from torch import Tensor, nn

from erasable.encoders._base import Encoder, check_images, check_widths


@final
class SmallCNN(Encoder):
    """3×3 convolutions with batch normalisation, halving the image between stages.

    Two convolutions per stage, average pooling at the end: 0.1 to 1 million weights.

    Args:
        input_shape: (channels, height, width) of one image.
        widths: Channels of each stage; the image is halved after each stage while it is larger
            than 3 pixels.
        dim: Size of an embedding.
    """

    name = "small_cnn"

    def __init__(
        self,
        input_shape: tuple[int, ...],
        *,
        widths: tuple[int, ...] = (32, 64, 128),
        dim: int = 128,
    ) -> None:
        super().__init__()
        check_images(self.name, input_shape)
        self._widths, self._dim = tuple(widths), dim
        check_widths("widths", self._widths, dim)
        channels, side = input_shape[0], min(input_shape[1:])
        layers: list[nn.Module] = [nn.BatchNorm2d(channels, affine=False)]
        for width in self._widths:
            for _ in range(2):
                layers += [
                    nn.Conv2d(channels, width, 3, padding=1, bias=False),
                    nn.BatchNorm2d(width),
                    nn.ReLU(inplace=True),
                ]
                channels = width
            if side > 3:
                layers.append(nn.MaxPool2d(2))
                side //= 2
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.output = nn.Linear(channels, dim)

    @property
    def dim(self) -> int:
        """Size of an embedding."""
        return self._dim

    def options(self) -> dict[str, Any]:
        """Return the channels of each stage and the size of an embedding."""
        return {"widths": list(self._widths), "dim": self._dim}

    def forward(self, inputs: Tensor) -> Tensor:
        """Encode images (n, channels, height, width) into (n, dim)."""
        encoded: Tensor = self.output(self.layers(inputs))
        return encoded
