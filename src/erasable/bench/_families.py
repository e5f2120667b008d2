"""Models that share one training: what is trained, and in which ways it is then read."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from erasable.baselines import SISAClassifier
from erasable.data import Split
from erasable.memory import SHRINKAGE
from erasable.models import KNNClassifier, ParametricClassifier, SPMClassifier, parameters_of
from erasable.training import TrainingConfig, seconds_spent

GRAPH = {
    "tiny": (1, 64),
    "laptop": (1, 512),
    "fast": (1, 512),
    "accurate": (1, 512),
    "paper": (20, 1024),
}
"""Epochs and support of a graph set encoder, by preset."""

_GENTLE = {
    "batch_size": 256,
    "learning_rate": 0.05,
    "shift": 2,
    "edge": "reflect",
    "precision": "bfloat16",
}
GRAPH_TRAINING = {"fast": _GENTLE, "accurate": _GENTLE}
"""How a graph set encoder is trained where the preset's recipe is for networks from scratch."""

GRAPH_ENCODER_LR_FACTOR = 0.1
"""How much slower the encoder is trained when a graph set encoder is put behind it."""


SISA = {"shards": 5, "slices": 2}
"""How rows are spread over networks."""

NEIGHBOURS = 50
"""Neighbours that vote, of a reading by nearest neighbours."""

READINGS = {"spm_neighbours": "neighbours", "spm_gaussian": "gaussian"}
"""Kinds that are a semi-parametric model read otherwise than by prototypes, and how."""


def family_settings(family: str, scale: str) -> dict[str, Any]:
    """Return what a family's models depend on, besides the preset's parameters."""
    settings: dict[str, dict[str, Any]] = {
        "twin": {"k": NEIGHBOURS},
        "spm": {},
        **{kind: _reading_settings(reduction) for kind, reduction in READINGS.items()},
        "gnn": {
            "graph": list(GRAPH[scale]),
            "encoder_lr_factor": GRAPH_ENCODER_LR_FACTOR,
            **({"training": GRAPH_TRAINING[scale]} if scale in GRAPH_TRAINING else {}),
        },
        "sisa": {**SISA},
    }
    return settings[family]


def _reading_settings(reduction: str) -> dict[str, Any]:
    """Return what answers depend on, besides the weights and rows of the family ``spm``."""
    own = {"k": SPMClassifier().k} if reduction == "neighbours" else {"shrinkage": SHRINKAGE}
    return {"reduction": reduction, **own}


@dataclass(frozen=True)
class Job:
    """One training.

    Attributes:
        rows: Rows to train on.
        classes: Labels of all classes, also of those that have no rows.
        scale: The preset.
        parameters: Parameters of the network and its training.
        seed: Seed of everything random.
        checkpoints: From a family to where its state after each epoch is kept.
        verbose: Show progress.
    """

    rows: Split
    classes: list[Any]
    scale: str
    parameters: dict[str, Any]
    seed: int
    checkpoints: Callable[[str], Path]
    verbose: bool = False

    def shared(self, family: str) -> dict[str, Any]:
        """Return parameters of the estimator that is trained for a family."""
        own = {"random_state": self.seed, "checkpoint": self.checkpoints(family)}
        return parameters_of({**self.parameters, **own, "verbose": self.verbose})

    @property
    def names(self) -> dict[str, Any]:
        """Ids and groups of the rows."""
        return {"ids": self.rows.ids, "groups": self.rows.groups}


@dataclass(frozen=True)
class Trained:
    """The models that one training gave.

    Attributes:
        models: Ways to read it, by kind.
        seconds: How long the epochs took, also those before an interruption.
    """

    models: dict[str, Any]
    seconds: float


def _twin(training: Job) -> Trained:
    rows = training.rows
    twin = ParametricClassifier(**training.shared("twin"))
    twin.fit(rows.X, rows.y, classes=training.classes)
    own = {"encoder": twin.encoder_, "training": "standard", "k": NEIGHBOURS}
    knn = KNNClassifier(**{**_adapted(training, "twin", epochs=0), **own})
    knn.fit(rows.X, rows.y, **training.names)
    return Trained({"parametric": twin, "knn": knn}, seconds_spent(training.checkpoints("twin")))


