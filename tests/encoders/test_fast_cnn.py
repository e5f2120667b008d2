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
    assert build((1, 8, 8)).options() == {"width": 0.5, "dim": None}


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
