"""The tables of generation: how well classes are drawn, and how well one is forgotten."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from erasable.baselines.generation import DIFFUSION_METHODS, DiffusionMethod, get_diffusion_method
from erasable.bench._document import Document, origin
from erasable.bench._runs import Run
from erasable.bench._sheet import Entry, Figure, Sheet
from erasable.bench.generation._figures import forgetting_pictures, standard_pictures
from erasable.bench.generation._generators import GENERATION, Generators, oracle_seed
from erasable.bench.generation._paper import FORGETTING, STANDARD
from erasable.errors import ErasableError
from erasable.typing import Label

Say = Callable[[str], None]

SIZES = (10, 20, 50, 100, 1024)
"""Rows per class that are read, of the table of standard generation."""

TITLES = {
    "ddpm": "DDPM",
    "gmm": "GMM",
    "spm": "SPM",
    "spm_permuted": "SPM, label embedding, permuted",
    "spm_plain": "SPM, label embedding, not permuted",
    "spm_follow": "SPM, rows at the query's time step",
    "spm_support": "SPM, separate support of 256",
    "spm_detached": "SPM, no gradient through rows",
    "sa": "Selective Amnesia",
    "salun": "SalUn",
    "sfron": "SFR-on",
    "erasediff": "EraseDiff",
}

METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "tiny": {
        "sa": {"steps": 20, "per_class": 4, "fisher_images": 4, "fisher_steps": 10},
        "salun": {"steps": 20},
        "sfron": {"steps": 20},
        "erasediff": {"steps": 20, "rounds": 2, "inner_steps": 5},
    },
    "laptop": {
        "sa": {"steps": 1000, "per_class": 50, "fisher_images": 500, "fisher_steps": 50},
        "salun": {"steps": 500},
        "sfron": {"steps": 50},
        "erasediff": {},
    },
    "paper": {"sa": {}, "salun": {}, "sfron": {}, "erasediff": {}},
}
"""Settings of methods besides the published ones, by preset: what the time allows."""

INTRODUCTION = (
    "Level `memory`: the weights of all models but the oracles were trained on the forgotten "
    "class. FID is measured by the features named in the table, on as many images of each class as "
    "are drawn, so figures of other features or other numbers of images cannot be compared with "
    "these."
)


def settings_of(scale: str, name: str) -> DiffusionMethod:
    """Return a method as it is run at a scale."""
    return get_diffusion_method(name, **METHODS[scale][name])


# -- standard generation ---------------------------------------------------------------------------


def run_standard(
    generators: Generators, *, seeds: Sequence[int], sizes: Sequence[int] = SIZES
) -> dict[str, list[Run]]:
    """Draw with every generator, and with as many rows per class as the sizes say.

    Args:
        generators: Makes and keeps models.
        seeds: Seeds of originals.
        sizes: Rows per class that the semi-parametric model reads.
    """
    found: dict[str, list[Run]] = {}
    for seed in seeds:
        for name, kind, options in (
            ("ddpm", "ddpm", {}),
            ("gmm", "gmm", {}),
            *((f"spm {size}", "spm", {"rows_per_class": size}) for size in sizes),
        ):
            found.setdefault(name, []).append(_standard(generators, kind, seed, options))
    return found


def _standard(generators: Generators, kind: str, seed: int, options: dict[str, Any]) -> Run:
    settings = {**generators.run_settings("standard", kind, seed), "options": options}

    def work() -> dict[str, Any]:
        images, seconds = generators.original_samples(kind, seed, **options)
        return {**generators.measure(images, None, None), "seconds": seconds}

    return generators.figures(settings, work)


def standard_document(
    generators: Generators, found: dict[str, list[Run]], command: str
) -> Document:
    """Return the table of standard generation.

    Args:
        generators: What made it.
        found: Runs by row.
        command: The command that made it.
    """
    fid = f"FID[{generators.features.name}]"
    header = ["model", fid, "drawn as asked %", "time / DDPM", "paper: FID[inception]", "time"]
    base = [run.result["seconds"] for run in found["ddpm"]]
    rows: list[list[Entry]] = []
    for name, runs in found.items():
        kind, _, size = name.partition(" ")
        title = TITLES[kind] + (f", {size} rows per class" if size else "")
        ratios = [r.result["seconds"] / b for r, b in zip(runs, base, strict=True)]
        paper = STANDARD.get(name)
        rows.append(
            [
                title,
                Figure([run.result["fid"] for run in runs]),
                Figure([run.result["consistency"] for run in runs], scale=100),
                Figure(ratios),
                "–" if paper is None else f"{paper[0]:.2f}",
                "–" if paper is None else f"{paper[1]:.2f}",
            ]
        )
    every = [run for runs in found.values() for run in runs]
    notes = [_judge_note(generators), _standard_note(found)]
    sheet = Sheet("Generation from all classes", header, rows, notes)
    return Document(
        f"Generation on {generators.data.name}",
        INTRODUCTION,
        [sheet],
        origin(every, command),
        standard_pictures(generators, list(found), every[0].settings["seed"]),
    )


def _standard_note(found: dict[str, list[Run]]) -> str:
    def mean(name: str, key: str) -> float:
        return statistics.fmean(run.result[key] for run in found[name])

    largest = max((name for name in found if name.startswith("spm ")), key=_size)
    return (
        f"SPM with {_size(largest)} rows per class: FID {mean(largest, 'fid'):.2f} against "
        f"{mean('ddpm', 'fid'):.2f} of the ordinary model, at "
        f"{mean(largest, 'seconds') / mean('ddpm', 'seconds'):.2f} times its time; the paper "
        "reports 7.04 against 7.28 at 35 times."
    )


def _size(name: str) -> int:
    return int(name.partition(" ")[2])


# -- forgetting a class ----------------------------------------------------------------------------


@dataclass
class Forgetting:
    """What forgetting each of some classes did.

    Attributes:
        labels: The classes.
        runs: By row and class, one run per seed.
        floors: By kind and class: distances between two oracles.
        seconds: Training seconds of oracles by kind.
        failures: What went wrong.
    """

    labels: list[Label]
    runs: dict[str, dict[Label, list[Run]]] = field(default_factory=dict)
    floors: dict[str, dict[Label, Run]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def run_forgetting(
    generators: Generators,
    labels: Sequence[Label],
    *,
    seeds: Sequence[int],
    methods: Sequence[str] = tuple(DIFFUSION_METHODS),
    kinds: Sequence[str] = ("spm",),
    has_floor: bool = True,
    say: Say = lambda _: None,
) -> Forgetting:
    """Forget classes one at a time, by every method, and compare with oracles.

    Args:
        generators: Makes and keeps models.
        labels: The classes.
        seeds: Seeds of originals.
        methods: Methods that edit the ordinary model.
        kinds: Variants of the semi-parametric model; they are compared with the oracle of ``spm``.
        has_floor: Whether to train a second oracle of the first class.
        say: Where remarks on the progress go.
    """
    made = Forgetting(list(labels))
    for label in labels:
        for seed in seeds:
            _forget_one(generators, made, label, seed, methods, kinds, say)
    if has_floor:
        for kind in made.seconds:
            label = labels[0]
            made.floors[kind] = {label: _floor(generators, kind, label, seeds[0])}
    return made


def _forget_one(
    generators: Generators,
    made: Forgetting,
    label: Label,
    seed: int,
    methods: Sequence[str],
    kinds: Sequence[str],
    say: Say,
) -> None:
    def note(name: str, run: Run) -> None:
        made.runs.setdefault(name, {}).setdefault(label, []).append(run)

    families = [*(("ddpm",) if methods else ()), "spm"]
    for kind in families:
        note(f"{kind} retrain", _oracle(generators, kind, label, seed))
        spent = generators.training_seconds(kind, oracle_seed(seed), without=label)
        made.seconds.setdefault(kind, []).append(spent)
    for name in methods:
        try:
            method = settings_of(generators.scale, name)
            note(name, _cell(generators, name, label, seed, "ddpm", method))
        except ErasableError as error:
            made.failures[f"{name}, {label!r}, seed {seed}"] = str(error)
            say(f"{name}, {label!r}, seed {seed} failed: {error}")
    for kind in kinds:
        note(kind, _cell(generators, kind, label, seed, "spm", None))


def _oracle(generators: Generators, kind: str, label: Label, seed: int) -> Run:
    settings = {**generators.run_settings("oracle", kind, oracle_seed(seed)), "without": label}

    def work() -> dict[str, Any]:
        images = generators.oracle_samples(kind, label, oracle_seed(seed))
        return generators.measure(images, images, label)

    return generators.figures(settings, work)


def _floor(generators: Generators, kind: str, label: Label, seed: int) -> Run:
    """Compare two oracles of different seeds."""
    first, second = oracle_seed(seed), oracle_seed(oracle_seed(seed))
    settings = {**generators.run_settings("floor", kind, first), "without": label, "and": second}

    def work() -> dict[str, Any]:
        images = generators.oracle_samples(kind, label, second)
        return generators.measure(images, generators.oracle_samples(kind, label, first), label)

    return generators.figures(settings, work)


def _cell(
    generators: Generators,
    name: str,
    label: Label,
    seed: int,
    family: str,
    method: DiffusionMethod | None,
) -> Run:
    settings = {
        **generators.run_settings("forgetting", name, seed),
        "without": label,
        "method": None if method is None else [method.name, method.version, method.settings],
    }

    def work() -> dict[str, Any]:
        oracle = generators.oracle_samples(family, label, oracle_seed(seed))
        if method is None:
            images, seconds = generators.deleted(name, label, seed)
        else:
            images, seconds = generators.edited(method, label, seed)
        return {**generators.measure(images, oracle, label), "seconds": seconds}

    return generators.figures(settings, work)


def forgetting_document(
    generators: Generators, made: Forgetting, title: str, command: str
) -> Document:
    """Return the tables of forgetting a class.

    Args:
        generators: What made it.
        made: What was measured.
        title: Title of the page.
        command: The command that made it.
    """
    fid = generators.features.name
    sheets = [
        _sheet(made, f"FID_O[{fid}]: distance to the oracle, all classes", "fid_oracle"),
        _sheet(made, "Error of the judge on the forgotten class, UA %", "ua", scale=100),
        _sheet(made, f"FID_R[{fid}]: distance to real images, other classes", "fid_remaining"),
        _sheet(
            made,
            f"FID_O[{fid}] of the other classes alone",
            "fid_oracle_remaining",
            has_paper=False,
        ),
        _by_label(made, f"FID_O[{fid}] of the forgotten label alone"),
    ]
    sheets[0].notes.extend([_headline(made), _structural_note(), _judge_note(generators)])
    sheets[0].notes.extend(f"Failed: {name}: {why}" for name, why in made.failures.items())
    every = [run for row in made.runs.values() for runs in row.values() for run in runs]
    return Document(
        title,
        INTRODUCTION,
        sheets,
        [*origin(every, command), *_method_facts(generators.scale, made)],
        forgetting_pictures(generators, made.labels, list(made.runs)),
    )


def _sheet(
    made: Forgetting, title: str, key: str, *, scale: float = 1.0, has_paper: bool = True
) -> Sheet:
    gap = key in ("ua", "fid_remaining")
    header = ["model and method", *(f"without {label}" for label in made.labels), "mean", "seconds"]
    header += ["paper: mean, CIFAR-10, FID[inception]"] if has_paper else []
    rows: list[list[Entry]] = []
    for name, by_label in made.runs.items():
        family = "spm" if name.startswith("spm") else "ddpm"
        entries: list[Entry] = [_title(name)]
        every: list[float] = []
        values: list[float] = []
        for label in made.labels:
            found = [run.result[key] for run in by_label.get(label, [])]
            oracle = [run.result[key] for run in made.runs[f"{family} retrain"].get(label, [])]
            gaps = _gaps(found, oracle) if gap else found
            every, values = every + gaps, values + (found if gap else [])
            floor = made.floors.get(family, {}).get(label)
            least = None if floor is None or gap else floor.result[key]
            shown = least if not name.endswith("retrain") else None
            entries.append(Figure(gaps, shown, scale, beside=found if gap else ()))
        entries.append(Figure(every, None, scale, beside=values))
        entries.append(_seconds(made, name))
        if has_paper:
            place = {"fid_oracle": 0, "ua": 1, "fid_remaining": 2}[key]
            paper = FORGETTING.get(name)
            is_known = paper is not None and not math.isnan(paper[place])
            value = f"{paper[place]:.2f}" if paper is not None and is_known else "–"
            entries.append(f"({value})" if gap and is_known else value)
        rows.append(entries)
    return Sheet(title, header, rows)


def _gaps(found: list[float], oracle: list[float]) -> list[float]:
    return [abs(a - b) for a, b in zip(found, oracle, strict=False)]


def _seconds(made: Forgetting, name: str) -> Entry:
    if name.endswith("retrain"):
        return Figure(made.seconds[name.split()[0]], digits=0)
    spent = [run.result["seconds"] for runs in made.runs[name].values() for run in runs]
    return Figure(spent, digits=3 if max(spent, default=0) < 1 else 0)


def _by_label(made: Forgetting, title: str) -> Sheet:
    header = ["model and method", *(f"without {label}" for label in made.labels), "mean"]
    rows: list[list[Entry]] = []
    for name, by_label in made.runs.items():
        if name.endswith("retrain"):
            continue
        entries: list[Entry] = [_title(name)]
        every: list[float] = []
        for label in made.labels:
            runs = by_label.get(label, [])
            found = [run.result["fid_oracle_by_class"][str(label)] for run in runs]
            every += found
            entries.append(Figure(found))
        rows.append([*entries, Figure(every)])
    return Sheet(title, header, rows)


def _title(name: str) -> str:
    first, _, rest = name.partition(" ")
    if rest:
        return f"{TITLES[first]}: retrained without the class (oracle)"
    return f"{TITLES[name]}: deletion" if name.startswith("spm") else f"DDPM: {TITLES[name]}"


def _headline(made: Forgetting) -> str:
    def mean(name: str, key: str) -> float:
        return statistics.fmean(r.result[key] for runs in made.runs[name].values() for r in runs)

    edits = [name for name in made.runs if name in DIFFUSION_METHODS]
    own = mean("spm", "fid_oracle") if "spm" in made.runs else float("nan")
    if not edits or "spm" not in made.runs:
        return f"SPM deletion: FID_O {own:.2f}."
    best = min(edits, key=lambda name: mean(name, "fid_oracle"))
    faster = mean(best, "seconds") / mean("spm", "seconds")
    return (
        f"SPM deletion: FID_O {own:.2f}, against {mean(best, 'fid_oracle'):.2f} of the best edit "
        f"of the ordinary model ({TITLES[best]}), {faster:,.0f} × faster."
    )


def _structural_note() -> str:
    return (
        "A small FID_O of deletion is partly structural: asked for the forgotten class, the "
        "deleted model and its oracle both draw from the rows of the same stand-in, the first "
        "class that is left. So the other classes alone, and the forgotten label alone, stand "
        "below."
    )


def _judge_note(generators: Generators) -> str:
    accuracy = generators.judge_run().result["accuracy"]
    return (
        f"The judge, and the network behind FID[{generators.features.name}], is a classifier that "
        f"was trained on the same real images; it is right on {100 * accuracy:.2f} % of the test "
        "images. "
        f"{generators.per_class} images of each class are drawn, by 50 steps of DDIM with guidance "
        "0.3, from the same noise by every model; weights are running means where they were "
        "trained, and as they are after edits."
    )


def _method_facts(scale: str, made: Forgetting) -> list[str]:
    names = [name for name in made.runs if name in DIFFUSION_METHODS]
    network = GENERATION[scale]["network"]
    facts = [f"Networks: {network}"]
    return facts + [f"{TITLES[n]}: {settings_of(scale, n).settings}" for n in names]
