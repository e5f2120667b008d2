"""The benchmark: methods on originals, compared with oracles, each cell done once and kept.

A *cell* is one method on one scenario with one seed. It is compared with an oracle of the same kind
that was retrained without the forget set; oracles of other seeds are the floor.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from erasable.baselines import Budget, DivergedError, Method, WeightMethod, unlearn
from erasable.bench._families import KINDS
from erasable.bench._references import References
from erasable.bench._rules import forget_digest, stages
from erasable.bench._runs import Run
from erasable.data import Split
from erasable.errors import ArgumentError, ErasableError, listing

BUDGETS = {name: Budget(passes=1) for name in ("tiny", "laptop", "fast", "accurate")} | {
    "paper": Budget()
}
"""What a method may spend, by preset: an edit that costs as much as retraining is none."""


@dataclass(frozen=True)
class Cell:
    """One method on one scenario.

    Attributes:
        kind: Kind of model: ``parametric``, ``knn``, ``spm`` or another reading of its weights,
            ``gnn`` or ``sisa``.
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


def reason(error: Exception) -> str:
    """Return why something failed; with the type of an error that is not the library's."""
    return str(error) if isinstance(error, ErasableError) else f"{type(error).__name__}: {error}"


def require_kind(kind: str) -> None:
    """Refuse what is no kind of model."""
    if kind not in KINDS:
        raise ArgumentError(f"Expected a kind of model, {listing(KINDS)}, but got {kind!r}.")


class Harness(References):
    """Cells of the benchmark: methods on originals, compared with oracles.

    Each is done once and kept; see `References` for the arguments.
    """

    def cell(self, cell: Cell) -> Run:
        """Unlearn and compare with the oracle, or return what was found before.

        A method that diverges is a finished cell with its reason and without a score.
        """
        found = self.scenario(cell.rule, cell.seed)
        settings = self._cell_of(cell)

        def work() -> dict[str, Any]:
            original = self.original(KINDS[cell.kind], cell.seed).models[cell.kind]
            try:
                return self._step(cell, original, cell.rule, self.parts(found)[0])[1]
            except DivergedError as error:
                return {"failed": str(error)}

        return self._after_references(settings, work, cell.kind, [cell.rule], cell.seed)

    def sequence(self, cell: Cell) -> Run:
        """Do the requests of a rule one after the other, each on the model that the last one left.

        After each, the model is compared with an oracle that saw none of what is gone by then. A
        method that diverges ends there, with its reason.
        """
        rules = stages(cell.rule)

        def work() -> dict[str, Any]:
            model = self.original(KINDS[cell.kind], cell.seed).models[cell.kind]
            gone = np.zeros(len(self.train), bool)
            steps: list[dict[str, Any]] = []
            for rule in rules:
                found = self.scenario(rule, cell.seed)
                fresh = self.train.where(found.is_forgotten & ~gone)
                try:
                    model, measured = self._step(cell, model, rule, fresh)
                except DivergedError as error:
                    return {"steps": steps, "failed": str(error)}
                steps.append(measured)
                gone = found.is_forgotten
            return {"steps": steps}

        return self._after_references(self._sequence_of(cell), work, cell.kind, rules, cell.seed)

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
        retain = self.parts(found)[1]
        oracle = self.oracle_predictions(cell.kind, rule, cell.seed)
        done = unlearn(
            cell.method,
            model,
            forget=forget,
            retain=retain,
            budget=BUDGETS[self.scale],
            verbose=self._verbose,
        )
        reads = hasattr(model, "memory")
        embedded, encoding = self.embedded(cell.kind, cell.seed) if reads else (None, 0.0)
        answers = self.ask(done.model, embedded)
        evaluation = self.evaluation(found)
        return done.model, {
            "compare": evaluation.compare(answers, oracle),
            "attacks": evaluation.attacks(answers),
            "seconds": done.account.seconds,
            "seconds_reencoding": done.account.seconds + encoding * len(retain) / len(self.train),
            "account": done.account.parts,
            "figures": done.figures,
            "is_complete": done.is_complete,
        }

    def untouched(self, kind: str, rule: str, seed: int) -> Run:
        """Compare the original, to which nothing was done, with the oracle."""
        found = self.scenario(rule, seed)
        settings = {
            **self.settings("untouched", kind, seed),
            "rule": rule,
            "forget": forget_digest(self.train, found),
        }

        def work() -> dict[str, Any]:
            oracle = self.oracle_predictions(kind, rule, seed)
            answers, evaluation = self.original_answers(kind, seed), self.evaluation(found)
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
        digests = [forget_digest(self.train, self.scenario(rule, seed)) for seed in seeds]
        settings = {
            **self.settings("floor", kind, None),
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
                evaluation = self.evaluation(self.scenario(rule, first[0]))
                pairs.append(evaluation.compare(*answers))
            return {"pairs": pairs}

        return self._runs.run(settings, work)

    def floor_runs(self, kind: str, rule: str, seeds: list[int]) -> list[Run]:
        """Return the runs of the oracles that a floor compares."""
        return [
            self.oracle(KINDS[kind], rule, rule_seed, seed=seed)
            for rule_seed, seed in self.ends(rule, seeds)
        ]

    def has_cell(self, cell: Cell) -> bool:
        """Return whether a cell is finished."""
        return self._runs.find(self._cell_of(cell)) is not None

    def has_sequence(self, cell: Cell) -> bool:
        """Return whether a sequence is finished."""
        return self._runs.find(self._sequence_of(cell)) is not None

    def _cell_settings(self, what: str, cell: Cell) -> dict[str, Any]:
        return {
            **self.settings(what, cell.kind, cell.seed),
            "rule": cell.rule,
            "method": cell.method.name,
            "method_settings": cell.method.settings,
            "method_version": cell.method.version,
            "budget": vars(BUDGETS[self.scale]),
        }

    def _cell_of(self, cell: Cell) -> dict[str, Any]:
        digest = forget_digest(self.train, self.scenario(cell.rule, cell.seed))
        return {**self._cell_settings("cell", cell), "forget": digest}

    def _sequence_of(self, cell: Cell) -> dict[str, Any]:
        parts = [self.scenario(rule, cell.seed) for rule in stages(cell.rule)]
        digests = [forget_digest(self.train, part) for part in parts]
        return {**self._cell_settings("sequence", cell), "forget": digests}
