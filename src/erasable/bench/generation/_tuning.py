"""Choose the settings of methods that edit a generator, on a class that no table shows."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from erasable.baselines import DivergedError
from erasable.baselines.generation import (
    DIFFUSION_METHODS,
    DiffusionMethod,
    get_diffusion_method,
)
from erasable.bench._runs import Run
from erasable.bench._tune import combinations
from erasable.bench.generation._drawings import Drawings
from erasable.bench.generation._generators import Bytes, oracle_seed
from erasable.bench.generation._presets import METHODS
from erasable.errors import ArgumentError
from erasable.typing import Label

Say = Callable[[str], None]

GAPS = ("ua", "fid_remaining")
"""Figures that are compared with the oracle's own."""

_SHARE = 5
"""Tuning draws this many times fewer images than tables."""


def tuning_class(classes: Sequence[Label], labels: Sequence[Label]) -> Label:
    """Return a class to tune on: the first one that no table forgets."""
    for label in classes:
        if label not in labels:
            return label
    raise ArgumentError(
        "Expected a class that is not forgotten, to tune on, but all are. Forget fewer, or take "
        "the published settings."
    )


def settings_of(scale: str, name: str, **settings: Any) -> DiffusionMethod:
    """Return a method as it is run at a scale."""
    return get_diffusion_method(name, **{**METHODS[scale][name], **settings})


def tune_method(drawings: Drawings, name: str, label: Label, say: Say) -> dict[str, Any]:
    """Try every setting of a method's grid; the smallest score is chosen.

    The score is the mean of two gaps to the oracle, each as a share of what doing nothing has:
    that of UA, and FID_O. So 1 is as far as nothing, and neither forgetting alone nor quality alone
    is good.

    Args:
        drawings: Makes and keeps samples; fewer images are drawn here.
        name: The method.
        label: The class to forget.
        say: Where remarks on the progress go.
    """
    few = Drawings(drawings.generators, max(2, drawings.per_class // _SHARE))
    nothing = untouched_cell(few, "ddpm", label, 0).result
    searched: list[dict[str, Any]] = []
    for settings in combinations(DIFFUSION_METHODS[name]):
        method = settings_of(drawings.generators.scale, name, **settings)
        run = edited_cell(few, method, label, 0)
        found = None if "failed" in run.result else score(run.result, nothing)
        say(f"{name} {settings}: " + ("diverged" if found is None else f"score {found:.2f}"))
        searched.append({"settings": settings, "score": found, "run": run})
    scored = [entry for entry in searched if entry["score"] is not None]
    if not scored:
        raise DivergedError(f"Expected a setting of {name} that works, but all of them diverged.")
    best = min(scored, key=lambda entry: entry["score"])
    return {
        "method": name,
        "label": label,
        "images": few.per_class,
        "searched": searched,
        "chosen": best["settings"],
    }


def score(found: dict[str, Any], nothing: dict[str, Any]) -> float:
    """Return how far an edit is from the oracle, as a share of doing nothing.

    Args:
        found: Figures of the edit.
        nothing: Figures of the original.
    """
    parts = [
        found[key] / max(nothing[key], 1e-9) for key in ("ua_gap", "fid_oracle") if nothing[key] > 0
    ]
    return statistics.fmean(parts) if parts else 0.0


def untouched_cell(drawings: Drawings, kind: str, label: Label, seed: int) -> Run:
    """Return the figures of an original to which nothing was done.

    Args:
        drawings: Makes and keeps samples.
        kind: Kind of model.
        label: The class that its oracle was trained without.
        seed: Seed of the original.
    """
    own = oracle_seed(seed)
    settings = {**drawings.settings("untouched", kind, seed), "without": label, "oracle": own}

    def work() -> dict[str, Any]:
        oracle = drawings.of_oracle(kind, label, own)
        return against(drawings, drawings.of_original(kind, seed), oracle, label)

    return drawings.figures(settings, work)


def against(drawings: Drawings, images: Bytes, oracle: Bytes, label: Label) -> dict[str, Any]:
    """Return all figures of samples, and gaps to what the oracle has.

    Args:
        drawings: Measures.
        images: Samples.
        oracle: Samples of the oracle.
        label: The forgotten class.
    """
    found = drawings.measure(images, oracle, label)
    base = drawings.measure(oracle, None, label)
    return found | {f"{key}_gap": abs(found[key] - base[key]) for key in GAPS}


def edited_cell(drawings: Drawings, method: DiffusionMethod, label: Label, seed: int) -> Run:
    """Return the figures of an edit of the ordinary model; ``failed`` if it has diverged.

    Args:
        drawings: Makes and keeps samples.
        method: The edit.
        label: The class to forget.
        seed: Seed of the original.
    """
    own = oracle_seed(seed)
    settings = {
        **drawings.settings("edited", "ddpm", seed),
        "without": label,
        "oracle": own,
        "method": [method.name, method.version, method.settings],
    }

    def work() -> dict[str, Any]:
        oracle = drawings.of_oracle("ddpm", label, own)
        try:
            made = drawings.after_edit(method, label, seed)
        except DivergedError as error:
            return {"failed": str(error)}
        return {**against(drawings, made.images, oracle, label), "seconds": made.seconds}

    return drawings.figures(settings, work)
