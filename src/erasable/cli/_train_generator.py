"""``erasable train --kind generator``."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from erasable.cli._common import emit, load_whole, say
from erasable.errors import ArgumentError

if TYPE_CHECKING:
    from erasable.data import Split
    from erasable.models import SPMGenerator
    from erasable.models._consistency import Judge


def train_generator(
    model: Path,
    data: str,
    *,
    preset: str,
    given: dict[str, Any],
    seed: int,
    judge: Path | None,
    as_json: bool,
) -> None:
    """Train a generator on a data set of images and save it.

    Args:
        model: Directory of the model.
        data: A data set's name, or a path.
        preset: ``tiny``, ``demo``, ``laptop``, ``paper`` or ``trial``.
        given: Settings that were given on the command line.
        seed: Seed of everything random.
        judge: Directory of a classifier that looks at samples while the training goes on.
        as_json: Whether to print one JSON document.
    """
    from erasable.data import in_bytes, shrunk
    from erasable.errors import StoreError, listing
    from erasable.models import require_diffusion
    from erasable.store import ModelDirectory

    require_diffusion()
    from erasable.bench.generation import GENERATION, first_of_classes
    from erasable.models import SPMGenerator

    if preset not in GENERATION:
        raise ArgumentError(f"Expected --preset {listing(GENERATION)}, but got {preset!r}.")
    directory = ModelDirectory(model)
    if directory.exists or not directory.is_free:
        what = "a model" if directory.exists else "other files"
        raise StoreError(f"Expected a new directory, but {model} holds {what}. Choose another.")
    side, network = GENERATION[preset]["side"], GENERATION[preset]["network"]
    loaded = in_bytes(load_whole(data))
    most = max(loaded.train.X.shape[1:3])
    if most < side:
        raise ArgumentError(
            f"Expected images of at least {side} pixels for --preset {preset}, but those of {data} "
            f"have {most}. Take a smaller preset."
        )
    loaded = loaded if most == side else shrunk(loaded, side)
    if "rows" in GENERATION[preset]:
        loaded = replace(loaded, train=first_of_classes(loaded.train, GENERATION[preset]["rows"]))
    rows = loaded.train
    watcher = None if judge is None else load_judge(judge, rows)
    whole = model.resolve()
    partial = whole.with_name(whole.name + ".partial")
    settings = {**network, **{name: value for name, value in given.items() if value is not None}}
    generator = SPMGenerator(
        **settings, random_state=seed, checkpoint=partial, verbose=int(not as_json)
    )
    if partial.exists():
        say(f"Going on with the training in {partial}.")
    try:
        labels = rows.y.tolist()
        generator.fit(rows.X, labels, ids=rows.ids, groups=rows.groups, judge=watcher)
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
            "history": generator.history_,
        },
        as_json=as_json,
        lines=_lines(model, generator),
    )


def load_judge(path: Path, rows: "Split") -> "Judge":
    """Return a saved classifier that takes such images.

    Args:
        path: Its directory.
        rows: The images.
    """
    from erasable.cli._common import load_classifier

    judge: Judge = load_classifier(path)
    judge.predict(rows.X[:1])  # refuses images of another size, before any training
    return judge


def _lines(model: Path, generator: "SPMGenerator") -> list[str]:
    memory = generator.memory
    lines = [f"{model}: {len(memory)} rows, {len(memory.classes)} classes"]
    told = [entry["consistency"] for entry in generator.history_ if "consistency" in entry]
    if told:
        lines.append(f"drawn as asked, by the judge: {told[-1]:.0%}")
    return lines
