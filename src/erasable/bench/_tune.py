"""Settings of a method chosen by its documented grid, on a scenario that its table does not show.

A grid made for other networks may be too narrow. If nothing was tried on one side of the best value
of a setting, with all others equal, the next value there is tried, too.
"""

import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from erasable.baselines import Method, get_method, methods
from erasable.bench._harness import Cell, Harness, reason
from erasable.bench._runs import Run
from erasable.errors import ArgumentError, StateError

Say = Callable[[str], None]

BEYOND = 3
"""How many values beyond either end of a grid are tried at most."""


class Tunable(Protocol):
    """A method whose settings can be searched."""

    def __init__(self, **settings: Any) -> None: ...

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the values that tuning tries, by setting."""
        ...


def tune(
    harness: Harness,
    name: str,
    *,
    rule: str,
    kind: str = "parametric",
    seed: int = 0,
    say: Say = lambda _: None,
) -> dict[str, Any]:
    """Try a method's grid, and beyond its ends; return what was searched and chosen.

    The choice has the smallest mean of ΔUA, ΔRA and ΔTA to the oracle. So the oracle is used for
    tuning, as published comparisons do; the scenario is therefore not one of the table's.

    Args:
        harness: Makes and keeps models.
        name: The method.
        rule: What is forgotten.
        kind: Kind of model.
        seed: Seed of the original.
        say: Where remarks on the progress go.

    Raises:
        StateError: If every combination diverged.
    """
    method = _method(name)
    searched: list[dict[str, Any]] = []
    while todo := untried(method, searched):
        for settings in todo:
            run = harness.cell(Cell(kind, get_method(name, **settings), rule, seed))
            gap = mean_gap(run)
            searched.append({"settings": settings, "mean_gap": gap})
            shown = "diverged" if gap is None else f"mean gap {100 * gap:.2f} points"
            say(f"{name} {settings}: {shown}")
    best = best_of(searched)
    if best is None:
        raise StateError(f"Expected a setting of {name} that works, but all of them diverged.")
    return {
        "method": name,
        "kind": kind,
        "rule": rule,
        "seed": seed,
        "searched": searched,
        "chosen": best["settings"],
        "mean_gap": best["mean_gap"],
    }


@dataclass
class Tuned:
    """Methods that edit weights, with the settings to use.

    Attributes:
        methods: Those that can be used, in the order they were asked for.
        searched: What tuning tried and chose, one entry per method with something to tune.
        trials: Runs of what was tried.
        failures: What went wrong, by method.
    """

    methods: list[Method] = field(default_factory=list)
    searched: list[dict[str, Any]] = field(default_factory=list)
    trials: list[Run] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def tune_all(
    harness: Harness, names: Sequence[str], tuning: tuple[str, int] | None, *, say: Say
) -> Tuned:
    """Choose the settings of several methods; what fails is noted and does not stop the rest.

    Args:
        harness: Makes and keeps models.
        names: The methods.
        tuning: What is forgotten for tuning, and the seed of its original; None leaves settings as
            published.
        say: Where remarks on the progress go.
    """
    made = Tuned()
    known = methods()
    for name in names:
        settings: dict[str, Any] = {}
        if tuning is not None and known[name].grid():
            rule, seed = tuning
            try:
                entry = tune(harness, name, rule=rule, seed=seed, say=say)
            except Exception as error:
                made.failures[f"tuning of {name}"] = reason(error)
                say(f"tuning of {name} failed: {reason(error)}")
                continue
            settings = entry["chosen"]
            made.searched.append(entry)
            made.trials += [
                harness.cell(Cell("parametric", get_method(name, **one["settings"]), rule, seed))
                for one in entry["searched"]
            ]
        made.methods.append(get_method(name, **settings))
    return made


def trials_left(
    harness: Harness, name: str, *, rule: str, kind: str = "parametric", seed: int = 0
) -> tuple[list[Cell], dict[str, Any]]:
    """Return cells that tuning still has to do, as far as is known, and what it chose if none.

    Args:
        harness: Knows what is finished.
        name: The method.
        rule: What is forgotten.
        kind: Kind of model.
        seed: Seed of the original.
    """
    method = _method(name)
    searched: list[dict[str, Any]] = []
    while todo := untried(method, searched):
        cells = [Cell(kind, get_method(name, **settings), rule, seed) for settings in todo]
        if left := [cell for cell in cells if not harness.has_cell(cell)]:
            return left, {}
        searched += [
            {"settings": settings, "mean_gap": mean_gap(harness.cell(cell))}
            for settings, cell in zip(todo, cells, strict=True)
        ]
    best = best_of(searched)
    return [], {} if best is None else best["settings"]


def _method(name: str) -> type[Method]:
    known = methods()
    if name not in known:
        raise ArgumentError(f"Expected the name of a method, but got {name!r}.")
    return known[name]


def expected(
    harness: Harness, names: Sequence[str], tuning: tuple[str, int] | None
) -> tuple[list[Cell], list[Method]]:
    """Return trials that are left, and each method as far as its settings are known.

    Args:
        harness: Knows what is finished.
        names: The methods.
        tuning: What is forgotten for tuning, and the seed of its original; None to tune nothing.
    """
    trials: list[Cell] = []
    found: list[Method] = []
    for name in names:
        settings: dict[str, Any] = {}
        if tuning is not None and methods()[name].grid():
            left, settings = trials_left(harness, name, rule=tuning[0], seed=tuning[1])
            trials += left
        found.append(get_method(name, **settings))
    return trials, found


def untried(
    method: type[Tunable], searched: Sequence[dict[str, Any]], *, score: str = "mean_gap"
) -> list[dict[str, Any]]:
    """Return the settings to try next: those of the grid, then beyond an end that is best so far.

    Args:
        method: The method.
        searched: What was tried, and how good each was.
        score: How that is called; small is good, None has diverged.
    """
    known = [entry["settings"] for entry in searched]
    if grid := [settings for settings in combinations(method) if settings not in known]:
        return grid
    best = best_of(searched, score=score)
    if best is None:
        return []
    found = _beyond(method, best["settings"], known)
    return [settings for settings in found if _is_possible(method, settings)]


def open_ends(entry: dict[str, Any]) -> list[str]:
    """Return settings whose choice has no value on one side that was tried, all others equal.

    Args:
        entry: What `tune` returned.
    """
    known = [one["settings"] for one in entry["searched"]]
    varied = [
        name
        for name, value in entry["chosen"].items()
        if isinstance(value, (int, float)) and len({one[name] for one in known}) > 1
    ]
    sides = [(name, _line(entry["chosen"], known, name)) for name in varied]
    return [name for name, line in sides if entry["chosen"][name] in (line[0], line[-1])]


def edges(entry: dict[str, Any]) -> str:
    """Say where the choice is the last that was tried: values beyond might be better.

    Args:
        entry: What `tune` returned.
    """
    at_edge = open_ends(entry)
    return f", the last value tried for {', '.join(at_edge)}" if at_edge else ""


def _beyond(
    method: type[Tunable], best: dict[str, Any], known: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return, per setting, the next values on a side of the best one where none was tried.

    That is with all other settings equal. The next value is one that was tried with others, or a
    step beyond all of them at the pace of the last one. Only positive fractions are stretched:
    rates, weights, shares.
    """
    found = []
    for name, values in method.grid().items():
        if len(values) == 1 or not all(type(value) is float and value > 0 for value in values):
            continue
        line, tried = _line(best, known, name), sorted({settings[name] for settings in known})
        place, low, high = tried.index(best[name]), min(values), max(values)
        if best[name] == line[0]:
            further = tried[place - 1] if place else _step(tried[0], tried[1])
            if sum(value < low for value in (*tried[place:], further)) <= BEYOND:
                found.append({**best, name: further})
        if best[name] == line[-1]:
            is_last = place == len(tried) - 1
            further = _step(tried[-1], tried[-2]) if is_last else tried[place + 1]
            if sum(value > high for value in (*tried[: place + 1], further)) <= BEYOND:
                found.append({**best, name: further})
    return found


