"""The demo: train, forget, retrain, compare; on handwritten digits, in about a minute."""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.bench._compare import Answers, Comparison, Gaps
from erasable.bench._machine import machine
from erasable.bench._scenarios import Scenario, class_scenario, group_scenario, random_scenario
from erasable.bench._teaser import Teaser, run_teaser
from erasable.data import Split, load_digits
from erasable.metrics import time_forget
from erasable.models import ParametricClassifier, SPMClassifier
from erasable.typing import Float64s

_NETWORK: dict[str, Any] = {
    "encoder": "small_cnn",
    "encoder_options": {"widths": [32, 64], "dim": 64},
    "epochs": 12,
    "learning_rate": 0.1,
    "batch_size": 128,
}
# No constant here looks at a row: the kernel's width is that of 64 uniform pixels in 0…1, whose
# variance is 1/12 each.
_EXACT: dict[str, Any] = {
    "encoder": "random_features",
    "encoder_options": {"gamma": 12 / 64},
    "reduction": "rows",
    "random_state": 0,
}
ORACLE_SEEDS = (101, 202)


@dataclass(frozen=True)
class Line:
    """One model in one scenario: its gaps to both oracles, and the gap between the oracles.

    Attributes:
        scenario: What was forgotten.
        model: What was done about it.
        level: The level of forgetting, or what stands in its place.
        gaps: Gaps to each oracle.
        floor: Gaps between the two oracles; None where an oracle has no seed to vary.
        seconds: Time to forget, edit only.
        seconds_reencoding: The same with the retained rows encoded anew.
        retrain_seconds: Time to train an oracle.
        claim: The Claim's figures against the first oracle.
    """

    scenario: str
    model: str
    level: str
    gaps: list[Gaps]
    floor: Gaps | None
    seconds: float | None
    seconds_reencoding: float | None
    retrain_seconds: float | None
    claim: dict[str, Any] = field(default_factory=dict)

    def mean(self, name: str) -> float:
        """Return the mean of a figure over the oracles."""
        return float(np.mean([getattr(gap, name) for gap in self.gaps]))


@dataclass(frozen=True)
class Proof:
    """The byte-for-byte check of the level ``exact``."""

    scenario: str
    rows: int
    digest_after: str
    digest_without: str
    states_equal: bool
    largest_difference: float
    accuracy: float


@dataclass(frozen=True)
class GalleryItem:
    """A query with the rows that voted, before and after a forget."""

    image: npt.NDArray[np.float32]
    label: Any
    before: list[tuple[npt.NDArray[np.float32], str, float, bool]]
    after: list[tuple[npt.NDArray[np.float32], str, float, bool]]


@dataclass(frozen=True)
class DemoResult:
    """Everything the table and the report show."""

    lines: list[Line]
    proofs: list[Proof]
    gallery: list[GalleryItem]
    teaser: Teaser
    accuracies: dict[str, float]
    counts: dict[str, Any]
    machine: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "lines": [
                {
                    "scenario": line.scenario,
                    "model": line.model,
                    "level": line.level,
                    "gaps": [gap.to_dict() for gap in line.gaps],
                    "floor": line.floor.to_dict() if line.floor else None,
                    "seconds": line.seconds,
                    "seconds_reencoding": line.seconds_reencoding,
                    "retrain_seconds": line.retrain_seconds,
                    "claim": line.claim,
                }
                for line in self.lines
            ],
            "proofs": [vars(proof) for proof in self.proofs],
            "teaser": self.teaser.figures(),
            "accuracies": self.accuracies,
            "counts": self.counts,
            "machine": self.machine,
            "seconds": self.seconds,
        }


