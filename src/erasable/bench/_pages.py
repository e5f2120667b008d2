"""Results as pages of the documentation: tables with command, seeds, commit, machine and time."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from erasable.bench._gap import collect_gaps
from erasable.bench._machine import machines
from erasable.bench._runs import Run
from erasable.bench._std_cls import FRACTIONS, Cell, collect

# Table std_cls of the paper: CIFAR-10 accuracy with 5, 10 and 100 % of the rows, test time with all
# of them in seconds; then the same for ImageNet.
PAPER: dict[str, tuple[tuple[str, str, str, float], tuple[str, str, str, float]]] = {
    "parametric": (("", "", "94.9", 0.7), ("", "", "68.93", 26.1)),
    "KNN on the twin's features": (
        ("94.5", "94.5", "94.5", 1.5),
        ("61.5", "63.4", "66.9", 63.7),
    ),
    "SPM prototypes": (("94.5", "94.5", "94.5", 0.7), ("66.1", "66.6", "67.1", 31.3)),
    "SPM neighbours": (("94.1", "94.1", "94.1", 2.1), ("52.0", "54.8", "59.9", 61.2)),
}
_CLOSE = 0.003
_IMAGENET = 1000

_STD_CLS = """\
The paper's table std_cls at the scale of preset `{preset}`: test accuracy in percent, mean ±
standard deviation over seeds {seeds}, with 5, 10 and 100 % of each class in the memory, and the
time to predict the test rows over the parametric twin's, measured side by side in one process
(decoding included, where images come from files). All
ways to read the rows share one set of weights per seed; KNN reads the twin's features; *graph* adds
one layer of graph attention between rows, by a short adaptation of the same weights.

Level of forgetting: `memory`. The weights were trained on all rows; a forgotten row stops voting,
and the weights still carry what they learnt.
"""


def std_cls_page(runs: list[Run], command: str) -> Iterator[str]:
    """Yield the lines of the page of table std_cls."""
    first = runs[0].settings
    data = first["data"]
    cells = collect(runs)
    yield f"# std_cls on {data['name']}\n"
    yield _STD_CLS.format(
        preset=first["preset"], seeds=", ".join(str(run.settings["seed"]) for run in runs)
    )
    yield from _rows_table(cells, paper_column(data), first["parameters"]["encoder"])
    yield from (f"{note}\n" for note in std_cls_notes(cells, runs))
    yield "## How it was run\n"
    yield f"`{command}`\n"
    yield from _facts(runs, data, first["parameters"])


def paper_column(data: dict[str, Any]) -> int | None:
    """Return which of the paper's columns this data set belongs beside, if any."""
    if data["name"] == "cifar10":
        return 0
    return 1 if data["classes"] == _IMAGENET else None


def _rows_table(cells: list[Cell], column: int | None, encoder: str) -> Iterator[str]:
    shares = [f"{fraction:.0%}" for fraction in FRACTIONS]
    header = ["model", *shares, "time / twin"]
    rows = [[name, *map(_accuracy, group), _ratio(group[-1])] for name, group in _grouped(cells)]
    if column is not None:
        header += [f"paper: {' / '.join(shares)}", "paper: time / ResNet"]
        rows = [[*row, *_paper(row[0], column)] for row in rows]
    yield from table(header, rows)
    if column is not None:
        yield (
            f"The paper's figures are for a ResNet-18 on {('CIFAR-10', 'ImageNet')[column]}, "
            f"trained far longer, on a GPU; here the encoder is {encoder}{_start(encoder)}.\n"
        )


def _start(encoder: str) -> str:
    """Say where an encoder starts, if not from drawn weights."""
    is_published = encoder.startswith("efficientnet")
    return ", which starts from weights that were trained on ImageNet" if is_published else ""


def _grouped(cells: list[Cell]) -> Iterator[tuple[str, list[Cell | None]]]:
    for name in dict.fromkeys(cell.model for cell in cells):
        found = {cell.fraction: cell for cell in cells if cell.model == name}
        if None in found:
            yield name, [None, None, found[None]]
        else:
            yield name, [found.get(fraction) for fraction in FRACTIONS]


def _accuracy(cell: Cell | None) -> str:
    return "" if cell is None else spread(cell.accuracies)


def _ratio(cell: Cell | None) -> str:
    """Return the median, and the range that it was taken of."""
    if cell is None:
        return ""
    median = f"{statistics.median(cell.ratios):.2f}"
    if len(set(cell.ratios)) == 1:
        return median
    return f"{median} ({min(cell.ratios):.2f}–{max(cell.ratios):.2f})"


def _paper(name: str, column: int) -> list[str]:
    if name not in PAPER:
        return ["", ""]
    five, ten, everything, seconds = PAPER[name][column]
    shown = " / ".join(value for value in (five, ten, everything) if value)
    return [shown, f"{seconds / PAPER['parametric'][column][3]:.2f}"]


