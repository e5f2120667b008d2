"""``erasable sample``."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._common import AsJson, Classes, ModelPath, emit, load_whole, require_png, resolve
from erasable.errors import ArgumentError

if TYPE_CHECKING:
    from erasable.models import PatchVotes, SPMGenerator


def sample(
    model: ModelPath,
    classes: Classes = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Images per class.")] = 8,
    out: Annotated[Path, typer.Option(help="Write the images to this PNG file.")] = Path(
        "samples.png"
    ),
    steps: Annotated[int, typer.Option(min=1, help="Denoising steps.")] = 50,
    guidance: Annotated[float, typer.Option(min=0, help="How much the class is stressed.")] = 0.3,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Rows per class that are read; default: as saved.")
    ] = None,
    stand_in: Annotated[
        str | None, typer.Option(help="Whose rows are read where a class has none.")
    ] = None,
    votes: Annotated[
        int | None, typer.Option(min=1, help="Also name so many rows behind each image.")
    ] = None,
    pictures: Annotated[
        str | None, typer.Option(help="With --votes: the data set whose images to show of rows.")
    ] = None,
    votes_out: Annotated[
        Path | None, typer.Option(help="With --pictures: write the rows to this PNG file.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Draw images of classes, from the rows in the memory of a generator.

    The same seed and the same number of images start from the same noise: sample, forget, and
    sample again to see what changed.

    \b
    Examples:
      erasable sample model --class 7 --n 16 --out grid.png
      erasable sample model --class 7 --stand-in 0 --out after.png
      erasable sample model --class 7 --n 3 --votes 5 --json
      erasable sample model --class 7 --n 3 --votes 6 --pictures mnist --votes-out votes.png
    """
    from erasable._extras import require_diffusion
    from erasable.files import write_atomically
    from erasable.models import change, load

    _check(out, votes, pictures, votes_out)
    require_diffusion()
    generator = load(model)
    if not hasattr(generator, "sample"):
        raise ArgumentError(f"Expected a generator in {model}, but it holds a classifier.")
    memory = generator.memory
    asked = resolve(memory, ids=None, groups=None, classes=classes)["classes"] or memory.classes
    options: dict[str, Any] = {} if rows is None else {"rows_per_class": rows}
    if stand_in is not None:
        instead = resolve(memory, ids=None, groups=None, classes=[stand_in])
        options["stand_in"] = instead["classes"][0]
    images = {
        label: generator.sample(
            [label] * n,
            num_inference_steps=steps,
            guidance_scale=guidance,
            generator=_noise(seed, label),
            **options,
        )
        for label in asked
    }
    found = {
        label: generator.votes(drawn, [label] * n, votes, **options)
        for label, drawn in images.items()
        if votes is not None
    }
    if votes_out is not None and pictures is not None:
        write_atomically(votes_out, _votes_png(generator, images, found, pictures))
    write_atomically(out, contact_sheet(images))
    places = [out] if votes_out is None else [out, votes_out]
    change(model, lambda saved: [saved.note_copy("drawing", path) for path in places])
    behind = {str(label): _records(one) for label, one in found.items()}
    emit(
        {"out": str(out), "classes": [str(label) for label in asked], "n": n, "votes": behind},
        as_json=as_json,
        lines=[f"Images: {out}", *_lines(behind)],
    )


def contact_sheet(images: dict[Any, Any]) -> bytes:
    """Return a PNG with a line of images per class, enlarged, and the class before each line.

    Args:
        images: Images (n, channels, height, width) from 0 to 1, by class.
    """
    import io

    import numpy as np
    from PIL import Image, ImageDraw

    shape = next(iter(images.values())).shape
    factor, gap, margin = max(1, 64 // shape[2]), 4, 8 * max(len(str(c)) for c in images) + 8
    high, wide = factor * shape[2] + gap, factor * shape[3] + gap
    sheet = Image.new("RGB", (margin + wide * shape[0], high * len(images)), "white")
    pen = ImageDraw.Draw(sheet)
    for line, (label, drawn) in enumerate(images.items()):
        pen.text((4, line * high + high // 2 - 6), str(label), fill="black")
        for place, image in enumerate(np.round(drawn * 255).astype(np.uint8)):
            large = image.repeat(factor, axis=1).repeat(factor, axis=2)
            shown = np.repeat(large, 3, axis=0) if len(large) == 1 else large
            picture = Image.fromarray(np.ascontiguousarray(shown.transpose(1, 2, 0)))
            sheet.paste(picture, (margin + place * wide, line * high))
    stream = io.BytesIO()
    sheet.save(stream, format="PNG")
    return stream.getvalue()


def _check(out: Path, votes: int | None, pictures: str | None, votes_out: Path | None) -> None:
    require_png(out)
    require_png(votes_out, "--votes-out")
    if (pictures is None) != (votes_out is None) or (votes is None and pictures is not None):
        raise ArgumentError(
            "Expected --pictures and --votes-out together, and with --votes, but one is missing."
        )
    if votes_out is not None:
        from erasable.bench import pyplot

        pyplot()  # to refuse now, not after drawing


def _noise(seed: int, label: Any) -> Any:
    """Return noise of a class's own: by its word, which also stands when the class is gone."""
    import torch

    digest = hashlib.sha256(f"{seed}:{label}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def _votes_png(
    generator: "SPMGenerator",
    images: dict[Any, Any],
    found: "dict[Any, PatchVotes]",
    pictures: str,
) -> bytes:
    import numpy as np

    from erasable.bench.generation import votes_picture
    from erasable.data import in_bytes, shrunk
    from erasable.models import PatchVotes

    data = in_bytes(load_whole(pictures))
    side = generator.input_shape_[1]
    rows = (data if max(data.train.X.shape[1:3]) == side else shrunk(data, side)).train
    shown = rows.X[:, None] if rows.X.ndim == 3 else np.asarray(rows.X).transpose(0, 3, 1, 2)
    known = dict(zip(rows.ids, shown, strict=True))
    parts = list(found.values())
    joined = PatchVotes(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0]))
    )
    missing = [i for i in joined.ids.flatten().tolist() if i is not None and i not in known]
    if missing:
        raise ArgumentError(
            f"Expected images of all rows in {pictures}, but row {missing[0]!r} is not there."
        )
    return votes_picture(np.concatenate(list(images.values())), joined, known)


def _records(votes: "PatchVotes") -> list[list[dict[str, Any]]]:
    """Return the rows behind each image as plain values, heaviest first."""
    return [
        [
            {"id": row_id, "vote": float(weight)}
            for row_id, weight in zip(ids, weights, strict=True)
            if row_id is not None
        ]
        for ids, weights in zip(votes.ids, votes.weights, strict=True)
    ]


def _lines(behind: dict[str, list[list[dict[str, Any]]]]) -> list[str]:
    return [
        f"{label}, image {number}: "
        + ", ".join(f"{vote['id']} {100 * vote['vote']:.1f} %" for vote in rows)
        for label, images in behind.items()
        for number, rows in enumerate(images, 1)
    ]
