"""The tables of forgetting a class of a generator, and what is said below them."""

import math
import statistics
from typing import Any

from erasable.baselines.generation import DIFFUSION_METHODS
from erasable.bench._document import Document, origin
from erasable.bench._runs import Run
from erasable.bench._sheet import Entry, Figure, Sheet
from erasable.bench._tune import edges
from erasable.bench.generation._cells import GAPS
from erasable.bench.generation._drawings import Drawings
from erasable.bench.generation._figures import forgetting_pictures
from erasable.bench.generation._forgetting import Forgetting
from erasable.bench.generation._generators import Generators
from erasable.bench.generation._paper import FORGETTING
from erasable.bench.generation._presets import SPM_VARIANTS
from erasable.bench.generation._tuning import SCORED, rank, settings_of, told
from erasable.bench.generation._words import TITLES, introduction, judge_note, row_title
from erasable.typing import Label

_PAPER_PLACES = {"fid_oracle": 0, "ua": 1, "fid_remaining": 2}


def forgetting_document(drawings: Drawings, made: Forgetting, title: str, command: str) -> Document:
    """Return the tables of forgetting a class.

    Args:
        drawings: What made it.
        made: What was measured.
        title: Title of the page.
        command: The command that made it.
    """
    generators = drawings.generators
    fid = generators.features_name
    sheets = [
        _sheet(made, f"FID_O[{fid}]: distance to the oracle, all classes", "fid_oracle"),
        _sheet(made, "ΔUA (UA) %: error of the judge on the forgotten class", "ua", scale=100),
        _sheet(made, f"ΔFID_R (FID_R)[{fid}]: real images, other classes", "fid_remaining"),
        _sheet(made, f"FID_O[{fid}] of the other classes alone", "fid_oracle_remaining"),
        _by_drawn_class(made, f"FID_O[{fid}] of each class that is asked for", generators.classes),
    ]
    notes = sheets[0].notes
    notes += [
        _headline(made),
        _untouched_note(made),
        _structural_note(made, generators),
        _floor_note(made),
    ]
    notes += [_reading_note(drawings), *_embedding_notes(made)]
    notes += [judge_note(drawings, made.every), *_blank_notes(made, generators)]
    notes.extend(f"Failed: {name}: {why}" for name, why in made.failures.items())
    facts = [*origin(made.every, command), *_method_facts(drawings, made)]
    facts.append(f"Networks: {generators.settings['network']}")
    return Document(
        f"{title}: {generators.data.name}",
        _trial_warning(generators) + introduction(fid),
        sheets,
        facts,
        forgetting_pictures(generators.classes, made),
    )


# -- tables ----------------------------------------------------------------------------------------


def _sheet(made: Forgetting, title: str, key: str, *, scale: float = 1.0) -> Sheet:
    has_paper = key in _PAPER_PLACES
    header = ["model and method", *(f"without {label}" for label in made.labels), "mean", "seconds"]
    header += ["paper: mean, CIFAR-10"] if has_paper else []
    rows: list[list[Entry]] = []
    for row, by_label in made.runs.items():
        is_oracle = row[1] == "retrain"
        entries: list[Entry] = [row_title(*row)]
        pairs = [_compared(made, row, label, key) for label in made.labels]
        for label, (gaps, values) in zip(made.labels, pairs, strict=True):
            own = None if is_oracle else _floor(made, row[0], key, label)
            entries.append(Figure(gaps, own, scale, beside=values))
        floor = None if is_oracle else _floor(made, row[0], key)
        gaps = [gap for part, _ in pairs for gap in part]
        values = [value for _, part in pairs for value in part]
        entries += [Figure(gaps, floor, scale, beside=values), _seconds(by_label)]
        rows.append([*entries, _of_paper(row, key)] if has_paper else entries)
    for kind, by_floor in made.floors.items():
        rows.append(_floor_row(made, kind, by_floor, key, scale, len(header)))
    return Sheet(title, header, rows)


def _compared(
    made: Forgetting, row: tuple[str, str], label: Label, key: str
) -> tuple[list[float], list[float]]:
    """Return distances to the oracle of one cell, and values to stand behind them, if any."""
    runs = made.runs[row].get(label, [])
    values = [run.result[key] for run in runs]
    return ([run.result[f"{key}_gap"] for run in runs], values) if key in GAPS else (values, [])


def _floor(made: Forgetting, kind: str, key: str, label: Label | None = None) -> float | None:
    """Return the floor of a class, if it has one of its own; the mean of all that there are."""
    name = f"{key}_gap" if key in GAPS else key
    found = {own: run.result[name] for own, run in made.floors.get(kind, {}).items()}
    if label in found:
        return float(found[label])
    return statistics.fmean(found.values()) if found else None


