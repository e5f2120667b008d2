"""The tables of the unlearning benchmark: which scenarios, which methods, tuned or as published."""

import json
import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from erasable.baselines import Method, get_method
from erasable.bench._document import Document, origin
from erasable.bench._families import READINGS
from erasable.bench._forecast import say_left, seconds_left
from erasable.bench._grid import Found, Plan, run_plan
from erasable.bench._harness import Cell, Harness
from erasable.bench._paper import (
    FIVE_CLASSES,
    IMAGENET,
    ONE_CLASS,
    RANDOM_10,
    RANDOM_50,
    PaperRow,
)
from erasable.bench._rules import classes_rule
from erasable.bench._runs import Run
from erasable.bench._sheet import Figure, Sheet
from erasable.bench._tune import edges, expected, mean_gap, tune_all
from erasable.bench._unlearning_figures import unlearning_pictures
from erasable.bench._unlearning_sheets import KIND_TITLES, detail_sheets, unlearning_sheet
from erasable.errors import ArgumentError

EDITS = ("mute", "ga", "ft", "iu", "be", "bs", "l1_sparse", "salun", "munba")
"""Methods that edit weights, in the order of the tables."""

DELETIONS = ("knn", "spm", "sisa")
"""Kinds of models that forget by deletion, in the order of the tables."""

EVERY_DELETION = ("knn", "spm", *READINGS, "sisa")
"""The same with those that a table has only if it is asked for them."""

_IMAGENET = 1000

