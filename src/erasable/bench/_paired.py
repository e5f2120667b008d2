"""Differences between lines of a table, scenario by scenario.

Scenarios differ more than methods do: some classes are hard to forget for all of them. So the
spread of a line says little of whether it is nearer than another one; differences do.
"""

import math
import statistics
from dataclasses import dataclass

from erasable.bench._grid import Found

Line = tuple[str, str]
"""Kind of model and method."""


@dataclass(frozen=True)
class Difference:
    """How much farther from its oracle one line is than another, beyond the floors of their kinds.

    Attributes:
        values: In PG_H; one per scenario, as a mean over seeds, or per seed if there is only one
            scenario. Negative: the first line is nearer.
        is_by_seed: Whether there is one value per seed.
    """

    values: tuple[float, ...]
    is_by_seed: bool

    @property
    def mean(self) -> float:
        """Mean of the differences."""
        return statistics.fmean(self.values)

    @property
    def error(self) -> float:
        """Standard error of the mean; NaN if there is one difference only."""
        if len(self.values) < 2:
            return math.nan
        return statistics.stdev(self.values) / math.sqrt(len(self.values))

    @property
    def nearer(self) -> int:
        """In how many the first line is nearer."""
        return sum(value < 0 for value in self.values)

    def text(self) -> str:
        """Return it in words, in percent of the test images."""
        spread = "" if math.isnan(self.error) else f" ± {100 * self.error:.2f}"
        return f"{100 * self.mean:+.2f}{spread} points (nearer in {self.nearer} of {self.count})"

    @property
    def count(self) -> int:
        """Number of differences."""
        return len(self.values)


def difference(found: Found, own: Line, other: Line) -> Difference | None:
    """Compare two lines where both have a score; None if they nowhere have.

    Args:
        found: What was measured.
        own: The line that is nearer where a difference is negative.
        other: What it is compared with.
    """
    mine, theirs = _beyond(found, own), _beyond(found, other)
    by_rule: dict[str, list[float]] = {}
    for rule, seed in mine.keys() & theirs.keys():
        by_rule.setdefault(rule, []).append(mine[rule, seed] - theirs[rule, seed])
    if not by_rule:
        return None
    if len(by_rule) == 1:
        return Difference(tuple(sorted(*by_rule.values())), is_by_seed=True)
    return Difference(tuple(statistics.fmean(by_rule[r]) for r in sorted(by_rule)), False)


def _beyond(found: Found, line: Line) -> dict[tuple[str, int], float]:
    """Return PG_H less the floor of the kind in the same scenario, by scenario and seed."""
    floors = {
        run.settings["rule"]: statistics.fmean(
            pair["test"]["prediction_gap"] for pair in run.result["pairs"]
        )
        for run in found.floors[line[0]]
    }
    return {
        (run.settings["rule"], run.settings["seed"]): run.result["compare"]["test"][
            "prediction_gap"
        ]
        - floors[run.settings["rule"]]
        for run in found.cells.get(line, [])
        if "failed" not in run.result
    }
