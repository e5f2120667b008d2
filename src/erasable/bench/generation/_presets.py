"""What generators and methods are at each scale, and what sets variants apart."""

import inspect
from typing import Any

from erasable.models import SPMGenerator

_PAPER_NETWORK = {
    "channels": [128, 256, 256, 256],
    "layers": 2,
    "attention": [1],
    "dropout": 0.1,
}

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
    "demo": {
        "side": 8,
        "per_class": 50,
        "mixtures": 10,
        "network": {
            "channels": [32, 64],
            "layers": 1,
            "steps": 1000,
            "batch_size": 64,
            "learning_rate": 1e-3,
            "average": 0.995,
        },
    },
    "laptop": {
        "side": 16,
        "per_class": 500,
        "read": 100,
        "mixtures": 200,
        "network": {
            "channels": [32, 64, 64],
            "layers": 1,
            "steps": 2000,
            "batch_size": 128,
            "learning_rate": 2e-3,
            "average": 0.998,
        },
    },
    "trial": {
        "side": 32,
        "rows": 50,
        "per_class": 2,
        "mixtures": 2,
        "network": {**_PAPER_NETWORK, "steps": 20, "batch_size": 8, "warmup": 0},
    },
    "paper": {
        "side": 32,
        "per_class": 5000,
        "mixtures": 1000,
        "network": {
            **_PAPER_NETWORK,
            "steps": 390_000,
            "batch_size": 256,
            "learning_rate": 5e-4,
            "warmup": 19_500,
            "average": 0.9993,
            "augmentation": "flip",
        },
    },
}
"""Sides of images, images drawn per class, Gaussians per class, and networks, by preset; ``read``:
rows per class that tables of forgetting read, where that is not the default. ``trial`` is the
paper's network on a few rows, for a few steps: to see that everything runs."""

SPM_VARIANTS: dict[str, dict[str, Any]] = {
    "spm": {},
    "spm_permuted": {"labels": "permuted"},
    "spm_plain": {"labels": "plain"},
    "spm_follow": {"branch": "follow"},
    "spm_support": {"support_size": 256},
    "spm_detached": {"support_gradient": False},
}
"""Semi-parametric generators by what sets them apart."""

METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "tiny": {
        "ft": {"steps": 20},
        "sa": {"steps": 20, "per_class": 4, "fisher_images": 4, "fisher_steps": 10},
        "salun": {"steps": 20},
        "sfron": {"steps": 20},
        "erasediff": {"steps": 20, "rounds": 2, "inner_steps": 5},
    },
    "demo": {
        "ft": {"steps": 100},
        "sa": {"steps": 200, "per_class": 20, "fisher_images": 50, "fisher_steps": 50},
        "salun": {"steps": 100},
        "sfron": {"steps": 50},
        "erasediff": {"steps": 100, "rounds": 4, "inner_steps": 10},
    },
    "trial": {
        "ft": {"steps": 2},
        "sa": {"steps": 2, "per_class": 1, "fisher_images": 2, "fisher_steps": 2},
        "salun": {"steps": 2},
        "sfron": {"steps": 2},
        "erasediff": {"steps": 2, "rounds": 1, "inner_steps": 1},
    },
    "laptop": {
        "ft": {"steps": 200},
        "sa": {"steps": 200, "per_class": 50, "fisher_images": 500, "fisher_steps": 50},
        "salun": {"steps": 200},
        "sfron": {"steps": 50, "fisher_images": 2500},
        "erasediff": {"steps": 200, "inner_steps": 10},
    },
    "paper": {"ft": {}, "sa": {}, "salun": {}, "sfron": {}, "erasediff": {}},
}
"""Settings of methods besides the published ones, by preset: what the time allows."""


DEFAULT_ROWS: int = inspect.signature(SPMGenerator).parameters["rows_per_class"].default
"""Rows of its class that an image reads at most, where nothing else is asked for."""

_NOT_LEARNT = ("random_state", "device", "checkpoint", "verbose", "kernel", "rows_per_class")


def learnt(model: type, given: dict[str, Any]) -> dict[str, Any]:
    """Return everything that what a model learns depends on, defaults of its class included.

    Args:
        model: Class of the model.
        given: The parameters that it is made with.
    """
    defaults = {
        name: list(parameter.default) if type(parameter.default) is tuple else parameter.default
        for name, parameter in inspect.signature(model).parameters.items()
        if name not in _NOT_LEARNT
    }
    return {**defaults, **given}