UNSEEN = 99
"""Seed of what is tuned on, where a rule alone does not set it apart; tables count from 0."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Group:
    """Scenarios that are averaged in one table.

    Attributes:
        title: Title of the table.
        rules: What is forgotten, one after the other.
        tuning_rule: A scenario of the same sort to tune on.
        tuning_seed: Seed of the original to tune on; another one where the rule is in the table.
        paper: The paper's figures, if it has such a table.
    """

    title: str
    rules: list[str]
    tuning_rule: str
    tuning_seed: int = 0
    paper: dict[tuple[str, str], PaperRow] | None = None


def class_groups(
    classes: list[Any], *, single: int | None, is_cifar: bool, halves: int = 1
) -> list[Group]:
    """Return the tables of class-wise forgetting: one class at a time, and half of the classes.

    Args:
        classes: All classes. The last one, and the last half, are kept for tuning.
        single: How many single classes to forget, spread over all but the last; None for all.
        is_cifar: Whether the paper's figures are for this data set.
        halves: How many halves of the classes to forget: the first one, then drawn ones; 0 for
            single classes alone.
    """
    half = len(classes) // 2
    if half < 1 or len(classes) - half < 1:
        raise ArgumentError(f"Expected at least two classes, but got {len(classes)}.")
    others = classes[:-1]
    count = len(others) if single is None else min(single, len(others))
    chosen = [others[i * len(others) // count] for i in range(count)]
    chosen = chosen if single is not None else list(classes)
    one = Group(
        "One class forgotten",
        [classes_rule([label]) for label in chosen],
        classes_rule([classes[-1]]),
        UNSEEN if single is None else 0,
        ONE_CLASS if is_cifar else None,
    )
    many = Group(
        f"{half} classes forgotten",
        [classes_rule(part) for part in _halves(classes, half, halves)],
        classes_rule(classes[-half:]),
        paper=FIVE_CLASSES if is_cifar else None,
    )
    return [one, many] if halves else [one]


def random_groups(shares: list[int], *, is_cifar: bool) -> list[Group]:
    """Return the tables of forgetting random rows.

    Args:
        shares: Percentages.
        is_cifar: Whether the paper's figures are for this data set.
    """
    paper = {10: RANDOM_10, 50: RANDOM_50} if is_cifar else {}
    return [
        Group(
            f"Random {share} % forgotten",
            [f"random:{share}%"],
            f"random:{share}%@{UNSEEN}",
            paper=paper.get(share),
        )
        for share in shares
    ]


def imagenet_groups(classes: list[Any], *, single: int) -> list[Group]:
    """Return the table of single classes, with the paper's figures if there are 1,000 of them.

    Args:
        classes: All classes.
        single: How many to forget: the first ones, as the paper does, without the last.
    """
    (one,) = class_groups(classes, single=1, is_cifar=False, halves=0)
    rules = [classes_rule([label]) for label in classes[: min(single, len(classes) - 1)]]
    paper = IMAGENET if len(classes) == _IMAGENET else None
    return [replace(one, rules=rules, paper=paper)]


def _halves(classes: list[Any], size: int, count: int) -> list[list[Any]]:
    """Return the first half, and others that are drawn; never the last one, which tunes."""
    rng = np.random.default_rng(0)
    found = [list(range(size))]
    last = list(range(len(classes) - size, len(classes)))
    most = math.comb(len(classes), size) - (last != found[0])
    while len(found) < min(count, most):
        drawn = sorted(rng.permutation(len(classes))[:size].tolist())
        if drawn not in (*found, last):
            found.append(drawn)
    return [[classes[place] for place in part] for part in found]


@dataclass(frozen=True)
class Compared:
    """What the tables of some groups are made of.

    Attributes:
        sheets: Its tables.
        found: What was measured, by the title of its table.
        searched: What tuning tried and chose.
    """

    sheets: list[Sheet]
    found: dict[str, Found]
    searched: list[dict[str, Any]]

    @property
    def runs(self) -> list[Run]:
        """Every run, each once."""
        every = [run for group in self.found.values() for run in group.runs]
        return list({json.dumps(run.settings, sort_keys=True): run for run in every}.values())


def run_unlearning(
    harness: Harness,
    groups: list[Group],
    *,
    seeds: list[int],
    edits: tuple[str, ...] = EDITS,
    kinds: tuple[str, ...] = DELETIONS,
    is_tuned: bool = True,
    say: Say = lambda _: None,
) -> Compared:
    """Tune, unlearn and compare.

    Args:
        harness: Makes and keeps models.
        groups: The tables.
        seeds: Seeds of originals.
        edits: Methods that edit weights.
        kinds: Kinds of models that forget by deletion.
        is_tuned: Choose settings by grids and beyond their ends, each on a scenario that no table
            shows; otherwise settings are as published.
        say: Where remarks on the progress go.
    """
    _forecast(harness, groups, seeds, edits, kinds, is_tuned=is_tuned, say=say)
    sheets: list[Sheet] = []
    found: dict[str, Found] = {}
    searched: list[dict[str, Any]] = []
    for group in groups:
        tuning = (group.tuning_rule, group.tuning_seed) if is_tuned else None
        tuned = tune_all(harness, _suitable(edits, harness, group), tuning, say=say)
        plan = Plan(group.rules, compared(tuned.methods, kinds), seeds)
        found[group.title] = run_plan(harness, plan, say=say)
        found[group.title].failures |= tuned.failures
        found[group.title].others += tuned.trials
        searched += [_with_table(entry, found[group.title]) for entry in tuned.searched]
        sheets.append(unlearning_sheet(group.title, found[group.title], group.paper))
        sheets += detail_sheets(group.title, found[group.title])
    return Compared(sheets, found, searched)


def _with_table(entry: dict[str, Any], found: Found) -> dict[str, Any]:
    """Return what tuning found together with the mean gap that its choice has in the table."""
    runs = found.cells.get(("parametric", entry["method"]), [])
    gaps = [gap for run in runs if (gap := mean_gap(run)) is not None]
    return {**entry, "mean_gap_in_table": statistics.fmean(gaps) if gaps else None}


def unlearning_document(title: str, made: Compared, classes: list[Any], command: str) -> Document:
    """Return tables and pictures with where their figures come from.

    Args:
        title: Title of the document.
        made: What was compared.
        classes: Labels of all classes.
        command: The command that made it.
    """
    facts = origin(made.runs, command)
    for group, found in made.found.items():
        facts += method_facts(found.cells, group)
    facts = [*dict.fromkeys(facts), *map(tuned_fact, made.searched)]
    pictures = unlearning_pictures(made.found, classes)
    cells = (cell for group in made.found.values() for cell in group.cells)
    return Document(title, introduction(cells), made.sheets, facts, pictures)


def introduction(cells: Iterable[tuple[str, str]]) -> str:
    """Say which level of forgetting each part of a table has, and what its figures are.

    Args:
        cells: What the table shows: kinds of models and methods.
    """
    deleted = dict.fromkeys(kind for kind, method in cells if method == "deletion")
    levels = []
    kept = [KIND_TITLES[kind] for kind in deleted if kind != "sisa"]
    if kept:
        levels.append(
            f"`memory` for deletion from {_enumerated(kept)} (the weights were trained on all rows)"
        )
    if "sisa" in deleted:
        levels.append("`exact` for SISA, whose shards are trained again")
    said = f"Level of forgetting: {', '.join(levels)}. " if levels else ""
    return said + (
        "Methods that edit weights have no level: how much they forget is what is measured. Gaps "
        "are to an oracle of the same kind, retrained without the forget set; multiples are of "
        "the floor, the gap between two oracles of different seeds. UA is the error rate on the "
        "forget set. Values are mean ± standard deviation over seeds and scenarios."
    )


def _enumerated(words: list[str]) -> str:
    """Return words with commas and a last "and" between them."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def method_facts(cells: dict[tuple[str, str], list[Run]], table: str) -> list[str]:
    """Name what methods that edit weights could spend, and their settings in full.

    Args:
        cells: Runs by kind of model and method.
        table: What the table is called.
    """
    facts: list[str] = []
    for (kind, name), (run, *_) in cells.items():
        if kind != "parametric":
            continue
        passes = run.settings["budget"]["passes"]
        if passes is not None and not facts:
            facts.append(
                f"Budget of an edit: as many rows as {passes:g} pass over all of them, and not "
                "more than its published epochs; what it draws itself has seed 0, whatever the "
                "original's"
            )
        settings = {k: v for k, v in run.settings["method_settings"].items() if k != "seed"}
        facts.append(f"Settings of {name}, {table}: {_words(settings)}")
    return facts


