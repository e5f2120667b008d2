"""What methods are compared with: originals and oracles, each trained once and kept."""

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from erasable.bench._evaluation import Evaluation
from erasable.bench._families import KINDS, Job, Trained, family_settings, trained
from erasable.bench._predictions import Embedded, Predictions, load_predictions, predict_all
from erasable.bench._rules import forget_digest, scenario
from erasable.bench._runs import Run, Runs, data_settings, test_rows
from erasable.bench._scenarios import Scenario
from erasable.data import Dataset, Split
from erasable.errors import ArgumentError, listing
from erasable.models import ParametricClassifier, parameters_of, preset_settings
from erasable.training import input_shape

ORACLES = 1000
"""An oracle's seed is its original's and this."""

_HELD = 15
"""Originals that are held at a time, with their embeddings: up to five families of three seeds,
which tables go through rule by rule."""

SCALES = ("tiny", "laptop", "fast", "accurate", "paper")
"""Presets that train."""

Say = Callable[[str], None]


class References:
    """Originals and oracles of one data set at one scale, each trained once and kept.

    Args:
        data: The data set; it needs test rows.
        scale: A preset that trains.
        runs: Where finished runs, weights and predictions are kept.
        label_smoothing: Instead of the preset's, and by default none: smoothing trains all wrong
            classes to be equally wrong, and one of them is the answer once a class is gone.
        encoder_options: Options of the encoder besides the preset's, and instead of them.
        say: Where remarks on the progress go.
        verbose: Show progress bars.
    """

    def __init__(
        self,
        data: Dataset,
        *,
        scale: str,
        runs: Runs,
        label_smoothing: float = 0.0,
        encoder_options: dict[str, Any] | None = None,
        say: Say = lambda _: None,
        verbose: bool = False,
    ) -> None:
        if scale not in SCALES:
            raise ArgumentError(f"Expected preset {listing(SCALES)}, but got {scale!r}.")
        self._data, self.test = data, test_rows(data)
        self.train = data.train
        self.scale, self._runs, self._say, self._verbose = scale, runs, say, verbose
        self._record = data_settings(data)
        found = preset_settings(scale, input_shape(data.train.X))
        self.label_smoothing = float(label_smoothing)
        self._parameters = {**found, "label_smoothing": self.label_smoothing}
        if encoder_options:
            own = found.get("encoder_options") or {}
            self._parameters["encoder_options"] = {**own, **encoder_options}
        self.classes: list[Any] = sorted(set(data.train.y.tolist()))
        self._originals: dict[tuple[str, int], Trained] = {}
        self._embedded: dict[tuple[str, int], tuple[Embedded, float]] = {}
        self._scenarios: dict[tuple[str, int], Scenario] = {}

    @property
    def data_name(self) -> str:
        """Name of the data set."""
        return self._data.name

    @property
    def rows(self) -> int:
        """Number of training rows."""
        return len(self.train)

    @property
    def epochs(self) -> int:
        """Epochs of a training."""
        return int(self._parameters["epochs"])

    @property
    def encoder_options(self) -> dict[str, Any]:
        """Options of the encoder, the preset's and others."""
        return dict(self._parameters.get("encoder_options") or {})

    def scenario(self, rule: str, seed: int) -> Scenario:
        """Return what a rule forgets."""
        key = rule, seed
        if key not in self._scenarios:
            self._scenarios[key] = scenario(self.train, rule, seed=seed)
        return self._scenarios[key]

    def pairs(self, rule: str, seeds: list[int]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Return pairs of (seed of the rule, seed of the oracle) with the same forget set."""
        digests = {s: forget_digest(self.train, self.scenario(rule, s)) for s in seeds}
        if len(set(digests.values())) == 1 and len(seeds) > 1:
            return [
                ((a, a + ORACLES), (b, b + ORACLES)) for a, b in itertools.combinations(seeds, 2)
            ]
        return [((s, s + ORACLES), (s, s + 2 * ORACLES)) for s in seeds]

    def ends(self, rule: str, seeds: list[int]) -> list[tuple[int, int]]:
        """Return (seed of the rule, seed of the oracle) of every oracle that a floor compares."""
        return sorted({end for pair in self.pairs(rule, seeds) for end in pair})

    def original(self, family: str, seed: int) -> Trained:
        """Return models that were trained on all rows; the last few are held."""
        key = family, seed
        if key not in self._originals:
            if len(self._originals) >= _HELD:
                oldest = next(iter(self._originals))
                del self._originals[oldest]
                self._embedded = {
                    (kind, own): found
                    for (kind, own), found in self._embedded.items()
                    if (KINDS[kind], own) != oldest
                }
            self._originals[key] = self._make(family, self.train, seed, "original")
        return self._originals[key]

    def original_run(self, kind: str, seed: int) -> Run:
        """Return the run of an original: how long it trained and how good it is."""
        family = KINDS[kind]

        def work(_: Path) -> dict[str, Any]:
            made = self.original(family, seed)
            accuracies = {
                name: float(np.mean(model.predict(self.test.X) == self.test.y))
                for name, model in made.models.items()
            }
            return {"seconds": made.seconds, "accuracies": accuracies}

        return self._runs.run(self.settings("original", family, seed), work)

    def original_answers(self, kind: str, seed: int) -> Predictions:
        """Return what an original says; kept for the next scenario."""
        path = self._predictions(self.settings("original", KINDS[kind], seed), kind)
        if not path.exists():
            model = self.original(KINDS[kind], seed).models[kind]
            reads = hasattr(model, "memory")
            self.ask(model, self.embedded(kind, seed)[0] if reads else None).save(path)
        return load_predictions(path)

    def oracle(self, family: str, rule: str, rule_seed: int, *, seed: int | None = None) -> Run:
        """Train without the forget set, and keep what the models say; or return it from before.

        Args:
            family: What is trained.
            rule: What is forgotten.
            rule_seed: Seed of random forget sets.
            seed: Seed of the oracle; default: that of the rule and `ORACLES`.
        """
        seed = rule_seed + ORACLES if seed is None else seed
        found = self.scenario(rule, rule_seed)
        settings = self._oracle_settings(family, found, seed)

        def work(_: Path) -> dict[str, Any]:
            made = self._make(family, self.parts(found)[1], seed, f"oracle without {rule}")
            evaluation = self.evaluation(found)
            result: dict[str, Any] = {"seconds": made.seconds, "kinds": {}}
            for kind, model in made.models.items():
                answers = self.ask(model, None)
                answers.save(self._predictions(settings, kind))
                result["kinds"][kind] = {
                    "values": evaluation.values(answers),
                    "attacks": evaluation.attacks(answers),
                }
            return result

        return self._runs.run(settings, work)

    def oracle_run(self, kind: str, rule: str, seed: int) -> Run:
        """Return the run of the oracle that cells of a seed are compared with."""
        return self.oracle(KINDS[kind], rule, seed)

    def oracle_predictions(
        self, kind: str, rule: str, rule_seed: int, *, seed: int | None = None
    ) -> Predictions:
        """Return what an oracle says; trained again if only its figures were kept."""
        seed = rule_seed + ORACLES if seed is None else seed
        family = KINDS[kind]
        found = self.scenario(rule, rule_seed)
        path = self._predictions(self._oracle_settings(family, found, seed), kind)
        if not path.exists():
            made = self._make(family, self.parts(found)[1], seed, f"oracle without {rule}")
            settings = self._oracle_settings(family, found, seed)
            for name, model in made.models.items():
                self.ask(model, None).save(self._predictions(settings, name))
        return load_predictions(path)

    def has_original(self, family: str, seed: int) -> bool:
        """Return whether an original is finished."""
        return self._runs.find(self.settings("original", family, seed)) is not None

    def has_oracle(self, family: str, rule: str, rule_seed: int, seed: int) -> bool:
        """Return whether an oracle is finished."""
        settings = self._oracle_settings(family, self.scenario(rule, rule_seed), seed)
        return self._runs.find(settings) is not None

    def seconds_per_pass(self) -> float:
        """Measure how long one pass of training over all rows takes, on a few batches."""
        few = self.train.take(range(min(len(self.train), 4 * self._parameters["batch_size"])))
        probe = ParametricClassifier(
            **parameters_of({**self._parameters, "epochs": 1}), random_state=0
        )
        seconds = []
        for _ in range(2):  # the first one warms up
            start = time.perf_counter()
            probe.fit(few.X, few.y, classes=self.classes)
            seconds.append(time.perf_counter() - start)
        return min(seconds) * len(self.train) / len(few)

    def embedded(self, kind: str, seed: int) -> tuple[Embedded, float]:
        """Return embeddings of all rows by an original, and how long the training rows took."""
        key = kind, seed
        if key not in self._embedded:
            model = self.original(KINDS[kind], seed).models[kind]
            start = time.perf_counter()
            train = model.embed(self.train.X)
            seconds = time.perf_counter() - start
            self._embedded[key] = Embedded(train, model.embed(self.test.X)), seconds
        return self._embedded[key]

    def ask(self, model: Any, embedded: Embedded | None) -> Predictions:
        return predict_all(model, self.train, self.test, self.classes, embedded=embedded)

    def evaluation(self, found: Scenario) -> Evaluation:
        return Evaluation(found, self.train, self.test, self.classes)

    def parts(self, found: Scenario) -> tuple[Split, Split]:
        return self.train.where(found.is_forgotten), self.train.where(~found.is_forgotten)

    def settings(self, what: str, name: str, seed: int | None) -> dict[str, Any]:
        return {
            "table": "bench",
            "what": what,
            "name": name,
            "data": self._record,
            "preset": self.scale,
            "parameters": self._parameters,
            "family": family_settings(KINDS.get(name, name), self.scale),
            "seed": seed,
        }

    def _make(self, family: str, rows: Split, seed: int, what: str) -> Trained:
        digest = rows.digest

        def checkpoints(name: str) -> Path:
            settings = {**self.settings("weights", name, seed), "rows": digest}
            return self._runs.place("weights", settings)

        self._say(f"training {family}, {what}, seed {seed}")
        training = Job(
            rows,
            self.classes,
            self.scale,
            self._parameters,
            seed,
            checkpoints,
            verbose=self._verbose,
        )
        made = trained(family, training)
        self._say(f"{family}, {what}: its epochs took {made.seconds:.0f} s")
        return made

    def _oracle_settings(self, family: str, found: Scenario, seed: int) -> dict[str, Any]:
        return {
            **self.settings("oracle", family, seed),
            "forget": forget_digest(self.train, found),
            "is_class": found.is_class,
        }

    def _predictions(self, settings: dict[str, Any], kind: str) -> Path:
        return self._runs.place("predictions", settings, f"-{kind}.npz")
