"""The paper's picture of the method: what a request reads, before and after deletion."""

from typing import Any

import numpy as np
import torch

from erasable.bench._figures import as_png, pyplot
from erasable.models import SPMGenerator
from erasable.typing import Label

_SHOWN = 4
_BOX = {"boxstyle": "round,pad=0.35", "linewidth": 1.2}


def pipeline_picture(
    model: SPMGenerator, pictures: dict[Any, Any], label: Label, *, seed: int = 7
) -> bytes:
    """Draw two requests for a class: with its rows, and after they were forgotten.

    Args:
        model: A generator; its rows of the class are forgotten on the way.
        pictures: Image (channels, height, width) of bytes by id of a row.
        label: The class.
        seed: Seed of the noise.
    """
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(10.5, 4.6), layout="constrained")
    axis.set_xlim(0, 10.5)
    axis.set_ylim(0, 4.6)
    axis.axis("off")
    first = next(other for other in model.memory.classes if other != label)
    noise = torch.randn((1, *model.input_shape_), generator=torch.Generator().manual_seed(seed))
    for height, title, stand_in in (
        (3.35, f"asked for {label!r}", None),
        (1.05, f"asked for {label!r} after its rows were forgotten", first),
    ):
        if stand_in is not None:
            model.forget(classes=[label])
        reading = model.reading([label], stand_in=stand_in, rows_per_class=model.rows_per_class)
        ids = [model.memory.record(int(place)).id for place in reading.rows[:_SHOWN]]
        drawn = model.sample(
            label, generator=torch.Generator().manual_seed(seed), stand_in=stand_in
        )
        _line(axis, height, title, _bytes(noise[0].numpy() / 6 + 0.5), _bytes(drawn[0]))
        for place, row_id in enumerate(ids):
            _image(axis, pictures[row_id], 3.05 + 0.62 * place, height - 1.02, 0.5)
        source = f"rows of {label if stand_in is None else stand_in!r}"
        axis.text(2.9, height - 0.85, f"memory: {source}", fontsize=8, color="#2b6cb0", ha="right")
    return as_png(figure)


def _line(axis: Any, height: float, title: str, noise: Any, drawn: Any) -> None:
    axis.text(0.1, height + 0.75, title, fontsize=10, weight="bold")
    _image(axis, noise, 0.2, height - 0.35, 0.8)
    _image(axis, drawn, 9.4, height - 0.35, 0.8)
    for left, text, colour in (
        (2.1, "f: down blocks", "#718096"),
        (4.75, "g: patches read rows", "#2b6cb0"),
        (7.55, "f: up blocks", "#718096"),
    ):
        axis.text(
            left,
            height + 0.05,
            text,
            ha="center",
            va="center",
            fontsize=9,
            color=colour,
            bbox={**_BOX, "facecolor": "white", "edgecolor": colour},
        )
    for start, stop in ((1.05, 1.35), (2.9, 3.75), (5.8, 6.85), (8.3, 9.35)):
        _arrow(axis, (start, height + 0.05), (stop, height + 0.05))
    _arrow(axis, (4.75, height - 0.5), (4.75, height - 0.2))
    axis.text(5.65, height - 0.85, "h: the same down blocks,\n   once per row", fontsize=8)


def _arrow(axis: Any, start: tuple[float, float], stop: tuple[float, float]) -> None:
    axis.annotate("", xy=stop, xytext=start, arrowprops={"arrowstyle": "->", "color": "#4a5568"})


def _image(axis: Any, image: Any, left: float, bottom: float, size: float) -> None:
    shown = image[0] if image.shape[0] == 1 else image.transpose(1, 2, 0)
    axis.imshow(
        shown,
        cmap="gray",
        vmin=0,
        vmax=255,
        extent=(left, left + size, bottom, bottom + size),
        interpolation="nearest",
        aspect="auto",
        zorder=2,
    )


def _bytes(image: Any) -> Any:
    return np.round(image.clip(0, 1) * 255).astype(np.uint8)
