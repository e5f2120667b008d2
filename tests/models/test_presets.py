"""Every preset fits every kind of input and every classifier."""

import copy

import numpy as np
import pytest
import torch

from erasable.encoders import build_encoder
from erasable.errors import ArgumentError
from erasable.models import (
    PRESETS,
    KNNClassifier,
    ParametricClassifier,
    SPMClassifier,
    parameters_of,
    preset,
    preset_settings,
)
from erasable.training import TRAININGS, Training

SHAPES = {
    "features": (7,),
    "8×8 grey": (1, 8, 8),
    "28×28 grey": (1, 28, 28),
    "32×32 colour": (3, 32, 32),
    "128×128 colour": (3, 128, 128),
}
IMAGES_ONLY = ("augmentation", "shift", "edge", "flips", "cutout")
KINDS = (SPMClassifier, KNNClassifier, ParametricClassifier)
EVERY_NAME = pytest.mark.parametrize("name", PRESETS)
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


@EVERY_SHAPE
@EVERY_NAME
@pytest.mark.parametrize("kind", KINDS)
def test_a_classifier_takes_the_parameters(name, shape, kind):
    parameters = preset(name, shape)
    model = kind(**parameters, random_state=0)
    assert model.get_params(deep=False).items() >= parameters.items()
    assert model._config().epochs == parameters["epochs"]


@EVERY_SHAPE
@EVERY_NAME
def test_the_encoder_takes_its_options_and_such_inputs(name, shape):
    parameters = preset(name, shape)
    encoder = build_encoder(
        parameters["encoder"], shape, options=parameters.get("encoder_options"), is_blank=True
    )
    options = parameters.get("encoder_options") or {}
    assert encoder.options().items() >= options.items()
    with torch.no_grad():
        assert encoder.eval()(torch.zeros(1, *shape)).shape == (1, encoder.dim)


@EVERY_SHAPE
@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_preset_trains(shape, kind):
    X = np.random.default_rng(0).uniform(size=(8, *shape)).astype(np.float32)
    model = kind(**preset("tiny", shape), random_state=0).fit(X, [0, 1] * 4)
    assert len(model.history_) == model.epochs
    assert set(model.predict(X)) <= {0, 1}