def _floor_row(
    made: Forgetting, kind: str, floors: dict[Label, Run], key: str, scale: float, width: int
) -> list[Entry]:
    name = f"{key}_gap" if key in GAPS else key
    entries: list[Entry] = [f"{TITLES[kind]}: another oracle (the floor)"]
    for label in made.labels:
        run = floors.get(label)
        values = [] if run is None else [run.result[name]]
        beside = [run.result[key]] if run is not None and key in GAPS else []
        entries.append(Figure(values, None, scale, beside=beside))
    entries.append(Figure([run.result[name] for run in floors.values()], None, scale))
    return entries + ["–"] * (width - len(entries))


def _seconds(by_label: dict[Label, list[Run]]) -> Entry:
    spent = [run.result.get("seconds") for runs in by_label.values() for run in runs]
    known = [value for value in spent if value is not None]
    return Figure(known, digits=3 if max(known, default=0) < 1 else 0)


def _of_paper(row: tuple[str, str], key: str) -> str:
    paper = FORGETTING.get(row)
    value = math.nan if paper is None else paper[_PAPER_PLACES[key]]
    if math.isnan(value):
        return "–"
    return f"({value:.2f})" if key in GAPS else f"{value:.2f}"


def _by_drawn_class(made: Forgetting, title: str, classes: list[Label]) -> Sheet:
    header = ["model and method", "the forgotten one", *(f"{label}, kept" for label in classes)]
    rows: list[list[Entry]] = []
    for row, by_label in made.runs.items():
        if row[1] == "retrain":
            continue
        cells = [(label, run) for label, runs in by_label.items() for run in runs]
        own = [run.result["fid_oracle_by_class"][str(label)] for label, run in cells]
        entries: list[Entry] = [row_title(*row), Figure(own)]
        for asked in classes:
            kept = [r.result["fid_oracle_by_class"][str(asked)] for f, r in cells if f != asked]
            entries.append(Figure(kept))
        rows.append(entries)
    note = "Each figure is the mean over the classes that were forgotten, ± standard deviation."
    return Sheet(title, header, rows, [note])


# -- words -----------------------------------------------------------------------------------------


def _mean(made: Forgetting, row: tuple[str, str], key: str) -> float:
    return statistics.fmean(r.result[key] for runs in made.runs[row].values() for r in runs)


def _means(made: Forgetting, *rows: tuple[str, str]) -> list[dict[str, float]]:
    """Return the mean of each figure that methods are tuned by, of some rows."""
    return [{key: _mean(made, row, key) for key in SCORED} for row in rows]


def _complete(made: Forgetting) -> list[tuple[str, str]]:
    """Return edits that worked on every class; a mean over fewer is not the same mean."""
    most = max(sum(map(len, by.values())) for by in made.runs.values())
    return [
        row
        for row, by in made.runs.items()
        if row[1] in DIFFUSION_METHODS and sum(map(len, by.values())) == most
    ]


def _headline(made: Forgetting) -> str:
    deleted = [row for row in made.runs if row[1] == "deletion"]
    edits = _complete(made)
    if not edits:
        return "; ".join(f"{row_title(*row)}: {_tuned_by(made, row)}" for row in deleted) + "."
    own = deleted[0]
    best = min(edits, key=lambda row: rank(*_means(made, row, ("ddpm", "untouched"))))
    faster = _mean(made, best, "seconds") / _mean(made, own, "seconds")
    return (
        f"{row_title(*own)}: {_tuned_by(made, own)}. Of the edits of the ordinary model "
        f"{TITLES[best[1]]} is closest to its oracle by what methods are tuned by: "
        f"{_tuned_by(made, best)}, in {faster:,.0f} times the time."
    )


def _tuned_by(made: Forgetting, row: tuple[str, str]) -> str:
    """Tell the figures of a row that methods are tuned by, and what its own oracle has."""
    floor = _floor(made, row[0], "fid_oracle_remaining")
    beside = "" if floor is None else f" (floor {floor:.2f})"
    return (
        f"FID_O of the other classes {_mean(made, row, 'fid_oracle_remaining'):.2f}{beside}, UA "
        f"{100 * _mean(made, row, 'ua'):.1f} % (its oracle: "
        f"{100 * _mean(made, (row[0], 'retrain'), 'ua'):.1f} %)"
    )


