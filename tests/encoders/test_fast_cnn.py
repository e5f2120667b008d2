import numpy as np
import pytest
import torch
from torch import nn

from erasable import KNNClassifier, ParametricClassifier, SPMClassifier, load
from erasable.encoders import build_encoder
from erasable.errors import ArgumentError
from erasable.training import Inputs, Training
from erasable.weights import weights_digest


def build(shape, **options):
    return build_encoder("fast_cnn", shape, options=options).eval()


def layers_of(encoder, kind):
    return [layer for layer in encoder.layers if isinstance(layer, kind)]


@pytest.mark.parametrize(("side", "halvings"), [(4, 0), (5, 1), (8, 1), (9, 2), (32, 3), (96, 3)])
def test_an_image_is_halved_while_it_is_larger_than_three_pixels(side, halvings):
    assert len(layers_of(build((1, side, side), width=0.05), nn.MaxPool2d)) == halvings


@pytest.mark.parametrize(("width", "channels"), [(0.5, [32, 128]), (1, [64, 256]), (0.001, [1, 1])])
def test_width_is_a_factor_on_the_channels(width, channels):
    convolutions = layers_of(build((3, 8, 8), width=width), nn.Conv2d)
    assert [convolutions[1].out_channels, convolutions[-1].out_channels] == channels


def test_without_dim_an_embedding_has_the_last_channels():
    encoder = build((1, 8, 8))
    assert (encoder.dim, encoder(torch.rand(3, 1, 8, 8)).shape) == (128, (3, 128))


def test_options_tell_the_defaults():
    assert build((1, 8, 8)).options() == {
        "width": 0.5,
        "dim": None,
        "stem": "drawn",
        "widths": [64, 256, 256],
        "depth": 2,
    }


def test_a_stem_has_twice_the_values_of_a_patch():
    assert layers_of(build((3, 8, 8)), nn.Conv2d)[0].out_channels == 24


def test_the_first_outputs_of_a_new_convolution_repeat_its_inputs():
    images = torch.randn(2, 24, 5, 5)
    first = layers_of(build((3, 8, 8)), nn.Conv2d)[1]
    torch.testing.assert_close(first(images)[:, :24], images)


def test_the_other_outputs_of_a_new_convolution_are_drawn():
    first = layers_of(build((3, 8, 8)), nn.Conv2d)[1]
    assert first.weight[24:].std() > 0


def test_untrained_embeddings_do_not_vanish():
    embeddings = build((1, 8, 8))(torch.rand(50, 1, 8, 8))
    assert embeddings.square().mean().sqrt() > 0.01


def test_a_wrong_width_is_told():
    with pytest.raises(ValueError, match="Expected width to be a factor above 0, but got -1"):
        build((1, 8, 8), width=-1)


# -- depth ----------------------------------------------------------------------------------------


def test_depth_is_the_convolutions_of_a_block():
    for depth in (2, 3):
        found = [
            one for one in build((3, 8, 8), depth=depth).modules() if isinstance(one, nn.Conv2d)
        ]
        assert len(found) == 1 + 3 * depth


def test_widths_are_the_channels_of_the_blocks():
    encoder = build((3, 8, 8), widths=[10, 20], width=0.5)
    assert [one.out_channels for one in layers_of(encoder, nn.Conv2d)] == [24, 5, 5, 10, 10]
    assert encoder.dim == 10


def test_a_third_convolution_is_added_to_what_comes_before_it():
    torch.manual_seed(0)
    deep = build((3, 8, 8), depth=3).eval()
    third = [layer for layer in deep.layers if isinstance(layer, nn.Sequential)]
    assert len(third) == 3
    for layers in third:
        seen = torch.rand(4, layers[0].in_channels, 5, 5)
        torch.testing.assert_close(layers(seen) - seen, layers[1](layers[0](seen)))


# -- a whitened first layer -----------------------------------------------------------------------


