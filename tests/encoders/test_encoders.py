import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from erasable.encoders import (
    MLP,
    Encoder,
    FastCNN,
    Identity,
    ModuleEncoder,
    RandomFeatures,
    ResNet18,
    SmallCNN,
    build_encoder,
    register_encoder,
)
from erasable.encoders import _registry as registry
from erasable.errors import ArgumentError
from erasable.weights import weights_digest

KINDS = {
    "identity": Identity,
    "random_features": RandomFeatures,
    "mlp": MLP,
    "small_cnn": SmallCNN,
    "fast_cnn": FastCNN,
    "resnet18": ResNet18,
}
OPTIONS = {
    "identity": {},
    "random_features": {"dim": 9, "gamma": 0.3},
    "mlp": {"hidden": [7, 5], "dim": 6},
    "small_cnn": {"widths": [4, 3], "dim": 5},
    "fast_cnn": {"width": 0.05, "dim": 5, "stem": "drawn", "widths": [64, 99], "depth": 3},
    "resnet18": {"stem": "cifar", "width": 2, "dim": 5},
}
CONVOLUTIONAL = ("small_cnn", "fast_cnn", "resnet18")
VECTORS = (11,)
IMAGES = (3, 8, 6)
BUILT = pytest.mark.parametrize(
    ("name", "shape"),
    [(name, IMAGES) for name in KINDS] + [(n, VECTORS) for n in KINDS if n not in CONVOLUTIONAL],
)
DRAWN = pytest.mark.parametrize("name", [name for name in KINDS if name != "identity"])


def build(name, shape, seed=0):
    return build_encoder(name, shape, options=OPTIONS[name], seed=seed).eval()


def inputs(shape, count=5):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(1))


def shapes_of(encoder):
    return {name: tuple(tensor.shape) for name, tensor in encoder.state_dict().items()}


@pytest.fixture
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_ENCODERS", dict(registry._ENCODERS))


# -- every named encoder --------------------------------------------------------------------------


@BUILT
def test_a_name_builds_its_class(name, shape):
    assert type(build(name, shape)) is KINDS[name]


@BUILT
def test_an_encoder_knows_its_name(name, shape):
    assert build(name, shape).name == name


@BUILT
def test_an_embedding_has_the_size_the_encoder_tells(name, shape):
    encoder = build(name, shape)
    assert encoder(inputs(shape)).shape == (5, encoder.dim)


@BUILT
def test_defaults_build_too(name, shape):
    encoder = build_encoder(name, shape).eval()
    assert encoder(inputs(shape)).shape == (5, encoder.dim)


@BUILT
def test_encoding_twice_gives_the_same_bits(name, shape):
    encoder = build(name, shape)
    assert torch.equal(encoder(inputs(shape)), encoder(inputs(shape)))


@BUILT
def test_encoding_in_eval_mode_changes_no_weight(name, shape):
    encoder = build(name, shape)
    before = weights_digest(encoder)
    encoder(inputs(shape))
    assert weights_digest(encoder) == before


@BUILT
def test_an_embedding_does_not_depend_on_the_rest_of_the_batch(name, shape):
    encoder, batch = build(name, shape).double(), inputs(shape).double()
    alone = torch.cat([encoder(one[None]) for one in batch])
    torch.testing.assert_close(encoder(batch), alone, rtol=0, atol=1e-12)


@BUILT
def test_options_rebuild_the_same_architecture(name, shape):
    encoder = build(name, shape)
    options = json.loads(json.dumps(encoder.options()))
    assert shapes_of(build_encoder(name, shape, options=options)) == shapes_of(encoder)


@BUILT
def test_a_rebuilt_encoder_with_the_same_weights_encodes_the_same(name, shape):
    encoder = build(name, shape)
    options = json.loads(json.dumps(encoder.options()))
    again = build_encoder(name, shape, options=options, seed=1).eval()
    again.load_state_dict(encoder.state_dict())
    assert torch.equal(again(inputs(shape)), encoder(inputs(shape)))


