"""Settings of a method chosen by its documented grid, on a scenario that no table shows."""

import itertools
import statistics
from collections.abc import Callable
from typing import Any

from erasable.baselines import Method, get_method, methods
from erasable.bench._harness import Cell, Harness
from erasable.bench._runs import Run
from erasable.errors import ArgumentError, StateError

Say = Callable[[str], None]


def tune(
    harness: Harness,
    name: str,
    *,
    rule: str,
    kind: str = "parametric",
    seed: int = 0,
    say: Say = lambda _: None,
) -> dict[str, Any]:
    """Try every combination of a method's grid and return what was searched and chosen.

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
    for settings in combinations(known[name]):
        run = harness.cell(Cell(kind, get_method(name, **settings), rule, seed))
        gap = mean_gap(run)
        searched.append({"settings": settings, "mean_gap": gap})
        shown = "diverged" if gap is None else f"mean gap {100 * gap:.2f} points"
        say(f"{name} {settings}: {shown}")
    scored = [entry for entry in searched if entry["mean_gap"] is not None]
    if not scored:
        raise StateError(f"Expected a setting of {name} that works, but all of them diverged.")
    best = min(scored, key=lambda entry: entry["mean_gap"])
    return {
        "method": name,
        "kind": kind,
        "rule": rule,
        "seed": seed,
        "searched": searched,
        "chosen": best["settings"],
        "mean_gap": best["mean_gap"],
    }


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
