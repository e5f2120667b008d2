"""Accuracy against forgetting: what it costs that weights know less of the rows.

Random rows are forgotten. A model whose weights were trained on them hardly changes when they are
deleted; one whose weights saw fewer of them, or learnt less from them, forgets more. Each recipe is
one point: how accurate the model is afterwards, and how far it is from oracles of the same recipe.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from erasable.bench._document import Document, Picture, origin
from erasable.bench._evaluation import Evaluation
from erasable.bench._figures import as_png, pyplot
from erasable.bench._predictions import Predictions, load_predictions, predict_all
from erasable.bench._rules import forget_digest, scenario
from erasable.bench._runs import Run, Runs, data_settings, test_rows
from erasable.bench._sheet import Entry, Figure, Sheet
from erasable.data import Dataset, Split
from erasable.errors import ArgumentError
from erasable.models import SPMClassifier, parameters_of, preset_settings
from erasable.training import input_shape

Say = Callable[[str], None]

RULE = "random:10%@0"
"""What is forgotten: the same rows for every seed, so that oracles of all seeds make the floor."""

_ORACLES = 1000
_ASKED = 50
"""Forgotten rows whose level is asked for."""


@dataclass(frozen=True)
class Recipe:
    """How a semi-parametric model is made of the rows.

    Attributes:
        name: What it is called in the table.
        line: Recipes of the same line are joined in the picture.
        share: Share of the rows that the weights are trained on; the others are only remembered.
        is_public: Whether the encoder starts from weights that were trained on public data.
        encoder_lr_factor: Factor on the encoder's learning rate.
        reduction: How the memory is read.
    """

    name: str
    line: str
    share: float = 1.0
    is_public: bool = False
    encoder_lr_factor: float = 1.0
    reduction: str = "prototypes"


@dataclass(frozen=True)
class Point:
    """What one recipe gave.

    Attributes:
        recipe: The recipe.
        runs: Runs of deletion, one per seed.
        oracles: Runs of the oracles they are compared with.
        floor: Run of the oracles compared with each other.
    """

    recipe: Recipe
    runs: list[Run]
    oracles: list[Run]
    floor: Run

    def gaps(self, metric: str) -> Figure:
        """Return a gap on all test rows, with its floor."""
        values = [run.result["compare"]["test"][metric] for run in self.runs]
        floor = [pair["test"][metric] for pair in self.floor.result["pairs"]]
        return Figure(values, float(np.mean(floor)))

    def values(self, name: str) -> list[float]:
        """Return an accuracy or error rate after forgetting, one per seed."""
        return [run.result["compare"]["values"][name] for run in self.runs]

    @property
    def errors(self) -> Figure:
        """ΔUA: how far the error rate on the forgotten rows is from the oracle's."""
        deltas = [run.result["compare"]["deltas"]["ua"] for run in self.runs]
        floor = [pair["deltas"]["ua"] for pair in self.floor.result["pairs"]]
        return Figure(deltas, float(np.mean(floor)), 100, 2, self.values("ua"))

    @property
    def attack(self) -> list[float]:
        """How much more the forgotten rows look like members than to the oracle, in AUC."""
        pairs = zip(self.runs, self.oracles, strict=True)
        aucs = [[r.result["attacks"]["confidence"]["auc"] for r in pair] for pair in pairs]
        return [own - oracle for own, oracle in aucs]


def recipes(*, has_public: bool) -> list[Recipe]:
    """Return the points of the curve.

    Args:
        has_public: Whether there is public data to start from.
    """
    line = "trained on a part of the rows"
    found = [Recipe(f"trained on {share:.0%}", line, share) for share in (1, 0.5, 0.25, 0.1)]
    if not has_public:
        return found
    line = "public start, slower encoder"
    found += [
        Recipe(f"public start, encoder × {factor:g}", line, 1, True, factor)
        for factor in (1, 0.1, 0.01)
    ]
    line = "public weights, not trained on the rows"
    return found + [
        Recipe(f"public weights only, {reduction}", line, 0, True, 0, reduction)
        for reduction in ("prototypes", "gaussian")
    ]


