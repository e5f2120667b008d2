"""Choose the settings of methods that edit a generator, on a class that no table forgets."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from erasable.baselines import DivergedError
from erasable.baselines.generation import (
    DIFFUSION_METHODS,
    DiffusionMethod,
    get_diffusion_method,
)
from erasable.bench._tune import best_of, untried
from erasable.bench.generation._cells import edited_cell, untouched_cell
from erasable.bench.generation._drawings import Drawings
from erasable.bench.generation._presets import METHODS
from erasable.errors import ArgumentError
from erasable.typing import Label

Say = Callable[[str], None]

SCORED = ("ua_gap", "fid_oracle_remaining")
"""Gaps to the oracle that methods are chosen by."""

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


def settings_of(drawings: Drawings, name: str, **settings: Any) -> DiffusionMethod:
    """Return a method as it is run at a scale; what it draws is drawn as everything else is."""
    given = {**METHODS[drawings.generators.scale][name], **settings}
    if hasattr(DIFFUSION_METHODS[name], "drawing_steps"):
        given.setdefault("drawing_steps", drawings.steps)
    return get_diffusion_method(name, **given)


def tune_method(drawings: Drawings, name: str, label: Label, say: Say) -> dict[str, Any]:
    """Try every setting of a method's grid, and beyond its ends; the smallest score is chosen.

    The score is the mean of two gaps to the oracle, each as a share of what doing nothing has:
    that of UA, and FID_O of the other classes. So 1 is as far as nothing, and neither forgetting
    alone nor quality alone is good. What an oracle draws when it is asked for a class that it never
    saw is arbitrary, and nothing to be near to. A setting that does not forget is chosen only if
    none does: what does little has a score of about 1, and would win over forgetting at a price.

    Args:
        drawings: Makes and keeps samples; fewer images are drawn here.
        name: The method.
        label: The class to forget.
        say: Where remarks on the progress go.
    """
    fewer = max(2, drawings.per_class // _SHARE)
    few = Drawings(drawings.generators, fewer, steps=drawings.steps)
    untouched = untouched_cell(few, "ddpm", label, 0)
    searched: list[dict[str, Any]] = []
    while todo := untried(DIFFUSION_METHODS[name], searched, score="rank"):
        for settings in todo:
            method = settings_of(drawings, name, **settings)
            run = edited_cell(few, method, label, 0)
            found = None if "failed" in run.result else rank(run.result, untouched.result)
            searched.append({"settings": settings, "rank": found, "run": run})
            say(f"{name} {settings}: {told(searched[-1])}")
    best = best_of(searched, score="rank")
    if best is None:
        raise DivergedError(f"Expected a setting of {name} that works, but all of them diverged.")
    return {
        "method": name,
        "label": label,
        "images": few.per_class,
        "untouched": untouched,
        "searched": searched,
        "chosen": best["settings"],
    }


def rank(found: dict[str, Any], nothing: dict[str, Any]) -> tuple[bool, float]:
    """Return what an edit is chosen by, small is good: whether it fails to forget, then its score.

    It forgets if it goes at least half of the way from doing nothing to the oracle's UA.

    Args:
        found: Figures of the edit.
        nothing: Figures of the original.
    """
    return found["ua_gap"] > nothing["ua_gap"] / 2, score(found, nothing)


def told(trial: dict[str, Any]) -> str:
    """Say how a trial went.

    Args:
        trial: One of what `tune_method` searched.
    """
    if trial["rank"] is None:
        return "diverged"
    is_kept, found = trial["rank"]
    return f"score {found:.2f}" + (", does not forget" if is_kept else "")


def score(found: dict[str, Any], nothing: dict[str, Any]) -> float:
    """Return how far an edit is from the oracle, as a share of doing nothing.

    Args:
        found: Figures of the edit.
        nothing: Figures of the original.
    """
    parts = [found[key] / nothing[key] for key in SCORED if nothing[key] > 0]
    return statistics.fmean(parts) if parts else 0.0
