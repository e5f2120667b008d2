"""A picture of the rows, and which of their patches, that images were drawn from."""

from typing import Any

import numpy as np

from erasable.bench._figures import as_png, pyplot
from erasable.models import PatchVotes

_ROW = "#2b6cb0"


def votes_picture(images: Any, votes: PatchVotes, pictures: dict[Any, Any]) -> bytes:
    """Draw each image beside its heaviest rows; patches are the bluer the more they were read.

    Args:
        images: What was drawn, (n, channels, height, width) from 0 to 1.
        votes: The rows behind them.
        pictures: Image (channels, height, width) of bytes by id of a row.
    """
    plt = pyplot()
    count, top = votes.weights.shape
    figure, axes = plt.subplots(
        count,
        top + 1,
        figsize=(0.95 * (top + 1) + 0.6, 1.3 * count + 0.3),
        squeeze=False,
        layout="constrained",
    )
    for line, image in enumerate(images):
        _show(axes[line][0], np.round(image * 255))
        axes[line][0].set_title("drawn" if line == 0 else "", fontsize=8)
        axes[line][0].set_xlabel(f"others {100 * votes.rest[line]:.0f} %", fontsize=7)
        for rank in range(top):
            axis, row_id = axes[line][rank + 1], votes.ids[line, rank]
            if row_id is None:
                axis.axis("off")
                continue
            _show(axis, pictures[row_id])
            _veil(axis, votes.patches[line, rank], pictures[row_id].shape[1:])
            share = 100 * votes.weights[line, rank]
            axis.set_xlabel(f"{row_id}\n{share:.1f} %", fontsize=6, color=_ROW)
            if line == 0:
                axis.set_title(f"row {rank + 1}", fontsize=8)
    return as_png(figure)


def _show(axis: Any, image: Any) -> None:
    shown = image[0] if image.shape[0] == 1 else image.transpose(1, 2, 0)
    axis.imshow(shown.astype(np.uint8), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])


def _veil(axis: Any, patches: Any, size: tuple[int, int]) -> None:
    """Colour patches by how much they were read."""
    share = patches / patches.max() if patches.max() > 0 else patches
    extent = (-0.5, size[1] - 0.5, size[0] - 0.5, -0.5)
    veil = np.zeros((*patches.shape, 4))
    veil[..., :3] = (0.17, 0.42, 0.69)
    veil[..., 3] = 0.55 * share
    axis.imshow(veil, extent=extent, interpolation="nearest")