def run_demo(*, seed: int = 0, say: Callable[[str], None] = lambda _: None) -> DemoResult:
    """Run the demo.

    Args:
        seed: Seed of the original models, the split and the random forget set.
        say: Where remarks on the progress go.
    """
    start = time.perf_counter()
    demo = _Demo(seed, say)
    subjects = demo.train.groups
    assert subjects is not None  # noqa: S101 - simulated for the digits
    scenarios = [
        class_scenario(demo.train, 3),
        random_scenario(demo.train, 0.1, seed),
        group_scenario(demo.train, subjects[0]),
    ]
    lines = [line for scenario in scenarios for line in demo.compare(scenario)]
    proofs = [demo.prove(scenario) for scenario in scenarios]
    gallery = demo.gallery(scenarios[2])
    demo.step("the two-dimensional toy")
    teaser = run_teaser(seed)
    return DemoResult(
        lines,
        proofs,
        gallery,
        teaser,
        demo.accuracies,
        {
            "train": len(demo.train),
            "test": len(demo.test),
            "train_digest": demo.train.digest,
            "forget": {s.name: int(s.is_forgotten.sum()) for s in scenarios},
            "oracle_seeds": list(ORACLE_SEEDS),
            "seed": seed,
        },
        machine(),
        time.perf_counter() - start,
    )


