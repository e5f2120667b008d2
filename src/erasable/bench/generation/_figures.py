"""Pictures of what generators draw."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from erasable.bench._document import Picture
from erasable.bench._figures import as_png, pyplot
from erasable.bench.generation._strips import from_strip
from erasable.bench.generation._words import row_title
from erasable.typing import Label

if TYPE_CHECKING:
    from erasable.bench._runs import Run
    from erasable.bench.generation._drawings import Drawings
    from erasable.bench.generation._forgetting import Forgetting
    from erasable.bench.generation._generators import Bytes, Generators


def image_grid(
    rows: Sequence[tuple[str, npt.NDArray[Any]]],
    columns: Sequence[str],
    *,
    frames: Sequence[Sequence[str | None]] | None = None,
) -> bytes:
    """Draw rows of images under the names of their columns, as PNG.

    Args:
        rows: A name and images (columns, channels, height, width) of bytes, per row.
        columns: A name per column.
        frames: Per row and column the colour of a frame, or None.
    """
    plt = pyplot()
    longest = max(len(name) for name, _ in rows)
    width, height = 0.62 * len(columns) + 0.065 * longest + 0.5, 0.62 * len(rows) + 0.4
    figure, axes = plt.subplots(
        len(rows), len(columns), figsize=(width, height), squeeze=False, layout="constrained"
    )
    for line, (name, images) in enumerate(rows):
        for place, image in enumerate(images):
            axis = axes[line][place]
            shown = image[0] if image.shape[0] == 1 else image.transpose(1, 2, 0)
            axis.imshow(shown, cmap="gray", vmin=0, vmax=255)
            axis.set_xticks([])
            axis.set_yticks([])
            colour = frames[line][place] if frames is not None else None
            for edge in axis.spines.values():
                edge.set_visible(colour is not None)
                edge.set_color(colour or "white")
                edge.set_linewidth(2.5)
            if line == 0:
                axis.set_title(columns[place], fontsize=8)
        axes[line][0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    is_coloured = rows[0][1].shape[1] == 3
    return as_png(figure, dpi=100 if is_coloured else 130)  # colours take three times the room


def first_of_each(drawings: "Drawings", images: "Bytes", count: int = 1) -> Any:
    """Return the first images of each class, class by class."""
    size, classes = drawings.per_class, drawings.generators.classes
    return images[[c * size + i for i in range(count) for c in range(len(classes))]]


def standard_pictures(classes: Sequence[Label], runs: "dict[str, Run]") -> list[Picture]:
    """Return what each generator draws, from the same noise.

    Args:
        classes: All classes.
        runs: A run of each generator, by its name.
    """

    def draw() -> bytes:
        rows = [(name, _first(run, classes)) for name, run in runs.items()]
        return image_grid(rows, [str(label) for label in classes])

    caption = "One image per class of each model; networks draw from the same noise."
    return [Picture("samples", caption, draw)]


def forgetting_pictures(classes: Sequence[Label], made: "Forgetting") -> list[Picture]:
    """Return what models draw after forgetting each of some classes, one picture each.

    Args:
        classes: All classes.
        made: What was measured.
    """
    return [_after(classes, made, label, place) for place, label in enumerate(made.labels)]


def _after(classes: Sequence[Label], made: "Forgetting", label: Label, place: int) -> Picture:
    def draw() -> bytes:
        rows = [
            (row_title(*row), _first(by_label[label][0], classes))
            for row, by_label in made.runs.items()
            if by_label.get(label)
        ]
        own = classes.index(label)
        frames = [["#c53030" if column == own else None for column in range(len(classes))]]
        return image_grid(rows, [str(one) for one in classes], frames=frames * len(rows))

    caption = (
        f"One image per class after forgetting {label!r} (red frame), from the same noise; oracles "
        "from noise of their own."
    )
    return Picture(f"samples-{place}", caption, draw)


def _first(run: "Run", classes: Sequence[Label]) -> "Bytes":
    """Return the image of each class that was kept with a run."""
    return from_strip(run.result["first"], len(classes))


def before_and_after(generators: "Generators", seed: int, *, per_class: int = 1) -> bytes:
    """Draw the paper's picture: before, without the first half of the classes, without the rest.

    Red frames: the class is forgotten. Blue: it is not, and the image is the same to the pixel.

    Args:
        generators: Makes and keeps models.
        seed: Seed of the original.
        per_class: Images per class and setting.
    """
    import torch

    classes = generators.classes
    half = len(classes) // 2
    asked = [label for _ in range(per_class) for label in classes]
    rows, frames = [], []
    before: Any = None
    for name, gone in (
        ("all rows", []),
        (f"{classes[0]}–{classes[half - 1]} forgotten", classes[:half]),
        (f"{classes[half]}–{classes[-1]} forgotten", classes[half:]),
    ):
        model = generators.fresh("spm", seed)
        options = {}
        if gone:
            model.forget(classes=gone)
            options = {"stand_in": next(label for label in classes if label not in gone)}
        generator = torch.Generator().manual_seed(7)
        images = np.round(model.sample(asked, generator=generator, **options) * 255)
        before = images if before is None else before
        for line in range(per_class):
            part = slice(line * len(classes), (line + 1) * len(classes))
            rows.append((name if line == 0 else "", images[part].astype(np.uint8)))
            same = [bool((a == b).all()) for a, b in zip(images[part], before[part], strict=True)]
            frames.append(
                [
                    ("#c53030" if label in gone else "#2b6cb0" if is_same else None)
                    if gone
                    else None
                    for label, is_same in zip(classes, same, strict=True)
                ]
            )
    return image_grid(rows, [str(label) for label in classes], frames=frames)
