"""The preprocessing of a network is part of the encoder that is made of it."""

import copy
import json
import sys

import numpy as np
import pytest
import torch
from torch import nn

from erasable import SPMClassifier, convert, load
from erasable.encoders import cut
from erasable.errors import ArgumentError, StateError
from erasable.models import ParametricClassifier
from erasable.models._canonical import canonical_digest
from models.toys import forget_keys

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (12, 10, 8, 3), dtype=np.uint8)
LABELS = ["a", "b"] * 6
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
IMAGENET = {"mean": MEAN, "std": STD, "size": 6}


def network():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(4, 2)).eval()


def converted(preprocess=IMAGENET):
    return convert(network(), "3", normalize="none", preprocess=preprocess)


def standardised(images, size=6):
    """Return what the network was trained to get, step by step."""
    unit = torch.from_numpy(images.transpose(0, 3, 1, 2).astype(np.float32) / 255)
    square = unit[:, :, 1:9]
    small = nn.functional.interpolate(square, (size, size), mode="bilinear", antialias=True)
    return (small - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def test_images_are_cut_resized_and_standardised():
    model = converted().remember(BYTES, LABELS)
    with torch.no_grad():
        expected = network()[:4](standardised(BYTES)).numpy()
    np.testing.assert_allclose(model.embed(BYTES), expected, atol=1e-5)


def test_images_of_the_right_size_are_only_standardised():
    square = BYTES[:, 1:9]
    model = converted({"mean": MEAN, "std": STD}).remember(square, LABELS)
    with torch.no_grad():
        expected = network()[:4](standardised(BYTES, size=8)).numpy()
    np.testing.assert_allclose(model.embed(square), expected, atol=1e-5)


def test_bytes_and_numbers_from_0_to_1_are_the_same_images():
    model = converted().remember(BYTES, LABELS)
    unit = BYTES.astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(model.embed(unit), model.embed(BYTES))


def test_an_image_is_encoded_by_itself():
    model = converted().remember(BYTES, LABELS)
    alone = np.concatenate([model.embed(BYTES[at : at + 1]) for at in range(12)])
    np.testing.assert_allclose(model.embed(BYTES), alone, atol=1e-6)


@pytest.mark.parametrize("call", ["predict", "remember"])
def test_images_that_are_standardised_already_are_refused(call):
    ready = standardised(BYTES, size=8).numpy()
    model = converted()
    if call == "predict":
        model.remember(BYTES[:, 1:9], LABELS)
    with pytest.raises(ArgumentError, match="numbers from"):
        model.predict(ready) if call == "predict" else model.remember(ready, LABELS)


@pytest.mark.parametrize(
    "other",
    [
        {**IMAGENET, "mean": [0.5, 0.5, 0.5]},
        {**IMAGENET, "std": [0.5, 0.5, 0.5]},
        {**IMAGENET, "size": 7},
        "preprocessing_of_a_test:double",
        None,
    ],
    ids=str,
)
def test_another_preprocessing_is_another_model(other, package):
    first, second = (converted(p).remember(BYTES, LABELS) for p in (IMAGENET, other))
    digests = [canonical_digest(m, m.memory, m.weights_digest) for m in (first, second)]
    assert digests[0] != digests[1]
    assert first.weights_digest != second.weights_digest


def test_it_is_saved_with_the_model(tmp_path):
    model = converted().remember(BYTES, LABELS)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model", encoder=cut(network(), "3"))
    assert loaded.weights_digest == model.weights_digest
    np.testing.assert_array_equal(loaded.predict_proba(BYTES), model.predict_proba(BYTES))
    np.testing.assert_array_equal(loaded.embed(BYTES), model.embed(BYTES))
    copy.deepcopy(loaded).remember(BYTES[:1] // 2, ["c"])


def test_it_goes_with_an_encoder_that_is_adapted():
    model = converted().remember(BYTES, LABELS)
    adapted = SPMClassifier(normalize="none", epochs=0).fit(BYTES, LABELS, init=model)
    np.testing.assert_allclose(adapted.embed(BYTES), model.embed(BYTES), atol=1e-6)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return the import path of a function in a package of the user's."""
    (tmp_path / "preprocessing_of_a_test.py").write_text(
        "VALUE = 3\ndef double(inputs): return 2 * inputs\ndef odd(inputs): return 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "preprocessing_of_a_test:double"
    sys.modules.pop("preprocessing_of_a_test", None)


def test_a_function_is_called(package):
    model = converted(package).remember(BYTES, LABELS)
    with torch.no_grad():
        inputs = torch.from_numpy(BYTES.transpose(0, 3, 1, 2).astype(np.float32) / 255)
        expected = network()[:4](2 * inputs).numpy()
    np.testing.assert_allclose(model.embed(BYTES), expected, atol=1e-5)


def test_of_a_function_the_path_is_saved(package, tmp_path):
    model = converted(package).remember(BYTES, LABELS)
    assert model.encoder_.options() == {"preprocess": package}
    json.dumps(model.encoder_.options())
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model", encoder=cut(network(), "3"))
    np.testing.assert_array_equal(loaded.embed(BYTES), model.embed(BYTES))


def test_a_model_whose_function_cannot_be_imported_is_refused(package, tmp_path, monkeypatch):
    converted(package).remember(BYTES, LABELS).save(tmp_path / "model")
    sys.modules.pop("preprocessing_of_a_test")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(tmp_path)])
    with pytest.raises(StateError, match=r"import 'preprocessing_of_a_test:double'.*Install"):
        load(tmp_path / "model", encoder=cut(network(), "3"))


WRONG = {
    "no path": "just a name",
    "a path that runs something": "os:system('x')",
    "an unknown name": {"mean": MEAN, "std": STD, "scale": 2},
    "no deviation": {"mean": MEAN},
    "a deviation of zero": {"mean": MEAN, "std": [1, 0, 1]},
    "a deviation of another length": {"mean": MEAN, "std": [1.0]},
    "no numbers": {"mean": "0.5", "std": "0.5"},
    "a mean that is not finite": {"mean": [float("nan")] * 3, "std": STD},
    "no size": {**IMAGENET, "size": 0},
    "a function itself": abs,
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=[k.replace(" ", "-") for k in WRONG])
def test_what_means_nothing_is_refused_at_once(wrong):
    with pytest.raises(ArgumentError, match="preprocess"):
        converted(wrong)


@pytest.mark.parametrize("path", ["no_such_package_at_all:f", "json:no_such_function"])
def test_a_function_that_is_not_there_is_refused_at_once(path):
    with pytest.raises(StateError, match="Expected to import"):
        converted(path)


@pytest.mark.parametrize("name", ["VALUE", "odd"])
def test_what_is_no_preprocessing_is_refused(package, name):
    with pytest.raises((ArgumentError, StateError), match=name):
        converted(package.replace("double", name)).remember(BYTES, LABELS)


def test_images_with_other_channels_are_refused():
    with pytest.raises(ArgumentError, match="images with 3 channels"):
        converted().remember(BYTES[..., 0], LABELS)


def test_a_network_trained_here_takes_inputs_as_they_come():
    twin = ParametricClassifier(encoder_options={"widths": [4], "dim": 4}, epochs=0)
    with pytest.raises(ArgumentError, match="Expected no preprocess"):
        convert(twin.fit(BYTES, LABELS), preprocess=IMAGENET)


def test_a_function_is_not_imported_for_a_model_that_nobody_can_check(package, tmp_path, keys):
    converted(package).remember(BYTES, LABELS).save(tmp_path / "model")
    keys.rename(tmp_path / "elsewhere")
    forget_keys()
    sys.modules.pop("preprocessing_of_a_test")
    with pytest.raises(StateError, match="Put the key back"):
        load(tmp_path / "model", encoder=cut(network(), "3"))
    assert "preprocessing_of_a_test" not in sys.modules