def run_tradeoff(
    data: Dataset,
    *,
    scale: str,
    seeds: list[int],
    runs: Runs,
    public: Dataset | None = None,
    say: Say = lambda _: None,
    verbose: bool = False,
) -> list[Point]:
    """Make, forget and compare by every recipe.

    Args:
        data: The data set; it needs test rows.
        scale: A preset that trains.
        seeds: Seeds of originals.
        runs: Where finished runs are kept.
        public: Public rows of the same shape, to start encoders from.
        say: Where remarks on the progress go.
        verbose: Show progress bars.
    """
    if len(seeds) < 2:
        raise ArgumentError(f"Expected at least two seeds for a floor, but got {len(seeds)}.")
    if public is not None and input_shape(public.train.X) != input_shape(data.train.X):
        raise ArgumentError(
            f"Expected public rows of shape {input_shape(data.train.X)}, but those of "
            f"{public.name} have {input_shape(public.train.X)}."
        )
    maker = _Maker(data, public, scale, runs, say, verbose=verbose)
    chosen = recipes(has_public=public is not None)
    passes = sum(recipe.share for recipe in chosen) * 2 * len(seeds)
    say(f"At most {passes:.0f} trainings on all rows; interrupted, the same command goes on.")
    return [
        Point(
            recipe,
            [maker.point(recipe, seed) for seed in seeds],
            [maker.oracle(recipe, seed) for seed in seeds],
            maker.floor(recipe, seeds),
        )
        for recipe in chosen
    ]


