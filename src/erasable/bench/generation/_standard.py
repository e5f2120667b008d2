"""Standard generation: how well all classes are drawn, by how many rows, and how fast."""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from erasable.bench._document import Document, origin
from erasable.bench._runs import Run
from erasable.bench._sheet import Entry, Figure, Sheet
from erasable.bench.generation._drawings import SAMPLER, Drawings
from erasable.bench.generation._figures import standard_pictures
from erasable.bench.generation._paper import STANDARD
from erasable.bench.generation._presets import DEFAULT_ROWS
from erasable.bench.generation._words import TITLES, introduction, judge_note

SIZES = (10, 20, 50, 100, 1024)
"""Rows per class that are read, of the table of standard generation."""

VARIANTS = ("spm", "spm_follow", "spm_support", "spm_detached", "spm_permuted", "spm_plain")
"""Semi-parametric generators that are compared with one another."""

_TIMED_IMAGES = 64
_ROUNDS, _WARM_UP = 3, 1
_ASIDE = ("time", "difference")
"""Runs that are not of one row."""

_SHARES = 10
"""About how many of the shares that were noted in training are told."""


def run_standard(
    drawings: Drawings, *, seeds: Sequence[int], sizes: Sequence[int] = SIZES
) -> dict[str, list[Run]]:
    """Draw with every generator, and with as many rows per class as the sizes say.

    Args:
        drawings: Makes and keeps samples.
        seeds: Seeds of originals.
        sizes: Rows per class that the semi-parametric model reads.
    """
    rows: dict[str, dict[str, Any]] = {"ddpm": {}, "gmm": {}}
    rows |= {f"spm {size}": {"rows_per_class": size} for size in sizes}
    found = _run(drawings, rows, seeds)
    return {**found, "difference": [_differences(drawings, rows, seed) for seed in seeds]}


def run_variants(
    drawings: Drawings, *, seeds: Sequence[int], variants: Sequence[str] | None = None
) -> dict[str, list[Run]]:
    """Draw with variants of the semi-parametric model, and with the ordinary one.

    Args:
        drawings: Makes and keeps samples.
        seeds: Seeds of originals.
        variants: Which ones; default: `VARIANTS`.
    """
    rows: dict[str, dict[str, Any]] = {"ddpm": {}}
    rows |= {name: {"rows_per_class": DEFAULT_ROWS} for name in variants or VARIANTS}
    return _run(drawings, rows, seeds)


def _run(
    drawings: Drawings, rows: dict[str, dict[str, Any]], seeds: Sequence[int]
) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {name: [] for name in rows}
    for seed in seeds:
        for name, options in rows.items():
            found[name].append(_quality(drawings, name, seed, options))
        found.setdefault("time", []).append(_timing(drawings, rows, seed))
    return found


def _quality(drawings: Drawings, name: str, seed: int, options: dict[str, Any]) -> Run:
    generators, kind = drawings.generators, name.partition(" ")[0]
    settings = {**drawings.settings("standard", kind, seed), "options": options}

    def work() -> dict[str, Any]:
        found = drawings.measure(drawings.of_original(kind, seed, **options), None, None)
        if kind == "gmm":
            return {**found, "training_seconds": None, "watched": []}
        training = generators.training(kind, seed).result
        watched = [
            [int(entry["step"]), entry["consistency"]]
            for entry in training["history"]
            if "consistency" in entry
        ]
        return {**found, "training_seconds": training["seconds"], "watched": watched}

    return drawings.figures(settings, work)


def _differences(drawings: Drawings, rows: dict[str, dict[str, Any]], seed: int) -> Run:
    """Compare images of every row with those of the last one, pixel by pixel."""
    generators, facing = drawings.generators, list(rows)[-1]
    settings = {
        **drawings.settings("difference", "ddpm", seed),
        "name": "all",
        "parameters": {name: generators.parameters(name.partition(" ")[0]) for name in rows},
        "rows": rows,
        "facing": facing,
    }

    def drawn(name: str) -> npt.NDArray[np.float64]:
        images = drawings.of_original(name.partition(" ")[0], seed, **rows[name])
        return images.astype(np.float64) / 255

    def work(_: Path) -> dict[str, Any]:
        last = drawn(facing)
        return {"differences": {name: float(abs(drawn(name) - last).mean()) for name in rows}}

    return generators.runs.run(settings, work)


def _timing(drawings: Drawings, rows: dict[str, dict[str, Any]], seed: int) -> Run:
    """Time drawing by all models in turn, in one process."""
    generators = drawings.generators
    label = generators.classes[0]
    kinds = sorted({name.partition(" ")[0] for name in rows})
    settings = {
        **generators.run_settings("timing", "ddpm", seed),
        "name": "all",
        "parameters": {kind: generators.parameters(kind) for kind in kinds},
        "rows": rows,
        "images": _TIMED_IMAGES,
        "sampler": SAMPLER,
        "steps": drawings.steps,
        "rounds": _ROUNDS,
    }

    def work(_: Path) -> dict[str, Any]:
        models = {kind: generators.model(kind, seed) for kind in kinds}
        times: dict[str, list[float]] = {name: [] for name in rows}
        for number in range(_ROUNDS + _WARM_UP):
            for name in list(rows) if number % 2 else list(reversed(rows)):
                model = models[name.partition(" ")[0]]
                noise = torch.Generator().manual_seed(number)
                start = time.perf_counter()
                model.sample(
                    [label] * _TIMED_IMAGES,
                    generator=noise,
                    num_inference_steps=drawings.steps,
                    **rows[name],
                )
                times[name].append(time.perf_counter() - start)
        held = sum(y == label for y in generators.train.y.tolist())
        return {
            "seconds": {name: found[_WARM_UP:] for name, found in times.items()},
            "rows_of_class": held,
            "kernel": generators.kernel,
        }

    return generators.runs.run(settings, work)


