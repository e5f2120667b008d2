"""Settings of a method chosen by its documented grid, on a scenario that no table shows.

A grid made for other networks may be too narrow. If the best value of a setting is the first or the
last one that was tried, the next one beyond is tried, too.
"""

import itertools
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from erasable.baselines import Method, get_method, methods
from erasable.bench._harness import Cell, Harness
from erasable.bench._runs import Run
from erasable.errors import ArgumentError, StateError

Say = Callable[[str], None]

BEYOND = 3
"""How many values beyond either end of a grid are tried at most."""


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
    tuning, as published comparisons do; the scenario is therefore one that no table shows.

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
    known = methods()
    if name not in known:
        raise ArgumentError(f"Expected the name of a method, but got {name!r}.")
    searched: list[dict[str, Any]] = []
    while todo := untried(known[name], searched):
        for settings in todo:
            run = harness.cell(Cell(kind, get_method(name, **settings), rule, seed))
            gap = mean_gap(run)
            searched.append({"settings": settings, "mean_gap": gap})
            shown = "diverged" if gap is None else f"mean gap {100 * gap:.2f} points"
            say(f"{name} {settings}: {shown}")
    best = _best(searched)
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
    searched: list[dict[str, Any]] = []
    while todo := untried(methods()[name], searched):
        cells = [Cell(kind, get_method(name, **settings), rule, seed) for settings in todo]
        if left := [cell for cell in cells if not harness.has_cell(cell)]:
            return left, {}
        searched += [
            {"settings": settings, "mean_gap": mean_gap(harness.cell(cell))}
            for settings, cell in zip(todo, cells, strict=True)
        ]
    best = _best(searched)
    return [], {} if best is None else best["settings"]


def untried(method: type[Method], searched: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the settings to try next: those of the grid, then beyond an end that is best so far.

    Args:
        method: The method.
        searched: What was tried, and the mean gap of each.
    """
    known = [entry["settings"] for entry in searched]
    if grid := [settings for settings in combinations(method) if settings not in known]:
        return grid
    best = _best(searched)
    return [] if best is None else _beyond(method, best["settings"], known)


def _beyond(
    method: type[Method], best: dict[str, Any], known: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return settings one step beyond each end that is best, at the pace of the last step.

    Only positive fractions are stretched: rates, weights, shares.
    """
    found = []
    for name, values in method.grid().items():
        if len(values) == 1 or not all(type(value) is float and value > 0 for value in values):
            continue
        tried = sorted({settings[name] for settings in known})
        below = sum(value < min(values) for value in tried)
        above = sum(value > max(values) for value in tried)
        for end, inner, steps in ((tried[0], tried[1], below), (tried[-1], tried[-2], above)):
            further = {**best, name: float(f"{end * end / inner:.1g}")}
            if best[name] == end and steps < BEYOND and further not in known:
                found += [further] if _is_possible(method, further) else []
    return found


def _is_possible(method: type[Method], settings: dict[str, Any]) -> bool:
    try:
        get_method(method.name, **settings)
    except ArgumentError:
        return False
    return True


def _best(searched: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the entry with the smallest gap; None if all diverged."""
    scored = [entry for entry in searched if entry["mean_gap"] is not None]
    return min(scored, key=lambda entry: entry["mean_gap"]) if scored else None


def combinations(method: type[Method]) -> list[dict[str, Any]]:
    """Return every combination of a method's grid; one without settings if it has none."""
    grid = method.grid()
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def mean_gap(run: Run) -> float | None:
    """Return the mean of ΔUA, ΔRA and ΔTA of a cell; None if it diverged."""
    if "failed" in run.result:
        return None
    deltas = run.result["compare"]["deltas"]
    return statistics.fmean(deltas[name] for name in ("ua", "ra", "ta"))
