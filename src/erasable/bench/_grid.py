"""Which cells a table is made of, and doing them: in order, resumable, told how long it takes."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from erasable.baselines import Method
from erasable.bench._forecast import duration
from erasable.bench._harness import Cell, Harness, reason
from erasable.bench._runs import Run

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What one table compares.

    Attributes:
        rules: What is forgotten, one after the other; the table averages over them.
        methods: Pairs of a kind of model and a method on it.
        seeds: Seeds of originals.
    """

    rules: list[str]
    methods: list[tuple[str, Method]]
    seeds: list[int]

    @property
    def kinds(self) -> list[str]:
        """Kinds of models, each once."""
        return list(dict.fromkeys(kind for kind, _ in self.methods))

    def cells(self, rule: str) -> Iterator[Cell]:
        """Yield the cells of one rule."""
        for seed in self.seeds:
            for kind, method in self.methods:
                yield Cell(kind, method, rule, seed)


@dataclass
class Found:
    """What was measured for one table.

    Attributes:
        cells: Runs by (kind, method), in the order of rules and seeds.
        untouched: Runs of originals to which nothing was done, by kind.
        oracles: Runs of the oracles, by kind.
        floors: Runs that compare oracles with one another, by kind, one per rule.
        others: Runs behind these: originals, and what floors and tuning need.
        failures: What went wrong, by cell; such cells have no run and are tried again next time.
    """

    cells: dict[tuple[str, str], list[Run]] = field(default_factory=dict)
    untouched: dict[str, list[Run]] = field(default_factory=dict)
    oracles: dict[str, list[Run]] = field(default_factory=dict)
    floors: dict[str, list[Run]] = field(default_factory=dict)
    others: list[Run] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def drop(self, kind: str) -> None:
        """Leave out a kind of model whose oracles failed: there is nothing to compare it with."""
        self.cells = {key: runs for key, runs in self.cells.items() if key[0] != kind}
        for part in (self.untouched, self.oracles, self.floors):
            part.pop(kind, None)

    def pairs(self, kind: str) -> list[dict[str, Any]]:
        """Return the gaps between oracles of a kind, over all rules."""
        return [pair for floor in self.floors[kind] for pair in floor.result["pairs"]]

    @property
    def runs(self) -> list[Run]:
        """Every run, each once."""
        by_kind = (self.cells, self.untouched, self.oracles, self.floors)
        groups = [*(runs for part in by_kind for runs in part.values()), self.others]
        each = {json.dumps(run.settings, sort_keys=True): run for group in groups for run in group}
        return list(each.values())


def run_plan(harness: Harness, plan: Plan, *, say: Say = lambda _: None) -> Found:
    """Do everything that is not done yet; what fails is noted and does not stop the rest.

    Each rule is finished, with its floors, before the next: floors need what oracles say of every
    row, which is large and may be cleared away once the figures are kept.

    Args:
        harness: Makes and keeps models.
        plan: What is compared.
        say: Where remarks on the progress go.
    """
    found = Found()
    broken: set[str] = set()
    cells = [cell for rule in plan.rules for cell in plan.cells(rule)]
    to_do = sum(not harness.has_cell(cell) for cell in cells)
    done, start = 0, time.perf_counter()
    for rule in plan.rules:
        for cell in plan.cells(rule):
            name = f"{cell.method.name} on {cell.kind}, {rule}, seed {cell.seed}"
            is_kept = harness.has_cell(cell)
            try:
                run = harness.cell(cell)
            except Exception as error:  # a cell of a method from elsewhere may fail in any way
                found.failures[name] = reason(error)
                say(f"{name} failed: {reason(error)}")
            else:
                found.cells.setdefault((cell.kind, cell.method.name), []).append(run)
            if is_kept:
                continue
            done += 1
            left = (time.perf_counter() - start) / done * (to_do - done)
            said = f"{done} of {to_do} cells"
            if to_do < len(cells):
                said += f" ({len(cells) - to_do} of {len(cells)} were done before)"
            say(f"{said}, about {duration(left)} left at this pace")
        for kind in plan.kinds:
            try:
                _references(harness, plan.seeds, found, kind, rule)
            except Exception as error:
                broken.add(kind)
                found.failures[f"oracles of {kind}, {rule}"] = reason(error)
                say(f"oracles of {kind}, {rule} failed: {reason(error)}")
    for kind in broken:
        found.drop(kind)
    return found


def _references(harness: Harness, seeds: list[int], found: Found, kind: str, rule: str) -> None:
    """Add originals to which nothing was done, oracles and floors."""
    for seed in seeds:
        found.others.append(harness.original_run(kind, seed))
        found.untouched.setdefault(kind, []).append(harness.untouched(kind, rule, seed))
        found.oracles.setdefault(kind, []).append(harness.oracle_run(kind, rule, seed))
    found.floors.setdefault(kind, []).append(harness.floor(kind, rule, seeds))
    found.others += harness.floor_runs(kind, rule, seeds)