@BUILT
def test_options_are_told_as_they_were_given(name, shape):
    assert build(name, shape).options() == OPTIONS[name]


@BUILT
def test_the_same_seed_gives_the_same_weights(name, shape):
    assert weights_digest(build(name, shape, seed=3)) == weights_digest(build(name, shape, seed=3))


@DRAWN
def test_another_seed_gives_other_weights(name):
    assert weights_digest(build(name, IMAGES)) != weights_digest(build(name, IMAGES, seed=1))


@BUILT
def test_building_leaves_the_random_state_as_it_was(name, shape):
    before = torch.get_rng_state()
    build(name, shape)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_failed_build_leaves_the_random_state_as_it_was():
    before = torch.get_rng_state()
    with pytest.raises(ArgumentError):
        build_encoder("small_cnn", VECTORS)
    assert torch.equal(torch.get_rng_state(), before)


@BUILT
def test_no_named_encoder_mixes_rows(name, shape):
    assert not build(name, shape).is_relational


@pytest.mark.parametrize(("shape", "kind"), [(VECTORS, MLP), (IMAGES, SmallCNN)])
def test_auto_chooses_by_the_shape_of_an_input(shape, kind):
    assert type(build_encoder("auto", shape)) is kind


def test_auto_passes_its_options_on():
    assert build_encoder("auto", VECTORS, options={"dim": 3}).dim == 3


# -- one at a time --------------------------------------------------------------------------------


def test_identity_flattens():
    image = torch.arange(24.0).reshape(1, 2, 3, 4)
    assert build("identity", (2, 3, 4))(image).tolist() == [list(range(24))]


def test_an_mlp_equals_its_layers_by_hand():
    encoder = build("mlp", VECTORS)
    norm, first, second, last = (encoder.layers[i] for i in (1, 2, 4, 6))
    norm.running_mean.fill_(0.5)
    norm.running_var.fill_(4.0)
    expected = (inputs(VECTORS) - 0.5) / math.sqrt(4.0 + norm.eps)
    for layer in (first, second):
        expected = (expected @ layer.weight.T + layer.bias).clamp(min=0)
    expected = expected @ last.weight.T + last.bias
    torch.testing.assert_close(encoder(inputs(VECTORS)), expected)


def test_an_mlp_without_hidden_layers_is_linear():
    encoder = build_encoder("mlp", (2,), options={"hidden": [], "dim": 3}).eval()
    first, second = inputs((2,), 1), 3 * inputs((2,), 1)
    middle = (encoder(first) + encoder(second)) / 2
    torch.testing.assert_close(encoder((first + second) / 2), middle)


@pytest.mark.parametrize("name", CONVOLUTIONAL)
@settings(max_examples=15)
@given(channels=st.integers(1, 3), height=st.integers(1, 9), width=st.integers(1, 9))
def test_a_convolutional_encoder_takes_images_of_any_size(name, channels, height, width):
    shape = (channels, height, width)
    assert build(name, shape)(inputs(shape, 2)).shape == (2, 5)


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_a_convolutional_encoder_trains_on_the_smallest_images(name):
    encoder = build(name, (1, 1, 1)).train()
    encoder(inputs((1, 1, 1), 4)).square().sum().backward()
    assert all(weight.grad is not None for weight in encoder.parameters())


@pytest.mark.parametrize(("side", "halvings"), [(3, 0), (4, 1), (8, 2), (32, 2)])
def test_small_cnn_halves_images_larger_than_three_pixels(side, halvings):
    encoder = build("small_cnn", (1, side, side))
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in encoder.layers) == halvings