def _spm(training: Job) -> Trained:
    model = SPMClassifier(**training.shared("spm"))
    model.fit(training.rows.X, training.rows.y, **training.names)
    return Trained({"spm": model}, seconds_spent(training.checkpoints("spm")))


def _reading(kind: str, training: Job) -> Trained:
    """Read the semi-parametric model of the same rows and seed in another way."""
    base = _spm(training)
    return Trained({kind: base.models["spm"].set_params(reduction=READINGS[kind])}, base.seconds)


def _gnn(training: Job) -> Trained:
    """Adapt the semi-parametric model of the same rows and seed to a graph set encoder."""
    base = _spm(training)
    own = {"random_state": training.seed, "checkpoint": training.checkpoints("gnn")}
    parameters = graph_parameters(training.parameters, training.scale)
    model = SPMClassifier(**parameters_of({**parameters, **own, "verbose": training.verbose}))
    model.fit(
        training.rows.X,
        training.rows.y,
        **training.names,
        init=base.models["spm"],
        encoder_lr_factor=GRAPH_ENCODER_LR_FACTOR,
    )
    seconds = seconds_spent(training.checkpoints("gnn"))
    return Trained({"gnn": model}, base.seconds + seconds)


def graph_parameters(parameters: dict[str, Any], scale: str) -> dict[str, Any]:
    """Return settings of a model with a graph set encoder, adapted from one without.

    Args:
        parameters: Settings of the model without.
        scale: The preset.
    """
    epochs, support = GRAPH[scale]
    bare = {"encoder": "auto", "encoder_options": None, "epochs": epochs}
    if parameters.get("encoder") == "fast_cnn" and scale in GRAPH_TRAINING:
        kept = ("augmentation", "label_smoothing")
        own = {name: parameters[name] for name in kept if name in parameters}
        parameters = {**GRAPH_TRAINING[scale], **own}
    return {
        **parameters,
        **bare,
        "set_encoder": "graph",
        "support_size": support,
    }


def _sisa(training: Job) -> Trained:
    rows = training.rows
    own = {"epochs": 0, "training": "standard"}

    def make(seed: int) -> Any:
        drawn = ParametricClassifier(**{**training.shared("sisa"), **own, "random_state": seed})
        drawn.fit(rows.X[:2], rows.y[:2], classes=training.classes)
        return drawn.network_

    given = parameters_of({"verbose": False, **training.parameters})
    config = TrainingConfig(
        epochs=given["epochs"],
        batch_size=given["batch_size"],
        learning_rate=given["learning_rate"],
        how=given["training"],
    )
    model = SISAClassifier(make, config, **SISA, seed=training.seed, verbose=training.verbose)
    model.fit(
        rows.X,
        rows.y,
        ids=rows.ids,
        classes=training.classes,
        checkpoint=training.checkpoints("sisa"),
    )
    folders = [path for path in training.checkpoints("sisa").iterdir() if path.is_dir()]
    return Trained({"sisa": model}, sum(map(seconds_spent, folders)))


def _adapted(training: Job, family: str, *, epochs: int) -> dict[str, Any]:
    """Return parameters of an estimator whose network comes from another one."""
    bare = {"encoder": "auto", "encoder_options": None, "epochs": epochs}
    return {**training.shared(family), **bare}


FAMILIES: dict[str, Callable[[Job], Trained]] = {
    "twin": _twin,
    "spm": _spm,
    **{kind: partial(_reading, kind) for kind in READINGS},
    "gnn": _gnn,
    "sisa": _sisa,
}
"""From a training to its models, by family."""

KINDS = {
    "parametric": "twin",
    "knn": "twin",
    "spm": "spm",
    **{kind: kind for kind in READINGS},
    "gnn": "gnn",
    "sisa": "sisa",
}
"""The family of each kind of model."""


def trained(family: str, training: Job) -> Trained:
    """Train a family's network, or load it from its checkpoint, and build its models."""
    return FAMILIES[family](training)
