"""What originals, oracles and models that forgot draw, each drawn once; and its figures."""

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from filelock import FileLock

from erasable.baselines.generation import DiffusionMethod, unlearn_class
from erasable.bench._runs import Run
from erasable.bench.generation._generators import Bytes, Generators, channels_first
from erasable.bench.generation._strips import as_strip
from erasable.errors import StoreError
from erasable.files import require_writable, write_atomically
from erasable.metrics import frechet_distance
from erasable.npz import UNREADABLE, read_npz
from erasable.typing import Label

_STEPS = 50
"""Denoising steps of an image, where no other number is asked for."""

SAMPLER: dict[str, Any] = {"guidance": 0.3, "seed": 12345, "version": 2}
"""How every model draws besides; a part of what defines a run."""

_ORACLE_NOISE = 777
"""Oracles draw from noise of their own: paired images would make distances too small."""

_REAL_SEED = 54321
_AT_ONCE = 64
"""Images of a call. The kernel is chosen by the work of a call, and rounds in its own way: images
that are to be the same must be drawn in calls of one size. So many of each class are drawn again
after a deletion."""


@dataclass(frozen=True)
class Drawn:
    """Images, and how they came about.

    Attributes:
        images: One per label that was asked for, (n, channels, height, width).
        seconds: How long forgetting took, if something was forgotten.
        again: Images of other classes that were drawn again after a deletion.
        same: How many of them were the same to the byte.
    """

    images: Bytes
    seconds: float = 0.0
    again: int = 0
    same: int = 0


