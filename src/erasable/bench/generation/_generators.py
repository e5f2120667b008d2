"""Originals and oracles of generation, each trained once, and the judge of what they draw."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from erasable.bench._references import ORACLES
from erasable.bench._runs import Run, Runs, data_settings, test_rows
from erasable.bench.generation._presets import (
    DEFAULT_ROWS,
    GENERATION,
    SPM_VARIANTS,
    learnt,
)
from erasable.data import Dataset, Split, in_bytes, shrunk
from erasable.errors import ArgumentError, listing
from erasable.files import require_writable
from erasable.fusion import get_kernels
from erasable.metrics import ClassifierFeatures, FeatureNetwork
from erasable.models import (
    DDPM,
    GMM,
    ParametricClassifier,
    SPMGenerator,
    parameters_of,
    preset_settings,
)
from erasable.training import StepConfig, input_shape, make_fabric, seconds_spent
from erasable.typing import Label
from erasable.weights import weights_digest

Bytes = npt.NDArray[np.uint8]
Say = Callable[[str], None]

_VERSION = 1
"""To be raised when code changes what is learnt: kept results of older code are not used then."""

_TRIFLES = ("tiny", "demo", "trial")
"""Scales whose judge is the smallest classifier, trained for longer than two epochs, and whose
generators do not have enough to do for a compiler."""


class Generators:
    """Generators of one data set at one scale, and how what they draw is judged.

    Args:
        data: The data set; it needs test rows, for the judge.
        scale: A key of `GENERATION`.
        runs: Where finished runs, weights and samples are kept.
        say: Where remarks on the progress go.
        verbose: Show progress bars.
        features: What distances are measured by; default: the judge's embeddings.
        network: Parameters of networks and their training that take the place of the preset's.

    Attributes:
        stand_in: Whose rows are read for a forgotten class; None, and for that class itself: those
            of the first that is left.
    """

    def __init__(
        self,
        data: Dataset,
        *,
        scale: str,
        runs: Runs,
        say: Say = lambda _: None,
        verbose: bool = False,
        features: FeatureNetwork | None = None,
        network: dict[str, Any] | None = None,
    ) -> None:
        if scale not in GENERATION:
            raise ArgumentError(f"Expected preset {listing(GENERATION)}, but got {scale!r}.")
        self.settings = {
            **GENERATION[scale],
            "network": {**GENERATION[scale]["network"], **(network or {})},
        }
        data = in_bytes(data)
        self.data = at_side(data, self.side, f"preset {scale!r}")
        if "rows" in self.settings:
            first = first_of_classes(self.data.train, int(self.settings["rows"]))
            self.data = replace(self.data, train=first)
        self.train, self.test = self.data.train, test_rows(self.data)
        self.scale, self.runs, self.say, self.verbose = scale, runs, say, verbose
        self._record = data_settings(self.data)
        self.classes: list[Label] = sorted(set(self.train.y.tolist()))
        if len(self.classes) < 2:
            raise ArgumentError(f"Expected at least two classes in {data.name}, but got one.")
        if network:
            _require_options(network, self.settings["network"], self.train)
        self._judge: ParametricClassifier | None = None
        self._features = features
        self._held: dict[str, Any] = {}
        self.stand_in: Label | None = None

    @property
    def side(self) -> int:
        """Height and width of images."""
        return int(self.settings["side"])

    # -- the judge -------------------------------------------------------------------------------

    @property
    def judge(self) -> ParametricClassifier:
        """A classifier of real images, which tells what was drawn."""
        if self._judge is None:
            place = self.runs.place("weights", self._judge_settings)
            own = {"random_state": 0, "checkpoint": place, "verbose": self.verbose}
            judge = ParametricClassifier(**parameters_of({**self.judge_parameters, **own}))
            self.say("training the judge")
            with self._alone(place):
                self._judge = judge.fit(self.train.X, self.train.y, classes=self.classes)
        return self._judge

    @property
    def judge_parameters(self) -> dict[str, Any]:
        """Parameters of the judge."""
        found = preset_settings("tiny" if self.scale in _TRIFLES else "laptop", self.image_shape)
        return {**found, "epochs": 10} if self.scale in _TRIFLES else found  # two would not do

    @property
    def _judge_settings(self) -> dict[str, Any]:
        return self.run_settings("judge", "judge", 0)

    @property
    def judge_digest(self) -> str:
        """Digest of the judge's weights: on another machine the same training may differ."""
        return weights_digest(self.judge.network_)[:16]

    @property
    def features(self) -> FeatureNetwork:
        """What Fréchet distances are measured by."""
        if self._features is None:
            self._features = ClassifierFeatures(self.judge, name=self.features_name)
        return self._features

    @property
    def features_name(self) -> str:
        """Name of the features; known before the judge is trained."""
        own = self._features
        return str(self.judge_parameters["encoder"]) if own is None else own.name

    @property
    def features_key(self) -> str:
        """What tells the features from others of the same name."""
        return self.features_name if self._features is None else self._features.key

    def judge_run(self) -> Run:
        """Return how good the judge is on test rows."""

        def work(_: Path) -> dict[str, Any]:
            found = self.judge.predict(self.test.X)
            return {"accuracy": float(np.mean(found == self.test.y))}

        return self.runs.run(self._judge_settings, work)

    def blank_run(self) -> Run:
        """Return what the judge takes an image for that has nothing in it."""

        def work(_: Path) -> dict[str, Any]:
            nothing = np.zeros((1, *self.image_shape), dtype=np.float32)
            return {"answer": self.judge.predict(nothing).tolist()[0]}

        return self.runs.run({**self._judge_settings, "what": "blank"}, work)

    # -- models ----------------------------------------------------------------------------------

    @cached_property
    def kernel(self) -> str:
        """How patches are compared: one way for all trainings and drawings, so that times compare.

        Left to choose by itself, a model takes another way for more rows, or more steps.
        """
        if self.scale in _TRIFLES:
            return "eager"
        return get_kernels(work=math.inf, device=make_fabric("auto").device.type).name

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of an image, (channels, height, width)."""
        return input_shape(self.train.X)

    def model(self, kind: str, seed: int, *, without: Label | None = None) -> Any:
        """Return a generator, trained on all rows or without a class; the last one is held.

        Args:
            kind: ``ddpm``, ``gmm``, or a variant of ``spm``.
            seed: Seed of everything random.
            without: A class that it never sees: an oracle.
        """
        key = f"{kind} {seed} {without!r}"
        if key not in self._held:
            self._held = {key: self._trained(kind, seed, without)}
            if kind != "gmm":
                self.training(kind, seed, without=without)
        return self._held[key]

    def fresh(self, kind: str, seed: int, *, without: Label | None = None) -> Any:
        """Return a generator that may be changed: the next one that is asked for is another."""
        model = self.model(kind, seed, without=without)
        self._held = {}
        return model

    def training(self, kind: str, seed: int, *, without: Label | None = None) -> Run:
        """Return how a training went: its seconds, across interruptions, and its history."""
        settings = {
            **self.run_settings("training", kind, seed),
            "without": without,
            "judge": self.parameters("judge"),
        }
        known = self.runs.find(settings)
        if known is not None:
            return known
        model = self.model(kind, seed, without=without)  # notes it, too, if it was not held
        spent = seconds_spent(self._weights(kind, seed, without))
        return self.runs.run(settings, lambda _: {"seconds": spent, "history": model.history_})

    def _trained(self, kind: str, seed: int, without: Label | None) -> Any:
        rows = self.train if without is None else self.rows_without(without)
        what = "original" if without is None else f"oracle without {without!r}"
        self.say(f"{kind}, {what}, seed {seed}: training, or going on")
        if kind == "gmm":
            mixture = GMM(components=self.settings["mixtures"], random_state=seed)
            return mixture.fit(rows.X, rows.y.tolist())
        shared = {
            **self.settings["network"],
            "random_state": seed,
            "checkpoint": self._weights(kind, seed, without),
            "verbose": int(self.verbose),
        }
        labels, judge = rows.y.tolist(), self.judge
        with self._alone(shared["checkpoint"]):
            if kind == "ddpm":
                return DDPM(**shared).fit(rows.X, labels, classes=self.classes)
            model = SPMGenerator(**shared, **SPM_VARIANTS[kind], kernel=self.kernel)
            return model.fit(rows.X, labels, ids=rows.ids, classes=self.classes, judge=judge)

    def _alone(self, folder: Path) -> FileLock:
        """Return a lock: two that train the same would share a checkpoint."""
        require_writable(folder.parent)
        return FileLock(folder.with_suffix(".lock"))

    def pictures(self) -> dict[Any, Bytes]:
        """Return the image of each training row by its id, channels first."""
        return dict(zip(self.train.ids, channels_first(self.train.X), strict=True))

    def rows_without(self, label: Label) -> Split:
        """Return the training rows of all other classes."""
        return self.train.where(np.array([y != label for y in self.train.y.tolist()]))

    def reading(self, kind: str) -> dict[str, Any]:
        """Return how many rows are read where classes are forgotten, as an option of drawing."""
        if kind not in SPM_VARIANTS:
            return {}
        return {"rows_per_class": int(self.settings.get("read", DEFAULT_ROWS))}

    def asking(self, kind: str, label: Label) -> dict[str, Any]:
        """Return how a forgotten class is asked for, as an option of drawing.

        The rows of ``stand_in`` are read, or of the first class that is left. Where weights know
        classes by number, they are told the number of the *forgotten* class, as the paper does:
        that is what an embedding may have kept.
        """
        if kind not in SPM_VARIANTS:
            return {}
        first = next(other for other in self.classes if other != label)
        found = {"stand_in": first if self.stand_in in (None, label) else self.stand_in}
        if SPM_VARIANTS[kind].get("labels", "none") == "none":
            return found
        return {**found, "class_numbers": self.classes.index(label)}

    def _weights(self, kind: str, seed: int, without: Label | None) -> Path:
        settings = {**self.run_settings("weights", kind, seed), "without": without}
        return self.runs.place("weights", settings)

    def parameters(self, kind: str) -> dict[str, Any]:
        """Return what a piece of work depends on, of the preset and of the model's class."""
        network = self.settings["network"]
        made: dict[str, tuple[type, dict[str, Any]]] = {
            "judge": (ParametricClassifier, self.judge_parameters),
            "gmm": (GMM, {"components": self.settings["mixtures"]}),
            "ddpm": (DDPM, network),
        }
        model, given = made.get(kind) or (SPMGenerator, {**network, **SPM_VARIANTS[kind]})
        return {"side": self.side, **learnt(model, given)}

    def run_settings(self, what: str, kind: str, seed: int) -> dict[str, Any]:
        """Return what defines a piece of work."""
        return {
            "table": "generation",
            "what": what,
            "name": kind,
            "data": self._record,
            "preset": self.scale,
            "parameters": self.parameters(kind),
            "version": _VERSION,
            "seed": seed,
        }


