"""Forget classes of generators one at a time, by every method, and compare with oracles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from erasable.baselines import DivergedError
from erasable.baselines.generation import DIFFUSION_METHODS
from erasable.bench._runs import Run
from erasable.bench.generation._cells import (
    deleted_cell,
    edited_cell,
    floor_cell,
    oracle_cell,
    untouched_cell,
)
from erasable.bench.generation._drawings import Drawings
from erasable.bench.generation._tuning import settings_of, tune_method, tuning_class
from erasable.typing import Label

Say = Callable[[str], None]


@dataclass
class Forgetting:
    """What forgetting each of some classes did.

    Attributes:
        labels: The classes.
        runs: By row and class, one run per seed. Rows are kinds of models and what was done to
            them: ``ddpm retrain``, ``ddpm untouched``, ``ddpm salun``, ``spm deletion``.
        floors: By kind and class: two oracles of different seeds, compared.
        searched: What tuning tried and chose.
        failures: What went wrong.
    """

    labels: list[Label]
    runs: dict[tuple[str, str], dict[Label, list[Run]]] = field(default_factory=dict)
    floors: dict[str, dict[Label, Run]] = field(default_factory=dict)
    searched: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def every(self) -> list[Run]:
        """All runs behind the tables."""
        cells = [run for row in self.runs.values() for runs in row.values() for run in runs]
        cells += [run for row in self.floors.values() for run in row.values()]
        for entry in self.searched:
            cells += [entry["untouched"], *(one["run"] for one in entry["searched"])]
        return cells


def run_forgetting(
    drawings: Drawings,
    labels: Sequence[Label],
    *,
    seeds: Sequence[int],
    methods: Sequence[str] = tuple(DIFFUSION_METHODS),
    kinds: Sequence[str] = ("spm",),
    floors: int = 1,
    floored: Sequence[str] | None = None,
    is_tuned: bool = True,
    say: Say = lambda _: None,
) -> Forgetting:
    """Forget classes one at a time, by every method, and compare with oracles.

    Args:
        drawings: Makes and keeps samples.
        labels: The classes.
        seeds: Seeds of originals.
        methods: Methods that edit the ordinary model.
        kinds: Variants of the semi-parametric model, each with oracles of its own.
        floors: For how many of the classes a second oracle is trained.
        floored: Which kinds of models it is trained of; default: all.
        is_tuned: Choose settings of methods on a class that is not among the labels; otherwise
            they are as the preset has them.
        say: Where remarks on the progress go.
    """
    made = Forgetting(list(labels))
    families = [*(("ddpm",) if methods else ()), *kinds]
    measured = families if floored is None else [kind for kind in families if kind in floored]
    second = len(measured) * min(floors, len(labels))
    trained = len(families) * len(seeds) * (1 + len(labels)) + second
    say(
        f"{trained + bool(methods and is_tuned)} models, {len(methods) * len(labels) * len(seeds)} "
        "edits; what is finished is not done again"
    )
    chosen = _chosen(drawings, made, methods, say) if is_tuned else {key: {} for key in methods}
    for label in labels:
        for seed in seeds:
            for kind in families:
                _references(drawings, made, kind, label, seed)
            for name, settings in chosen.items():
                method = settings_of(drawings, name, **settings)
                run = edited_cell(drawings, method, label, seed)
                if "failed" in run.result:
                    made.failures[f"{name}, {label!r}, seed {seed}"] = run.result["failed"]
                else:
                    _note(made, ("ddpm", name), label, run)
            for kind in kinds:
                _note(made, (kind, "deletion"), label, deleted_cell(drawings, kind, label, seed))
        for kind in measured if label in labels[:floors] else ():
            floor = floor_cell(drawings, kind, label, seeds[0])
            made.floors.setdefault(kind, {})[label] = floor
    made.runs = dict(sorted(made.runs.items(), key=lambda item: families.index(item[0][0])))
    return made


def _chosen(
    drawings: Drawings, made: Forgetting, methods: Sequence[str], say: Say
) -> dict[str, dict[str, Any]]:
    """Return the settings of each method that tuning chose; failures are noted."""
    found = {}
    for name in methods:
        label = tuning_class(drawings.generators.classes, made.labels)
        try:
            made.searched.append(tune_method(drawings, name, label, say))
        except DivergedError as error:
            made.failures[f"tuning of {name}"] = str(error)
            continue
        found[name] = made.searched[-1]["chosen"]
    return found


def _note(made: Forgetting, row: tuple[str, str], label: Label, run: Run) -> None:
    made.runs.setdefault(row, {}).setdefault(label, []).append(run)


def _references(drawings: Drawings, made: Forgetting, kind: str, label: Label, seed: int) -> None:
    """Note the oracle, and the original as it is."""
    _note(made, (kind, "retrain"), label, oracle_cell(drawings, kind, label, seed))
    _note(made, (kind, "untouched"), label, untouched_cell(drawings, kind, label, seed))
