"""What the weights keep of a forgotten class: the model is shown other images of it, and asked.

Deletion takes away the rows that a class is drawn from. Whoever has images of the class can store
them, and then a model draws the class if its weights know how to. Its oracle, shown the same
images, tells how much of that comes from the images themselves.
"""

from collections.abc import Sequence
from typing import Any

from erasable.bench._document import Document, Picture, origin
from erasable.bench._runs import Run
from erasable.bench._sheet import Entry, Figure, Sheet
from erasable.bench.generation._drawings import Drawings
from erasable.bench.generation._figures import image_grid
from erasable.bench.generation._generators import Bytes, channels_first, oracle_seed, rows_of
from erasable.bench.generation._strips import as_strip, from_strip
from erasable.bench.generation._words import introduction, judge_note
from erasable.typing import Label

_KIND = "spm"
_SHOWN = 10
"""Images of each sort in the picture, at most."""

_ANSWERS = 3
"""How many answers of the judge are named."""

_SORTS = {
    "real": "real test images",
    "original": "original, nothing done",
    "reminded": "original, class forgotten, then shown test images of it",
    "oracle": "oracle, which never saw the class, shown the same",
}
"""What is compared, by its key in a run."""


def run_reminded(
    drawings: Drawings, labels: Sequence[Label], *, seeds: Sequence[int]
) -> dict[Label, list[Run]]:
    """Forget classes one at a time, show test images of them to the model and its oracle, and draw.

    Args:
        drawings: Makes and keeps samples.
        labels: The classes.
        seeds: Seeds of originals.

    Returns:
        Per class one run per seed.
    """
    return {label: [_cell(drawings, label, seed) for seed in seeds] for label in labels}


def _cell(drawings: Drawings, label: Label, seed: int) -> Run:
    generators, own = drawings.generators, oracle_seed(seed)
    reading = generators.reading(_KIND)
    settings = {
        **drawings.settings("reminded", _KIND, seed),
        "without": label,
        "options": reading,
        "oracle": own,
    }

    def work() -> dict[str, Any]:
        model = generators.fresh(_KIND, seed)
        level = model.forget(classes=[label]).level
        images = {
            "real": channels_first(rows_of(generators.test, label).X)[: drawings.per_class],
            "original": drawings.of_original(_KIND, seed, **reading)[drawings.places(label)],
            "reminded": _shown(drawings, model, label),
            "oracle": _shown(drawings, generators.fresh(_KIND, own, without=label), label),
        }
        count = min(_SHOWN, *map(len, images.values()))
        found: dict[str, Any] = {
            sort: {**drawings.measure_class(some, label), "first": as_strip(some[:count])}
            for sort, some in images.items()
        }
        return {**found, "shown": count, "level": level}

    return drawings.figures(settings, work)


def _shown(drawings: Drawings, model: Any, label: Label) -> Bytes:
    """Return what a model draws of a class once it remembers the test rows of it."""
    rows = rows_of(drawings.generators.test, label)
    model.remember(rows.X, rows.y.tolist(), ids=rows.ids)
    return drawings.draw(model, [label], **drawings.generators.reading(_KIND))


def reminded_document(drawings: Drawings, made: dict[Label, list[Run]], command: str) -> Document:
    """Return the tables of classes that a model is reminded of.

    Args:
        drawings: What made it.
        made: What `run_reminded` returned.
        command: The command that made it.
    """
    generators = drawings.generators
    fid = generators.features_name
    runs = [run for some in made.values() for run in some]
    sheets = [
        _sheet(made, "Drawn as asked %", "consistency", scale=100),
        _sheet(made, f"FID[{fid}] to real training images of the class", "fid"),
        _taken_for(made),
    ]
    judged = judge_note(drawings, runs, oracles=", the oracle too")
    sheets[0].notes.extend([_headline(made), _rows_note(drawings), judged])
    pictures = [_picture(made, label, place) for place, label in enumerate(made)]
    facts = [*origin(runs, command), f"Networks: {generators.settings['network']}"]
    title = f"What the weights keep of a forgotten class: {generators.data.name}"
    return Document(title, introduction(fid, _levels(runs)), sheets, facts, pictures)


def _levels(runs: list[Run]) -> str:
    found = ", ".join(sorted({f"`{run.result['level']}`" for run in runs}))
    return (
        f"Level {found}, by the receipts: the class is forgotten from the memory of a "
        "semi-parametric model (SPM), and its weights were trained on it. How much they still know "
        "of it is measured here."
    )


def _sheet(made: dict[Label, list[Run]], title: str, key: str, *, scale: float = 1.0) -> Sheet:
    rows: list[list[Entry]] = []
    for sort, name in _SORTS.items():
        by_label = [[run.result[sort][key] for run in runs] for runs in made.values()]
        every = [value for values in by_label for value in values]
        rows.append([name, *(Figure(values, scale=scale) for values in [*by_label, every])])
    return Sheet(title, ["images", *map(str, made), "mean"], rows)


def _taken_for(made: dict[Label, list[Run]]) -> Sheet:
    rows: list[list[Entry]] = [
        [str(label), *(_most(runs, sort) for sort in _SORTS)] for label, runs in made.items()
    ]
    return Sheet("What the judge takes them for", ["class", *_SORTS.values()], rows)


def _most(runs: list[Run], sort: str) -> str:
    """Tell the commonest answers to images of a sort, with their shares over all seeds."""
    shares: dict[str, float] = {}
    for run in runs:
        for answer, share in run.result[sort]["answers"].items():
            shares[answer] = shares.get(answer, 0.0) + share / len(runs)
    first = sorted(shares.items(), key=lambda item: -item[1])[:_ANSWERS]
    return ", ".join(f"{answer}: {100 * share:.1f} %" for answer, share in first)


def _headline(made: dict[Label, list[Run]]) -> str:
    means = {
        sort: Figure(
            [run.result[sort]["consistency"] for runs in made.values() for run in runs],
            scale=100,
            digits=1,
        )
        for sort in ("reminded", "oracle")
    }
    return (
        "Shown images of the class that no training had, a model that forgot it draws it in "
        f"{means['reminded'].text()} % of the cases, its oracle in {means['oracle'].text()} %: the "
        "difference is what the weights of the former keep of the class."
    )


def _rows_note(drawings: Drawings) -> str:
    read = drawings.generators.reading(_KIND)["rows_per_class"]
    return (
        "Test images of the class are remembered, no weight is changed, and the class is asked "
        f"for; an image reads {read:,} of them at most."
    )


def _picture(made: dict[Label, list[Run]], label: Label, place: int) -> Picture:
    def draw() -> bytes:
        found = made[label][0].result
        count = found["shown"]
        rows = [(name, from_strip(found[sort]["first"], count)) for sort, name in _SORTS.items()]
        return image_grid(rows, [""] * count)

    return Picture(f"samples-{place}", f"Images that were asked for as {label!r}.", draw)
