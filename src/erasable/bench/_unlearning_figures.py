"""Pictures of the unlearning benchmark."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from erasable.bench._answers_figure import answers, answers_picture
from erasable.bench._document import Picture
from erasable.bench._figures import as_png, pyplot
from erasable.bench._grid import Found
from erasable.bench._runs import Run
from erasable.bench._unlearning_sheets import KIND_TITLES, MUTED, TITLES, best_edit

COLOURS = {
    "parametric": "#8a6d3b",
    "knn": "#2f855a",
    "spm": "#2b6cb0",
    "spm_neighbours": "#4299e1",
    "spm_gaussian": "#1a365d",
    "gnn": "#6b46c1",
    "sisa": "#b83280",
}
"""Colours of kinds of models."""
_ORACLE = "#2d3748"

_BESIDE, _FARTHER, _HEADROOM = 1.12, 1.7, 1.08
"""How far right of its point a label stands, if there is room and if not, as factors; and how much
more than the largest gap is shown."""
_LINE, _LETTER, _DOT = 0.045, 0.05, 0.04
"""Height of a line of text, as a share of the largest gap; width of a letter and half of that of a
point, in powers of ten."""

_SHORT = 3
"""Letters of a label that fit under a point; longer ones are turned."""


def unlearning_pictures(found: dict[str, Found], classes: Sequence[Any]) -> list[Picture]:
    """Return pictures of all groups: gap against floor, against time, per class, and answers.

    Args:
        found: What was measured, by the title of its table.
        classes: Labels of all classes.
    """
    shown = {title: group for title, group in found.items() if _means(group)}
    if not shown:
        return []
    answered = {title: parts for title, group in shown.items() if (parts := answers(group))}
    return [
        Picture(
            "floor",
            "Hard prediction gap (PG_H) of each method to its oracle. The black line is the floor: "
            "the gap between two oracles of different seeds. Dotted: doing nothing.",
            lambda: _panels(shown, _draw_floor, height=3.9),
        ),
        Picture(
            "time",
            "Hard prediction gap against the time of the edit, on a log axis. Diamonds are "
            "oracles: their training time, and the gap between two of them.",
            lambda: _panels(shown, _draw_time, height=3.9),
        ),
        Picture(
            "classes",
            "Hard prediction gap by forgotten class, or by class of the test image where one "
            "scenario is shown. Dashed: the floor of the semi-parametric model there.",
            lambda: _panels(
                shown, lambda axis, group: _draw_classes(axis, group, classes), height=3.6
            ),
        ),
        *([answers_picture(answered, classes)] if answered else []),
    ]


def _panels(found: dict[str, Found], draw: Any, *, height: float) -> bytes:
    figure, axes = pyplot().subplots(
        1, len(found), figsize=(6.2 * len(found), height), squeeze=False, layout="constrained"
    )
    for axis, (title, group) in zip(axes[0], found.items(), strict=True):
        draw(axis, group)
        axis.set_title(title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    return as_png(figure)


def _draw_floor(axis: Any, found: Found) -> None:
    means = _means(found)
    for place, ((kind, _), values) in enumerate(means.items()):
        axis.bar(place, statistics.fmean(values), color=COLOURS.get(kind), width=0.7)
        axis.plot([place] * len(values), values, ".", color=_ORACLE, markersize=3)
        floor = statistics.fmean(_floor(found, kind))
        axis.hlines(floor, place - 0.45, place + 0.45, color="black", linewidth=1.8)
        nothing = statistics.fmean(_gaps(found.untouched[kind]))
        axis.hlines(nothing, place - 0.45, place + 0.45, color="black", linewidth=1, linestyle=":")
    axis.set_xticks(range(len(means)), [_name(key) for key in means], rotation=40, ha="right")
    axis.tick_params(axis="x", labelsize=8)
    axis.set_ylabel("PG_H, % of test images")


def _draw_time(axis: Any, found: Found) -> None:
    means = {key: statistics.fmean(values) for key, values in _means(found).items()}
    times = {
        key: statistics.median(run.result["seconds"] for run in _scored(found.cells[key]))
        for key in means
    }
    oracles = {
        kind: (
            statistics.median(run.result["seconds"] for run in runs),
            statistics.fmean(_floor(found, kind)),
        )
        for kind, runs in found.oracles.items()
    }
    labels = labels_apart(
        {_name(key): (times[key], means[key]) for key in means}, others=list(oracles.values())
    )
    for key, gap in means.items():
        colour = COLOURS.get(key[0])
        axis.plot(times[key], gap, "o", color=colour, markersize=7)
        place, height = labels[_name(key)]
        is_moved = height != gap
        axis.annotate(
            _name(key),
            (times[key], gap),
            xytext=(place, height),
            va="center",
            size=7,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5, "shrinkB": 4}
            if is_moved
            else None,
        )
    for kind, (seconds, floor) in oracles.items():
        axis.plot(seconds, floor, "D", color=COLOURS.get(kind), markersize=5, markerfacecolor="w")
    axis.set_xscale("log")
    axis.minorticks_off()
    tops = [height for _, height in labels.values()]
    floors = [floor for _, floor in oracles.values()]
    axis.set_ylim(0, _HEADROOM * max([*tops, *floors]))
    axis.set_xlabel("seconds")
    axis.set_ylabel("PG_H, % of test images")
    axis.grid(alpha=0.25)
    axis.margins(x=0.15)


def labels_apart(
    points: dict[str, tuple[float, float]], *, others: Sequence[tuple[float, float]] = ()
) -> dict[str, tuple[float, float]]:
    """Return where labels stand: beside their points, or farther right and higher if need be.

    No label stands on another one or on a point.

    Args:
        points: Place (seconds, gap) by label.
        others: Places of points without a label.
    """
    line = _LINE * max(gap for _, gap in points.values())
    places = ((math.log10(seconds), gap) for seconds, gap in (*points.values(), *others))
    placed = [(place - _DOT, place + _DOT, gap) for place, gap in places]
    found: dict[str, tuple[float, float]] = {}
    for label, (seconds, gap) in sorted(points.items(), key=lambda item: item[1][1]):
        factor, height, width = _BESIDE, gap, _LETTER * len(label)
        while True:
            start = math.log10(factor * seconds)
            met = [
                other
                for left, right, other in placed
                if left < start + width and start < right and other - line < height < other + line
            ]
            if not met:
                break
            factor, height = _FARTHER, max(met) + line
        placed.append((start, start + width, height))
        found[label] = factor * seconds, height
    return found


def _draw_classes(axis: Any, found: Found, classes: Sequence[Any]) -> None:
    rules = list(dict.fromkeys(run.settings["rule"] for run in _all_runs(found)))
    for key in _highlighted(found):
        compared = [
            (run.settings["rule"], run.result["compare"]) for run in _scored(found.cells[key])
        ]
        values = along(compared, rules, len(classes))
        style = {"marker": "o", "markersize": 4, "linewidth": 1, "color": COLOURS.get(key[0])}
        style |= {"linestyle": ":"} if key == MUTED else {}
        axis.plot(range(len(values)), values, label=_name(key), **style)
    floors = found.floors[_reader(found)]
    pairs = [(run.settings["rule"], pair) for run in floors for pair in run.result["pairs"]]
    values = along(pairs, rules, len(classes))
    axis.plot(range(len(values)), values, color="black", ls="--", lw=1)
    labels = [rule.partition(":")[2] for rule in rules] if len(rules) > 1 else list(classes)
    is_long = any(len(str(label)) > _SHORT for label in labels)
    turned = {"rotation": 40, "ha": "right"} if is_long else {}
    axis.set_xticks(range(len(labels)), labels, **turned)
    axis.set_xlabel("forgotten class" if len(rules) > 1 else "class of the test image")
    axis.set_ylabel("PG_H, %")
    axis.legend(fontsize=7, frameon=False)


def _highlighted(found: Found) -> list[tuple[str, str]]:
    """Return the edit with the smallest gap, muting, and every deletion."""
    best, means = best_edit(found), _means(found)
    edits = [best] if best else []
    muted = [MUTED] if MUTED in means else []
    return [*edits, *muted, *(key for key in means if key[1] == "deletion")]


def _reader(found: Found) -> str:
    return "spm" if "spm" in found.floors else next(iter(found.floors))


def _means(found: Found) -> dict[tuple[str, str], list[float]]:
    """Return hard prediction gaps in percent, by kind and method, where there are any."""
    gaps = {key: _gaps(_scored(runs)) for key, runs in found.cells.items()}
    return {key: values for key, values in gaps.items() if values}


def _gaps(runs: Sequence[Run]) -> list[float]:
    return [100 * run.result["compare"]["test"]["prediction_gap"] for run in runs]


def _floor(found: Found, kind: str) -> list[float]:
    return [100 * pair["test"]["prediction_gap"] for pair in found.pairs(kind)]


def along(
    compared: Sequence[tuple[str, dict[str, Any]]], rules: Sequence[str], classes: int
) -> list[float]:
    """Return mean gaps in percent: by rule, or by class of the test image if there is one rule.

    Args:
        compared: What was forgotten, and the comparison of two models after that.
        rules: The rules, in order.
        classes: How many classes there are.
    """
    if len(rules) > 1:
        gaps = [[c["test"]["prediction_gap"] for r, c in compared if r == rule] for rule in rules]
    else:
        gaps = [[c["by_class"][place] for _, c in compared] for place in range(classes)]
    known = [[100 * gap for gap in some if gap is not None] for some in gaps]
    return [statistics.fmean(some) if some else math.nan for some in known]


def _all_runs(found: Found) -> list[Run]:
    return [run for runs in found.cells.values() for run in runs]


def _scored(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if "failed" not in run.result]


def _name(key: tuple[str, str]) -> str:
    kind, method = key
    title = KIND_TITLES.get(kind, kind)
    return title if method == "deletion" else TITLES.get(method, method)