class Drawings:
    """Samples of generators, kept on disk, and what is measured of them.

    Every model draws from the same noise, oracles from another; a class has noise of its own, so
    that what is drawn of it does not depend on the others.

    Args:
        generators: Makes and keeps models.
        per_class: Images that are drawn of each class; default: as the preset says.
        steps: Denoising steps of an image; default: 50.
    """

    def __init__(
        self, generators: Generators, per_class: int | None = None, *, steps: int | None = None
    ) -> None:
        self.generators, self.steps = generators, _STEPS if steps is None else steps
        self.per_class = int(generators.settings["per_class"]) if per_class is None else per_class
        self._real: tuple[npt.NDArray[np.float64], npt.NDArray[Any]] | None = None

    @property
    def asked(self) -> list[Label]:
        """The label of each image that is drawn."""
        return [label for label in self.generators.classes for _ in range(self.per_class)]

    def draw(
        self,
        model: Any,
        labels: Sequence[Label] | None = None,
        *,
        count: int | None = None,
        noise: int = 0,
        **options: Any,
    ) -> Bytes:
        """Return what a model draws of all classes, or of some, one class after the other.

        Args:
            model: The generator.
            labels: The classes.
            count: Images of each; default: as many as in tables.
            noise: Which noise.
            **options: What the model takes besides.
        """
        classes, size = self.generators.classes, self.per_class if count is None else count
        parts = []
        for label in classes if labels is None else labels:
            place = classes.index(label)
            source = torch.Generator().manual_seed(SAMPLER["seed"] + 10_000 * noise + place)
            for start in range(0, size, _AT_ONCE):
                images = model.sample(
                    [label] * min(_AT_ONCE, size - start),
                    generator=source,
                    num_inference_steps=self.steps,
                    guidance_scale=SAMPLER["guidance"],
                    **_for_each(options, min(_AT_ONCE, size - start)),
                )
                parts.append(np.round(images * 255).astype(np.uint8))
        return np.concatenate(parts)

    def settings(self, what: str, kind: str, seed: int) -> dict[str, Any]:
        """Return what defines a piece of work on samples."""
        own = self.generators.run_settings(what, kind, seed)
        return {**own, "per_class": self.per_class, "sampler": {**SAMPLER, "steps": self.steps}}

    def forgetting_settings(self, what: str, kind: str, seed: int, label: Label) -> dict[str, Any]:
        """Return the same where a class is forgotten: also how rows are read, for it, too."""
        return {
            **self.settings(what, kind, seed),
            "without": label,
            "options": self.generators.reading(kind),
            "asking": self.generators.asking(kind, label),
        }

    # -- kept on disk ----------------------------------------------------------------------------

    def _kept(self, settings: dict[str, Any], make: Callable[[], Drawn]) -> Drawn:
        """Return images that some settings define; made once."""
        path = self.generators.runs.place("samples", settings, ".npz")
        require_writable(path.parent)
        with FileLock(path.with_suffix(".lock")):
            if not path.exists():
                stream = io.BytesIO()
                np.savez_compressed(stream, **vars(make()))
                write_atomically(path, stream.getvalue())
        try:
            arrays, _ = read_npz(path)
            numbers = (float(arrays["seconds"]), int(arrays["again"]), int(arrays["same"]))
            return Drawn(arrays["images"], *numbers)
        except UNREADABLE as error:
            raise StoreError(f"Expected images in {path}, but: {error}. Delete it.") from error

    def of_original(self, kind: str, seed: int, **options: Any) -> Bytes:
        """Return what an original draws."""
        generators = self.generators
        settings = {**self.settings("original samples", kind, seed), "options": options}
        made = self._kept(
            settings, lambda: Drawn(self.draw(generators.model(kind, seed), **options))
        )
        return made.images

    def of_oracle(self, kind: str, label: Label, seed: int, *, noise: int = _ORACLE_NOISE) -> Bytes:
        """Return what an oracle without a class draws; the stand-in's rows where it has none."""
        generators = self.generators
        own = self.forgetting_settings("oracle samples", kind, seed, label)
        settings = {**own, "noise": noise}

        def make() -> Drawn:
            model = generators.model(kind, seed, without=label)
            return Drawn(self._draw_all(model, kind, label, noise=noise))

        return self._kept(settings, make).images

    def after_deletion(self, kind: str, label: Label, seed: int) -> Drawn:
        """Return what a semi-parametric model draws after deletion, and how long that took.

        Images of the other classes are those of the original, since nothing that they read has
        changed. A batch of each is drawn again to see that it is so; if it is not, all are.
        """
        generators = self.generators
        asking = generators.asking(kind, label)
        settings = self.forgetting_settings("deleted samples", kind, seed, label)

        def make() -> Drawn:
            reading = generators.reading(kind)
            found = self.of_original(kind, seed, **reading).copy()
            model = generators.fresh(kind, seed)
            others = [other for other in generators.classes if other != label]
            few = min(_AT_ONCE, self.per_class)
            # Those that are kept may have been drawn by another version or machine.
            before = self.draw(model, others, count=few, **reading)
            start = time.perf_counter()
            model.forget(classes=[label])
            seconds = time.perf_counter() - start
            found[self.places(label)] = self.draw(model, [label], **reading, **asking)
            again = self.draw(model, others, count=few, **reading)
            same = int((again == before).reshape(len(again), -1).all(axis=1).sum())
            kept = np.concatenate([found[self.places(other)][:few] for other in others])
            if same < len(again) or (before != kept).any():
                found = self._draw_all(model, kind, label)
            return Drawn(found, seconds, len(again), same)

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
            return Drawn(self.draw(done.model), done.account.seconds)

        return self._kept(settings, make)

    def places(self, label: Label) -> slice:
        """Return where the images of a class lie."""
        start = self.generators.classes.index(label) * self.per_class
        return slice(start, start + self.per_class)

    def _draw_all(self, model: Any, kind: str, label: Label, *, noise: int = 0) -> Bytes:
        """Return what a model without a class draws of all classes."""
        asking, reading = self.generators.asking(kind, label), self.generators.reading(kind)
        parts = [
            self.draw(model, [one], noise=noise, **reading, **(asking if one == label else {}))
            for one in self.generators.classes
        ]
        return np.concatenate(parts)

    # -- figures ---------------------------------------------------------------------------------

    def figures(self, settings: dict[str, Any], work: Callable[[], dict[str, Any]]) -> Run:
        """Return kept figures, or make them."""
        generators = self.generators
        judged = {"features": generators.features_key, "judge": generators.parameters("judge")}
        return generators.runs.run(
            {**settings, **judged}, lambda _: {**work(), "judged_by": generators.judge_digest}
        )

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
            "first": as_strip(images[:: self.per_class]),  # one per class, for pictures
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

    def measure_class(self, images: Bytes, label: Label) -> dict[str, Any]:
        """Return figures of images of one class alone.

        Args:
            images: Images that were asked for as the class.
            label: The class.
        """
        real, of_real = self._of_real()
        answers = self.generators.judge.predict(images.astype(np.float32) / 255).tolist()
        return {
            "fid": frechet_distance(self._seen(images), real[of_real == label]),
            "consistency": answers.count(label) / len(answers),
            "answers": {
                str(one): answers.count(one) / len(answers)
                for one in self.generators.classes
                if one in answers
            },
        }

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


def _for_each(options: dict[str, Any], count: int) -> dict[str, Any]:
    """Return options of a call: the number of a class embedding is told for each image."""
    if "class_numbers" not in options:
        return options
    return {**options, "class_numbers": [options["class_numbers"]] * count}