def std_cls_notes(cells: list[Cell], runs: list[Run]) -> list[str]:
    """Compare prototypes with the twin, seed by seed, and say how long training took.

    Args:
        cells: The table.
        runs: One run per seed.
    """
    twin = next(cell for cell in cells if cell.fraction is None)
    own = next(c for c in cells if c.model == "SPM prototypes" and c.fraction == 1.0)
    gaps = [a - b for a, b in zip(own.accuracies, twin.accuracies, strict=True)]
    mean = statistics.fmean(gaps)
    word = "not more than" if round(mean, 6) >= -_CLOSE else "MORE than"
    shown = ", ".join(f"{100 * gap:+.2f}" for gap in gaps)
    seconds = [run.result["seconds"] for run in runs]
    fits = {name: _times([s[f"{name}_fit"] for s in seconds]) for name in ("twin", "spm", "graph")}
    return [
        f"SPM prototypes less its twin, points per seed: {shown}; mean {100 * mean:+.2f}. So it is "
        f"{word} {100 * _CLOSE:.1f} points behind, with equal epochs and regularisation.",
        f"Training, median (longest) over the seeds: twin {fits['twin']}, SPM {fits['spm']}, graph "
        f"{fits['graph']} more. (Of a run that was interrupted, only the last part.)",
    ]


def _times(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.0f} s ({max(seconds):.0f} s)"


def exact_page(by_encoder: dict[str, dict[str, Run]], command: str) -> Iterator[str]:
    """Yield the lines of the page of level exact.

    Args:
        by_encoder: Runs of each encoder, by its name and resolution, then by stage.
        command: The command that made them.
    """
    every = [run for runs in by_encoder.values() for run in runs.values()]
    data = every[0].settings["data"]
    yield f"# Level exact on {data['name']}\n"
    yield (
        "The encoder is frozen and rows are only remembered; the level of forgetting, and whose "
        "word it rests on, stands with each encoder. "
        f"{data['train_rows']:,} rows; test accuracy in percent on {data['test_rows']:,} test "
        "rows, with shares below 100 % as mean ± standard deviation over three draws of the "
        "memory (seeds 0, 1, 2). Nothing was tuned: shrinkage, temperature and grid are the "
        "library's defaults. Embeddings that were in the cache already were not computed again; "
        "that is not in the time of the runs.\n"
    )
    for name, runs in by_encoder.items():
        yield f"## {name}\n"
        yield from _exact_accuracies(runs)
        yield from _exact_forgetting(runs)
        for stage, run in runs.items():
            if stage.startswith("shadows "):
                yield from _exact_attacks(stage.removeprefix("shadows "), run)
    yield "## How it was run\n"
    yield f"`{command}`\n"
    yield from _facts(every, data, None)


def _exact_accuracies(runs: dict[str, Run]) -> Iterator[str]:
    rows = []
    for stage, run in runs.items():
        if stage.startswith("accuracy "):
            found = run.result
            accuracies = [spread(found["accuracies"][str(fraction)]) for fraction in FRACTIONS]
            seconds = f"{found['seconds'][str(FRACTIONS[-1])]:.1f}"
            rows.append([stage.removeprefix("accuracy "), *accuracies, seconds])
    header = [f"{fraction:.0%} of the rows" for fraction in FRACTIONS]
    yield from table(["reading", *header, "s to read all for the test rows"], rows)


def _exact_forgetting(runs: dict[str, Run]) -> Iterator[str]:
    found = runs["forget"].result
    levels = ", ".join(" on the basis ".join(level) for level in found["levels"])
    yield (
        f"Forgetting one row, in memory, without an embedding cache and not saved: median "
        f"{found['median_ms']:.2f} ms, 99th percentile "
        f"{found['p99_ms']:.2f} ms, of which {found['digest_ms']:.2f} ms hash all weights for the "
        f"receipt; a class of {found['class']['rows']:,} rows: "
        f"{found['class']['seconds']:.2f} s. Level: {levels}. The first prediction by `gaussian` "
        f"afterwards solves anew: {found['gaussian_refit_seconds']:.2f} s.\n"
    )
    rows, seconds = found["audit"]["rows"], found["audit"]["seconds"]
    yield f"Audit of {rows:,} rows, {seconds:.0f} s:\n"
    yield "```text\n" + found["audit"]["text"] + "\n```\n"


