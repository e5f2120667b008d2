"""Several views of an image at prediction: its mirror image, and both of them shifted."""

from typing import final

import torch.nn.functional as F
from torch import Tensor, nn

from erasable.errors import ArgumentError, listing

_BOTH = (False, True)
VIEWS: dict[str, tuple[tuple[bool, int, float], ...]] = {
    "one": ((False, 0, 1.0),),
    "mirror": tuple((is_mirrored, 0, 0.5) for is_mirrored in _BOTH),
    "six": (
        *((is_mirrored, 0, 0.25) for is_mirrored in _BOTH),
        *((is_mirrored, shift, 0.125) for is_mirrored in _BOTH for shift in (-1, 1)),
    ),
}
"""By name: whether each view is mirrored, by how many pixels it is shifted, and its weight."""


def require_views(name: str, input_shape: tuple[int, ...]) -> None:
    """Refuse views that nobody knows, and views of what is no image."""
    if not isinstance(name, str) or name not in VIEWS:
        raise ArgumentError(f"Expected views to be {listing(VIEWS)}, but got {name!r}.")
    if name != "one" and len(input_shape) != 3:
        raise ArgumentError(
            f"Expected images with views={name!r}, but got inputs of shape {input_shape}."
        )
    if name == "six" and min(input_shape[1:]) < 2:
        raise ArgumentError(
            f"Expected images of at least 2 × 2 pixels with views='six', but got {input_shape}."
        )


def viewed(network: nn.Module, views: str) -> nn.Module:
    """Return a network whose output is the weighted mean of its outputs over views of an image.

    Where what follows is linear in the output, as a linear head or scores of class means are, that
    is the mean of the logits.

    Args:
        network: The network.
        views: ``one``, ``mirror`` or ``six``.
    """
    return network if views == "one" else _Viewed(network, views)


@final
class _Viewed(nn.Module):
    def __init__(self, network: nn.Module, views: str) -> None:
        super().__init__()
        self.network = network
        self._views = VIEWS[views]

    def forward(self, images: Tensor) -> Tensor:
        """Return the mean over views of images (n, channels, height, width)."""
        parts = [
            weight * self.network(_seen(images, is_mirrored=is_mirrored, shift=shift))
            for is_mirrored, shift, weight in self._views
        ]
        mean: Tensor = sum(parts[1:], parts[0])
        return mean


def _seen(images: Tensor, *, is_mirrored: bool, shift: int) -> Tensor:
    """Return images shifted down and right by some pixels, and mirrored."""
    if shift:
        height, width = images.shape[2:]
        padded = F.pad(images, (1, 1, 1, 1), mode="reflect")
        images = padded[:, :, 1 - shift : 1 - shift + height, 1 - shift : 1 - shift + width]
    return images.flip(3) if is_mirrored else images