@pytest.mark.parametrize(("gamma", "expected"), [(None, 1 / 3), (0.7, 0.7)])
def test_dot_products_of_random_features_approximate_the_gaussian_kernel(gamma, expected):
    points = inputs((3,), 6).double()
    encoder = build_encoder("random_features", (3,), options={"dim": 40_000, "gamma": gamma})
    features = encoder.double()(points)
    kernel = torch.exp(-expected * torch.cdist(points, points) ** 2)
    torch.testing.assert_close(features @ features.T / encoder.dim, kernel, rtol=0, atol=0.03)


def test_random_features_are_never_trained():
    assert list(build("random_features", VECTORS).parameters()) == []


def test_random_features_tell_the_width_they_chose():
    assert build_encoder("random_features", (4,)).options() == {"dim": 1024, "gamma": 0.25}


# -- any module -----------------------------------------------------------------------------------


class Convolutions(nn.Module):
    """A user's network: takes images only, ends in a vector."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, images):
        return self.norm(self.layer(images)).mean((2, 3))


def test_a_module_is_wrapped():
    assert type(build_encoder(nn.Linear(11, 4), VECTORS)) is ModuleEncoder


def test_a_wrapped_module_tells_the_size_of_its_embedding():
    assert build_encoder(Convolutions(), IMAGES).dim == 4


def test_a_wrapped_module_is_the_users_own():
    module = Convolutions()
    assert build_encoder(module, IMAGES).module is module


def test_a_wrapped_module_encodes_as_the_module_does():
    module = Convolutions().eval()
    encoder = build_encoder(module, IMAGES)
    assert torch.equal(encoder(inputs(IMAGES)), module(inputs(IMAGES)))


def test_a_module_without_weights_is_wrapped():
    assert build_encoder(nn.Flatten(), IMAGES).dim == math.prod(IMAGES)


def test_wrapping_changes_no_weight_and_no_statistic():
    module = Convolutions()
    before = weights_digest(module)
    build_encoder(module, IMAGES)
    assert weights_digest(module) == before


@pytest.mark.parametrize("mode", [True, False])
def test_wrapping_leaves_the_training_mode(mode):
    module = Convolutions().train(mode)
    build_encoder(module, IMAGES)
    assert module.training is mode


def test_a_refused_module_keeps_its_training_mode():
    module = Convolutions().train()
    with pytest.raises(ArgumentError):
        build_encoder(module, VECTORS)
    assert module.training


def test_a_layer_that_the_user_set_to_eval_stays_so():
    module = Convolutions().train()
    module.norm.eval()
    build_encoder(module, IMAGES)
    assert not module.norm.training


def test_an_encoder_is_returned_as_it_is():
    encoder = build("mlp", VECTORS)
    assert build_encoder(encoder, VECTORS) is encoder


@pytest.mark.parametrize(
    ("module", "got"),
    [
        (nn.Identity(), r"got \(2, 3, 8, 6\)"),
        (nn.Flatten(0), r"got \(288,\)"),
        (nn.LSTM(6, 2, batch_first=True), "got tuple"),
    ],
)
def test_a_module_that_returns_no_vectors_is_refused(module, got):
    shape = (8, 6) if isinstance(module, nn.LSTM) else IMAGES
    with pytest.raises(ArgumentError, match=rf"shape \(n, dim\), but for n = 2 {got}"):
        build_encoder(module, shape)


class Asserting(nn.Module):
    """A user's network that checks its inputs by itself."""

    def forward(self, inputs):
        assert inputs.shape[1] == 4, "four channels please"
        return inputs.flatten(1)


@pytest.mark.parametrize(
    "module", [nn.Linear(5, 2), nn.Flatten(3), nn.Bilinear(1, 1, 1), nn.Module(), Asserting()]
)
def test_a_module_that_rejects_the_shape_is_refused(module):
    message = r"accept inputs of shape \(n, 11\), but it raised: \S"
    with pytest.raises(ArgumentError, match=message):
        build_encoder(module, VECTORS)


