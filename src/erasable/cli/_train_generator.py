"""``erasable train --kind generator``."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from erasable.cli._common import emit, in_place_of, load_whole, named_options, say
from erasable.cli._terminal import Status
from erasable.errors import ArgumentError

if TYPE_CHECKING:
    from erasable.data import Split
    from erasable.models import SPMGenerator
    from erasable.models._consistency import Judge

_OF_COMMANDS = {"random_state", "checkpoint", "verbose"}
"""Parameters of a generator that the command sets itself."""


def train_generator(
    model: Path,
    data: str,
    *,
    preset: str,
    given: dict[str, Any],
    options: list[str] | None,
    seed: int,
    judge: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Train a generator on a data set of images and save it.

    Args:
        model: Directory of the model.
        data: A data set's name, or a path.
        preset: ``tiny``, ``demo``, ``laptop``, ``paper`` or ``trial``.
        given: Settings that were given on the command line.
        options: Further parameters of the generator, NAME=VALUE.
        seed: Seed of everything random.
        judge: Directory of a classifier that looks at samples while the training goes on.
        overwrite: Whether to replace a model that is there.
        as_json: Whether to print one JSON document.
    """
    from erasable._extras import require_diffusion
    from erasable.data import in_bytes
    from erasable.errors import StoreRefusedError, listing
    from erasable.store import ModelDirectory

    require_diffusion()
    from erasable.bench.generation import GENERATION, at_side, first_of_classes
    from erasable.models import SPMGenerator
    from erasable.training import discard_checkpoint

    if preset not in GENERATION:
        raise ArgumentError(f"Expected --preset {listing(GENERATION)}, but got {preset!r}.")
    further = _options(options, given)
    directory = ModelDirectory(model)
    if directory.exists and not overwrite:
        raise StoreRefusedError(
            f"Expected a new directory, but {model} holds a model. Use --overwrite."
        )
    if not directory.exists and not directory.is_free:
        raise StoreRefusedError(f"Expected a new directory, but {model} holds other files.")
    side, network = GENERATION[preset]["side"], GENERATION[preset]["network"]
    loaded = at_side(in_bytes(load_whole(data)), side, f"--preset {preset}")
    if "rows" in GENERATION[preset]:
        loaded = replace(loaded, train=first_of_classes(loaded.train, GENERATION[preset]["rows"]))
    rows = loaded.train
    watcher = None if judge is None else load_judge(judge, rows)
    whole = model.resolve()
    partial = whole.with_name(whole.name + ".partial")
    settings = {**network, **{name: value for name, value in given.items() if value is not None}}
    settings |= further
    generator = SPMGenerator(
        **settings, random_state=seed, checkpoint=partial, verbose=int(not as_json)
    )
    if directory.exists:
        generator = in_place_of(model, generator)
    if partial.exists():
        say(f"Going on with the training in {partial}.")
    try:
        labels = rows.y.tolist()
        generator.fit(rows.X, labels, ids=rows.ids, groups=rows.groups, judge=watcher)
    except KeyboardInterrupt:
        say(f"Stopped. Run the same command again to go on; the state is in {partial}.")
        raise typer.Exit(Status.INTERRUPTED) from None
    generator.data_ = loaded.record()
    generator.save(model, overwrite=overwrite)
    discard_checkpoint(partial)
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


def _options(words: list[str] | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of a generator from words such as ``branch=follow``.

    Args:
        words: What was given by --network-option.
        given: What has an option of its own.
    """
    from erasable.errors import listing
    from erasable.models import SPMGenerator

    found = named_options("--network-option", words) or {}
    known = set(inspect.signature(SPMGenerator).parameters) - _OF_COMMANDS - given.keys()
    unknown = sorted(set(found) - known)
    if unknown:
        raise ArgumentError(
            f"Expected --network-option to name one of {', '.join(sorted(known))}, but got "
            f"{listing(unknown)}. {_own_options(given)}"
        )
    return found


def _own_options(given: dict[str, Any]) -> str:
    names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
    return f"{names} are options of their own."


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
