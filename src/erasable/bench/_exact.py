"""Level exact on real data: a public encoder is frozen, and rows are only remembered.

Accuracy of every way to read the rows, with 5, 10 and 100 % of them; how long forgetting takes;
what an audit says; and membership attacks over many models, which should find nothing.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.bench._exact_shadows import ExactShadows
from erasable.bench._runs import Run, Runs, data_settings, test_rows
from erasable.bench._shadow_sets import ShadowSets
from erasable.bench._shadows import Progress, ShadowMargins, shadow_margins
from erasable.bench._std_cls import FRACTIONS, REDUCTIONS, with_share
from erasable.data import Dataset, Split
from erasable.errors import Problems, listing
from erasable.metrics import klom, u_lira
from erasable.models import SPMClassifier, audit, read_embedded
from erasable.training import Training

DRAWS = (0, 1, 2)
"""Seeds of the memories that hold a share of the rows."""

_ASKED = 500
"""Rows of the forget set, watched rows, and validation rows of the attacks, at most."""

_SINGLES = 200
_DIGESTS = 20
_AUDITED = 1000
_FEWEST_SHADOWS = 10

Say = Callable[[str], None]


@dataclass(frozen=True)
class ExactSettings:
    """What is measured.

    Attributes:
        encoder: Name of the frozen encoder.
        options: Its options.
        cache: Folder of embeddings.
        reductions: Ways to read the rows.
        shadows: Models per world for the attacks; 0 for none.
        shadow_reductions: Ways to read the rows that are attacked.
    """

    encoder: str
    options: dict[str, Any]
    cache: Path
    reductions: tuple[str, ...] = REDUCTIONS
    shadows: int = 1000
    shadow_reductions: tuple[str, ...] = ("prototypes",)

    def __post_init__(self) -> None:
        problems = Problems("run_exact()")
        if self.shadows and self.shadows < _FEWEST_SHADOWS:
            problems.note(
                f"Expected shadows to be 0 or at least {_FEWEST_SHADOWS}, but got {self.shadows}."
            )
        odd = sorted({*self.shadow_reductions} - {"prototypes", "gaussian"})
        problems.note_items(odd, "Expected to attack prototypes or gaussian, but got")
        problems.note_items(
            sorted({*self.reductions} - {*REDUCTIONS}),
            f"Expected reductions among {listing(REDUCTIONS)}, but got",
        )
        problems.raise_if_any()


def run_exact(
    data: Dataset,
    settings: ExactSettings,
    *,
    runs: Runs,
    say: Say = lambda _: None,
    verbose: bool = False,
) -> dict[str, Run]:
    """Measure everything that is not in ``runs`` yet; return the runs by name.

    Args:
        data: The data set; it needs test rows.
        settings: What to measure.
        runs: Where finished runs are kept.
        say: Where remarks on the progress go.
        verbose: Show progress bars.
    """
    work = _Exact(data.train, test_rows(data), settings, say, verbose=verbose)
    common = {
        "table": "exact",
        "data": data_settings(data),
        "encoder": settings.encoder,
        "options": settings.options,
    }
    done: dict[str, Run] = {}
    for name, extra, stage in work.stages():
        say(f"exact on {data.name}, {settings.encoder} {settings.options}: {name}")
        done[name] = runs.run({**common, "stage": name, **extra}, stage)
    return done


class _Exact:
    """The stages of one encoder; rows are encoded, or read from the cache, when first needed."""

    def __init__(
        self, train: Split, test: Split, settings: ExactSettings, say: Say, *, verbose: bool
    ) -> None:
        self._train, self._test, self._settings, self._say = train, test, settings, say
        self._verbose = verbose
        self._built: tuple[SPMClassifier, npt.NDArray[Any]] | None = None

    def stages(self) -> Iterator[tuple[str, dict[str, Any], Callable[[Path], dict[str, Any]]]]:
        """Yield name, settings and work of each stage."""
        for reduction in self._settings.reductions:
            extra = {"draws": list(DRAWS), "fractions": list(FRACTIONS)}
            yield f"accuracy {reduction}", extra, partial(self._accuracies, reduction)
        yield "forget", {"singles": _SINGLES, "audited": _AUDITED}, self._forget
        for reduction in self._settings.shadow_reductions if self._settings.shadows else ():
            extra = {
                "shadows": self._settings.shadows,
                "asked": _ASKED,
            }
            yield f"shadows {reduction}", extra, partial(self._shadows, reduction)

    @property
    def _model(self) -> SPMClassifier:
        return self._prepared()[0]

    def _prepared(self) -> tuple[SPMClassifier, npt.NDArray[Any]]:
        """Return a model that remembers all rows, and embeddings of the test rows."""
        if self._built is None:
            model = SPMClassifier(
                self._settings.encoder,
                encoder_options=self._settings.options,
                embedding_cache=self._settings.cache,
                random_state=0,
                training=Training(verbose=self._verbose),
            )
            model.remember(self._train.X, self._train.y, ids=self._train.ids)
            self._built = model, model.embed(self._test.X, ids=self._test.ids)
        return self._built

    def _accuracies(self, reduction: str, _: Path) -> dict[str, Any]:
        """Return accuracies by share of the rows, and how long reading them takes."""
        found: dict[str, Any] = {"accuracies": {}, "seconds": {}}
        for fraction in FRACTIONS:
            scored = [
                self._score(reduction, fraction, seed)
                for seed in (DRAWS if fraction < 1 else DRAWS[:1])
            ]
            found["accuracies"][str(fraction)] = [accuracy for accuracy, _ in scored]
            found["seconds"][str(fraction)] = scored[0][1]
        return found

    def _score(self, reduction: str, fraction: float, seed: int) -> tuple[float, float]:
        model, queries = self._prepared()
        part = with_share(copy.copy(model).set_params(reduction=reduction), fraction, seed)
        read_embedded(part, queries[:1])  # solves and indexes what the first prediction needs
        start = time.perf_counter()
        best = read_embedded(part, queries).argmax(axis=1)
        seconds = time.perf_counter() - start
        return float(np.mean(part.classes_[best] == self._test.y)), seconds

    def _forget(self, _: Path) -> dict[str, Any]:
        """Audit, then forget single rows and a class, and time it; the model is used up."""
        model = self._model.set_params(reduction="gaussian", embedding_cache=None)
        model.copies_ = []  # the cache serves other runs: nothing is removed from it here
        rng = np.random.default_rng(0)
        read_embedded(model, self._prepared()[1][:1])  # forgetting then also mends what is kept
        count = min(_AUDITED, len(self._train) // 2)
        drawn = [self._train.ids[i] for i in rng.permutation(len(self._train))[:count]]
        start = time.perf_counter()
        found = audit(model, ids=drawn, simulate=True)
        audited = time.perf_counter() - start
        times, levels = [], set()
        for row_id in drawn[: min(_SINGLES, len(self._train) // 4)]:
            start = time.perf_counter()
            receipt = model.forget(ids=[row_id])
            times.append(time.perf_counter() - start)
            levels.add((receipt.level, receipt.basis))
        start = time.perf_counter()
        for _repeat in range(_DIGESTS):
            model.weights_digest  # noqa: B018 - a property that works
        digest_ms = 1000 * (time.perf_counter() - start) / _DIGESTS
        label = model.memory.classes[0]
        start = time.perf_counter()
        rows = model.forget(classes=[label]).rows
        class_seconds = time.perf_counter() - start
        start = time.perf_counter()
        read_embedded(model, self._prepared()[1][:1])
        refit = time.perf_counter() - start
        self._built = None
        return {
            "audit": {
                "verdict": str(found.verdict),
                "text": str(found),
                "rows": count,
                "seconds": audited,
            },
            "levels": sorted(map(list, levels)),
            "median_ms": 1000 * float(np.median(times)),
            "p99_ms": 1000 * float(np.quantile(times, 0.99)),
            "digest_ms": digest_ms,
            "class": {"rows": rows, "seconds": class_seconds},
            "gaussian_refit_seconds": refit,
        }

    def _shadows(self, reduction: str, folder: Path) -> dict[str, Any]:
        """Attack models that forgot, over as many shadow models as asked for."""
        model, queries = self._prepared()
        embeddings = model.memory.get(self._train.ids)
        rows = np.stack([row.embedding for row in embeddings])
        sets = _shadow_sets(
            replace(self._train, X=rows), replace(self._test, X=queries.astype(np.float32))
        )
        bare = SPMClassifier("identity", reduction, normalize="none", random_state=0)
        margins = shadow_margins(
            ExactShadows(bare, sets),
            folder / "shadows",
            shadows=self._settings.shadows,
            progress=self._tell,
        )
        return {"record": asdict(margins.record), **attacked(margins)}

    def _tell(self, progress: Progress) -> None:
        left = "" if progress.seconds_left is None else f", {progress.seconds_left:.0f} s left"
        self._say(f"{progress.done} of {progress.total} shadow models{left}")


def attacked(margins: ShadowMargins) -> dict[str, Any]:
    """Return the attacks' success before and after forgetting, as plain values.

    The floor is that of a second set of models that never held the rows: there is nothing to find.
    """
    found: dict[str, Any] = {}
    for name in ("before", "unlearned", "second_oracle"):
        world = getattr(margins, name)
        attack = u_lira(world.forget, margins.oracle.forget)
        found[f"u_lira {name}"] = {
            "accuracy": attack.accuracy.value,
            "error": attack.accuracy.error,
            "auc": attack.auc.value,
            "tpr": {
                str(rate): None if math.isnan(estimate.value) else estimate.value
                for rate, estimate in attack.tpr.items()
            },
        }
        for part in ("forget", "retain", "validation"):
            divergence = klom(getattr(world, part), getattr(margins.oracle, part))
            found[f"klom {name} {part}"] = {
                "mean": divergence.mean,
                "percentile_95": divergence.percentile_95,
            }
    return found


def _shadow_sets(train: Split, test: Split) -> ShadowSets:
    size = min(_ASKED, len(train) // 5)
    order = np.random.default_rng(0).permutation(len(train))
    masks = np.zeros((2, len(train)), bool)
    masks[0, order[:size]] = True
    masks[1, order[size : 2 * size]] = True
    return ShadowSets(train, test.take(range(min(_ASKED, len(test)))), masks[0], masks[1])
