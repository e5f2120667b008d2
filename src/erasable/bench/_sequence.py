"""The table of requests that come one after the other, as they do in practice."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from erasable.bench._document import Document, Picture, origin
from erasable.bench._forecast import say_left, seconds_left
from erasable.bench._harness import Cell, Harness, reason
from erasable.bench._rules import classes_rule, stages
from erasable.bench._runs import Run
from erasable.bench._sequence_figure import sequence_png
from erasable.bench._sheet import Entry, Figure, Sheet
from erasable.bench._tune import expected, tune_all
from erasable.bench._unlearning import (
    UNSEEN,
    compared,
    introduction,
    method_facts,
    suitable,
    tuned_fact,
)
from erasable.bench._unlearning_figures import COLOURS
from erasable.bench._unlearning_sheets import KIND_TITLES, MUTED, TITLES
from erasable.errors import ArgumentError, StateError

Say = Callable[[str], None]


@dataclass
class Sequences:
    """What a sequence of requests did to each model.

    Attributes:
        rule: The requests.
        runs: Runs by kind and method, one per seed.
        untouched: Originals to which nothing was done, after each request, by kind.
        floors: Gaps between oracles after each request, by kind.
        oracles: Runs of the oracles.
        trials: Runs that tuning made.
        searched: What tuning tried and chose.
        failures: What went wrong, by cell.
    """

    rule: str
    runs: dict[tuple[str, str], list[Run]] = field(default_factory=dict)
    untouched: dict[str, list[list[Run]]] = field(default_factory=dict)
    floors: dict[str, list[list[dict[str, Any]]]] = field(default_factory=dict)
    oracles: list[Run] = field(default_factory=list)
    trials: list[Run] = field(default_factory=list)
    searched: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def run_sequence(
    harness: Harness,
    rule: str,
    *,
    seeds: list[int],
    edits: Sequence[str],
    kinds: Sequence[str],
    tuning: tuple[str, int] | None = None,
    say: Say = lambda _: None,
) -> Sequences:
    """Do the requests of a rule one after the other with every method.

    Args:
        harness: Makes and keeps models.
        rule: The requests.
        seeds: Seeds of originals.
        edits: Methods that edit weights.
        kinds: Kinds of models that forget by deletion.
        tuning: A single request to tune on, and the seed of its original; None leaves settings as
            published.
        say: Where remarks on the progress go.
    """
    made = Sequences(stages(rule)[-1])
    is_class = any(harness.scenario(part, 0).is_class for part in stages(rule))
    names = suitable(edits, is_class=is_class)
    _forecast(harness, rule, seeds, names, kinds, tuning, say)
    tuned = tune_all(harness, names, tuning, say=say)
    made.searched, made.trials, made.failures = tuned.searched, tuned.trials, tuned.failures
    lines = compared(tuned.methods, kinds)
    for kind, method in lines:
        for seed in seeds:
            try:
                run = harness.sequence(Cell(kind, method, rule, seed))
            except Exception as error:
                made.failures[f"{method.name} on {kind}, seed {seed}"] = reason(error)
                say(f"{method.name} on {kind}, seed {seed} failed: {reason(error)}")
            else:
                made.runs.setdefault((kind, method.name), []).append(run)
    for kind in dict.fromkeys(kind for kind, _ in lines):
        try:
            floors = [harness.floor(kind, part, seeds) for part in stages(rule)]
            untouched = [
                [harness.untouched(kind, part, seed) for seed in seeds] for part in stages(rule)
            ]
        except Exception as error:
            made.failures[f"oracles of {kind}"] = reason(error)
            made.runs = {key: runs for key, runs in made.runs.items() if key[0] != kind}
            continue
        made.floors[kind] = [floor.result["pairs"] for floor in floors]
        made.untouched[kind] = untouched
        made.oracles += [
            run for part in stages(rule) for run in harness.floor_runs(kind, part, seeds)
        ]
    if not made.runs:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in made.failures.items())
        raise StateError(f"Expected results, but everything failed: {reasons}.")
    return made


def _forecast(
    harness: Harness,
    rule: str,
    seeds: list[int],
    edits: Sequence[str],
    kinds: Sequence[str],
    tuning: tuple[str, int] | None,
    say: Say,
) -> None:
    """Say how long it will take, before it starts."""
    trials, found = expected(harness, edits, tuning)
    lines = compared(found, kinds)
    floors = [(kind, part, seeds) for kind, _ in lines for part in stages(rule)]
    sequences = [Cell(kind, method, rule, seed) for kind, method in lines for seed in seeds]
    say_left(seconds_left(harness, trials, floors, sequences=sequences), say)


def default_sequence(classes: list[Any]) -> str:
    """Return a class, a twentieth of the rows at random, and another class.

    The rows are the same for all seeds of originals, so that these share their oracles.
    """
    if len(classes) < 3:
        raise ArgumentError(
            f"Expected at least three classes, or requests by --rule, but got {len(classes)}."
        )
    first, second = (classes_rule([label]) for label in classes[:2])
    return f"{first} > random:5%@0 > {second}"


def tuning_of(classes: list[Any], rule: str) -> tuple[str, int]:
    """Return a class that a rule does not name, to tune on, and the seed of its original.

    Args:
        classes: All classes.
        rule: The requests of the table.
    """
    for label in reversed(classes):
        alone = classes_rule([label])
        if alone.partition(":")[2] not in rule:
            return alone, UNSEEN
    return classes_rule([classes[-1]]), UNSEEN


def sequence_document(made: Sequences, command: str) -> Document:
    """Return the tables of a sequence: gap after each request, and the time of each.

    Args:
        made: What was measured.
        command: The command that made it.
    """
    before = [0, *(len(stage) for stage in stages(made.rule))]
    requests = [
        stage[start:].strip(" >") for stage, start in zip(stages(made.rule), before, strict=False)
    ]
    header = ["model and method", *(f"after {k}: {r}" for k, r in enumerate(requests, 1))]
    gaps = Sheet("PG_H % after each request", header, _gap_rows(made, len(requests)), _notes(made))
    times = Sheet("Seconds of each request", header, _time_rows(made, len(requests)))
    runs = [run for runs in made.runs.values() for run in runs]
    runs += [run for steps in made.untouched.values() for step in steps for run in step]
    facts = origin([*runs, *made.oracles, *made.trials], command)
    facts += [*method_facts(made.runs, "each request"), *map(tuned_fact, made.searched)]
    opening = (
        "Requests come one after the other; each is done on the model that the last one left, and "
        "the model is then compared with oracles that saw nothing of what is gone by then. "
    )
    title = f"Requests in sequence on {runs[0].settings['data']['name']}"
    picture = Picture(
        "requests",
        "Hard prediction gap (PG_H) after each request: deletion, muting, and the edit with the "
        "smallest gap after the last one. Black: the floor of the semi-parametric model, dashed, "
        "and that model untouched, dotted.",
        lambda: sequence_png(requests, lines_drawn(made)),
    )
    return Document(title, opening + introduction(made.runs), [gaps, times], facts, [picture])


def lines_drawn(made: Sequences) -> list[tuple[str, dict[str, Any], list[list[float]]]]:
    """Return the lines of the picture: names, styles, and gaps in percent after each request."""
    count = len(stages(made.rule))
    best = _best_edit(_grown(made))
    lines = []
    for (kind, method), runs in made.runs.items():
        if method == "deletion" or (kind, method) in (MUTED, best):
            found = [[_step(run, step) for run in runs] for step in range(count)]
            gaps = [
                [100 * f["compare"]["test"]["prediction_gap"] for f in some if f is not None]
                for some in found
            ]
            style = {"marker": "o", "color": COLOURS.get(kind)}
            style |= {"linestyle": ":"} if (kind, method) == MUTED else {}
            name = KIND_TITLES[kind] if method == "deletion" else TITLES.get(method, method)
            lines.append((name, style, gaps))
    own = "spm" if "spm" in made.floors else next(iter(made.floors))
    floors = [[100 * p["test"]["prediction_gap"] for p in pairs] for pairs in made.floors[own]]
    nothing = [
        [100 * run.result["compare"]["test"]["prediction_gap"] for run in runs]
        for runs in made.untouched[own]
    ]
    title = KIND_TITLES[own]
    lines.append((f"{title}: floor", {"color": "black", "linestyle": "--"}, floors))
    lines.append((f"{title}: untouched", {"color": "black", "linestyle": ":"}, nothing))
    return lines


def _gap_rows(made: Sequences, count: int) -> list[list[Entry]]:
    rows: list[list[Entry]] = []
    for kind, floors in made.floors.items():
        values = [[pair["test"]["prediction_gap"] for pair in pairs] for pairs in floors]
        name = f"{KIND_TITLES[kind]}: {TITLES['retrain']}, floor"
        rows.append([name, *(Figure(some, None, 100) for some in values)])
        rows.append([f"{KIND_TITLES[kind]}: untouched", *_untouched(made.untouched[kind], values)])
        for name, runs in _lines(made, kind):
            entries: list[Entry] = [name]
            for step, floor in zip(range(count), values, strict=True):
                found = [_step(run, step) for run in runs]
                gaps = [f["compare"]["test"]["prediction_gap"] for f in found if f is not None]
                entries.append(Figure(gaps, statistics.fmean(floor), 100) if gaps else "diverged")
            rows.append(entries)
    return rows


def _untouched(steps: list[list[Run]], floors: list[list[float]]) -> list[Entry]:
    """Return how far originals are from the oracles after each request."""
    gaps = [[run.result["compare"]["test"]["prediction_gap"] for run in runs] for runs in steps]
    return [
        Figure(some, statistics.fmean(floor), 100) for some, floor in zip(gaps, floors, strict=True)
    ]


def _time_rows(made: Sequences, count: int) -> list[list[Entry]]:
    rows: list[list[Entry]] = []
    for kind in made.floors:
        for name, runs in _lines(made, kind):
            steps = [[_step(run, step) for run in runs] for step in range(count)]
            seconds = [[f["seconds"] for f in found if f is not None] for found in steps]
            rows.append([name, *(Figure(some, digits=3) for some in seconds)])
    return rows


def _lines(made: Sequences, kind: str) -> list[tuple[str, list[Run]]]:
    return [
        (f"{KIND_TITLES[kind]}: {TITLES.get(method, method)}", runs)
        for (own, method), runs in made.runs.items()
        if own == kind
    ]


def _step(run: Run, step: int) -> dict[str, Any] | None:
    """Return what was measured after a request; None if the method diverged before."""
    steps: list[dict[str, Any]] = run.result["steps"]
    return steps[step] if step < len(steps) else None


def _grown(made: Sequences) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the gaps in percent after the first request and after the last, by line."""
    grown = {}
    for key, runs in made.runs.items():
        whole = [run.result["steps"] for run in runs if "failed" not in run.result]
        if whole:
            first, last = (
                100 * statistics.fmean(s[k]["compare"]["test"]["prediction_gap"] for s in whole)
                for k in (0, -1)
            )
            grown[key] = first, last
    return grown