def graph_note(made: Compared) -> str:
    """Compare the accuracy of semi-parametric originals with and without a graph set encoder."""
    originals = [run for run in made.runs if run.settings["what"] == "original"]
    by_kind: dict[str, list[float]] = {}
    for run in originals:
        for kind, value in run.result["accuracies"].items():
            by_kind.setdefault(kind, []).append(100 * value)
    plain, graph = (Figure(by_kind.get(kind, [])) for kind in ("spm", "gnn"))
    return (
        f"Test accuracy of the originals, both read by prototypes: {plain.text()}, with a graph "
        f"set encoder {graph.text()}. The paper has, on CIFAR-10, 94.5 for prototypes, 94.1 for "
        "retrieval, and 94.4 with a graph, which it compares with retrieval."
    )


def tuned_fact(entry: dict[str, Any]) -> str:
    """Return what tuning a method tried and chose, in words."""
    tried = "; ".join(
        f"{_words(one['settings'])}: "
        + ("diverged" if one["mean_gap"] is None else f"{100 * one['mean_gap']:.2f}")
        for one in entry["searched"]
    )
    in_table = entry.get("mean_gap_in_table")
    so = "" if in_table is None else f"; in the table its mean is {100 * in_table:.2f}"
    return (
        f"Tuned on {entry['rule']}, original of seed {entry['seed']}, mean of ΔUA, ΔRA and ΔTA in "
        f"points: {entry['method']}, {tried}. Chosen: {_words(entry['chosen'])}{edges(entry)}{so}"
    )


def _words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "as published"


def _forecast(
    harness: Harness,
    groups: list[Group],
    seeds: list[int],
    edits: tuple[str, ...],
    kinds: tuple[str, ...],
    *,
    is_tuned: bool,
    say: Say,
) -> None:
    """Say how long it will take, before it starts."""
    cells: list[Cell] = []
    floors: list[tuple[str, str, list[int]]] = []
    for group in groups:
        tuning = (group.tuning_rule, group.tuning_seed) if is_tuned else None
        trials, found = expected(harness, _suitable(edits, harness, group), tuning)
        cells += trials
        for kind, method in compared(found, kinds):
            cells += [Cell(kind, method, rule, seed) for seed in seeds for rule in group.rules]
            floors += [(kind, rule, seeds) for rule in group.rules]
    say_left(seconds_left(harness, cells, floors), say)


def _suitable(edits: Iterable[str], harness: Harness, group: Group) -> list[str]:
    """Return methods that can do what a group asks for."""
    return suitable(edits, is_class=all(harness.scenario(r, 0).is_class for r in group.rules))


def compared(edits: Iterable[Method], kinds: Iterable[str]) -> list[tuple[str, Method]]:
    """Return the lines of a table: edits of parametric models, and deletion from other kinds.

    Args:
        edits: Methods that edit weights.
        kinds: Kinds of models that forget by deletion.
    """
    lines: list[tuple[str, Method]] = [("parametric", method) for method in edits]
    return lines + [(kind, get_method("deletion")) for kind in kinds]


def suitable(edits: Iterable[str], *, is_class: bool) -> list[str]:
    """Return methods without those that only forget whole classes, where none is forgotten whole.

    Args:
        edits: Names of methods.
        is_class: Whether whole classes are forgotten.
    """
    return [name for name in edits if is_class or not get_method(name).needs_classes]
