"""Pictures of results."""

import base64
import io
from typing import Any

import numpy as np

from erasable.bench._demo import DemoResult, GalleryItem
from erasable.bench._runs import Run
from erasable.bench._teaser import Teaser
from erasable.errors import MissingExtraError

_BLUE, _RED, _GREY = "#2b6cb0", "#c05621", "#718096"


def pyplot() -> Any:
    """Return matplotlib without a screen, or say which extra brings it."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError(
            "Pictures need matplotlib: pip install 'erasable[bench]'."
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def as_png(figure: Any, *, dpi: int = 130) -> bytes:
    """Return a figure as a PNG file without a date in it.

    Args:
        figure: The figure, which is closed.
        dpi: Pixels per inch.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, bbox_inches="tight", metadata={"Software": None})
    pyplot().close(figure)
    return buffer.getvalue()


def data_url(png: bytes) -> str:
    """Return a PNG as a URL that carries its data."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def teaser_figure(teaser: Teaser) -> bytes:
    """Draw the toy: all rows, retrained without the crossed ones, crossed ones deleted."""
    plt = pyplot()
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap

    figures = teaser.figures()
    regions = LinearSegmentedColormap.from_list("regions", ["#f6ad8b", "#f7fafc", "#90b8e8"])
    panels = (
        ("all rows in memory", teaser.before),
        ("oracle: retrained without ×", teaser.retrained),
        ("× forgotten, no training", teaser.deleted),
    )
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.9), sharex=True, sharey=True)
    for axis, (title, values) in zip(axes, panels, strict=True):
        axis.contourf(teaser.axis, teaser.axis, values, levels=np.linspace(0, 1, 21), cmap=regions)
        axis.contour(
            teaser.axis, teaser.axis, values, levels=[0.5], colors="#4a5568", linewidths=1.2
        )
        kept, gone = teaser.points[~teaser.is_forgotten], teaser.points[teaser.is_forgotten]
        colours = ListedColormap([_RED, _BLUE])
        axis.scatter(
            *kept.T,
            c=teaser.labels[~teaser.is_forgotten],
            cmap=colours,
            s=14,
            edgecolor="white",
            linewidth=0.5,
        )
        is_first = values is teaser.before
        axis.scatter(
            *gone.T,
            marker="o" if is_first else "x",
            s=14 if is_first else 18,
            c=_RED if is_first else "black",
            linewidth=0.5 if is_first else 0.9,
            edgecolor="white" if is_first else None,
        )
        axis.set(title=title, xlim=(-3, 3), ylim=(-3, 3), xticks=[], yticks=[])
    figure.supxlabel(
        f"decisions differ from the oracle on {figures['before_to_retrained']:.1%} of the plane "
        f"before, "
        f"{figures['deleted_to_retrained']:.1%} after forgetting; two oracles differ on "
        f"{figures['retrained_to_retrained']:.1%}",
        fontsize=9,
    )
    figure.tight_layout()
    return as_png(figure)


def gaps_figure(result: DemoResult) -> bytes:
    """Draw each gap beside its floor, per scenario."""
    plt = pyplot()
    names = (
        ("prediction_gap", 100, "PG_H, % of test images"),
        ("kl_oracle_unlearned", 1, "KL(oracle ‖ model), nats"),
    )
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.6))
    lines = [line for line in result.lines if line.floor is not None]
    for axis, (name, unit, title) in zip(axes, names, strict=True):
        for place, line in enumerate(lines):
            colour = _BLUE if line.model.startswith("SPM") else _RED
            values = [unit * getattr(gap, name) for gap in line.gaps]
            axis.bar(place, np.mean(values), color=colour, width=0.7)
            axis.plot([place] * len(values), values, "o", color="black", markersize=3)
            floor = unit * getattr(line.floor, name)
            axis.hlines(floor, place - 0.42, place + 0.42, color="black", linewidth=2)
        labels = [
            f"{line.scenario}\n{'SPM' if line.model.startswith('SPM') else 'twin'}"
            for line in lines
        ]
        axis.set_xticks(range(len(lines)), labels, fontsize=8)
        axis.set_title(title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    handles = [
        plt.Rectangle((0, 0), 1, 1, color=_BLUE, label="SPM, forgotten from memory"),
        plt.Rectangle((0, 0), 1, 1, color=_RED, label="parametric twin, untouched"),
        plt.Line2D(
            [], [], color="black", marker="o", linewidth=0, markersize=3, label="each oracle"
        ),
        plt.Line2D([], [], color="black", linewidth=2, label="floor: oracle against oracle"),
    ]
    figure.tight_layout()
    figure.legend(
        handles=handles,
        loc="upper center",
        ncol=4,
        frameon=False,
        fontsize=8,
        bbox_to_anchor=(0.5, 0.02),
    )
    return as_png(figure)


def gallery_figure(items: list[GalleryItem]) -> bytes:
    """Draw queries with the rows that voted before and after; forgotten rows are crossed out."""
    plt = pyplot()
    top = len(items[0].before)
    figure, axes = plt.subplots(
        len(items),
        2 * top + 2,
        squeeze=False,
        figsize=(12, 1.25 * len(items)),
        gridspec_kw={"width_ratios": [1.2] + [1] * top + [0.35] + [1] * top},
    )
    for axis in axes.flat:
        axis.axis("off")
    for row, item in zip(axes, items, strict=True):
        row[0].imshow(item.image, cmap="gray_r")
        row[0].set_title(f"a {item.label}", fontsize=8, color=_GREY)
        for start, votes in ((1, item.before), (top + 2, item.after)):
            for axis, (image, _, weight, is_gone) in zip(row[start:], votes, strict=False):
                axis.imshow(image, cmap="gray_r")
                axis.set_title(f"{weight:.1%}", fontsize=7, color="crimson" if is_gone else "black")
                if is_gone:
                    axis.plot([0, 7], [0, 7], color="crimson", linewidth=2)
                    axis.plot([0, 7], [7, 0], color="crimson", linewidth=2)
    figure.text(0.33, 1.0, "before: the five heaviest votes", ha="center", fontsize=10)
    figure.text(0.74, 1.0, "after forgetting the crossed rows", ha="center", fontsize=10)
    figure.tight_layout()
    return as_png(figure)


def share_png(groups: dict[str, list[Run]]) -> bytes:
    """Draw test accuracy against the share of exact rows, one line per training and reading."""
    figure, axes = pyplot().subplots(figsize=(7, 4.2), layout="constrained")
    for (name, runs), colour in zip(groups.items(), (_BLUE, _RED, _GREY), strict=False):
        for reduction, style in (("prototypes", "o-"), ("gaussian", "s--")):
            shares = sorted({run.settings["exact_share"] for run in runs})
            found = [_accuracies(runs, share, reduction) for share in shares]
            axes.errorbar(
                [100 * share for share in shares],
                [float(np.mean(some)) for some in found],
                [float(np.std(some, ddof=1)) if len(some) > 1 else 0.0 for some in found],
                fmt=style,
                color=colour,
                capsize=3,
                label=f"{name}: {reduction}",
            )
    axes.set_xlabel("rows that are only remembered, so that forgetting them is exact, %")
    axes.set_ylabel("test accuracy, %")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    return as_png(figure)


def _accuracies(runs: list[Run], share: float, reduction: str) -> list[float]:
    same = [run for run in runs if run.settings["exact_share"] == share]
    return [100 * run.result["accuracies"][reduction] for run in same]
