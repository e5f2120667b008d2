"""Originals and oracles of generation, each trained once, and what they draw."""

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from erasable.baselines.generation import DiffusionMethod, unlearn_class
from erasable.bench._references import ORACLES
from erasable.bench._runs import Run, Runs, data_settings
from erasable.data import Dataset, Split, in_bytes, shrunk
from erasable.errors import ArgumentError, listing
from erasable.files import write_atomically
from erasable.metrics import ClassifierFeatures, FeatureNetwork, frechet_distance
from erasable.models import DDPM, GMM, ParametricClassifier, SPMGenerator, preset
from erasable.training import input_shape, seconds_spent
from erasable.typing import Label

Bytes = npt.NDArray[np.uint8]
Drawn = tuple[Bytes, float]
"""Images, and how many seconds something took."""

Say = Callable[[str], None]

GENERATION: dict[str, dict[str, Any]] = {
    "tiny": {
        "side": 8,
        "per_class": 20,
        "mixtures": 10,
        "network": {
            "channels": [16, 32],
            "layers": 1,
            "steps": 400,
            "batch_size": 64,
            "learning_rate": 1e-3,
            "average": 0.99,
        },
    },
    "laptop": {
        "side": 16,
        "per_class": 500,
        "mixtures": 200,
        "network": {
            "channels": [32, 64, 64],
            "layers": 1,
            "steps": 5000,
            "batch_size": 128,
            "learning_rate": 5e-4,
            "average": 0.999,
        },
    },
    "paper": {
        "side": 32,
        "per_class": 5000,
        "mixtures": 1000,
        "network": {
            "channels": [128, 256, 256, 256],
            "layers": 2,
            "attention": [1],
            "dropout": 0.1,
            "steps": 390_000,
            "batch_size": 256,
            "learning_rate": 5e-4,
            "warmup": 19_500,
            "average": 0.9993,
            "augmentation": "flip",
        },
    },
}
"""Sides of images, images drawn per class, Gaussians per class, and networks, by preset."""

SPM_VARIANTS: dict[str, dict[str, Any]] = {
    "spm": {},
    "spm_permuted": {"labels": "permuted"},
    "spm_plain": {"labels": "plain"},
    "spm_follow": {"branch": "follow"},
    "spm_support": {"support_size": 256},
    "spm_detached": {"support_gradient": False},
}
"""Semi-parametric generators by what sets them apart."""

_SAMPLE_SEED = 12345
_REAL_SEED = 54321


