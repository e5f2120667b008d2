"""The paper's table std_cls: accuracy and test time of classifiers that read their rows.

For every seed one parametric twin, one k-nearest-neighbour reading of the twin's features, one
semi-parametric model read in every way, and one with a graph set encoder are compared on the same
rows, with 5, 10 and 100 % of them in the memory.
"""

import copy
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from erasable.bench._families import (
    GRAPH,
    GRAPH_ENCODER_LR_FACTOR,
    GRAPH_TRAINING,
    graph_parameters,
)
from erasable.bench._runs import Run, Runs, data_settings, test_rows
from erasable.data import Dataset, Split
from erasable.errors import ArgumentError, listing
from erasable.models import (
    KNNClassifier,
    ParametricClassifier,
    SPMClassifier,
    parameters_of,
    preset_settings,
)
from erasable.training import input_shape

REDUCTIONS = ("prototypes", "neighbours", "rows", "gaussian")
FRACTIONS = (0.05, 0.1, 1.0)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """One model with one share of the rows, over all seeds.

    Attributes:
        model: What it is called in the table.
        fraction: Share of each class in the memory; None if the model has no memory.
        accuracies: Test accuracy per seed.
        ratios: Time to predict the test rows, over the twin's in the same run, per seed.
    """

    model: str
    fraction: float | None
    accuracies: list[float]
    ratios: list[float]

    @property
    def mean(self) -> float:
        """Mean accuracy over the seeds."""
        return statistics.fmean(self.accuracies)

    @property
    def spread(self) -> float | None:
        """Standard deviation of the accuracy over the seeds; None for a single one."""
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else None


def run_std_cls(
    data: Dataset,
    *,
    scale: str,
    seeds: list[int],
    runs: Runs,
    say: Say = lambda _: None,
    verbose: bool = False,
) -> list[Run]:
    """Train and measure, one run per seed; what was finished before is read from ``runs``.

    Args:
        data: The data set; it needs test rows.
        scale: A preset that trains.
        seeds: Seeds of the networks and of the drawn memories.
        runs: Where finished runs and checkpoints are kept.
        say: Where remarks on the progress go.
        verbose: Show progress bars.
    """
    test = test_rows(data)
    if not seeds:
        raise ArgumentError("Expected at least one seed, but got none.")
    if scale not in GRAPH:
        raise ArgumentError(f"Expected preset {listing(GRAPH)}, but got {scale!r}.")
    done: list[Run] = []
    for number, seed in enumerate(seeds, 1):
        settings: dict[str, Any] = {
            "table": "std_cls",
            "data": data_settings(data),
            "preset": scale,
            "parameters": preset_settings(scale, input_shape(data.train.X)),
            "graph": {"epochs": GRAPH[scale][0], "support_size": GRAPH[scale][1]},
            "graph_encoder_lr_factor": GRAPH_ENCODER_LR_FACTOR,
            "fractions": list(FRACTIONS),
            "seed": seed,
        }
        if scale in GRAPH_TRAINING:
            settings["graph_training"] = GRAPH_TRAINING[scale]
        if _views(scale, data.train):
            settings["views"] = list(_views(scale, data.train))

        def work(folder: Path, seed: int = seed) -> dict[str, Any]:
            return _Seed(data.train, test, scale, seed, folder, say, verbose=verbose).result()

        say(f"std_cls on {data.name}, seed {seed} ({number} of {len(seeds)})")
        done.append(runs.run(settings, work))
    return done


def collect(runs: list[Run]) -> list[Cell]:
    """Put the runs of all seeds together, in the order of the table."""
    keys = [(entry["model"], entry["fraction"]) for entry in runs[0].result["cells"]]
    cells: list[Cell] = []
    for model, fraction in keys:
        entries = [
            entry
            for run in runs
            for entry in run.result["cells"]
            if (entry["model"], entry["fraction"]) == (model, fraction)
        ]
        accuracies = [entry["accuracy"] for entry in entries]
        cells.append(Cell(model, fraction, accuracies, [entry["ratio"] for entry in entries]))
    return cells