@pytest.mark.parametrize("name", ["fast", "accurate"])
@pytest.mark.parametrize("shape", [(7,), (1, 8, 8), (3, 8, 8)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_presets_that_learn_fast_train(name, shape, kind):
    X = np.random.default_rng(0).uniform(size=(40, *shape)).astype(np.float32)
    own = {"epochs": 3, "batch_size": 8, "learning_rate": 0.01}
    settings = {**preset_settings(name, shape), **own}
    if "encoder_options" in settings:
        settings["encoder_options"] |= {"width": 0.1}
    model = kind(**parameters_of(settings), random_state=0).fit(X, [0, 1] * 20)
    assert len(model.history_) == 3
    assert set(model.predict(X)) <= {0, 1}


@EVERY_SHAPE
def test_nothing_is_trained_at_level_exact(shape):
    X = np.random.default_rng(0).uniform(size=(4, *shape)).astype(np.float32)
    model = SPMClassifier(**preset("exact", shape), random_state=0)
    model.fit(X, [0, 1] * 2, ids=list("abcd"))
    assert model.history_ == []
    assert model.forget(ids=["a"]).level == "exact"


@pytest.mark.parametrize(
    ("shape", "encoder"),
    [
        ((7,), "mlp"),
        ((1, 8, 8), "fast_cnn"),
        ((3, 64, 64), "fast_cnn"),
        ((3, 128, 32), "fast_cnn"),
        ((3, 64, 65), "efficientnet_lite0"),
        ((1, 224, 224), "efficientnet_lite0"),
    ],
)
def test_images_of_more_than_64_by_64_start_from_published_weights(shape, encoder):
    assert preset("tiny", shape)["encoder"] == encoder
    assert preset("laptop", shape)["encoder"] == encoder


def test_the_scale_of_large_images_is_part_of_the_preset():
    found = {name: preset(name, (3, 224, 224))["encoder_options"] for name in PRESETS}
    assert {name: options["resolution"] for name, options in found.items()} == {
        "tiny": 32,
        "laptop": 96,
        "fast": 96,
        "accurate": 160,
        "paper": 224,
        "exact": 160,
    }


def test_feature_vectors_are_not_treated_as_images():
    for name in PRESETS:
        found = preset_settings(name, (7,))
        assert {"encoder_options", *IMAGES_ONLY}.isdisjoint(found)


@EVERY_NAME
def test_small_grey_images_are_never_mirrored(name):
    assert "flip" not in preset_settings(name, (1, 28, 28)).get("augmentation", "none")


@pytest.mark.parametrize("shape", SHAPES.values())
@pytest.mark.parametrize("name", ["", "Tiny", "large", None])
def test_an_unknown_name_lists_the_names(name, shape):
    with pytest.raises(
        ArgumentError, match="'tiny', 'laptop', 'fast', 'accurate', 'paper' and 1 more"
    ) as told:
        preset(name, shape)
    assert str(told.value).endswith(f"but got {name!r}.")


def test_every_preset_says_what_it_is_for():
    assert list(PRESETS) == ["tiny", "laptop", "fast", "accurate", "paper", "exact"]
    assert all(PRESETS.values())


@EVERY_SHAPE
@EVERY_NAME
def test_a_preset_is_the_callers_own(name, shape):
    before = copy.deepcopy(preset(name, shape))
    preset(name, shape)["epochs"] = 99
    assert preset(name, shape) == before


@pytest.mark.parametrize(("name", "shape"), [("tiny", (3, 32, 32)), ("laptop", (3, 128, 128))])
def test_the_options_in_a_preset_are_the_callers_own(name, shape):
    options = preset(name, shape)["encoder_options"]
    before = dict(options)
    try:
        options["width"] = 9
        assert preset(name, shape)["encoder_options"] == before
    finally:
        options.clear()
        options.update(before)


# -- settings in one dictionary --------------------------------------------------------------------

KEPT = {
    ("tiny", (3, 32, 32)): {
        "encoder": "fast_cnn", "encoder_options": {"width": 0.125}, "epochs": 2,
        "batch_size": 64, "learning_rate": 0.1,
    },
    ("laptop", (3, 32, 32)): {
        "encoder": "fast_cnn", "encoder_options": {"width": 0.5}, "epochs": 6,
        "batch_size": 256, "learning_rate": 0.4, "label_smoothing": 0.1,
        "augmentation": "crop_flip",
    },
    ("laptop", (1, 28, 28)): {
        "encoder": "fast_cnn", "encoder_options": {"width": 0.25}, "epochs": 4,
        "batch_size": 256, "learning_rate": 0.4, "label_smoothing": 0.1, "augmentation": "crop",
    },
    ("paper", (3, 32, 32)): {
        "encoder": "resnet18", "epochs": 100, "batch_size": 256, "learning_rate": 0.1,
        "augmentation": "crop_flip",
    },
}  # fmt: skip


@pytest.mark.parametrize("of", KEPT)
def test_published_runs_are_named_by_the_settings_of_their_preset(of):
    """A run that is kept is found by these; other names would have all of them made again."""
    assert preset_settings(*of) == KEPT[of]


@EVERY_SHAPE
@EVERY_NAME
def test_settings_say_what_the_parameters_say(name, shape):
    settings = preset_settings(name, shape)
    found = preset(name, shape)
    assert parameters_of(settings) == found
    own = found.pop("training", Training())
    named = {k: v for k, v in settings.items() if k in Training().get_params()}
    assert own == Training(**named)
    assert {**found, **named} == settings


@pytest.mark.parametrize("name", ["fast", "accurate"])
def test_a_preset_trains_small_images_in_colour_as_the_training_of_its_name(name):
    assert preset(name, (3, 32, 32))["training"] == TRAININGS[name]


def test_settings_without_any_of_a_training_leave_the_parameter_alone():
    assert parameters_of({"epochs": 3, "magic": 1}) == {"epochs": 3, "magic": 1}


def test_a_precision_that_was_an_option_of_the_encoder_is_one_of_the_training():
    settings = {"encoder": "fast_cnn", "encoder_options": {"width": 0.1, "precision": "bfloat16"}}
    assert parameters_of(settings) == {
        "encoder": "fast_cnn",
        "encoder_options": {"width": 0.1},
        "training": Training(precision="bfloat16"),
    }
    assert settings["encoder_options"]["precision"] == "bfloat16"


def test_settings_change_a_training_that_is_given():
    found = parameters_of({**preset("fast", (3, 32, 32)), "verbose": True})
    assert found["training"] == TRAININGS["fast"].changed(verbose=True)


def test_a_precision_that_is_asked_for_outweighs_that_of_a_preset():
    settings = preset_settings("fast", (3, 32, 32))
    settings["encoder_options"]["precision"] = "float32"
    assert parameters_of(settings)["training"].precision == "float32"