def at_side(data: Dataset, side: int, who: str) -> Dataset:
    """Return images as large as a preset has them.

    Args:
        data: Images of bytes.
        side: Height and width.
        who: What asks for that.
    """
    most = max(data.train.X.shape[1:3])
    if most < side:
        raise ArgumentError(
            f"Expected images of at least {side} pixels for {who}, but those of {data.name} have "
            f"{most}. Take a smaller preset."
        )
    return data if most == side else shrunk(data, side)


def rows_of(rows: Split, label: Label) -> Split:
    """Return the rows of one class."""
    return rows.where(np.array([y == label for y in rows.y.tolist()]))


def first_of_classes(rows: Split, count: int) -> Split:
    """Return the first so many rows of each class, in their order."""
    seen: dict[Label, int] = {}
    is_kept = []
    for label in rows.y.tolist():
        seen[label] = seen.get(label, 0) + 1
        is_kept.append(seen[label] <= count)
    return rows.where(np.array(is_kept))


def _require_options(given: dict[str, Any], network: dict[str, Any], rows: Split) -> None:
    """Refuse, before anything is trained, what not all kinds of networks have or can be made with.

    Args:
        given: Parameters that were given.
        network: All parameters.
        rows: Rows to make a network for.
    """
    known = sorted(set(learnt(DDPM, {})) & set(learnt(SPMGenerator, {})))
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ArgumentError(
            f"Expected options of networks among {', '.join(known)}, but got {listing(unknown)}."
        )
    few = first_of_classes(rows, 1)
    StepConfig(steps=network["steps"])
    DDPM(**{**network, "steps": 0}, random_state=0).fit(few.X, few.y.tolist())


def channels_first(images: Any) -> Any:
    """Return images (n, height, width[, channels]) as (n, channels, height, width)."""
    found = np.asarray(images)
    return found[:, None] if found.ndim == 3 else found.transpose(0, 3, 1, 2)


def oracle_seed(seed: int) -> int:
    """Return the seed of an original's oracle."""
    return seed + ORACLES
