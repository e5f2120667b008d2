"""Shift and mirror batches of images on the fly."""

import torch
import torch.nn.functional as F
from torch import Tensor

from erasable.training._config import Augmentation


def augment(images: Tensor, how: Augmentation, generator: torch.Generator) -> Tensor:
    """Return randomly shifted, or mirrored, copies of images (n, channels, height, width).

    Shifts are up to an eighth of the shorter side in each direction, at least one pixel; the edge
    is filled with zeros. Anything that is not a batch of images is returned as it is.
    """
    if how == "none" or images.ndim != 4:
        return images
    if how in ("flip", "crop_flip"):
        is_mirrored = torch.rand(len(images), generator=generator) < 0.5
        images = torch.where(is_mirrored[:, None, None, None], images.flip(3), images)
    return images if how == "flip" else _shift(images, generator)


def _shift(images: Tensor, generator: torch.Generator) -> Tensor:
    count, _, height, width = images.shape
    reach = max(1, min(height, width) // 8)
    padded = F.pad(images, (reach, reach, reach, reach))
    down = torch.randint(0, 2 * reach + 1, (count, 1), generator=generator)
    right = torch.randint(0, 2 * reach + 1, (count, 1), generator=generator)
    rows = (down + torch.arange(height))[:, :, None]
    columns = (right + torch.arange(width))[:, None, :]
    index = torch.arange(count)[:, None, None]
    return padded.permute(0, 2, 3, 1)[index, rows, columns].permute(0, 3, 1, 2)