def _line(best: dict[str, Any], known: Sequence[dict[str, Any]], name: str) -> list[Any]:
    """Return the values of a setting that were tried with all others as they are in the best."""
    return sorted(settings[name] for settings in known if {**settings, name: best[name]} == best)


def _step(end: float, inner: float) -> float:
    """Return the value beyond an end, in round numbers where they lie beyond it."""
    further = end * end / inner
    rounded = float(f"{further:.1g}")
    return rounded if (rounded > end) == (further > end) and rounded != end else further


def _is_possible(method: type[Tunable], settings: dict[str, Any]) -> bool:
    try:
        method(**settings)
    except ArgumentError:
        return False
    return True


def best_of(
    searched: Sequence[dict[str, Any]], *, score: str = "mean_gap"
) -> dict[str, Any] | None:
    """Return the entry with the smallest score; None if all diverged.

    Args:
        searched: What was tried, and how good each was.
        score: How that is called.
    """
    scored = [entry for entry in searched if entry[score] is not None]
    return min(scored, key=lambda entry: entry[score]) if scored else None


def combinations(method: type[Tunable]) -> list[dict[str, Any]]:
    """Return every combination of a method's grid; one without settings if it has none."""
    grid = method.grid()
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def mean_gap(run: Run) -> float | None:
    """Return the mean of ΔUA, ΔRA and ΔTA of a cell; None if it diverged."""
    if "failed" in run.result:
        return None
    deltas = run.result["compare"]["deltas"]
    return statistics.fmean(deltas[name] for name in ("ua", "ra", "ta"))
