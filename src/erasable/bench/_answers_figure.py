"""A picture of what models answer to images of classes that they have forgotten."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.bench._document import Picture
from erasable.bench._figures import as_png, pyplot
from erasable.bench._grid import Found
from erasable.bench._runs import Run
from erasable.bench._unlearning_sheets import KIND_TITLES, TITLES

Answers = dict[int, npt.NDArray[Any]]
"""Share of each answer, by the column of the image's own class."""


def answers(found: Found) -> dict[str, Answers]:
    """Return what oracles and models answer to test images of forgotten classes, by their names.

    Deletion from a memory and muting, which leave the odds between other classes as they were, and
    the edit that comes nearest to its oracle. Nothing where no whole classes were forgotten.

    Args:
        found: What was measured.
    """
    shown: dict[str, Answers] = {}
    for kind in found.oracles:
        mine = {method: runs for (k, method), runs in found.cells.items() if k == kind}
        scored = {method: _told(runs) for method, runs in mine.items() if _told(runs)}
        if kind not in ("parametric", "spm", "gnn") or not scored:
            continue
        first = next(iter(scored.values()))
        shown[f"{KIND_TITLES[kind]}: oracle"] = _shares(first, "oracle")
        for method in _chosen(scored):
            name = f"{KIND_TITLES[kind]}: {TITLES.get(method, method)}"
            shown[name] = _shares(scored[method], "unlearned")
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
        "which never saw the class, beside deletion, muting and the edit that comes nearest. "
        "Darker is more often.",
        lambda: _draw(shown, [str(label) for label in classes]),
    )


def _told(runs: Sequence[Run]) -> list[dict[str, Any]]:
    compared = [run.result["compare"] for run in runs if "failed" not in run.result]
    return [one["answers"] for one in compared if "answers" in one]


def _chosen(scored: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return deletion and muting, and the edit whose answers are nearest to the oracle's."""
    plain: list[str] = [method for method in ("deletion", "mute") if method in scored]
    edits = [method for method in scored if method not in plain]
    if not edits:
        return plain
    return [*plain, min(edits, key=lambda method: _distance(scored[method]))]


def _distance(told: list[dict[str, Any]]) -> float:
    mine, theirs = _shares(told, "unlearned"), _shares(told, "oracle")
    return float(np.mean([np.abs(mine[column] - theirs[column]).sum() for column in mine]))


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
