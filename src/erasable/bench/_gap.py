"""What the gap between a semi-parametric classifier and its parametric twin depends on.

Both are trained on a part of the training rows and compared on another part, with one setting
changed at a time. Test rows are never read, so a preset may be chosen by what this finds.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from erasable.bench._runs import Run, Runs, data_settings
from erasable.data import Dataset
from erasable.errors import ArgumentError
from erasable.models import ParametricClassifier, SPMClassifier, parameters_of, preset_settings
from erasable.training import input_shape

Say = Callable[[str], None]


@dataclass(frozen=True)
class Change:
    """One departure from a preset.

    Attributes:
        name: What it is called in the table.
        both: Parameters that it changes in both models.
        spm: Parameters that only the semi-parametric model has.
    """

    name: str
    both: dict[str, Any]
    spm: dict[str, Any]


@dataclass(frozen=True)
class Gap:
    """Both models under one change, over all seeds.

    Attributes:
        name: The change.
        twin: Accuracy of the parametric twin per seed.
        spm: Accuracy of the semi-parametric model per seed.
    """

    name: str
    twin: list[float]
    spm: list[float]

    @property
    def per_seed(self) -> list[float]:
        """Accuracy of the semi-parametric model less its twin's."""
        return [own - other for own, other in zip(self.spm, self.twin, strict=True)]

    @property
    def mean(self) -> float:
        """Mean of the gaps."""
        return statistics.fmean(self.per_seed)


def changes(parameters: dict[str, Any]) -> list[Change]:
    """Return what is tried, the preset itself first.

    Args:
        parameters: The preset.
    """
    rate, batch = parameters["learning_rate"], parameters["batch_size"]
    tried = [Change("preset", {}, {})]
    for factor in (0.25, 0.5, 2.0):
        other = factor * rate
        tried.append(Change(f"learning rate {other:g}", {"learning_rate": other}, {}))
    tried += [
        Change(f"batches of {batch // 2}", {"batch_size": batch // 2}, {}),
        Change("no normalisation", {"normalize": "none"}, {"grid_bits": 8}),
        Change("temperature 0.5", {}, {"temperature": 0.5}),
        Change("temperature 2", {}, {"temperature": 2.0}),
        Change(f"separate support of {batch}", {}, {"support_size": batch}),
    ]
    if parameters.get("label_smoothing"):
        tried.append(Change("no label smoothing", {"label_smoothing": 0.0}, {}))
    return tried


def run_gap(
    data: Dataset,
    *,
    scale: str,
    seeds: list[int],
    rows: int,
    runs: Runs,
    say: Say = lambda _: None,
    verbose: bool = False,
) -> dict[str, list[tuple[Run, Run]]]:
    """Train both models under each change with each seed; return (twin, SPM) runs by change.

    Args:
        data: The data set; only its training rows are read.
        scale: A preset that trains.
        seeds: Seeds of the networks.
        rows: Rows to train on; half as many others are held out.
        runs: Where finished runs and checkpoints are kept.
        say: Where remarks on the progress go.
        verbose: Show progress bars.
    """
    if not seeds:
        raise ArgumentError("Expected at least one seed, but got none.")
    parameters = preset_settings(scale, input_shape(data.train.X))
    if not parameters["epochs"]:
        raise ArgumentError(f"Expected a preset that trains, but got {scale!r}.")
    if not 2 <= rows <= len(data.train.ids) * 2 // 3:
        raise ArgumentError(
            f"Expected 2 to {len(data.train.ids) * 2 // 3:,} rows to train on, since half as many "
            f"are held out of {len(data.train.ids):,}, but got {rows:,}."
        )
    order = np.random.default_rng(0).permutation(len(data.train.ids))
    parts = tuple(np.sort(part) for part in (order[:rows], order[rows : rows + rows // 2]))

    def one(model: type[Any], seed: int, changed: dict[str, Any]) -> Run:
        chosen = {**parameters, **changed}
        settings = {
            "table": "gap",
            "data": data_settings(data),
            "rows": rows,
            "model": model.__name__,
            "parameters": chosen,
            "seed": seed,
        }

        def work(folder: Path) -> dict[str, Any]:
            train, held_out = (data.train.take(part) for part in parts)
            own = {"random_state": seed, "checkpoint": folder / "fit", "verbose": verbose}
            fitted = model(**parameters_of({**chosen, **own})).fit(train.X, train.y)
            accuracy = float(np.mean(fitted.predict(held_out.X) == held_out.y))
            return {"accuracy": accuracy, "history": fitted.history_}

        return runs.run(settings, work)

    found: dict[str, list[tuple[Run, Run]]] = {}
    for change in changes(parameters):
        for seed in seeds:
            say(f"gap on {data.name}: {change.name}, seed {seed}")
            twin = one(ParametricClassifier, seed, change.both)
            own = one(SPMClassifier, seed, {**change.both, **change.spm})
            found.setdefault(change.name, []).append((twin, own))
    return found


def collect_gaps(found: dict[str, list[tuple[Run, Run]]]) -> list[Gap]:
    """Put the runs of all seeds together, in the order of the table."""
    return [
        Gap(name, *(list(side) for side in zip(*map(_accuracies, pairs), strict=True)))
        for name, pairs in found.items()
    ]


def _accuracies(pair: tuple[Run, Run]) -> tuple[float, float]:
    twin, own = (run.result["accuracy"] for run in pair)
    return twin, own