class _Seed:
    """All models of one seed."""

    def __init__(
        self,
        train: Split,
        test: Split,
        scale: str,
        seed: int,
        folder: Path,
        say: Say,
        *,
        verbose: bool,
    ) -> None:
        self._train, self._test = train, test
        self._scale, self._seed, self._folder, self._say = scale, seed, folder, say
        self._own = {"random_state": seed, "verbose": verbose}
        settings = preset_settings(scale, input_shape(train.X))
        self._shared = parameters_of({**settings, **self._own})

    def result(self) -> dict[str, Any]:
        """Train everything and return what was measured."""
        twin, twin_seconds = self._fitted("twin", ParametricClassifier(**self._shared), {})
        spm, spm_seconds = self._fitted("spm", SPMClassifier(**self._shared), self._names())
        graph, graph_seconds = self._graph(spm)
        knn = KNNClassifier(**{**self._shared, "encoder": "auto", "encoder_options": None})
        knn.set_params(epochs=0).fit(self._train.X, self._train.y, **self._names(), init=twin)
        accuracy, seconds = self._score(twin)
        cells = [{"model": "parametric", "fraction": None, "accuracy": accuracy, "ratio": 1.0}]
        for name, model in self._readings(knn, spm, graph):
            for fraction in FRACTIONS:
                self._say(f"measuring {name}, {fraction:.0%} of the rows")
                part = with_share(model, fraction, self._seed)
                cells.append(self._cell(name, fraction, part, twin))
        for views in _views(self._scale, self._train):
            self._say(f"measuring with views {views!r}")
            for name, whole, model in (("parametric", None, twin), ("SPM prototypes", 1.0, spm)):
                seen = copy.copy(model).set_params(views=views)
                cells.append(self._cell(f"{name}, views: {views}", whole, seen, twin))
        return {
            "cells": cells,
            "seconds": {
                "twin_fit": twin_seconds,
                "spm_fit": spm_seconds,
                "graph_fit": graph_seconds,
                "twin_predict": seconds,
            },
            "history": {"twin": twin.history_, "spm": spm.history_, "graph": graph.history_},
            "weights": {"spm": spm.weights_digest, "graph": graph.weights_digest},
        }

    def _cell(self, name: str, fraction: float | None, model: Any, twin: Any) -> dict[str, Any]:
        model.predict(self._test.X[:16])  # solves and indexes what the first one needs
        accuracy, own = self._score(model)
        _, beside = self._score(twin)  # side by side: the machine's pace changes
        return {"model": name, "fraction": fraction, "accuracy": accuracy, "ratio": own / beside}

    def _graph(self, spm: SPMClassifier) -> tuple[SPMClassifier, float]:
        """Return a model with a graph set encoder, adapted from the one without."""
        settings = preset_settings(self._scale, input_shape(self._train.X))
        parameters = graph_parameters(settings, self._scale)
        model = SPMClassifier(**parameters_of({**parameters, **self._own}))
        start = {"init": spm, "encoder_lr_factor": GRAPH_ENCODER_LR_FACTOR}
        return self._fitted("graph", model, {**self._names(), **start})

    def _fitted(self, name: str, model: Any, options: dict[str, Any]) -> tuple[Any, float]:
        self._say(f"training {name}")
        model.set_params(training__checkpoint=self._folder / name)
        start = time.perf_counter()
        model.fit(self._train.X, self._train.y, **options)
        return model, time.perf_counter() - start

    def _names(self) -> dict[str, Any]:
        return {"ids": self._train.ids, "groups": self._train.groups}

    def _readings(
        self, knn: KNNClassifier, spm: SPMClassifier, graph: SPMClassifier
    ) -> Iterator[tuple[str, Any]]:
        """Yield every way to read the rows, by its name in the table."""
        yield "KNN on the twin's features", knn
        for reduction in REDUCTIONS:
            yield f"SPM {reduction}", copy.copy(spm).set_params(reduction=reduction)
        yield "SPM prototypes, graph", graph

    def _score(self, model: Any) -> tuple[float, float]:
        """Return the test accuracy and how long predicting took."""
        start = time.perf_counter()
        predicted = model.predict(self._test.X)
        seconds = time.perf_counter() - start
        return float(np.mean(predicted == self._test.y)), seconds


def _views(scale: str, train: Split) -> tuple[str, ...]:
    """Return by which views of an image accuracy is measured besides."""
    is_image = len(input_shape(train.X)) > 1
    return ("mirror", "six") if scale in ("fast", "accurate") and is_image else ()


def with_share(model: Any, fraction: float, seed: int) -> Any:
    """Return a model that reads only a share of each class; the weights are the same."""
    part = copy.copy(model)
    if fraction < 1:
        part.memory_ = model.memory.subset(fraction, seed)
    return part
