"""Pictures of what generators draw."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from erasable.bench._document import Picture
from erasable.bench._figures import as_png, pyplot
from erasable.errors import ErasableError
from erasable.typing import Label

if TYPE_CHECKING:
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
    width, height = 0.62 * len(columns) + 1.6, 0.62 * len(rows) + 0.4
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
    return as_png(figure)


def first_of_each(generators: "Generators", images: "Bytes", count: int = 1) -> Any:
    """Return the first images of each class, class by class."""
    size = generators.per_class
    chosen = [c * size + i for i in range(count) for c in range(len(generators.classes))]
    return images[chosen]


def standard_pictures(generators: "Generators", names: Sequence[str], seed: int) -> list[Picture]:
    """Return what each generator draws, from the same noise."""

    def draw() -> bytes:
        rows = []
        for name in names:
            kind, _, size = name.partition(" ")
            options = {"rows_per_class": int(size)} if size else {}
            images, _ = generators.original_samples(kind, seed, **options)
            rows.append((name, first_of_each(generators, images)))
        return image_grid(rows, [str(label) for label in generators.classes])

    caption = "One image per class of each model, from the same noise."
    return [Picture("samples", caption, draw)]


def forgetting_pictures(
    generators: "Generators", labels: Sequence[Label], names: Sequence[str]
) -> list[Picture]:
    """Return what models draw after forgetting the first of some classes."""
    from erasable.baselines.generation import DIFFUSION_METHODS
    from erasable.bench.generation._generators import oracle_seed
    from erasable.bench.generation._tables import settings_of

    label = labels[0]

    def draw() -> bytes:
        rows = []
        for name in names:
            kind, _, is_oracle = name.partition(" ")
            if is_oracle:
                images = generators.oracle_samples(kind, label, oracle_seed(0))
            elif name in DIFFUSION_METHODS:
                try:
                    images, _ = generators.edited(settings_of(generators.scale, name), label, 0)
                except ErasableError:
                    continue  # its row in the table says why
            else:
                images, _ = generators.deleted(name, label, 0)
            rows.append((name, first_of_each(generators, images)))
        place = generators.classes.index(label)
        frames = [
            ["#c53030" if column == place else None for column in range(len(generators.classes))]
            for _ in rows
        ]
        return image_grid(rows, [str(one) for one in generators.classes], frames=frames)

    caption = f"One image per class after forgetting {label!r} (red frame), from the same noise."
    return [Picture("samples", caption, draw)]


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
