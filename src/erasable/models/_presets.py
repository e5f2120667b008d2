"""Settings that belong together: how large a network, how long to train it, on what machine."""

import copy
import math
from collections.abc import Mapping
from typing import Any

from erasable.errors import ArgumentError, listing
from erasable.training import TRAININGS, Training, as_training

PRESETS = {
    "tiny": "seconds; to see that everything runs",
    "laptop": "two cores, a few minutes per network",
    "fast": "two cores that compute in bfloat16, a quarter of an hour per network",
    "accurate": "the same, wider and longer: an hour per network",
    "paper": "the paper's sizes, large images from published weights; for a GPU",
    "exact": "no training: a public encoder is frozen, rows are only remembered",
}
"""Names of presets, each with what it is for."""

_SMALL = 64 * 64  # pixels up to which images are taken as they are, by networks made for that


def settings_of(training: Training) -> dict[str, Any]:
    """Return what a training has besides the defaults."""
    usual = Training().settings()
    return {k: v for k, v in training.settings().items() if v != usual[k]}


_TRAINED: dict[str, dict[str, Any]] = {
    "tiny": {
        "encoder": "fast_cnn",
        "encoder_options": {"width": 0.125},
        "epochs": 2,
        "batch_size": 64,
        "learning_rate": 0.1,
    },
    "laptop": {
        "encoder": "fast_cnn",
        "encoder_options": {"width": 0.5},
        "epochs": 6,
        "batch_size": 256,
        "learning_rate": 0.4,
        "label_smoothing": 0.1,
        "augmentation": "crop_flip",
    },
    "fast": {
        "encoder": "fast_cnn",
        "encoder_options": {"width": 1.0, "stem": "whitened"},
        "epochs": 10,
        "batch_size": 1024,
        "learning_rate": 1.5,
        **settings_of(TRAININGS["fast"]),
    },
    "accurate": {
        "encoder": "fast_cnn",
        "encoder_options": {"width": 1.0, "stem": "whitened", "widths": [128, 384, 384]},
        "epochs": 16,
        "batch_size": 1024,
        "learning_rate": 1.4,
        **settings_of(TRAININGS["accurate"]),
    },
    "paper": {
        "encoder": "resnet18",
        "epochs": 100,
        "batch_size": 256,
        "learning_rate": 0.1,
        "augmentation": "crop_flip",
    },
}
_GREY: dict[str, dict[str, Any]] = {
    "laptop": {"encoder_options": {"width": 0.25}, "epochs": 4, "augmentation": "crop"},
    **{name: {"augmentation": "crop"} for name in ("fast", "accurate", "paper")},
}
"""What is different for images of one channel: they are simpler, and mirrored text is no text."""

_ADAPTED: dict[str, dict[str, Any]] = {
    "tiny": {"encoder_options": {"resolution": 32}, "epochs": 1, "batch_size": 32},
    "laptop": {"encoder_options": {"resolution": 96}, "epochs": 1, "batch_size": 64},
    "fast": {"encoder_options": {"resolution": 96}, "epochs": 2, "batch_size": 64},
    "accurate": {"encoder_options": {"resolution": 160}, "epochs": 2, "batch_size": 64},
    "paper": {"encoder_options": {"resolution": 224}, "epochs": 10, "batch_size": 256},
}


def preset(name: str, input_shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the parameters of a preset for inputs of a shape, to be set on any classifier.

    Args:
        name: ``tiny``, ``laptop``, ``fast``, ``accurate``, ``paper`` or ``exact``.
        input_shape: Shape of one input: (features,) or (channels, height, width).
    """
    return parameters_of(preset_settings(name, input_shape))


def parameters_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as parameters of a classifier: those of its training are one of them.

    Args:
        settings: Settings by name, in one dictionary; names that nobody knows stay as they are.
    """
    names = Training().get_params()
    inner = {k: v for k, v in settings.items() if k in names}
    outer = {k: v for k, v in settings.items() if k not in names}
    options = outer.get("encoder_options") or {}
    if outer.get("encoder") == "fast_cnn" and "precision" in options:  # an option until 0.1.0
        inner = {**inner, "precision": options["precision"]}
        outer["encoder_options"] = {k: v for k, v in options.items() if k != "precision"}
    if not inner:
        return outer
    given = as_training(outer.get("training", "standard"))
    return {**outer, "training": given.changed(**inner)}


def preset_settings(name: str, input_shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the settings of a preset for inputs of a shape, those of the training among them.

    Images of up to 64×64 pixels, and feature vectors, are learnt from scratch; larger images start
    from ``efficientnet_lite0`` as published.

    Args:
        name: Name of the preset.
        input_shape: Shape of one input: (features,) or (channels, height, width).
    """
    if name not in PRESETS:
        raise ArgumentError(f"Expected preset to be {listing(PRESETS)}, but got {name!r}.")
    is_image = len(input_shape) == 3
    if name == "exact":
        return _frozen(is_image)
    if is_image and math.prod(input_shape[1:]) > _SMALL:
        large = {"encoder": "efficientnet_lite0", "learning_rate": 0.005, **_ADAPTED[name]}
        mirrored = "crop" if input_shape[0] == 1 else "crop_flip"
        return copy.deepcopy({**large, "augmentation": "none" if name == "tiny" else mirrored})
    chosen = copy.deepcopy(_TRAINED[name])
    if not is_image:
        for image_only in ("encoder_options", "augmentation", "shift", "edge", "flips", "cutout"):
            chosen.pop(image_only, None)
        chosen |= {"encoder": "mlp", "learning_rate": 0.1}
    elif input_shape[0] == 1:
        chosen |= copy.deepcopy(_GREY.get(name, {}))
    return chosen


def _frozen(is_image: bool) -> dict[str, Any]:
    if not is_image:
        return {"encoder": "random_features", "epochs": 0}
    options = {"resolution": 160}
    return {"encoder": "efficientnet_lite0", "encoder_options": options, "epochs": 0}