def _exact_attacks(reduction: str, run: Run) -> Iterator[str]:
    found, record = run.result, run.result["record"]
    yield (
        f"Attacks on `{reduction}`, {record['shadows']:,} shadow models per world, each on its own "
        f"random half of the rows; forget set of {record['forget']} rows, "
        f"{record['rows_per_model']:,} rows left per model, seed {record.get('seed', 0)}. A "
        "shadow's rows are added and taken away as integer sums, as the library does. Unlearned "
        f"states equal to those never holding the rows: {record['equal_states']:,} of "
        f"{record['shadows']:,}; {record.get('checked', 0)} of them also went through `forget` "
        "itself.\n"
    )
    rows = []
    worlds = {
        "before": "before forgetting",
        "unlearned": "after forgetting",
        "second_oracle": "floor: never held the rows",
    }
    for name, words in worlds.items():
        attack, divergence = found[f"u_lira {name}"], found[f"klom {name} forget"]
        rates = " / ".join("–" if v is None else f"{100 * v:.2f}" for v in attack["tpr"].values())
        rows.append(
            [
                words,
                f"{100 * attack['accuracy']:.2f} ± {196 * attack['error']:.2f}",
                f"{attack['auc']:.3f}",
                rates,
                f"{divergence['mean']:.4f}",
            ]
        )
    rates = " / ".join(f"{100 * float(rate):g} %" for rate in found["u_lira before"]["tpr"])
    header = ["", "U-LiRA accuracy % (± 95 %)", "AUC", f"TPR % at FPR {rates}", "KLOM"]
    yield from table(header, rows)
    others = [
        f"{part} {found[f'klom unlearned {part}']['mean']:.4f} "
        f"[{found[f'klom second_oracle {part}']['mean']:.4f}]"
        for part in ("retain", "validation")
    ]
    yield f"KLOM of other rows after forgetting [floor]: {', '.join(others)}.\n"


def share_page(groups: dict[str, list[Run]], command: str, picture: str | None) -> Iterator[str]:
    """Yield the lines of the page on accuracy against the share of exact rows.

    Args:
        groups: Runs by what was trained.
        command: The command that made them.
        picture: Path of the curve, if there is one.
    """
    every = [run for runs in groups.values() for run in runs]
    data = every[0].settings["data"]
    yield f"# Accuracy against the share of exact rows, {data['name']}\n"
    yield (
        "Weights are trained on a part of the rows; the others are remembered only. Forgetting one "
        "of the latter is `exact`, one of the former `memory`. All rows are in the memory each "
        "time. Test accuracy in percent, mean ± standard deviation over the seeds. `gaussian` "
        "reads what the encoder returns, not the trained comparison: a frozen encoder gives it one "
        "figure.\n"
    )
    if picture:
        yield f"![Test accuracy against the share of rows whose forgetting is exact.]({picture})\n"
    for name, runs in groups.items():
        yield f"## {name}\n"
        rows = []
        for share in dict.fromkeys(run.settings["exact_share"] for run in runs):
            same = [run for run in runs if run.settings["exact_share"] == share]
            figures = [
                spread([run.result["accuracies"][reduction] for run in same])
                for reduction in ("prototypes", "gaussian")
            ]
            rows.append([f"{share:.0%}", f"{same[0].result['rows_seen']:,}", *figures])
        yield from table(["exact rows", "rows trained on", "prototypes", "gaussian"], rows)
    yield "## How it was run\n"
    yield f"`{command}`\n"
    yield from _facts(every, data, None)


def gap_page(found: dict[str, list[tuple[Run, Run]]], command: str) -> Iterator[str]:
    """Yield the lines of the page on what the gap to the parametric twin depends on.

    Args:
        found: (twin, semi-parametric) runs by what was changed.
        command: The command that made them.
    """
    distinct = {
        str(run.settings): run for pairs in found.values() for pair in pairs for run in pair
    }
    every = list(distinct.values())  # the twin of the preset stands in several lines
    first = every[0].settings
    data, rows = first["data"], first["rows"]
    yield f"# The gap to the parametric twin, {data['name']}\n"
    yield (
        f"Both models are trained on {rows:,} of the training rows and compared on {rows // 2:,} "
        "others; test rows are never read. One setting is changed at a time, in both models where "
        "both have it. Accuracy in percent, mean ± standard deviation over the seeds; the gap is "
        "that of SPM prototypes less the twin's, seed by seed.\n"
    )
    lines = []
    for gap in collect_gaps(found):
        lines.append([gap.name, spread(gap.twin), spread(gap.spm), spread(gap.per_seed, sign="+")])
    yield from table(["changed", "parametric twin", "SPM prototypes", "gap"], lines)
    yield "## How it was run\n"
    yield f"`{command}`\n"
    yield from _facts(every, data, first["parameters"])


def spread(values: Sequence[float], sign: str = "") -> str:
    """Return a mean in percent, with the standard deviation if there are several values."""
    mean = f"{100 * statistics.fmean(values):{sign}.2f}"
    return mean if len(values) < 2 else f"{mean} ± {100 * statistics.stdev(values):.2f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown; numbers stand on the right."""
    yield "| " + " | ".join(header) + " |"
    yield "|---|" + "---:|" * (len(header) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _facts(runs: list[Run], data: dict[str, Any], parameters: Any) -> Iterator[str]:
    """Yield where figures come from: data, seeds, machine, time."""
    seeds = sorted({run.settings["seed"] for run in runs if "seed" in run.settings})
    digests = f"`{data['train_contents'][:16]}` and `{data['test_contents'][:16]}`"
    yield f"- data: {data['name']}; digests of training and test rows {digests}"
    if parameters is not None:
        yield f"- parameters: `{parameters}`"
    if seeds:
        yield f"- seeds: {', '.join(map(str, seeds))}"
    for name in machines(run.machine for run in runs):
        yield f"- {name}"
    yield f"- {sum(run.seconds for run in runs) / 60:.0f} minutes in all"
