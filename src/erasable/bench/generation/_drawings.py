"""What originals, oracles and models that forgot draw, each drawn once; and its figures."""

import io
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from erasable.baselines.generation import DiffusionMethod, unlearn_class
from erasable.bench._runs import Run
from erasable.bench.generation._generators import Bytes, Generators, channels_first
from erasable.files import write_atomically
from erasable.metrics import frechet_distance
from erasable.typing import Label

Drawn = tuple[Bytes, float]
"""Images, and how many seconds something took."""

_SAMPLE_SEED = 12345
_REAL_SEED = 54321


class Drawings:
    """Samples of generators, kept on disk, and what is measured of them.

    Every model draws from the same noise; a class has noise of its own, so that what is drawn of
    it does not depend on the others.

    Args:
        generators: Makes and keeps models.
        per_class: Images that are drawn of each class; default: as the preset says.
    """

    def __init__(self, generators: Generators, per_class: int | None = None) -> None:
        self.generators = generators
        self.per_class = int(generators.settings["per_class"]) if per_class is None else per_class
        self._real: tuple[npt.NDArray[np.float64], npt.NDArray[Any]] | None = None

    @property
    def asked(self) -> list[Label]:
        """The label of each image that is drawn."""
        return [label for label in self.generators.classes for _ in range(self.per_class)]

    def draw(self, model: Any, labels: Sequence[Label] | None = None, **options: Any) -> Bytes:
        """Return what a model draws of all classes, or of some, one class after the other."""
        classes = self.generators.classes
        parts = []
        for label in classes if labels is None else labels:
            noise = torch.Generator().manual_seed(_SAMPLE_SEED + classes.index(label))
            asked = [label] * self.per_class
            images = model.sample(asked, generator=noise, **options)
            parts.append(np.round(images * 255).astype(np.uint8))
        return np.concatenate(parts)

    def settings(self, what: str, kind: str, seed: int) -> dict[str, Any]:
        """Return what defines a piece of work on samples."""
        own = self.generators.run_settings(what, kind, seed)
        return {**own, "per_class": self.per_class}

    # -- kept on disk ----------------------------------------------------------------------------

    def _kept(self, settings: dict[str, Any], make: Callable[[], Drawn]) -> Drawn:
        """Return images that some settings define, and seconds; made once."""
        path = self.generators.runs.place("samples", settings, ".npz")
        if not path.exists():
            images, seconds = make()
            stream = io.BytesIO()
            np.savez_compressed(stream, images=images, seconds=seconds)
            write_atomically(path, stream.getvalue())
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["images"], float(arrays["seconds"])

    def of_original(self, kind: str, seed: int, **options: Any) -> Bytes:
        """Return what an original draws."""
        generators = self.generators
        settings = {**self.settings("original samples", kind, seed), "options": options}
        return self._kept(
            settings, lambda: (self.draw(generators.model(kind, seed), **options), 0.0)
        )[0]

    def of_oracle(self, kind: str, label: Label, seed: int) -> Bytes:
        """Return what an oracle without a class draws; the stand-in's rows where it has none."""
        generators = self.generators
        settings = {**self.settings("oracle samples", kind, seed), "without": label}

        def make() -> Drawn:
            model = generators.model(kind, seed, without=label)
            return self.draw(model, **generators.stand_in(kind, label)), 0.0

        return self._kept(settings, make)[0]

    def after_deletion(self, kind: str, label: Label, seed: int) -> Drawn:
        """Return what a semi-parametric model draws after deletion, and how long that took.

        Images of the other classes are those of the original, since nothing that they read has
        changed. One class is drawn again to see that it is so; if it is not, all are.
        """
        generators = self.generators
        settings = {**self.settings("deleted samples", kind, seed), "without": label}

        def make() -> Drawn:
            found = self.of_original(kind, seed).copy()
            model = generators.fresh(kind, seed)
            start = time.perf_counter()
            model.forget(classes=[label])
            seconds = time.perf_counter() - start
            options = generators.stand_in(kind, label)
            other = options["stand_in"]
            again = self.draw(model, [other], **options)
            if not np.array_equal(again, found[self.places(other)]):
                return self.draw(model, **options), seconds
            found[self.places(label)] = self.draw(model, [label], **options)
            return found, seconds

        return self._kept(settings, make)

    def after_edit(self, method: DiffusionMethod, label: Label, seed: int) -> Drawn:
        """Return what the ordinary model draws after an edit, and how long that took."""
        generators = self.generators
        settings = {
            **self.settings("edited samples", "ddpm", seed),
            "without": label,
            "method": [method.name, method.version],
            "method_settings": method.settings,
        }

        def make() -> Drawn:
            generators.say(f"{method.name}: forget {label!r}, seed {seed}")
            original = generators.model("ddpm", seed)
            is_shown = generators.verbose
            done = unlearn_class(original, generators.train, label, method, verbose=is_shown)
            return self.draw(done.model), done.account.seconds

        return self._kept(settings, make)

    def places(self, label: Label) -> slice:
        """Return where the images of a class lie."""
        start = self.generators.classes.index(label) * self.per_class
        return slice(start, start + self.per_class)

    # -- figures ---------------------------------------------------------------------------------

    def figures(self, settings: dict[str, Any], work: Callable[[], dict[str, Any]]) -> Run:
        """Return kept figures, or make them."""
        features = self.generators.features.name
        return self.generators.runs.run({**settings, "features": features}, lambda _: work())

    def measure(self, images: Bytes, oracle: Bytes | None, label: Label | None) -> dict[str, Any]:
        """Return every figure of some samples.

        Args:
            images: One image per label of `asked`.
            oracle: The same of the oracle, if there is one.
            label: The forgotten class, if there is one.
        """
        features, labels = self._seen(images), np.array(self.asked, dtype=object)
        real, of_real = self._of_real()
        answers = self.generators.judge.predict(images.astype(np.float32) / 255)
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
        others = self._seen(oracle)
        found["fid_oracle"] = frechet_distance(features, others)
        found["fid_oracle_remaining"] = frechet_distance(features[~is_gone], others[~is_gone])
        found["fid_oracle_by_class"] = {
            str(one): frechet_distance(features[labels == one], others[labels == one])
            for one in self.generators.classes
        }
        return found

    def _seen(self, images: Bytes) -> npt.NDArray[np.float64]:
        return self.generators.features(images.astype(np.float32) / 255)

    def _of_real(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
        """Return features and labels of real training images, as many as are drawn."""
        if self._real is None:
            train, size = self.generators.train, self.per_class
            rng = np.random.default_rng(_REAL_SEED)
            places = []
            for label in self.generators.classes:
                mine = np.flatnonzero(train.y == label)
                places.append(rng.choice(mine, min(size, len(mine)), replace=False))
            rows = np.concatenate(places)
            self._real = self._seen(channels_first(train.X)[rows]), train.y[rows]
        return self._real
