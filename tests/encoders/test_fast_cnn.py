import pytest
import torch
from torch import nn

from erasable.encoders import build_encoder


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
        "precision": "float32",
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


def dtypes_of_convolutions(encoder, images):
    found = []
    for layer in layers_of(encoder, nn.Conv2d):
        layer.register_forward_hook(lambda *call: found.append(call[-1].dtype))
    encoder(images)
    return set(found)


@pytest.mark.parametrize(
    ("precision", "is_training", "dtype"),
    [
        ("float32", True, torch.float32),
        ("bfloat16", True, torch.bfloat16),
        ("bfloat16", False, torch.float32),
    ],
)
def test_precision_is_that_of_convolutions_in_training(precision, is_training, dtype):
    encoder = build((3, 8, 8), width=0.1, precision=precision).train(is_training)
    assert dtypes_of_convolutions(encoder, torch.rand(4, 3, 8, 8)) == {dtype}


def test_embeddings_weights_and_gradients_have_full_precision_when_training_in_half():
    encoder = build((3, 8, 8), width=0.1, precision="bfloat16").train()
    embeddings = encoder(torch.rand(4, 3, 8, 8))
    embeddings.square().sum().backward()
    tensors = [embeddings, *encoder.parameters(), *(p.grad for p in encoder.parameters())]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}


def test_training_in_half_precision_follows_that_in_full():
    images = torch.rand(64, 3, 8, 8)
    torch.manual_seed(0)
    full = build((3, 8, 8), width=0.1).train()
    half = build((3, 8, 8), width=0.1, precision="bfloat16").train()
    half.load_state_dict(full.state_dict())
    expected, found = full(images), half(images)
    assert 0 < (found - expected).norm() < 0.05 * expected.norm()


def test_a_network_in_half_precision_is_told_apart_from_one_in_full():
    assert "precision=bfloat16" in repr(build((3, 8, 8), precision="bfloat16"))
    assert "precision" not in repr(build((3, 8, 8)))


def test_an_unknown_precision_is_told():
    with pytest.raises(
        ValueError, match="Expected precision to be 'float32', 'bfloat16', but got 'half'"
    ):
        build((3, 8, 8), precision="half")