def pictures(count=80, shape=(3, 8, 8), seed=0):
    """Return smooth images: their patches are correlated."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(size=(count, shape[0], 4, 4)).repeat(2, 2).repeat(2, 3)
    images = coarse[..., : shape[1], : shape[2]] + 0.3 * rng.normal(size=(count, *shape))
    return images.astype(np.float32), rng.integers(0, 3, count).tolist()


def classifier(kind=SPMClassifier, **options):
    own = {"width": 0.1, "stem": "whitened", **options.pop("encoder_options", {})}
    settings = {"epochs": 2, "batch_size": 20, "random_state": 0, **options}
    return kind("fast_cnn", encoder_options=own, **settings)


def first_outputs(encoder, images):
    """Return what the first convolution gives for each patch, (patches, channels)."""
    norm, first = encoder.layers[:2]
    mean = torch.from_numpy(images).mean((0, 2, 3), keepdim=True)
    spread = torch.from_numpy(images).var((0, 2, 3), keepdim=True)
    normal = (torch.from_numpy(images) - mean) / (spread + norm.eps).sqrt()
    with torch.no_grad():
        found = nn.functional.conv2d(normal, first.weight)
    return found.permute(0, 2, 3, 1).flatten(0, 2).double()


KINDS = pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier, ParametricClassifier])


@KINDS
def test_outputs_of_the_first_layer_are_whitened(kind):
    images, labels = pictures()
    model = classifier(kind).fit(images, labels)
    outputs = first_outputs(model.encoder_, images)
    positive, negative = outputs.chunk(2, dim=1)
    assert torch.equal(negative, -positive)
    covariance = positive.T @ positive / len(positive)
    torch.testing.assert_close(covariance, torch.eye(12).double(), rtol=0, atol=0.02)


@KINDS
def test_the_first_kernels_are_not_trained(kind):
    images, labels = pictures()
    first = [
        classifier(kind, epochs=epochs, training=Training(weight_decay=0.5))
        .fit(images, labels)
        .encoder_.layers[1]
        for epochs in (1, 4)
    ]
    assert torch.equal(first[0].weight, first[1].weight)
    assert not torch.equal(first[0].bias, first[1].bias)


def test_scales_of_normalisation_are_not_trained():
    encoder = classifier().fit(*pictures()).encoder_
    norms = [one for one in layers_of(encoder, nn.BatchNorm2d) if one.affine]
    assert len(norms) == 6
    assert all((norm.weight == 1).all() and norm.bias.any() for norm in norms)


@KINDS
def test_a_network_that_is_not_trained_does_not_look_at_rows(kind):
    models = [
        classifier(kind, epochs=0, encoder_options={"stem": "drawn"}).fit(*pictures(seed=seed))
        for seed in (1, 2)
    ]
    assert weights_digest(models[0].encoder_) == weights_digest(models[1].encoder_)


@pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier])
def test_a_layer_that_no_training_would_compute_is_refused(kind):
    X, y = pictures()
    with pytest.raises(ArgumentError, match=r"fit\(\) with epochs, or leave out stem='whitened'"):
        classifier(kind, epochs=0).fit(X, y)
    with pytest.raises(ArgumentError, match="Expected a training"):
        classifier(kind).remember(X, y)


def test_rows_that_a_layer_was_computed_from_are_at_level_memory():
    model = classifier().fit(*pictures()).forget(classes=[0])
    assert model.level == "memory"


def test_a_drawn_first_layer_does_not_look_at_rows():
    before = build((3, 8, 8))
    digest = weights_digest(before)
    before.prepare(Inputs(pictures()[0])[:50])
    assert weights_digest(before) == digest


@pytest.mark.parametrize("stem", ["drawn", "whitened"])
def test_a_layer_stays_under_what_was_trained_behind_it(stem):
    before = classifier(encoder_options={"stem": stem, "width": 0.1}).fit(*pictures())
    after = classifier().fit(*pictures(seed=5), init=before)
    assert torch.equal(after.encoder_.layers[1].weight, before.encoder_.layers[1].weight)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 1, 8), (1, 2, 2), (1, 1, 1)])
def test_images_of_any_size_are_whitened(shape):
    images, labels = pictures(shape=shape)
    model = classifier(encoder_options={"depth": 3}).fit(images, labels)
    assert np.isfinite(model.predict_proba(images)).all()


def test_images_that_are_all_the_same_are_whitened():
    images, labels = np.ones((20, 3, 8, 8), np.float32), [0, 1] * 10
    model = classifier().fit(images, labels)
    assert np.isfinite(model.predict_proba(images)).all()


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier])
def test_a_loaded_model_predicts_the_same(kind, depth, tmp_path):
    images, labels = pictures()
    model = classifier(kind, encoder_options={"depth": depth, "widths": [32, 64]})
    model.fit(images, labels).save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.weights_digest == model.weights_digest
    assert not again.encoder_.layers[1].weight.requires_grad
    np.testing.assert_array_equal(again.predict_proba(images), model.predict_proba(images))


def test_a_resumed_training_ends_in_the_same_bits(tmp_path):
    images, labels = pictures()
    expected = classifier(epochs=3).fit(images, labels).weights_digest
    model = classifier(epochs=3, training=Training(checkpoint=tmp_path)).fit(images, labels)
    assert model.weights_digest == expected
    assert model.fit(images, labels).weights_digest == expected  # from its last epoch
