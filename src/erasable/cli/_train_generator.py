"""``erasable train --kind generator``."""

import shutil
from pathlib import Path
from typing import Any

import typer

from erasable.cli._common import emit, say
from erasable.errors import ArgumentError


def train_generator(
    model: Path,
    data: str,
    *,
    preset: str,
    given: dict[str, Any],
    seed: int,
    as_json: bool,
) -> None:
    """Train a generator on a data set of images and save it.

    Args:
        model: Directory of the model.
        data: A data set's name, or a path.
        preset: ``tiny``, ``laptop`` or ``paper``.
        given: Settings that were given on the command line.
        seed: Seed of everything random.
        as_json: Whether to print one JSON document.
    """
    from erasable.data import in_bytes, load_dataset, shrunk
    from erasable.errors import StoreError, listing
    from erasable.models import require_diffusion
    from erasable.store import ModelDirectory

    require_diffusion()
    from erasable.bench.generation import GENERATION
    from erasable.models import SPMGenerator

    if preset not in GENERATION:
        raise ArgumentError(f"Expected --preset {listing(GENERATION)}, but got {preset!r}.")
    directory = ModelDirectory(model)
    if directory.exists or not directory.is_free:
        what = "a model" if directory.exists else "other files"
        raise StoreError(f"Expected a new directory, but {model} holds {what}. Choose another.")
    side, network = GENERATION[preset]["side"], GENERATION[preset]["network"]
    loaded = in_bytes(load_dataset(data))
    rows = (loaded if max(loaded.train.X.shape[1:3]) == side else shrunk(loaded, side)).train
    whole = model.resolve()
    partial = whole.with_name(whole.name + ".partial")
    settings = {**network, **{name: value for name, value in given.items() if value is not None}}
    generator = SPMGenerator(
        **settings, random_state=seed, checkpoint=partial, verbose=int(not as_json)
    )
    if partial.exists():
        say(f"Going on with the training in {partial}.")
    try:
        generator.fit(rows.X, rows.y.tolist(), ids=rows.ids, groups=rows.groups)
    except KeyboardInterrupt:
        say(f"Stopped. Run the same command again to go on; the state is in {partial}.")
        raise typer.Exit(130) from None
    generator.data_ = loaded.record()
    generator.save(model)
    shutil.rmtree(partial, ignore_errors=True)
    memory = generator.memory
    emit(
        {
            "model": str(model),
            "kind": type(generator).__name__,
            "rows": len(memory),
            "classes": memory.classes,
            "digest": memory.digest,
            "weights_digest": generator.weights_digest,
            "loss": generator.history_[-1]["loss"] if generator.history_ else None,
        },
        as_json=as_json,
        lines=[f"{model}: {len(memory)} rows, {len(memory.classes)} classes"],
    )
