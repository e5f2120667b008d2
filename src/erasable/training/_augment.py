"""Shift, mirror, cut and blank batches of images on the fly."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from erasable.training._training import Augmentation, Training

_AREA = (0.08, 1.0)
_RATIO = (3 / 4, 4 / 3)


@dataclass(frozen=True)
class Turn:
    """Which rows a batch has, in which epoch: who is mirrored by turns.

    Attributes:
        rows: Place of each image among all, (n,).
        epoch: The epoch, from 0.
        seed: Seed of who is mirrored first.
    """

    rows: Tensor
    epoch: int
    seed: int

    def mirrored(self) -> Tensor:
        """Return which images are mirrored now, (n,)."""
        # A hash of the row, so that neither the number of rows nor their order in a batch counts.
        mixed = (self.rows + self.seed % 2**31) * 2654435761 % 2**32
        return ((mixed >> 16) + self.epoch) % 2 == 1


def augment(
    images: Tensor,
    how: Augmentation | Training,
    generator: torch.Generator,
    *,
    turn: Turn | None = None,
) -> Tensor:
    """Return changed copies of images (n, channels, height, width).

    Anything that is not a batch of images is returned as it is.

    Args:
        images: The images.
        how: What is done; a name is that of `Training.augmentation`, with its other defaults.
        generator: Source of what is random.
        turn: Which rows they are, if they are to be mirrored by turns.
    """
    training = how if isinstance(how, Training) else Training(augmentation=how)
    name = training.augmentation
    if images.ndim != 4:
        return images
    if name in ("flip", "crop_flip"):
        images = _flip(images, training, generator, turn)
    if name in ("crop", "crop_flip"):
        images = _shift(images, training, generator)
    if name == "resized_crop_flip":
        images = _resized(images, generator)
    return _cut_out(images, training.cutout, generator) if training.cutout else images


def _flip(
    images: Tensor, training: Training, generator: torch.Generator, turn: Turn | None
) -> Tensor:
    if training.flips == "turns" and turn is not None:
        is_mirrored = turn.mirrored()
    else:
        is_mirrored = torch.rand(len(images), generator=generator) < 0.5
    return torch.where(is_mirrored[:, None, None, None], images.flip(3), images)


def _shift(images: Tensor, training: Training, generator: torch.Generator) -> Tensor:
    count, _, height, width = images.shape
    reach = training.shift
    if reach is None:
        reach = max(1, min(height, width) // 8)
    else:
        reach = min(reach, min(height, width) // 2)
    if training.edge == "reflect":
        reach = min(reach, height - 1, width - 1)
        padded = F.pad(images, (reach, reach, reach, reach), mode="reflect")
    else:
        padded = F.pad(images, (reach, reach, reach, reach))
    down = torch.randint(0, 2 * reach + 1, (count, 1), generator=generator)
    right = torch.randint(0, 2 * reach + 1, (count, 1), generator=generator)
    rows = (down + torch.arange(height))[:, :, None]
    columns = (right + torch.arange(width))[:, None, :]
    index = torch.arange(count)[:, None, None]
    return padded.permute(0, 2, 3, 1)[index, rows, columns].permute(0, 3, 1, 2)


def _cut_out(images: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """Blank a square that lies anywhere within each image."""
    count, _, height, width = images.shape
    side = min(side, min(height, width) // 2)  # most of an image stays to be seen
    top = torch.randint(0, max(1, height - side + 1), (count, 1), generator=generator)
    left = torch.randint(0, max(1, width - side + 1), (count, 1), generator=generator)
    rows, columns = torch.arange(height), torch.arange(width)
    in_rows = (rows >= top) & (rows < top + side)
    in_columns = (columns >= left) & (columns < left + side)
    blank = in_rows[:, :, None] & in_columns[:, None, :]
    return images.masked_fill(blank[:, None], 0.0)


def _resized(images: Tensor, generator: torch.Generator) -> Tensor:
    """Cut a part of another size and shape out of each image, scale it back, and mirror half."""
    count = len(images)
    low, high = _AREA
    area = low + (high - low) * torch.rand(count, generator=generator)
    logs = torch.tensor(_RATIO).log()
    ratio = (logs[0] + (logs[1] - logs[0]) * torch.rand(count, generator=generator)).exp()
    height, width = (area / ratio).sqrt().clamp(max=1), (area * ratio).sqrt().clamp(max=1)
    top = (1 - height) * (2 * torch.rand(count, generator=generator) - 1)
    left = (1 - width) * (2 * torch.rand(count, generator=generator) - 1)
    sign = torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)
    zero = torch.zeros(count)
    maps = torch.stack(
        [torch.stack([width * sign, zero, left], 1), torch.stack([zero, height, top], 1)], 1
    )
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)
