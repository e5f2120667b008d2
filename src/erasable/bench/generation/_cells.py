"""The figures of one model after one thing was done to it, against its oracle."""

from typing import Any

from erasable.baselines import DivergedError
from erasable.baselines.generation import DiffusionMethod
from erasable.bench._runs import Run
from erasable.bench.generation._drawings import Drawings
from erasable.bench.generation._generators import Bytes, oracle_seed
from erasable.typing import Label

GAPS = ("ua", "fid_remaining")
"""Figures that are compared with the oracle's own."""


def untouched_cell(drawings: Drawings, kind: str, label: Label, seed: int) -> Run:
    """Return the figures of an original to which nothing was done.

    Args:
        drawings: Makes and keeps samples.
        kind: Kind of model.
        label: The class that its oracle was trained without.
        seed: Seed of the original.
    """
    own = oracle_seed(seed)
    settings = {
        **drawings.forgetting_settings("untouched", kind, seed, label),
        "oracle": own,
    }

    def work() -> dict[str, Any]:
        oracle = drawings.of_oracle(kind, label, own)
        images = drawings.of_original(kind, seed, **drawings.generators.reading(kind))
        return against(drawings, images, oracle, label)

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
        **drawings.forgetting_settings("edited", "ddpm", seed, label),
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


def oracle_cell(drawings: Drawings, kind: str, label: Label, seed: int) -> Run:
    """Return the figures of an oracle itself, and how long it was trained.

    Args:
        drawings: Makes and keeps samples.
        kind: Kind of model.
        label: The class that it was trained without.
        seed: Seed of the original.
    """
    own = oracle_seed(seed)
    settings = drawings.forgetting_settings("oracle", kind, own, label)

    def work() -> dict[str, Any]:
        images = drawings.of_oracle(kind, label, own)
        spent = drawings.generators.training(kind, own, without=label).result["seconds"]
        return {**against(drawings, images, images, label), "seconds": spent}

    return drawings.figures(settings, work)


def floor_cell(drawings: Drawings, kind: str, label: Label, seed: int) -> Run:
    """Return the figures of an oracle against another one of a different seed.

    Args:
        drawings: Makes and keeps samples.
        kind: Kind of model.
        label: The class that both were trained without.
        seed: Seed of the original.
    """
    first, second = oracle_seed(seed), oracle_seed(oracle_seed(seed))
    settings = {
        **drawings.forgetting_settings("floor", kind, first, label),
        "and": second,
    }

    def work() -> dict[str, Any]:
        one = drawings.of_oracle(kind, label, first)
        # Noise of its own, as every model that is compared with an oracle has.
        other = drawings.of_oracle(kind, label, second, noise=0)
        return against(drawings, other, one, label)

    return drawings.figures(settings, work)


def deleted_cell(drawings: Drawings, kind: str, label: Label, seed: int) -> Run:
    """Return the figures of a semi-parametric model after deletion.

    Args:
        drawings: Makes and keeps samples.
        kind: Variant of the semi-parametric model.
        label: The class to forget.
        seed: Seed of the original.
    """
    own = oracle_seed(seed)
    settings = {
        **drawings.forgetting_settings("deleted", kind, seed, label),
        "oracle": own,
    }

    def work() -> dict[str, Any]:
        oracle = drawings.of_oracle(kind, label, own)
        made = drawings.after_deletion(kind, label, seed)
        found = against(drawings, made.images, oracle, label)
        return {**found, "seconds": made.seconds, "again": made.again, "same": made.same}

    return drawings.figures(settings, work)