class Generators:
    """Generators of one data set at one scale, what they draw, and how it is judged.

    Args:
        data: The data set; it needs test rows, for the judge.
        scale: ``tiny``, ``laptop`` or ``paper``.
        runs: Where finished runs, weights and samples are kept.
        say: Where remarks on the progress go.
        verbose: Show progress bars.
        features: What distances are measured by; default: the judge's embeddings.
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
    ) -> None:
        if scale not in GENERATION:
            raise ArgumentError(f"Expected preset {listing(GENERATION)}, but got {scale!r}.")
        self.settings = GENERATION[scale]
        data = in_bytes(data)
        self.data = data if max(data.train.X.shape[1:3]) == self.side else shrunk(data, self.side)
        if self.data.test is None:
            raise ArgumentError(f"Expected test rows in {data.name}, but there are none.")
        self.train, self.test = self.data.train, self.data.test
        self.scale, self._runs, self._say, self._verbose = scale, runs, say, verbose
        self._record = data_settings(self.data)
        self.classes: list[Label] = sorted(set(self.train.y.tolist()))
        self._judge: ParametricClassifier | None = None
        self._features = features
        self._held: dict[str, Any] = {}
        self._real: tuple[npt.NDArray[np.float64], npt.NDArray[Any]] | None = None

    @property
    def side(self) -> int:
        """Height and width of images."""
        return int(self.settings["side"])

    @property
    def per_class(self) -> int:
        """Images that are drawn of each class."""
        return int(self.settings["per_class"])

    # -- the judge -------------------------------------------------------------------------------

    @property
    def judge(self) -> ParametricClassifier:
        """A classifier of real images, which tells what was drawn."""
        if self._judge is None:
            scale = "laptop" if self.scale == "paper" else self.scale
            parameters = preset(scale, input_shape(self.train.X))
            if self.scale == "tiny":
                parameters |= {"epochs": 10}  # two would not do for a judge
            place = self._runs.place("weights", self.run_settings("judge", "judge", 0))
            judge = ParametricClassifier(
                **parameters, random_state=0, checkpoint=place, verbose=int(self._verbose)
            )
            self._say("training the judge")
            self._judge = judge.fit(self.train.X, self.train.y, classes=self.classes)
        return self._judge

    @property
    def features(self) -> FeatureNetwork:
        """What Fréchet distances are measured by."""
        if self._features is None:
            self._features = ClassifierFeatures(self.judge, name=str(self.judge.encoder))
        return self._features

    def judge_run(self) -> Run:
        """Return how good the judge is on test rows."""

        def work(_: Path) -> dict[str, Any]:
            found = self.judge.predict(self.test.X)
            return {"accuracy": float(np.mean(found == self.test.y))}

        return self._runs.run(self.run_settings("judge", "judge", 0), work)

    # -- models ----------------------------------------------------------------------------------

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
        return self._held[key]

    def fresh(self, kind: str, seed: int) -> Any:
        """Return an original that may be changed: the next one that is asked for is another."""
        model = self.model(kind, seed)
        self._held = {}
        return model

    def training_seconds(self, kind: str, seed: int, *, without: Label | None = None) -> float:
        """Return how long a training took; across interruptions."""
        return seconds_spent(self._weights(kind, seed, without))

    def _trained(self, kind: str, seed: int, without: Label | None) -> Any:
        rows = self.train if without is None else self.rows_without(without)
        what = "original" if without is None else f"oracle without {without!r}"
        self._say(f"training {kind}, {what}, seed {seed}")
        if kind == "gmm":
            mixture = GMM(components=self.settings["mixtures"], random_state=seed)
            return mixture.fit(rows.X, rows.y.tolist())
        shared = {
            **self.settings["network"],
            "random_state": seed,
            "checkpoint": self._weights(kind, seed, without),
            "verbose": int(self._verbose),
        }
        labels = rows.y.tolist()
        if kind == "ddpm":
            return DDPM(**shared).fit(rows.X, labels, classes=self.classes)
        model = SPMGenerator(**shared, **SPM_VARIANTS[kind])
        return model.fit(rows.X, labels, ids=rows.ids, judge=self.judge)

    def pictures(self) -> dict[Any, Bytes]:
        """Return the image of each training row by its id, channels first."""
        images = np.asarray(self.train.X)
        images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
        return dict(zip(self.train.ids, images, strict=True))

    def rows_without(self, label: Label) -> Split:
        """Return the training rows of all other classes."""
        return self.train.where(np.array([y != label for y in self.train.y.tolist()]))

    def _weights(self, kind: str, seed: int, without: Label | None) -> Path:
        settings = {**self.run_settings("weights", kind, seed), "without": without}
        return self._runs.place("weights", settings)

    # -- samples ---------------------------------------------------------------------------------

    @property
    def asked(self) -> list[Label]:
        """The label of each image that is drawn."""
        return [label for label in self.classes for _ in range(self.per_class)]

    def draw(self, model: Any, **options: Any) -> Bytes:
        """Return what a model draws, from the same noise for every model, (n, …)."""
        generator = torch.Generator().manual_seed(_SAMPLE_SEED)
        images = model.sample(self.asked, generator=generator, **options)
        drawn: Bytes = np.round(images * 255).astype(np.uint8)
        return drawn

    def samples(self, settings: dict[str, Any], make: Callable[[], Drawn]) -> Drawn:
        """Return images that some settings define, and seconds; made once."""
        path = self._runs.place("samples", settings, ".npz")
        if not path.exists():
            images, seconds = make()
            stream = io.BytesIO()
            np.savez(stream, images=images, seconds=seconds)
            write_atomically(path, stream.getvalue())
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["images"], float(arrays["seconds"])

    def original_samples(self, kind: str, seed: int, **options: Any) -> Drawn:
        """Return what an original draws, and how long that takes."""
        settings = {**self.run_settings("original samples", kind, seed), "options": options}

        def make() -> Drawn:
            model = self.model(kind, seed)
            start = time.perf_counter()
            images = self.draw(model, **options)
            return images, time.perf_counter() - start

        return self.samples(settings, make)

    def oracle_samples(self, kind: str, label: Label, seed: int) -> Bytes:
        """Return what an oracle without a class draws; the stand-in's rows where it has none."""
        settings = {**self.run_settings("oracle samples", kind, seed), "without": label}

        def make() -> Drawn:
            model = self.model(kind, seed, without=label)
            return self.draw(model, **self.stand_in(kind, label)), 0.0

        return self.samples(settings, make)[0]

    def stand_in(self, kind: str, label: Label) -> dict[str, Any]:
        """Return whose rows are read for a forgotten class: the first one that is left."""
        first = next(other for other in self.classes if other != label)
        return {"stand_in": first} if kind in SPM_VARIANTS else {}

    # -- cells -----------------------------------------------------------------------------------

    def deleted(self, kind: str, label: Label, seed: int) -> Drawn:
        """Return what a semi-parametric model draws after deletion, and how long that took."""
        settings = {**self.run_settings("deleted samples", kind, seed), "without": label}

        def make() -> Drawn:
            model = self.fresh(kind, seed)
            start = time.perf_counter()
            model.forget(classes=[label])
            seconds = time.perf_counter() - start
            return self.draw(model, **self.stand_in(kind, label)), seconds

        return self.samples(settings, make)

    def edited(self, method: DiffusionMethod, label: Label, seed: int) -> Drawn:
        """Return what the ordinary model draws after an edit, and how long that took."""
        settings = {
            **self.run_settings("edited samples", "ddpm", seed),
            "without": label,
            "method": [method.name, method.version],
            "method_settings": method.settings,
        }

        def make() -> Drawn:
            self._say(f"{method.name}: forget {label!r}, seed {seed}")
            original = self.model("ddpm", seed)
            done = unlearn_class(original, self.train, label, method, verbose=self._verbose)
            return self.draw(done.model), done.account.seconds

        return self.samples(settings, make)

    # -- figures ---------------------------------------------------------------------------------

    def seen(self, images: Bytes) -> npt.NDArray[np.float64]:
        """Return features of images."""
        return self.features(images.astype(np.float32) / 255)

    def told(self, images: Bytes) -> npt.NDArray[Any]:
        """Return what the judge takes images for."""
        found: npt.NDArray[Any] = self.judge.predict(images.astype(np.float32) / 255)
        return found

    def real(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
        """Return features and labels of real training images, as many as are drawn."""
        if self._real is None:
            rng = np.random.default_rng(_REAL_SEED)
            places = []
            for label in self.classes:
                mine = np.flatnonzero(self.train.y == label)
                places.append(rng.choice(mine, min(self.per_class, len(mine)), replace=False))
            rows = np.concatenate(places)
            images = np.asarray(self.train.X)[rows]
            images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
            self._real = self.seen(images), self.train.y[rows]
        return self._real

    def measure(self, images: Bytes, oracle: Bytes | None, label: Label | None) -> dict[str, Any]:
        """Return every figure of some samples.

        Args:
            images: One image per label of `asked`.
            oracle: The same of the oracle, if there is one.
            label: The forgotten class, if there is one.
        """
        features, labels = self.seen(images), np.array(self.asked, dtype=object)
        real, of_real = self.real()
        answers = self.told(images)
        is_right = np.array([a == b for a, b in zip(answers.tolist(), self.asked, strict=True)])
        found: dict[str, Any] = {
            "fid": frechet_distance(features, real),
            "consistency": float(is_right.mean()),
        }
        if label is None:
            return found
        is_gone, real_gone = labels == label, of_real == label
        found["ua"] = float(1 - is_right[is_gone].mean())
        found["fid_remaining"] = frechet_distance(features[~is_gone], real[~real_gone])
        if oracle is None:
            return found
        others = self.seen(oracle)
        found["fid_oracle"] = frechet_distance(features, others)
        found["fid_oracle_remaining"] = frechet_distance(features[~is_gone], others[~is_gone])
        found["fid_oracle_by_class"] = {
            str(one): frechet_distance(features[labels == one], others[labels == one])
            for one in self.classes
        }
        return found

    def figures(self, settings: dict[str, Any], work: Callable[[], dict[str, Any]]) -> Run:
        """Return kept figures, or make them."""
        return self._runs.run({**settings, "features": self.features.name}, lambda _: work())

    def run_settings(self, what: str, kind: str, seed: int) -> dict[str, Any]:
        """Return what defines a piece of work."""
        return {
            "table": "generation",
            "what": what,
            "name": kind,
            "data": self._record,
            "preset": self.scale,
            "parameters": self.settings,
            "variant": SPM_VARIANTS.get(kind, {}),
            "seed": seed,
        }


def oracle_seed(seed: int) -> int:
    """Return the seed of an original's oracle."""
    return seed + ORACLES