class _Maker:
    """Originals, oracles and public starts of one data set."""

    def __init__(
        self,
        data: Dataset,
        public: Dataset | None,
        scale: str,
        runs: Runs,
        say: Say,
        *,
        verbose: bool,
    ) -> None:
        self._train, self._test, self._public = data.train, test_rows(data), public
        self._runs, self._say, self._verbose = runs, say, verbose
        self._parameters = preset_settings(scale, input_shape(data.train.X))
        if not self._parameters["epochs"]:
            raise ArgumentError(f"Expected a preset that trains, but got {scale!r}.")
        self._classes: list[Any] = sorted(set(data.train.y.tolist()))
        self._found = scenario(self._train, RULE)
        self._evaluation = Evaluation(self._found, self._train, self._test, self._classes)
        self._shared = {
            "table": "tradeoff",
            "data": data_settings(data),
            "public": None if public is None else data_settings(public),
            "preset": scale,
            "parameters": self._parameters,
            "forget": forget_digest(self._train, self._found),
        }

    def point(self, recipe: Recipe, seed: int) -> Run:
        """Forget by deletion and compare with the oracle of the seed."""
        settings = self._settings("point", recipe, seed)
        if self._runs.find(settings) is None:
            self.oracle(recipe, seed)

        def work(folder: Path) -> dict[str, Any]:
            self._say(f"{recipe.name}, seed {seed}")
            model = self._made(recipe, self._train, seed, folder / "original")
            oracle, untouched = self._oracle_answers(recipe, seed), self._ask(model)
            gone = [self._train.ids[i] for i in np.flatnonzero(self._found.is_forgotten)]
            levels = [model.forget(ids=[i], dry_run=True).level for i in gone[:_ASKED]]
            model.forget(ids=gone)
            answers = self._ask(model)
            return {
                "untouched": self._evaluation.compare(untouched, oracle),
                "compare": self._evaluation.compare(answers, oracle),
                "attacks": self._evaluation.attacks(answers),
                "exact": levels.count("exact") / len(levels),
            }

        return self._runs.run(settings, work)

    def oracle(self, recipe: Recipe, seed: int) -> Run:
        """Make a model by the same recipe without the rows, and keep what it says."""

        def work(folder: Path) -> dict[str, Any]:
            answers = self._asked_oracle(recipe, seed, folder / "oracle")
            return {"attacks": self._evaluation.attacks(answers)}

        return self._runs.run(self._settings("oracle", recipe, seed), work)

    def _asked_oracle(self, recipe: Recipe, seed: int, folder: Path) -> Predictions:
        """Make an oracle and keep what it says."""
        self._say(f"oracle: {recipe.name}, seed {seed}")
        rows = self._train.where(~self._found.is_forgotten)
        answers = self._ask(self._made(recipe, rows, seed + _ORACLES, folder))
        answers.save(self._answers_of(recipe, seed))
        return answers

    def _answers_of(self, recipe: Recipe, seed: int) -> Path:
        settings = self._settings("oracle", recipe, seed)
        return self._runs.place("predictions", settings, ".npz")

    def floor(self, recipe: Recipe, seeds: list[int]) -> Run:
        """Compare the oracles of all seeds with each other."""
        settings = {**self._settings("floor", recipe, None), "seeds": seeds}

        def work(_: Path) -> dict[str, Any]:
            answers = [self._oracle_answers(recipe, seed) for seed in seeds]
            pairs = [self._evaluation.compare(a, b) for a, b in combinations(answers, 2)]
            return {"pairs": pairs}

        return self._runs.run(settings, work)

    def _oracle_answers(self, recipe: Recipe, seed: int) -> Predictions:
        path = self._answers_of(recipe, seed)
        if not path.exists():  # only the figures were kept
            settings = self._settings("oracle", recipe, seed)
            return self._asked_oracle(recipe, seed, self._runs.place("weights", settings))
        return load_predictions(path)

    def _settings(self, what: str, recipe: Recipe, seed: int | None) -> dict[str, Any]:
        return {**self._shared, "what": what, "recipe": asdict(recipe), "seed": seed}

    def _made(self, recipe: Recipe, rows: Split, seed: int, folder: Path) -> SPMClassifier:
        """Train on a share of the rows and remember the others."""
        own = {"random_state": seed, "checkpoint": folder, "verbose": self._verbose}
        parameters = parameters_of({**self._parameters, **own})
        model = SPMClassifier(**parameters, reduction=recipe.reduction)
        start = self._start() if recipe.is_public else None
        if not recipe.share:
            model.set_params(epochs=0)
            return model.fit(rows.X, rows.y, ids=rows.ids, init=start)
        is_seen = _seen(rows.ids, recipe.share)
        part, rest = rows.where(is_seen), rows.where(~is_seen)
        model.fit(
            part.X,
            part.y,
            ids=part.ids,
            init=start,
            encoder_lr_factor=recipe.encoder_lr_factor,
        )
        return model.remember(rest.X, rest.y, ids=rest.ids) if len(rest) else model

    def _start(self) -> SPMClassifier:
        """Return a model of the public rows; the same for every seed, as public weights are."""
        if self._public is None:
            raise ArgumentError("Expected public rows to start from, but got none.")
        settings = {**self._shared, "what": "public"}
        place = self._runs.place("weights", settings)
        own = {"random_state": 0, "checkpoint": place, "verbose": self._verbose}
        model = SPMClassifier(**parameters_of({**self._parameters, **own}))
        rows = self._public.train
        return model.fit(rows.X, rows.y, ids=rows.ids)

    def _ask(self, model: SPMClassifier) -> Predictions:
        return predict_all(model, self._train, self._test, self._classes)


def _seen(ids: Sequence[Any], share: float) -> Any:
    """Return which rows the weights may see: a matter of the id alone, as for the oracle."""
    numbers = [int.from_bytes(sha256(str(i).encode()).digest()[:8], "big") / 2**64 for i in ids]
    return np.array(numbers) < share


