"""A class that the weights never saw, drawn from rows that are only remembered."""

from collections.abc import Sequence
from typing import Any

from erasable.bench._document import Document, Picture, origin
from erasable.bench._runs import Run
from erasable.bench._sheet import Entry, Figure, Sheet
from erasable.bench.generation._drawings import Drawings
from erasable.bench.generation._figures import image_grid
from erasable.bench.generation._generators import channels_first, oracle_seed, rows_of
from erasable.bench.generation._strips import as_strip, from_strip
from erasable.bench.generation._words import introduction, judge_note
from erasable.typing import Label

_KIND = "spm"
_SHOWN = 10
"""Images of each sort in the picture, at most."""

_SORTS = {
    "real": "real test images",
    "trained": "SPM, trained on the class",
    "remembered": "SPM, class remembered only",
}
"""What is compared, by its key in a run."""

_ANSWERS = 3
"""How many answers of the judge are named."""


def run_unseen(
    drawings: Drawings, labels: Sequence[Label], *, seeds: Sequence[int]
) -> dict[Label, list[Run]]:
    """Remember classes, one at a time, in models that were trained without them, and draw them.

    Args:
        drawings: Makes and keeps samples.
        labels: The classes.
        seeds: Seeds of originals; each has an oracle per class, which is what remembers.

    Returns:
        Per class one run per seed.
    """
    return {label: [_cell(drawings, label, seed) for seed in seeds] for label in labels}


def _cell(drawings: Drawings, label: Label, seed: int) -> Run:
    generators, own = drawings.generators, oracle_seed(seed)
    reading = generators.reading(_KIND)
    settings = {
        **drawings.settings("unseen", _KIND, own),
        "without": label,
        "options": reading,
        "original": seed,
    }

    def work() -> dict[str, Any]:
        model = generators.fresh(_KIND, own, without=label)
        rows = rows_of(generators.train, label)
        model.remember(rows.X, rows.y.tolist(), ids=rows.ids)
        images = {
            "real": channels_first(rows_of(generators.test, label).X)[: drawings.per_class],
            "trained": drawings.of_original(_KIND, seed, **reading)[drawings.places(label)],
            "remembered": drawings.draw(model, [label], **reading),
        }
        count = min(_SHOWN, *map(len, images.values()))
        found: dict[str, Any] = {
            sort: {**drawings.measure_class(some, label), "first": as_strip(some[:count])}
            for sort, some in images.items()
        }
        return {**found, "shown": count, "level": model.forget(classes=[label]).level}

    return drawings.figures(settings, work)


def unseen_document(drawings: Drawings, made: dict[Label, list[Run]], command: str) -> Document:
    """Return the tables of classes that the weights never saw.

    Args:
        drawings: What made it.
        made: What `run_unseen` returned.
        command: The command that made it.
    """
    generators = drawings.generators
    fid = generators.features_name
    runs = [run for some in made.values() for run in some]
    sheets = [
        _sheet(made, "Drawn as asked %", "consistency", scale=100),
        _sheet(made, f"FID[{fid}] to real images of the class", "fid"),
        _taken_for(made),
    ]
    sheets[0].notes.extend([_rows_note(drawings), judge_note(drawings, runs)])
    pictures = [_picture(made, label, place) for place, label in enumerate(made)]
    facts = [*origin(runs, command), f"Networks: {generators.settings['network']}"]
    title = f"A class that the weights never saw: {generators.data.name}"
    return Document(title, introduction(fid, _levels(runs)), sheets, facts, pictures)


def _levels(runs: list[Run]) -> str:
    """Say what the receipts of forgetting the remembered rows said."""
    found = ", ".join(sorted({f"`{run.result['level']}`" for run in runs}))
    return (
        f"Rows of the class are forgotten again at level {found}: they are only remembered, in a "
        "model whose weights were trained without the class."
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


def _rows_note(drawings: Drawings) -> str:
    read = drawings.generators.reading(_KIND)["rows_per_class"]
    return (
        "The model of the last line was trained without the class; then the training rows of the "
        "class were remembered, no weight was changed, and the class was asked for. An image reads "
        f"{read:,} of its rows at most. The line above it is a model that was trained on the class "
        "too, with another seed; both draw from the same noise."
    )


def _picture(made: dict[Label, list[Run]], label: Label, place: int) -> Picture:
    def draw() -> bytes:
        found = made[label][0].result
        count = found["shown"]
        rows = [(name, from_strip(found[sort]["first"], count)) for sort, name in _SORTS.items()]
        return image_grid(rows, [""] * count)

    caption = f"Images of {label!r}: real, by a model trained on it, by one that remembers it only."
    return Picture(f"samples-{place}", caption, draw)
