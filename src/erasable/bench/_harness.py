"""The benchmark: originals, oracles and unlearned models, each made once and kept.

A *cell* is one method on one scenario with one seed. It is compared with an oracle of the same kind
that was retrained without the forget set; oracles of other seeds are the floor.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from erasable.baselines import Budget, DivergedError, Method, WeightMethod, unlearn
from erasable.bench._evaluation import Evaluation
from erasable.bench._families import KINDS, Trained, Training, family_settings, trained
from erasable.bench._predictions import Embedded, Predictions, load_predictions, predict_all
from erasable.bench._rules import forget_digest, scenario, stages
from erasable.bench._runs import Run, Runs, data_settings, test_rows
from erasable.bench._scenarios import Scenario
from erasable.data import Dataset, Split
from erasable.errors import ArgumentError, listing
from erasable.models import ParametricClassifier, preset
from erasable.training import input_shape

ORACLES = 1000
"""An oracle's seed is its original's and this."""

BUDGETS = {"tiny": Budget(passes=1), "laptop": Budget(passes=1), "paper": Budget()}
"""What a method may spend, by preset: an edit that costs as much as retraining is none."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """One method on one scenario.

    Attributes:
        kind: Kind of model: ``parametric``, ``knn``, ``spm``, ``gnn`` or ``sisa``.
        method: The method with its settings.
        rule: What is forgotten.
        seed: Seed of the original, and of random forget sets.
    """

    kind: str
    method: Method
    rule: str
    seed: int

    def __post_init__(self) -> None:
        require_kind(self.kind)
        if isinstance(self.method, WeightMethod) != (self.kind == "parametric"):
            raise ArgumentError(
                f"Expected a method that edits weights for parametric models, and deletion for "
                f"others, but got {self.method.name} for {self.kind}."
            )


def require_kind(kind: str) -> None:
    """Refuse what is no kind of model."""
    if kind not in KINDS:
        raise ArgumentError(f"Expected a kind of model, {listing(KINDS)}, but got {kind!r}.")


class Harness:
    """Everything that is made of one data set at one scale.

    Args:
        data: The data set; it needs test rows.
        scale: A preset that trains.
        runs: Where finished runs, weights and predictions are kept.
        say: Where remarks on the progress go.
        verbose: Show progress bars.
    """

    def __init__(
        self,
        data: Dataset,
        *,
        scale: str,
        runs: Runs,
        say: Say = lambda _: None,
        verbose: bool = False,
    ) -> None:
        if scale not in BUDGETS:
            raise ArgumentError(f"Expected preset {listing(BUDGETS)}, but got {scale!r}.")
        self._data, self._test = data, test_rows(data)
        self._train = data.train
        self._scale, self._runs, self._say, self._verbose = scale, runs, say, verbose
        self._record = data_settings(data)
        self._parameters = preset(scale, input_shape(data.train.X))
        self.classes: list[Any] = sorted(set(data.train.y.tolist()))
        self._originals: dict[tuple[str, int], Trained] = {}
        self._embedded: dict[tuple[str, int], tuple[Embedded, float]] = {}
        self._answers: dict[tuple[str, int], Predictions] = {}
        self._scenarios: dict[tuple[str, int], Scenario] = {}

    # -- cells -----------------------------------------------------------------------------------

    def cell(self, cell: Cell) -> Run:
        """Unlearn and compare with the oracle, or return what was found before.

        A method that diverges is a finished cell with its reason and without a score.
        """
        found = self.scenario(cell.rule, cell.seed)
        settings = self._cell_of(cell)

        def work() -> dict[str, Any]:
            original = self.original(KINDS[cell.kind], cell.seed).models[cell.kind]
            try:
                return self._step(cell, original, cell.rule, self._parts(found)[0])[1]
            except DivergedError as error:
                return {"failed": str(error)}

        return self._after_references(settings, work, cell.kind, [cell.rule], cell.seed)

    def sequence(self, cell: Cell) -> Run:
        """Do the requests of a rule one after the other, each on the model that the last one left.

        After each, the model is compared with an oracle that saw none of what is gone by then. A
        method that diverges ends there, with its reason.
        """
        rules = stages(cell.rule)
        settings = {
            **self._cell_settings("sequence", cell),
            "forget": [forget_digest(self._train, self.scenario(r, cell.seed)) for r in rules],
        }

        def work() -> dict[str, Any]:
            model = self.original(KINDS[cell.kind], cell.seed).models[cell.kind]
            gone = np.zeros(len(self._train), bool)
            steps: list[dict[str, Any]] = []
            for rule in rules:
                found = self.scenario(rule, cell.seed)
                fresh = self._train.where(found.is_forgotten & ~gone)
                try:
                    model, measured = self._step(cell, model, rule, fresh)
                except DivergedError as error:
                    return {"steps": steps, "failed": str(error)}
                steps.append(measured)
                gone = found.is_forgotten
            return {"steps": steps}

        return self._after_references(settings, work, cell.kind, rules, cell.seed)

    def _after_references(
        self,
        settings: dict[str, Any],
        work: Callable[[], dict[str, Any]],
        kind: str,
        rules: list[str],
        seed: int,
    ) -> Run:
        """Return a finished run, or do the work; original and oracles are runs of their own."""
        done = self._runs.find(settings)
        if done is not None:
            return done
        self.original_run(kind, seed)
        for rule in rules:
            self.oracle(KINDS[kind], rule, seed)
        what = settings.get("method", settings["what"])
        self._say(f"{what} on {kind}: {rules[-1]}, seed {seed}")
        return self._runs.run(settings, lambda _: work())

    def _step(self, cell: Cell, model: Any, rule: str, forget: Split) -> tuple[Any, dict[str, Any]]:
        """Unlearn some rows and compare with the oracle of all that is gone by then."""
        found = self.scenario(rule, cell.seed)
        retain = self._parts(found)[1]
        oracle = self.oracle_predictions(cell.kind, rule, cell.seed)
        done = unlearn(
            cell.method,
            model,
            forget=forget,
            retain=retain,
            budget=BUDGETS[self._scale],
            verbose=self._verbose,
        )
        reads = hasattr(model, "memory")
        embedded, encoding = self._encoded(cell.kind, cell.seed) if reads else (None, 0.0)
        answers = self._ask(done.model, embedded)
        evaluation = self._evaluation(found)
        return done.model, {
            "compare": evaluation.compare(answers, oracle),
            "attacks": evaluation.attacks(answers),
            "seconds": done.account.seconds,
            "seconds_reencoding": done.account.seconds + encoding * len(retain) / len(self._train),
            "account": done.account.parts,
            "figures": done.figures,
            "is_complete": done.is_complete,
        }

    def untouched(self, kind: str, rule: str, seed: int) -> Run:
        """Compare the original, to which nothing was done, with the oracle."""
        found = self.scenario(rule, seed)
        settings = {
            **self._settings("untouched", kind, seed),
            "rule": rule,
            "forget": forget_digest(self._train, found),
        }

        def work() -> dict[str, Any]:
            oracle = self.oracle_predictions(kind, rule, seed)
            answers, evaluation = self._original_answers(kind, seed), self._evaluation(found)
            return {
                "compare": evaluation.compare(answers, oracle),
                "attacks": evaluation.attacks(answers),
            }

        return self._after_references(settings, work, kind, [rule], seed)

    def floor(self, kind: str, rule: str, seeds: list[int]) -> Run:
        """Compare oracles of different seeds with each other.

        Where the rule draws rows at random, each seed has its own forget set; its oracle is then
        compared with another oracle of the same forget set.
        """
        digests = [forget_digest(self._train, self.scenario(rule, seed)) for seed in seeds]
        settings = {
            **self._settings("floor", kind, None),
            "rule": rule,
            "seeds": seeds,
            "forget": digests,
        }

        for pair in self.pairs(rule, seeds) if self._runs.find(settings) is None else ():
            for rule_seed, seed in pair:
                self.oracle(KINDS[kind], rule, rule_seed, seed=seed)

        def work(_: Path) -> dict[str, Any]:
            pairs = []
            for first, second in self.pairs(rule, seeds):
                answers = [
                    self.oracle_predictions(kind, rule, rule_seed, seed=seed)
                    for rule_seed, seed in (first, second)
                ]
                evaluation = self._evaluation(self.scenario(rule, first[0]))
                pairs.append(evaluation.compare(*answers))
            return {"pairs": pairs}

        return self._runs.run(settings, work)

    def floor_runs(self, kind: str, rule: str, seeds: list[int]) -> list[Run]:
        """Return the runs of the oracles that a floor compares."""
        ends = {end for pair in self.pairs(rule, seeds) for end in pair}
        return [self.oracle(KINDS[kind], rule, r, seed=seed) for r, seed in sorted(ends)]

    def pairs(self, rule: str, seeds: list[int]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Return pairs of (seed of the rule, seed of the oracle) with the same forget set."""
        digests = {s: forget_digest(self._train, self.scenario(rule, s)) for s in seeds}
        if len(set(digests.values())) == 1 and len(seeds) > 1:
            return [
                ((a, a + ORACLES), (b, b + ORACLES)) for a, b in itertools.combinations(seeds, 2)
            ]
        return [((s, s + ORACLES), (s, s + 2 * ORACLES)) for s in seeds]

    # -- what it is made of ------------------------------------------------------------------------

    @property
    def data_name(self) -> str:
        """Name of the data set."""
        return self._data.name

    @property
    def train(self) -> Split:
        """The training rows."""
        return self._train

    @property
    def test(self) -> Split:
        """The test rows."""
        return self._test

    @property
    def rows(self) -> int:
        """Number of training rows."""
        return len(self._train)

    @property
    def epochs(self) -> int:
        """Epochs of a training."""
        return int(self._parameters["epochs"])

    @property
    def scale(self) -> str:
        """The preset."""
        return self._scale

    def family(self, kind: str) -> str:
        """Return what is trained for a kind of model."""
        return KINDS[kind]

    def original_run(self, kind: str, seed: int) -> Run:
        """Return the run of an original: how long it trained and how good it is."""
        family = KINDS[kind]

        def work(_: Path) -> dict[str, Any]:
            made = self.original(family, seed)
            accuracies = {
                name: float(np.mean(model.predict(self._test.X) == self._test.y))
                for name, model in made.models.items()
            }
            return {"seconds": made.seconds, "accuracies": accuracies}

        return self._runs.run(self._settings("original", family, seed), work)

    def oracle_run(self, kind: str, rule: str, seed: int) -> Run:
        """Return the run of the oracle that cells of a seed are compared with."""
        return self.oracle(KINDS[kind], rule, seed)

    def has_cell(self, cell: Cell) -> bool:
        """Return whether a cell is finished."""
        return self._runs.find(self._cell_of(cell)) is not None

    def has_original(self, family: str, seed: int) -> bool:
        """Return whether an original is finished."""
        return self._runs.find(self._settings("original", family, seed)) is not None

    def has_oracle(self, family: str, rule: str, rule_seed: int, seed: int) -> bool:
        """Return whether an oracle is finished."""
        settings = self._oracle_settings(family, self.scenario(rule, rule_seed), seed)
        return self._runs.find(settings) is not None

    def seconds_per_pass(self) -> float:
        """Measure how long one pass of training over all rows takes, on a few batches."""
        few = self._train.take(range(min(len(self._train), 4 * self._parameters["batch_size"])))
        probe = ParametricClassifier(**{**self._parameters, "epochs": 1}, random_state=0)
        seconds = []
        for _ in range(2):  # the first one warms up
            start = time.perf_counter()
            probe.fit(few.X, few.y, classes=self.classes)
            seconds.append(time.perf_counter() - start)
        return min(seconds) * len(self._train) / len(few)

    # -- models ----------------------------------------------------------------------------------

    def original(self, family: str, seed: int) -> Trained:
        """Return models that were trained on all rows; the last few are held."""
        key = family, seed
        if key not in self._originals:
            if len(self._originals) >= 3:
                oldest = next(iter(self._originals))
                del self._originals[oldest]
                self._embedded = {k: v for k, v in self._embedded.items() if k[1] == seed}
            self._originals[key] = self._make(family, self._train, seed, "original")
        return self._originals[key]

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
            made = self._make(family, self._parts(found)[1], seed, f"oracle without {rule}")
            evaluation = self._evaluation(found)
            result: dict[str, Any] = {"seconds": made.seconds, "kinds": {}}
            for kind, model in made.models.items():
                answers = self._ask(model, None)
                answers.save(self._predictions(settings, kind))
                result["kinds"][kind] = {
                    "values": evaluation.values(answers),
                    "attacks": evaluation.attacks(answers),
                }
            return result

        return self._runs.run(settings, work)

    def oracle_predictions(
        self, kind: str, rule: str, rule_seed: int, *, seed: int | None = None
    ) -> Predictions:
        """Return what an oracle says; trained again if only its figures were kept."""
        seed = rule_seed + ORACLES if seed is None else seed
        family = KINDS[kind]
        found = self.scenario(rule, rule_seed)
        path = self._predictions(self._oracle_settings(family, found, seed), kind)
        if not path.exists():
            made = self._make(family, self._parts(found)[1], seed, f"oracle without {rule}")
            settings = self._oracle_settings(family, found, seed)
            for name, model in made.models.items():
                self._ask(model, None).save(self._predictions(settings, name))
        return load_predictions(path)

    def scenario(self, rule: str, seed: int) -> Scenario:
        """Return what a rule forgets."""
        key = rule, seed
        if key not in self._scenarios:
            self._scenarios[key] = scenario(self._train, rule, seed=seed)
        return self._scenarios[key]

    # -- inside ----------------------------------------------------------------------------------

    def _make(self, family: str, rows: Split, seed: int, what: str) -> Trained:
        digest = rows.digest

        def checkpoints(name: str) -> Path:
            settings = {**self._settings("weights", name, seed), "rows": digest}
            return self._runs.place("weights", settings)

        self._say(f"training {family}, {what}, seed {seed}")
        training = Training(
            rows,
            self.classes,
            self._scale,
            self._parameters,
            seed,
            checkpoints,
            verbose=self._verbose,
        )
        made = trained(family, training)
        self._say(f"{family}, {what}: its epochs took {made.seconds:.0f} s")
        return made

    def _encoded(self, kind: str, seed: int) -> tuple[Embedded, float]:
        """Return embeddings of all rows by an original, and how long the training rows took."""
        key = kind, seed
        if key not in self._embedded:
            model = self.original(KINDS[kind], seed).models[kind]
            start = time.perf_counter()
            train = model.embed(self._train.X)
            seconds = time.perf_counter() - start
            self._embedded[key] = Embedded(train, model.embed(self._test.X)), seconds
        return self._embedded[key]

    def _original_answers(self, kind: str, seed: int) -> Predictions:
        """Return what an original says; kept for the next scenario."""
        key = kind, seed
        if key not in self._answers:
            model = self.original(KINDS[kind], seed).models[kind]
            reads = hasattr(model, "memory")
            self._answers = {key: self._ask(model, self._encoded(kind, seed)[0] if reads else None)}
        return self._answers[key]

    def _ask(self, model: Any, embedded: Embedded | None) -> Predictions:
        return predict_all(model, self._train, self._test, self.classes, embedded=embedded)

    def _evaluation(self, found: Scenario) -> Evaluation:
        return Evaluation(found, self._train, self._test, self.classes)

    def _parts(self, found: Scenario) -> tuple[Split, Split]:
        return self._train.where(found.is_forgotten), self._train.where(~found.is_forgotten)

    def _settings(self, what: str, name: str, seed: int | None) -> dict[str, Any]:
        return {
            "table": "bench",
            "what": what,
            "name": name,
            "data": self._record,
            "preset": self._scale,
            "parameters": self._parameters,
            "family": family_settings(KINDS.get(name, name), self._scale),
            "seed": seed,
        }

    def _cell_settings(self, what: str, cell: Cell) -> dict[str, Any]:
        return {
            **self._settings(what, cell.kind, cell.seed),
            "rule": cell.rule,
            "method": cell.method.name,
            "method_settings": cell.method.settings,
            "method_version": cell.method.version,
            "budget": vars(BUDGETS[self._scale]),
        }

    def _cell_of(self, cell: Cell) -> dict[str, Any]:
        digest = forget_digest(self._train, self.scenario(cell.rule, cell.seed))
        return {**self._cell_settings("cell", cell), "forget": digest}

    def _oracle_settings(self, family: str, found: Scenario, seed: int) -> dict[str, Any]:
        return {
            **self._settings("oracle", family, seed),
            "forget": forget_digest(self._train, found),
            "is_class": found.is_class,
        }

    def _predictions(self, settings: dict[str, Any], kind: str) -> Path:
        return self._runs.place("predictions", settings, f"-{kind}.npz")