@pytest.mark.parametrize("module", [nn.Linear(11, 2), MLP(VECTORS)])
def test_options_with_a_module_are_refused(module):
    with pytest.raises(ArgumentError, match="Expected encoder options only with an encoder's name"):
        build_encoder(module, VECTORS, options={"dim": 3})


# -- by name --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resnet19", None])
def test_an_unknown_encoder_is_refused_with_the_known_names(name):
    with pytest.raises(ArgumentError) as caught:
        build_encoder(name, VECTORS)
    lite = [f"efficientnet_lite{size}" for size in range(3)]
    known = ", ".join(f"'{known}'" for known in ("auto", *KINDS, *lite))
    assert str(caught.value) == f"Expected encoder to be {known} or a module, but got {name!r}."


@pytest.mark.parametrize("name", CONVOLUTIONAL)
@pytest.mark.parametrize("shape", [VECTORS, (8, 8), (1, 2, 8, 8)])
def test_a_convolutional_encoder_refuses_what_is_no_image(name, shape):
    message = rf"Expected images of shape .* for '{name}', .* Use 'mlp' for feature"
    with pytest.raises(ArgumentError, match=message):
        build_encoder(name, shape)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp", {"width": 3}),
        ("mlp", {"hidden": 3}),
        ("mlp", {"dim": -1}),
        ("mlp", {"dim": 0}),
        ("mlp", {"hidden": [0]}),
        ("small_cnn", {"widths": [4, -4]}),
        ("small_cnn", {"dim": "large"}),
        ("small_cnn", {"dim": 0}),
        ("fast_cnn", {"dim": 0}),
        ("fast_cnn", {"width": 0}),
        ("fast_cnn", {"width": math.nan}),
        ("fast_cnn", {"width": math.inf}),
        ("fast_cnn", {"width": "half"}),
        ("fast_cnn", {"widths": [0]}),
        ("fast_cnn", {"widths": 3}),
        ("fast_cnn", {"widths": []}),
        ("fast_cnn", {"widths": "ab"}),
        ("fast_cnn", {"depth": 4}),
        ("fast_cnn", {"depth": True}),
        ("fast_cnn", {"stem": "spun"}),
        ("fast_cnn", {"precision": "bfloat16"}),
        ("resnet18", {"dim": 2.5}),
        ("resnet18", {"width": 0}),
        ("resnet18", {"width": True}),
        ("resnet18", {"stem": "large"}),
        ("identity", {"dim": 3}),
        ("random_features", {"dim": 0}),
        ("random_features", {"dim": 2.5}),
        ("random_features", {"gamma": -1}),
        ("random_features", {"gamma": math.nan}),
        ("random_features", {"gamma": math.inf}),
    ],
)
def test_bad_options_are_refused(name, options):
    with pytest.raises(
        ArgumentError, match=r"^Expected .*(dim|gamma|option|hidden|width|stem|depth)"
    ):
        build_encoder(name, IMAGES, options=options)


def test_a_refused_option_is_named():
    with pytest.raises(ArgumentError, match=r"options of the encoder 'mlp': .*'width'"):
        build_encoder("mlp", VECTORS, options={"width": 3})


@pytest.mark.usefixtures("own_registry")
def test_a_name_is_not_given_twice():
    with pytest.raises(ArgumentError, match="Expected a new name, but 'mlp' is already registered"):
        register_encoder("mlp", Identity)


@pytest.mark.usefixtures("own_registry")
def test_a_refused_registration_changes_nothing():
    with pytest.raises(ArgumentError):
        register_encoder("mlp", Identity)
    assert type(build_encoder("mlp", VECTORS)) is MLP


@pytest.mark.usefixtures("own_registry")
def test_a_new_encoder_is_built_by_its_name():
    register_encoder("tiny", lambda shape, size: MLP(shape, hidden=(), dim=size))
    assert build_encoder("tiny", VECTORS, options={"size": 2}).dim == 2


def test_an_encoder_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Encoder()
