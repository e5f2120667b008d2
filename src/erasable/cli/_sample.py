"""``erasable sample``."""

from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._common import AsJson, Classes, ModelPath, emit, require_file, resolve


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
    """
    import hashlib

    import numpy as np
    import torch

    from erasable.bench import pyplot
    from erasable.errors import ArgumentError
    from erasable.files import write_atomically
    from erasable.memory import encode_key
    from erasable.models import load, require_diffusion

    require_file(out)
    require_diffusion()
    pyplot()  # to refuse now, not after drawing
    from erasable.bench.generation import image_grid

    generator = load(model)
    if not hasattr(generator, "sample"):
        raise ArgumentError(f"Expected a generator in {model}, but it holds a classifier.")
    memory = generator.memory
    asked = resolve(memory, ids=None, groups=None, classes=classes)["classes"] or memory.classes
    options = {} if rows is None else {"rows_per_class": rows}
    if stand_in is not None:
        instead = resolve(memory, ids=None, groups=None, classes=[stand_in])
        options["stand_in"] = instead["classes"][0]
    lines = []
    for label in asked:
        # A class has noise of its own: what is drawn of it does not depend on the others.
        name = f"{seed}:{encode_key(label)}".encode()
        noise = int.from_bytes(hashlib.sha256(name).digest()[:7], "big")
        images = generator.sample(
            [label] * n,
            num_inference_steps=steps,
            guidance_scale=guidance,
            generator=torch.Generator().manual_seed(noise),
            **options,
        )
        lines.append((str(label), np.round(images * 255).astype(np.uint8)))
    write_atomically(out, image_grid(lines, [""] * n))
    labels = [str(label) for label in asked]
    emit({"out": str(out), "classes": labels, "n": n}, as_json=as_json, lines=[f"Images: {out}"])