def _ratio(timing: Run, name: str) -> float:
    """Return the time of a row as a multiple of the ordinary model's, by rounds."""
    seconds = timing.result["seconds"]
    pairs = zip(seconds[name], seconds["ddpm"], strict=True)
    return float(statistics.median(own / base for own, base in pairs))


def standard_document(
    drawings: Drawings, found: dict[str, list[Run]], command: str, title: str
) -> Document:
    """Return the table of standard generation, or of variants.

    Args:
        drawings: What made it.
        found: Runs by row, and of the timing.
        command: The command that made it.
        title: Title of the page.
    """
    generators = drawings.generators
    has_paper = any(name in STANDARD and name != "ddpm" for name in found)
    names = [name for name in found if name not in _ASIDE]
    differences = found.get("difference", [])
    header = ["model", f"FID[{generators.features_name}]", "drawn as asked %", "time / DDPM"]
    header += ["training, seconds"]
    header += [f"pixels unlike {_name(names[-1])}, %"] if differences else []
    header += ["paper: FID[inception], CIFAR-10", "paper: time / DDPM"] if has_paper else []
    timings = found["time"]
    rows: list[list[Entry]] = []
    for name in names:
        runs, (kind, _, size) = found[name], name.partition(" ")
        entries: list[Entry] = [
            _title(drawings, kind) + (f", {size} rows per class" if size else ""),
            Figure([run.result["fid"] for run in runs]),
            Figure([run.result["consistency"] for run in runs], scale=100),
            Figure([_ratio(timing, name) for timing in timings]),
            "–"
            if kind == "gmm"
            else Figure([r.result["training_seconds"] for r in runs], digits=0),
        ]
        if differences:
            entries.append(Figure([r.result["differences"][name] for r in differences], scale=100))
        if has_paper:
            paper = STANDARD.get(name)
            entries += ["–", "–"] if paper is None else [f"{paper[0]:.2f}", f"{paper[1]:.2f}"]
        rows.append(entries)
    every = [run for runs in found.values() for run in runs]
    notes = [_headline(found, timings), *([_difference_note(names[-1])] if differences else [])]
    notes += [_timing_note(timings[0]), judge_note(drawings, every)]
    if "spm_follow" in found:
        notes.append(
            "Where rows follow the query's time step, a whole batch is trained at one time step, "
            "so that they are encoded once for it; elsewhere each image has its own. The two "
            "differ in that, too."
        )
    return Document(
        f"{title}: {generators.data.name}",
        introduction(generators.features_name),
        [Sheet("Generation from all classes", header, rows, notes)],
        [*origin(every, command), f"Networks: {generators.settings['network']}", *_watched(found)],
        standard_pictures(generators.classes, {_name(name): found[name][0] for name in names}),
    )


def _name(name: str) -> str:
    """Return a short name of a row."""
    kind, _, size = name.partition(" ")
    return TITLES[kind] + (f", {size} rows" if size else "")


def _difference_note(last: str) -> str:
    return (
        "Pixels unlike: the mean absolute difference, as a share of the whole range, to the image "
        f"that {_name(last)} draws of the same noise: how much it matters which rows, and how "
        "many, are read. A mixture has noise of its own, so its figure is that of unrelated images "
        "of a class."
    )


def _title(drawings: Drawings, kind: str) -> str:
    if kind != "gmm":
        return TITLES[kind]
    return f"{TITLES[kind]}, {drawings.generators.settings['mixtures']:,} Gaussians per class"


def _headline(found: dict[str, list[Run]], timings: list[Run]) -> str:
    def mean(name: str) -> float:
        return statistics.fmean(run.result["fid"] for run in found[name])

    own = "spm" if "spm" in found else [name for name in found if name.startswith("spm")][-1]
    kind, _, size = own.partition(" ")
    words = TITLES[kind] + (f" with {size} rows per class" if size else "")
    ratio = statistics.fmean(_ratio(timing, own) for timing in timings)
    seeds = "one seed each" if len(timings) == 1 else f"{len(timings)} seeds"
    return (
        f"{words}: FID {mean(own):.2f}, the ordinary model {mean('ddpm'):.2f} ({seeds}), at "
        f"{ratio:.2f} times its time."
    )


def _watched(found: dict[str, list[Run]]) -> list[str]:
    """Tell how the share of images that are drawn as asked grew in training, once per network."""
    facts: dict[str, str] = {}
    for name, (run, *_) in found.items():
        if name in _ASIDE or not run.result["watched"]:
            continue
        every = max(1, len(run.result["watched"]) // _SHARES)
        shown = run.result["watched"][every - 1 :: every]
        shares = ", ".join(f"{100 * share:.0f} % at {step:,}" for step, share in shown)
        title = TITLES[name.partition(" ")[0]]
        facts[title] = (
            f"{title}, drawn as asked in training, by few images, seed {run.settings['seed']}: "
            f"{shares} steps"
        )
    return list(facts.values())


def _timing_note(timing: Run) -> str:
    return (
        f"Time: {timing.settings['images']} images of one class, {timing.settings['steps']} steps, "
        "all models in turn in one process; median of "
        f"{timing.settings['rounds']} rounds; patches are compared by the "
        f"{timing.result['kernel']} kernel. Rows are encoded when they are stored; that is not "
        f"counted{_followed(timing)}. The class has {timing.result['rows_of_class']:,} rows: where "
        "more are asked for, all are read."
    )


def _followed(timing: Run) -> str:
    """Say what is counted where rows are encoded while an image is drawn."""
    if "spm_follow" not in timing.settings["rows"]:
        return ""
    return ", except at the query's time step, where they are encoded in each step"
