"""Models that share one training: what is trained, and in which ways it is then read."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from erasable.baselines import SISAClassifier
from erasable.data import Split
from erasable.models import KNNClassifier, ParametricClassifier, SPMClassifier
from erasable.training import TrainingConfig

Fit = Callable[["Training"], Any]


@dataclass(frozen=True)
class Training:
    """One training.

    Attributes:
        rows: Rows to train on.
        classes: Labels of all classes, also of those that have no rows.
        parameters: Parameters of the network and its training.
        seed: Seed of everything random.
        checkpoint: Where the state after each epoch is kept.
        verbose: Show progress.
    """

    rows: Split
    classes: list[Any]
    parameters: dict[str, Any]
    seed: int
    checkpoint: Path
    verbose: bool = False

    @property
    def shared(self) -> dict[str, Any]:
        """Parameters of the estimator."""
        own = {"random_state": self.seed, "checkpoint": self.checkpoint}
        return {**self.parameters, **own, "verbose": int(self.verbose)}

    @property
    def names(self) -> dict[str, Any]:
        """Ids and groups of the rows."""
        return {"ids": self.rows.ids, "groups": self.rows.groups}


@dataclass(frozen=True)
class Trained:
    """The models that one training gave.

    Attributes:
        models: Ways to read it, by kind.
        seconds: How long the training took.
    """

    models: dict[str, Any]
    seconds: float


def _twin(training: Training) -> dict[str, Any]:
    rows = training.rows
    twin = ParametricClassifier(**training.shared)
    twin.fit(rows.X, rows.y, classes=training.classes)
    bare = {**training.shared, "encoder": "auto", "encoder_options": None, "epochs": 0}
    knn = KNNClassifier(**{**bare, "checkpoint": None})
    return {"parametric": twin, "knn": knn.fit(rows.X, rows.y, **training.names, init=twin)}


def _spm(training: Training) -> dict[str, Any]:
    model = SPMClassifier(**training.shared)
    return {"spm": model.fit(training.rows.X, training.rows.y, **training.names)}


def _sisa(training: Training) -> dict[str, Any]:
    rows = training.rows
    own = {"epochs": 0, "checkpoint": None}

    def make(seed: int) -> Any:
        drawn = ParametricClassifier(**{**training.shared, **own, "random_state": seed})
        drawn.fit(rows.X[:2], rows.y[:2], classes=training.classes)
        return drawn.network_

    known = TrainingConfig.__dataclass_fields__
    config = TrainingConfig(**{k: v for k, v in training.parameters.items() if k in known})
    model = SISAClassifier(make, config, seed=training.seed, verbose=training.verbose)
    return {"sisa": model.fit(rows.X, rows.y, ids=rows.ids, classes=training.classes)}


FAMILIES: dict[str, Fit] = {"twin": _twin, "spm": _spm, "sisa": _sisa}
"""From a training to its models, by family."""

KINDS = {"parametric": "twin", "knn": "twin", "spm": "spm", "sisa": "sisa"}
"""The family of each kind of model."""


def trained(family: str, training: Training) -> Trained:
    """Train a family's network, or load it from its checkpoint, and build its models."""
    start = time.perf_counter()
    models = FAMILIES[family](training)
    return Trained(models, time.perf_counter() - start)