def tradeoff_document(points: list[Point], command: str) -> Document:
    """Return the table and the curve.

    Args:
        points: What each recipe gave.
        command: The command that made it.
    """
    runs = [run for point in points for run in (*point.runs, *point.oracles)]
    data, public = runs[0].settings["data"], runs[0].settings["public"]
    rows = [_row(point) for point in points]
    header = [
        "recipe",
        "rows forgotten exactly",
        "TA %",
        "PG_H %, untouched",
        "PG_H %, forgotten",
        "KL(oracle, unlearned)",
        "ΔUA (UA) %",
        "attack AUC less the oracle's",
    ]
    facts = origin(runs, command)
    if public is not None:
        facts.insert(2, f"Public data to start from: {public['name']}")
    introduction = (
        "A tenth of the rows, drawn at random, is forgotten by deletion from a semi-parametric "
        "model. Rows that the weights were trained on are forgotten at level `memory`, the others "
        "at level `exact`. Each recipe has oracles of its own: made the same way without the rows. "
        "Multiples are of the floor, the gap between two of them."
    )
    title = f"Accuracy against forgetting on {data['name']}"
    picture = Picture(
        "curve",
        "Test accuracy after forgetting against what is left of the rows: how far its error "
        "rate on them is from the oracle's, beyond the floor (left), and how much better a "
        "membership attack does than on the oracle (right). Up and to the left is better; bars are "
        "one standard deviation over seeds.",
        lambda: _curve(points),
    )
    sheet = Sheet("Recipes", header, rows, _best(points))
    return Document(title, introduction, [sheet], facts, [picture])


def _best(points: list[Point]) -> list[str]:
    """Name the most accurate recipe whose oracles are no farther from it than from each other."""
    alike = [point for point in points if point.errors.mean <= (point.errors.floor or 0)]
    if not alike:
        return []
    best = max(alike, key=lambda point: float(np.mean(point.values("ta"))))
    first, own = (Figure(point.values("ta"), scale=100) for point in (points[0], best))
    return [
        f"The most accurate recipe whose ΔUA is within the floor: {best.recipe.name}, TA "
        f"{own.text()} % (“{points[0].recipe.name}” has {first.text()} %)."
    ]


def _row(point: Point) -> list[Entry]:
    untouched = [r.result["untouched"]["test"]["prediction_gap"] for r in point.runs]
    gap, divergence = point.gaps("prediction_gap"), point.gaps("kl_oracle_unlearned")
    exact = [run.result["exact"] for run in point.runs]
    return [
        point.recipe.name,
        f"{100 * float(np.mean(exact)):.0f} %",
        Figure(point.values("ta"), scale=100),
        Figure(untouched, gap.floor, 100),
        Figure(gap.values, gap.floor, 100),
        Figure(divergence.values, divergence.floor, digits=4),
        point.errors,
        Figure(point.attack, digits=4),
    ]


def _curve(points: list[Point]) -> bytes:
    figure, axes = pyplot().subplots(1, 2, figsize=(11, 5.5), sharey=True, layout="constrained")
    for number, line in enumerate(dict.fromkeys(point.recipe.line for point in points)):
        own = [point for point in points if point.recipe.line == line]
        accuracies = [Figure(point.values("ta"), scale=100) for point in own]
        errors = [point.errors for point in own]
        attacks = [Figure(point.attack) for point in own]
        for axis, figures in zip(axes, (errors, attacks), strict=True):
            x = [f.scale * (f.mean - (f.floor or 0)) for f in figures]
            y = [f.scale * f.mean for f in accuracies]
            axis.errorbar(
                x,
                y,
                xerr=[f.scale * (f.spread or 0) for f in figures],
                yerr=[f.scale * (f.spread or 0) for f in accuracies],
                fmt="o-",
                label=line,
                linewidth=1,
                elinewidth=0.7,
                color=f"C{number}",
            )
            for point, place in zip(own, zip(x, y, strict=True), strict=True):
                name = point.recipe.name.rpartition(", ")[2]
                # Above the point in one line, below it in the next: lines cross.
                offset = (4, -11) if number % 2 else (4, 5)
                axis.annotate(name, place, offset, textcoords="offset points", fontsize=7)
    axes[0].set(xlabel="ΔUA beyond the floor, points", ylabel="test accuracy, %")
    axes[1].set(xlabel="attack AUC less the oracle's")
    axes[0].legend(fontsize=7)
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    return as_png(figure)