def _untouched_note(made: Forgetting) -> str:
    parts = [
        f"{_mean(made, row, 'fid_oracle'):.2f} ({TITLES[row[0]]})"
        for row in made.runs
        if row[1] == "untouched"
    ]
    return f"Doing nothing has FID_O {', '.join(parts)}."


def _structural_note(made: Forgetting, generators: Generators) -> str:
    cells = [
        run.result
        for row, by in made.runs.items()
        if row[1] == "deletion"
        for runs in by.values()
        for run in runs
    ]
    again, same = (sum(cell[key] for cell in cells) for key in ("again", "same"))
    first = "the first class that is left"
    other = generators.stand_in
    instead = first if other is None else f"class {other!r} ({first}, where it is forgotten itself)"
    return (
        "A small FID_O, and the UA, of deletion are partly structural: asked for the forgotten "
        "class, the deleted model and its oracle both draw from the rows of the same stand-in, "
        f"{instead}. An oracle of the ordinary model has nothing to draw from there: what it draws "
        "is arbitrary, and being far from it is no fault of an edit. "
        "So the other classes alone, and each class alone, stand below. "
        "A control that was not run, since it follows from what it does: a model without a memory "
        "that is told the stand-in's number instead of the forgotten one draws the other classes "
        "as *nothing done* does, and of the forgotten class what it draws of the stand-in. "
        f"Of {again:,} images of other classes that were drawn again after a deletion, {same:,} "
        "are the same to the byte as before."
    )


def _trial_warning(generators: Generators) -> str:
    """Say of a trial that nothing is to be read from its figures."""
    if generators.scale != "trial":
        return ""
    return (
        "**A trial: that everything runs at this size is all that this page shows.** Networks were "
        f"trained for {generators.settings['network']['steps']} steps, and draw noise; no figure "
        "here says anything of a method. "
    )


def _floor_note(made: Forgetting) -> str:
    labels = {str(label) for floors in made.floors.values() for label in floors}
    if not labels:
        return "No floor was measured."
    rest = ", and the mean of these for other classes" if len(labels) > 1 else ""
    return (
        "Multiples are of the floor: what two oracles of different seeds are apart, measured "
        f"without {', '.join(sorted(labels))} alone{rest}."
    )


def _reading_note(drawings: Drawings) -> str:
    rows = drawings.generators.reading("spm")["rows_per_class"]
    return f"Of its class, an image by SPM reads {rows:,} rows at most."


def _embedding_notes(made: Forgetting) -> list[str]:
    """Say how models are asked that know classes by number, too, and which figures face them."""
    kinds = dict.fromkeys(kind for kind, _ in made.runs)
    if not any(SPM_VARIANTS.get(kind, {}).get("labels") for kind in kinds):
        return []
    return [
        "Models with a label embedding, and their oracles, read the rows of the stand-in and are "
        "told the number of the *forgotten* class: what the embedding kept of it is what is asked "
        "for. `forget` and `sample` would tell them the stand-in's. An oracle's embedding of that "
        "number was not trained, unless numbers are permuted.",
        "The paper's model permutes labels; its figures face both that one and the one without an "
        "embedding. Its rows are encoded with their label's number, too; here they never are.",
    ]


def _blank_notes(made: Forgetting, generators: Generators) -> list[str]:
    """Say for which class UA takes a model that draws nothing for one that forgot nothing."""
    answer = generators.blank_run().result["answer"]
    if answer not in made.labels:
        return []
    return [
        f"An image without anything in it, all black, the judge takes for {answer!r}: where that "
        "class is forgotten, UA counts such images as if the class were still drawn. See the "
        "pictures."
    ]


def _method_facts(drawings: Drawings, made: Forgetting) -> list[str]:
    facts = []
    chosen: dict[str, dict[str, Any]] = {}
    for entry in made.searched:
        tried = "; ".join(f"{_said(one['settings'])}: {told(one)}" for one in entry["searched"])
        chosen[entry["method"]] = entry["chosen"]
        facts.append(
            f"Tuned on class {entry['label']!r} by {entry['images']} images per class, mean of ΔUA "
            "and FID_O of the other classes as shares of doing nothing, settings that forget "
            f"first: {TITLES[entry['method']]}, {tried}. "
            f"Chosen: {_said(entry['chosen'])}{edges(entry)}"
        )
    names = [row[1] for row in made.runs if row[1] in DIFFUSION_METHODS]
    if names and not made.searched:
        facts.append("Methods are not tuned: settings are as published, or what the time allows")
    for name in names:
        settings = settings_of(drawings, name, **chosen.get(name, {})).settings
        facts.append(f"{TITLES[name]}: {_said(settings)}")
    return facts


def _said(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
