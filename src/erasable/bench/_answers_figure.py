"""A picture of what models answer to images of classes that they have forgotten."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.bench._document import Picture
from erasable.bench._families import READINGS
from erasable.bench._figures import as_png, pyplot
from erasable.bench._grid import Found
from erasable.bench._runs import Run
from erasable.bench._unlearning_sheets import KIND_TITLES, MUTED, TITLES, best_edit

_MOST = 30
"""Classes that can still be read beside each other."""

Answers = dict[int, npt.NDArray[Any]]
"""Share of each answer, by the column of the image's own class."""


def answers(found: Found) -> dict[str, Answers]:
    """Return what oracles and models answer to test images of forgotten classes, by their names.

    Deletion from a memory, muting, which leaves the odds between other classes as they were, and
    the edit that comes nearest to its oracle. Nothing where no whole classes were forgotten, or
    too many to be drawn.

    Args:
        found: What was measured.
    """
    shown: dict[str, Answers] = {}
    best = best_edit(found)
    kinds = ("parametric", "knn", "spm", *READINGS, "gnn")
    for kind in [kind for kind in kinds if kind in found.untouched]:
        chosen = [(kind, "deletion"), *([MUTED, best] if kind == "parametric" else [])]
        oracle = _shares(_told(found.untouched[kind]), "oracle")
        if not oracle or len(next(iter(oracle.values()))) > _MOST:
            return {}
        shown[f"{KIND_TITLES[kind]}: oracle"] = oracle
        for key in chosen:
            if key in found.cells and (told := _told(found.cells[key])):
                name = f"{KIND_TITLES[kind]}: {TITLES.get(key[1], key[1])}"
                mine = _shares(told, "unlearned")
                shown[name] = {row: mine.get(row, np.zeros_like(oracle[row])) for row in oracle}
    return shown


def answers_picture(shown: dict[str, dict[str, Answers]], classes: Sequence[Any]) -> Picture:
    """Return the picture.

    Args:
        shown: What `answers` returned, by the title of its table.
        classes: Labels of all classes.
    """
    return Picture(
        "answers",
        "What is answered (columns) to test images of each forgotten class (rows): oracles, "
        "which never saw the class, beside deletion, muting and the edit with the smallest gap. "
        "Darker is more often. SISA is left out.",
        lambda: _draw(shown, [str(label) for label in classes]),
    )


def _told(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return answers of the first runs in which each class was forgotten along with the same."""
    first: dict[str, str] = {}
    told = []
    for run in runs:
        compared = run.result.get("compare", {})
        if "answers" not in compared:
            continue
        rule = run.settings["rule"]
        if all(first.setdefault(column, rule) == rule for column in compared["answers"]["oracle"]):
            told.append(compared["answers"])
    return told


def _shares(told: list[dict[str, Any]], whose: str) -> Answers:
    """Return shares of answers over all runs."""
    sums: Answers = {}
    for one in told:
        for column, counts in one[whose].items():
            sums[int(column)] = sums.get(int(column), 0) + np.array(counts, float)
    return {column: sums[column] / sums[column].sum() for column in sorted(sums)}


def _draw(shown: dict[str, dict[str, Answers]], names: list[str]) -> bytes:
    wide = max(len(panels) for panels in shown.values())
    heights = [max(map(len, panels.values())) for panels in shown.values()]
    size = (2.6 * wide, sum(0.25 * height + 1.1 for height in heights))
    figure, axes = pyplot().subplots(
        len(shown), wide, figsize=size, height_ratios=heights, squeeze=False, layout="constrained"
    )
    for line, (title, panels) in zip(axes, shown.items(), strict=True):
        for axis in line[len(panels) :]:
            axis.set_visible(False)
        for axis, (name, shares) in zip(line, panels.items(), strict=False):
            axis.imshow(np.array(list(shares.values())), cmap="Blues", vmin=0, vmax=1)
            axis.set_title(name, fontsize=8)
            axis.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
            axis.set_yticks(range(len(shares)), [names[c] for c in shares], fontsize=6)
        line[0].set_ylabel(title, fontsize=8)
    return as_png(figure)