class _Demo:
    """The models that several scenarios share."""

    def __init__(self, seed: int, say: Callable[[str], None]) -> None:
        self._say = say
        self._start = time.perf_counter()
        self._done, self._steps = 0, 11
        self.train, self.test = load_digits(seed=seed)
        self._labels = np.unique(self.train.y).tolist()
        self.step("training the model and its parametric twin")
        self._spm = self._fit_spm(self.train, seed)
        self._twin = self._fit_twin(self.train, seed)
        self._exact = self._remember(self.train)
        models = {"spm": self._spm, "parametric": self._twin, "exact": self._exact}
        self.accuracies = {k: m.score(self.test.X, self.test.y) for k, m in models.items()}

    def step(self, what: str) -> None:
        """Tell what is being done and how much of the work is left."""
        elapsed = time.perf_counter() - self._start
        left = elapsed / self._done * (self._steps - self._done) if self._done else None
        note = "" if left is None else f", about {left:.0f} s left"
        self._say(f"[{self._done + 1}/{self._steps}] {what} ({elapsed:.0f} s{note})")
        self._done += 1

    def compare(self, scenario: Scenario) -> list[Line]:
        """Forget, retrain twice per architecture, and compare."""
        comparison = Comparison(scenario, self.train, self.test)
        retained = self.train.where(~scenario.is_forgotten)
        self.step(f"{scenario.name}: two oracles of the model")
        spm = self._spm_line(scenario, comparison, retained)
        self.step(f"{scenario.name}: two oracles of the twin")
        twin = self._twin_line(scenario, comparison, retained)
        self.step(f"{scenario.name}: level exact")
        return [spm, twin, self._exact_line(scenario, comparison, retained)]

    def prove(self, scenario: Scenario) -> Proof:
        """Check byte for byte that forgetting equals never having stored."""
        model = copy.deepcopy(self._exact)
        receipt = model.forget(**scenario.request)
        without = self._remember(self.train.where(~scenario.is_forgotten))
        difference = np.abs(
            model.predict_proba(self.test.X, classes=self._labels)
            - without.predict_proba(self.test.X, classes=self._labels)
        ).max()
        states = [b"".join(m.memory.canonical_state()) for m in (model, without)]
        is_equal = states[0] == states[1] and model.weights_digest == without.weights_digest
        return Proof(
            scenario.name,
            receipt.rows,
            receipt.digest_after,
            without.memory.digest,
            is_equal,
            float(difference),
            without.score(self.test.X, self.test.y),
        )

    def gallery(self, scenario: Scenario, *, count: int = 6, top: int = 5) -> list[GalleryItem]:
        """Pick the queries on whose votes the forget set weighed most."""
        before = copy.deepcopy(self._spm).set_params(reduction="rows")
        after = copy.deepcopy(before)
        after.forget(**scenario.request)
        old, new = (model.votes(self.test.X, top=top) for model in (before, after))
        gone = set(np.array(self.train.ids)[scenario.is_forgotten].tolist())
        is_gone = np.isin(old.ids.astype(str), list(gone))
        chosen = np.argsort(-(old.weights * is_gone).sum(1), kind="stable")[:count]
        image = dict(zip(self.train.ids, self.train.X, strict=True))

        def shown(votes: Any, query: int) -> list[tuple[Any, str, float, bool]]:
            pairs = zip(votes.ids[query], votes.weights[query], strict=True)
            return [(image[row_id], row_id, float(w), row_id in gone) for row_id, w in pairs]

        return [
            GalleryItem(self.test.X[q], self.test.y[q], shown(old, q), shown(new, q))
            for q in chosen.tolist()
        ]

    def _spm_line(self, scenario: Scenario, comparison: Comparison, retained: Split) -> Line:
        model = copy.deepcopy(self._spm)
        receipt, spent = time_forget(
            lambda: model.forget(**scenario.request), lambda: model.embed(retained.X)
        )
        oracles, seconds = self._oracles(lambda seed: self._fit_spm(retained, seed))
        answers, *references = [self._ask_votes(comparison, m) for m in (model, *oracles)]
        return Line(
            scenario.name,
            "SPM, forgotten from memory",
            receipt.level,
            [comparison.gaps(answers, oracle) for oracle in references],
            comparison.gaps(*references),
            spent.edit_seconds,
            spent.total,
            seconds,
            _claim(comparison, answers, references[0]),
        )

    def _twin_line(self, scenario: Scenario, comparison: Comparison, retained: Split) -> Line:
        oracles, seconds = self._oracles(lambda seed: self._fit_twin(retained, seed))
        ask = [self._ask_logits(comparison, model) for model in (self._twin, *oracles)]
        return Line(
            scenario.name,
            "parametric twin, untouched",
            "nothing forgotten",
            [comparison.gaps(ask[0], oracle) for oracle in ask[1:]],
            comparison.gaps(*ask[1:]),
            None,
            None,
            seconds,
            _claim(comparison, ask[0], ask[1]),
        )

    def _exact_line(self, scenario: Scenario, comparison: Comparison, retained: Split) -> Line:
        model = copy.deepcopy(self._exact)
        receipt, spent = time_forget(
            lambda: model.forget(**scenario.request), lambda: model.embed(retained.X)
        )
        without, seconds = _timed(lambda: self._remember(retained))
        answers, oracle = (self._ask_votes(comparison, m) for m in (model, without))
        return Line(
            scenario.name,
            "random features, remembered only",
            receipt.level,
            [comparison.gaps(answers, oracle)],
            None,
            spent.edit_seconds,
            spent.total,
            seconds,
            _claim(comparison, answers, oracle),
        )

    def _ask_votes(self, comparison: Comparison, model: SPMClassifier) -> Answers:
        def logs(X: npt.NDArray[Any]) -> Float64s:
            return model.predict_log_proba(X, classes=self._labels)

        return comparison.ask(logs, has_votes=True)

    def _ask_logits(self, comparison: Comparison, model: ParametricClassifier) -> Answers:
        return comparison.ask(model.predict_log_proba, has_votes=False)

    def _oracles(self, fit: Callable[[int], Any]) -> tuple[list[Any], float]:
        timed = [_timed(lambda seed=seed: fit(seed)) for seed in ORACLE_SEEDS]  # type: ignore[misc]  # a default binds the loop variable
        return [model for model, _ in timed], float(np.mean([seconds for _, seconds in timed]))

    def _fit_spm(self, rows: Split, seed: int) -> SPMClassifier:
        model = SPMClassifier(**_NETWORK, random_state=seed)
        return model.fit(rows.X, rows.y, ids=rows.ids, groups=rows.groups)

    def _fit_twin(self, rows: Split, seed: int) -> ParametricClassifier:
        model = ParametricClassifier(**_NETWORK, random_state=seed)
        return model.fit(rows.X, rows.y, classes=self._labels)

    def _remember(self, rows: Split) -> SPMClassifier:
        return SPMClassifier(**_EXACT).remember(rows.X, rows.y, ids=rows.ids, groups=rows.groups)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def _claim(comparison: Comparison, unlearned: Answers, oracle: Answers) -> dict[str, Any]:
    bounds = comparison.claim(unlearned, oracle)
    return {
        "accuracy_gap": bounds.accuracy_gap,
        "prediction_gap": bounds.prediction_gap,
        "margin": bounds.margin,
        "bound": min(bounds.bound_unlearned_oracle, bounds.bound_oracle_unlearned),
        "left_holds": bounds.left_holds,
        "right_holds": bounds.right_holds,
        "is_vacuous": bounds.is_vacuous,
    }