def _best_edit(grown: dict[tuple[str, str], tuple[float, float]]) -> tuple[str, str] | None:
    """Return the edit with the smallest gap after the last request; muting is a control."""
    edits = [key for key in grown if key[0] == "parametric" and key != MUTED]
    return min(edits, key=lambda key: grown[key][1], default=None)


def _notes(made: Sequences) -> list[str]:
    """Compare how gaps grow from the first request to the last."""
    grown = _grown(made)
    notes = [f"Failed: {name}: {reason}" for name, reason in made.failures.items()]
    for (_, method), runs in made.runs.items():
        reasons = dict.fromkeys(r.result["failed"] for r in runs if "failed" in r.result)
        notes += [f"{TITLES.get(method, method)}: {reason}" for reason in reasons]
    own, best = ("spm", "deletion"), _best_edit(grown)
    if own in grown and best is not None:
        ways = {key: f"{first:.2f} to {last:.2f}" for key, (first, last) in grown.items()}
        control = f", that of muting from {ways[MUTED]}" if MUTED in ways else ""
        notes.insert(
            0,
            f"From the first request to the last, PG_H of SPM deletion goes from {ways[own]} "
            f"points, that of the best edit after the last ({TITLES.get(best[1], best[1])}) from "
            f"{ways[best]}{control}.",
        )
    return notes
