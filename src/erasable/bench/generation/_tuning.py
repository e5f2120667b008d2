"""Choose the settings of methods that edit a generator, on a class that no table shows."""

from collections.abc import Callable, Sequence
from typing import Any

from erasable.baselines.generation import (
    DIFFUSION_METHODS,
    DiffusionMethod,
    get_diffusion_method,
)
from erasable.bench._runs import Run
from erasable.bench._tune import combinations
from erasable.bench.generation._drawings import Drawings
from erasable.bench.generation._generators import oracle_seed
from erasable.bench.generation._presets import METHODS
from erasable.errors import ArgumentError, ErasableError, StateError
from erasable.typing import Label

Say = Callable[[str], None]

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
    """Try every setting of a method's grid; the smallest distance to the oracle is chosen.

    Args:
        drawings: Makes and keeps samples; fewer images are drawn here.
        name: The method.
        label: The class to forget.
        say: Where remarks on the progress go.
    """
    few = Drawings(drawings.generators, max(2, drawings.per_class // _SHARE))
    searched = []
    for settings in combinations(DIFFUSION_METHODS[name]):
        method = settings_of(drawings.generators.scale, name, **settings)
        try:
            run = edited_cell(few, method, label, 0)
            distance = run.result["fid_oracle"]
        except ErasableError as error:
            say(f"{name} {settings}: {error}")
            distance = None
        else:
            say(f"{name} {settings}: FID_O {distance:.2f}")
        searched.append({"settings": settings, "fid_oracle": distance})
    scored = [entry for entry in searched if entry["fid_oracle"] is not None]
    if not scored:
        raise StateError(f"Expected a setting of {name} that works, but all of them failed.")
    best = min(scored, key=lambda entry: entry["fid_oracle"])
    return {
        "method": name,
        "label": label,
        "images": few.per_class,
        "searched": searched,
        "chosen": best["settings"],
    }


def edited_cell(drawings: Drawings, method: DiffusionMethod, label: Label, seed: int) -> Run:
    """Return the figures of an edit of the ordinary model.

    Args:
        drawings: Makes and keeps samples.
        method: The edit.
        label: The class to forget.
        seed: Seed of the original.
    """
    settings = {
        **drawings.settings("edited", "ddpm", seed),
        "without": label,
        "method": [method.name, method.version, method.settings],
    }

    def work() -> dict[str, Any]:
        oracle = drawings.of_oracle("ddpm", label, oracle_seed(seed))
        images, seconds = drawings.after_edit(method, label, seed)
        return {**drawings.measure(images, oracle, label), "seconds": seconds}

    return drawings.figures(settings, work)
