import copy
import itertools
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call

from erasable.encoders import ResNet18, build_encoder, cut
from erasable.errors import ArgumentError, StateError
from erasable.weights import load_weights, weights_digest

IMAGES = (3, 8, 8)


def inputs(shape=IMAGES, count=5):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(1))


def convolutions():
    """Return a classifier that is one long chain."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(144, 6),
        nn.ReLU(),
        nn.Linear(6, 10),
    )


class Branches(nn.Module):
    """A classifier whose order of parts is known only to its forward pass."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 10)
        self.left = nn.Linear(12, 8)
        self.right = nn.Linear(12, 8)
        self.merge = nn.Bilinear(8, 8, 8)
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.left_out = nn.Linear(8, 8)
        self.act = nn.ReLU()

    def forward(self, rows):
        left = self.act(self.left(rows.flatten(1)))
        right = self.act(self.right(rows.flatten(1))) * self.scale
        return self.head(self.merge(left, right))


class Tokens(nn.Module):
    """A transformer: reads weights of parts it never calls, and settings of parts not reached."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 10)

    def forward(self, images):
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        return self.head(self.blocks(tokens).mean(1))


class WithHead(nn.Module):
    """A body and, for training only, a side branch; then a head."""

    def __init__(self, body, dim, side=None):
        super().__init__()
        self.body = body
        self.side = side
        self.head = nn.Linear(dim, 10)

    def forward(self, rows):
        if self.training and self.side is not None:
            self.side(rows)
        return self.head(self.body(rows))


def residual():
    return WithHead(ResNet18(IMAGES, width=2), 16)


NETWORKS = {
    "chain": (convolutions, "3"),
    "branches": (Branches, "merge"),
    "residual": (residual, "body.layer3"),
    "tokens": (Tokens, "blocks.layers.0.linear1"),
}
ALL = pytest.mark.parametrize(("build", "layer"), NETWORKS.values(), ids=NETWORKS.keys())


def shape_of(build):
    return (12,) if build is Branches else IMAGES


def output_of(model, layer, rows):
    """Return what a layer returns, the slow way: run everything and look."""
    seen = []
    handle = model.get_submodule(layer).register_forward_hook(lambda *call: seen.append(call[2]))
    model(rows)
    handle.remove()
    return seen[0]


def pooled(output):
    while output.ndim > 2:
        output = output.mean(1) if output.ndim == 3 else output.flatten(2).transpose(1, 2)
    return output


# -- what it computes -----------------------------------------------------------------------------


@ALL
def test_a_cut_network_returns_the_layers_output(build, layer):
    model, rows = build().eval(), inputs(shape_of(build))
    expected = pooled(output_of(copy.deepcopy(model), layer, rows))
    torch.testing.assert_close(cut(model, layer)(rows), expected)


@ALL
def test_a_trimmed_network_encodes_the_same_bits(build, layer):
    model, rows = build().eval(), inputs(shape_of(build))
    trimmed = cut(model, layer, input_shape=shape_of(build))
    assert torch.equal(trimmed(rows), cut(model, layer)(rows))


@ALL
def test_encoding_twice_gives_the_same_bits(build, layer):
    encoder, rows = cut(build().eval(), layer), inputs(shape_of(build))
    assert torch.equal(encoder(rows), encoder(rows))


@ALL
def test_an_embedding_does_not_depend_on_the_rest_of_the_batch(build, layer):
    encoder, rows = cut(build().eval(), layer).double(), inputs(shape_of(build)).double()
    alone = torch.cat([encoder(row[None]) for row in rows])
    torch.testing.assert_close(encoder(rows), alone, rtol=0, atol=1e-12)


@settings(max_examples=20)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.data())
def test_any_layer_of_any_chain_equals_the_chain_until_there(widths, data):
    layers = [nn.Linear(i, o) for i, o in itertools.pairwise(widths)]
    last = data.draw(st.integers(0, len(layers) - 1))
    rows = inputs((widths[0],))
    encoder = cut(nn.Sequential(*layers), str(last), input_shape=(widths[0],))
    assert torch.equal(encoder(rows), nn.Sequential(*layers[: last + 1])(rows))


@pytest.mark.parametrize(
    ("layer", "size"), [("0", 4), ("2", 4), ("3", 144), ("4", 6), ("6", 10), ("", 10)]
)
def test_a_layer_at_any_depth_makes_an_encoder(layer, size):
    assert build_encoder(cut(convolutions(), layer), IMAGES).dim == size


def test_feature_maps_are_averaged_over_the_image():
    model = convolutions().eval()
    torch.testing.assert_close(cut(model, "0")(inputs()), model[0](inputs()).mean((2, 3)))


def test_sequences_are_averaged_over_their_tokens():
    model = Tokens().eval()
    expected = output_of(copy.deepcopy(model), "blocks", inputs()).mean(1)
    torch.testing.assert_close(cut(model, "blocks")(inputs()), expected)


def test_a_layer_that_runs_twice_counts_the_first_time():
    model, rows = Branches().eval(), inputs((12,))
    assert torch.equal(cut(model, "act")(rows), model.left(rows).relu())


def test_a_shared_layer_is_known_by_each_of_its_names():
    layer = nn.Linear(3, 3)
    rows = inputs((3,))
    assert torch.equal(cut(nn.Sequential(layer, layer), "1")(rows), layer(rows))


def test_what_comes_after_the_layer_does_not_run():
    class Explosive(nn.Module):
        def forward(self, rows):
            raise AssertionError

    model = nn.Sequential(nn.Linear(3, 2), Explosive())
    assert cut(model, "0")(inputs((3,))).shape == (5, 2)


def test_a_network_that_catches_exceptions_is_stopped_all_the_same():
    class Careful(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, rows):
            try:
                return self.layer(rows)
            except Exception:
                return rows

    model = Careful()
    assert torch.equal(cut(model, "layer")(inputs((3,))), model.layer(inputs((3,))))


def test_a_cut_network_can_be_cut_again():
    model = convolutions().eval()
    assert torch.equal(cut(cut(model, "3"), "model.1")(inputs()), cut(model, "1")(inputs()))


def test_a_cut_network_can_be_a_part_of_a_cut_network():
    inner = cut(convolutions().eval(), "3")
    outer = cut(nn.Sequential(inner, nn.ReLU(), nn.Linear(144, 2)), "1")
    assert torch.equal(outer(inputs()), inner(inputs()).relu())


# -- as a module ----------------------------------------------------------------------------------


@ALL
def test_it_runs_in_float64_by_functional_call(build, layer):
    shape = shape_of(build)
    encoder = build_encoder(cut(build().eval(), layer), shape)
    state = {k: v.double() for k, v in encoder.state_dict().items() if v.is_floating_point()}
    with torch.no_grad():
        precise = functional_call(encoder, state, (inputs(shape).double(),))
        torch.testing.assert_close(precise.float(), encoder(inputs(shape)))
    assert precise.dtype == torch.float64


def test_it_runs_without_gradients():
    with torch.no_grad():
        assert not cut(convolutions(), "3")(inputs()).requires_grad


def test_a_copy_stands_on_its_own():
    encoder = cut(convolutions().eval(), "3")
    twin, before = copy.deepcopy(encoder), encoder(inputs())
    nn.init.zeros_(encoder.model[0].weight)
    assert torch.equal(twin(inputs()), before)


def test_its_weights_load_into_another_one():
    encoder, other = (cut(convolutions().eval(), "3", input_shape=IMAGES) for _ in range(2))
    other.load_state_dict(encoder.state_dict())
    assert torch.equal(other(inputs()), encoder(inputs()))


@ALL
def test_every_weight_that_is_left_gets_a_gradient(build, layer):
    shape = shape_of(build)
    encoder = build_encoder(cut(build().train(), layer), shape)
    encoder(inputs(shape)).square().sum().backward()
    idle = [name for name, weight in encoder.named_parameters() if weight.grad is None]
    assert idle == []


def test_gradients_are_those_of_the_layer():
    model = convolutions().eval()
    encoder = cut(model, "0")
    encoder(inputs()).sum().backward()
    model[0](inputs()).mean((2, 3)).sum().backward()
    torch.testing.assert_close(encoder.model[0].weight.grad, model[0].weight.grad)


def test_threads_do_not_meet():
    class Meeting(nn.Module):
        barrier = threading.Barrier(2, timeout=20)

        def forward(self, rows):
            self.barrier.wait()
            return rows

    model = nn.Sequential(nn.Linear(3, 3), Meeting(), nn.Identity(), Meeting())
    encoder = cut(model, "2")
    batches = [inputs((3,)), -inputs((3,))]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(encoder, batches))
    assert all(map(torch.equal, found, map(model[0], batches)))


# -- the user's network ---------------------------------------------------------------------------


@ALL
def test_the_users_network_is_left_as_it_was(build, layer):
    model = build().train()
    next(iter(model.children())).eval()
    before, modes = weights_digest(model), [part.training for part in model.modules()]
    encoder = build_encoder(cut(model, layer), shape_of(build)).train()
    encoder(inputs(shape_of(build)))
    assert weights_digest(model) == before
    assert [part.training for part in model.modules()] == modes
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


@ALL
def test_no_weight_is_shared_with_the_users_network(build, layer):
    model = build()
    mine = {weight.data_ptr() for weight in model.parameters()}
    assert not mine & {weight.data_ptr() for weight in cut(model, layer).parameters()}


@pytest.mark.parametrize("mode", [True, False])
def test_the_training_mode_is_kept(mode):
    encoder = cut(convolutions().train(mode), "3", input_shape=IMAGES)
    assert all(part.training is mode for part in encoder.model)


def test_frozen_weights_stay_frozen():
    model = convolutions().requires_grad_(False)
    encoder = cut(model, "3", input_shape=IMAGES)
    assert not any(weight.requires_grad for weight in encoder.parameters())


def test_the_users_own_hooks_run_in_the_copy():
    model = convolutions().eval()
    model[3].register_forward_hook(lambda *call: call[2] + 1)
    assert torch.equal(cut(model, "3")(inputs()), output_of(model, "3", inputs()))


# -- parts that are never used --------------------------------------------------------------------


def test_the_head_is_not_among_the_weights():
    encoder = cut(Branches(), "merge", input_shape=(12,))
    parts = {name.split(".")[1] for name in encoder.state_dict()}
    assert parts == {"scale", "left", "right", "merge"}


def test_a_part_of_a_block_that_was_stopped_midway_is_dropped():
    encoder = cut(residual(), "body.layer4.0.bn1", input_shape=IMAGES)
    parts = {name.rpartition(".")[0] for name in encoder.state_dict() if "layer4" in name}
    assert parts == {"model.body.layer4.0.conv1", "model.body.layer4.0.bn1"}


def test_weights_that_attention_reads_without_a_call_are_kept():
    encoder = cut(Tokens(), "blocks.layers.0", input_shape=IMAGES)
    assert "model.blocks.layers.0.self_attn.out_proj.weight" in encoder.state_dict()


def test_weights_that_are_read_by_hand_are_kept():
    class ByHand(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 2)
            self.second = nn.Linear(2, 2)
            self.last = nn.Identity()
            self.head = nn.Linear(2, 5)

        def forward(self, rows):
            embeddings = torch.cat(
                [self.first.forward(rows), rows @ self.second.weight.new_ones(3, 1)], 1
            )
            return self.head(self.last(embeddings))

    encoder = cut(ByHand(), "last", input_shape=(3,))
    assert {name.split(".")[1] for name in encoder.state_dict()} == {"first", "second"}


def test_the_digest_does_not_depend_on_the_head():
    model = convolutions()
    before = weights_digest(cut(model, "3", input_shape=IMAGES))
    nn.init.zeros_(model[6].weight)
    assert weights_digest(cut(model, "3", input_shape=IMAGES)) == before


def test_an_encoder_is_trimmed_without_being_told_the_shape():
    model = convolutions()
    encoder = build_encoder(cut(model, "3"), IMAGES)
    trimmed = cut(model, "3", input_shape=IMAGES)
    assert list(encoder.module.state_dict()) == list(trimmed.state_dict())


def test_making_an_encoder_leaves_the_cut_network_as_it_was():
    whole = cut(convolutions(), "3")
    before = weights_digest(whole)
    build_encoder(whole, IMAGES)
    assert weights_digest(whole) == before


def test_a_trimmed_network_is_trimmed_again_to_itself():
    encoder = build_encoder(cut(convolutions(), "3", input_shape=IMAGES), IMAGES)
    trimmed = cut(convolutions(), "3", input_shape=IMAGES)
    load_weights(encoder.module, dict(trimmed.state_dict()))
    assert weights_digest(encoder.module) == weights_digest(trimmed)


def test_trimming_leaves_statistics_and_random_state_as_they_were():
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(3), nn.Linear(3, 3)).train()
    before = torch.get_rng_state()
    encoder = cut(model, "2", input_shape=(3,))
    assert torch.equal(torch.get_rng_state(), before)
    assert encoder.model[1].num_batches_tracked == 0


def test_a_part_for_training_only_is_kept():
    encoder = cut(WithHead(nn.Linear(3, 2), 2, side=nn.Linear(3, 2)), "body", input_shape=(3,))
    assert encoder.train()(inputs((3,))).shape == (5, 2)


def test_a_network_that_cannot_be_trained_is_cut_too():
    class Untrainable(nn.Module):
        def forward(self, rows):
            raise ValueError

    encoder = cut(WithHead(nn.Linear(3, 2), 2, side=Untrainable()), "body", input_shape=(3,))
    assert encoder.eval()(inputs((3,))).shape == (5, 2)


class Choosing(nn.Module):
    """A network that takes another way for positive inputs."""

    def __init__(self):
        super().__init__()
        self.zero, self.positive = nn.Linear(3, 2), nn.Linear(3, 2)
        self.end = nn.Identity()

    def forward(self, rows):
        return self.end(self.positive(rows) if (rows > 0).any() else self.zero(rows))


def test_a_dropped_part_refuses_to_run():
    encoder = cut(Choosing(), "end", input_shape=(3,))
    message = r"but 'model\.positive' was called, which was dropped .* wrap the result in nn\.Seq"
    with pytest.raises(StateError, match=message):
        encoder(torch.ones(5, 3))


def test_a_dropped_part_tells_what_was_asked_of_it():
    encoder = cut(Choosing(), "end", input_shape=(3,))
    with pytest.raises(
        AttributeError, match=r"'model\.positive' was asked for 'weight', which was"
    ):
        _ = encoder.model.positive.weight


def test_a_dropped_part_keeps_its_plain_settings():
    encoder = cut(Choosing(), "end", input_shape=(3,))
    assert encoder.model.positive.in_features == 3


def test_a_dropped_part_is_copied_with_the_network():
    encoder = copy.deepcopy(cut(Choosing(), "end", input_shape=(3,)))
    assert encoder(torch.zeros(5, 3)).shape == (5, 2)


def test_inside_a_sequential_every_part_is_kept():
    encoder = build_encoder(nn.Sequential(cut(Choosing(), "end")), (3,))
    assert encoder(torch.ones(5, 3)).shape == (5, 2)


# -- refusals -------------------------------------------------------------------------------------


def test_an_unknown_layer_is_refused_with_the_known_names():
    with pytest.raises(ArgumentError) as caught:
        cut(convolutions(), "fc")
    known = "'0', '1', '2', '3', '4' and 2 more"
    assert str(caught.value) == (
        f"Expected the name of a layer, but got 'fc'. The network has {known}: see "
        "model.named_modules()."
    )


def test_a_network_without_layers_says_so():
    with pytest.raises(ArgumentError, match="The network has none"):
        cut(nn.Linear(2, 2), "fc")


@pytest.mark.parametrize("shape", [None, (12,)])
def test_a_layer_that_never_runs_is_refused(shape):
    with pytest.raises(ArgumentError, match="Expected the layer 'left_out' to run when inputs are"):
        cut(Branches(), "left_out", input_shape=shape)(inputs((12,)))


def test_an_encoder_of_a_layer_that_never_runs_is_refused():
    with pytest.raises(ArgumentError, match=r"^Expected the layer 'left_out' to run when inputs"):
        build_encoder(cut(Branches(), "left_out"), (12,))


def test_a_shape_that_the_network_rejects_is_refused():
    with pytest.raises(ArgumentError, match=r"accept inputs of shape \(n, 5\), but it raised: \S"):
        cut(Branches(), "merge", input_shape=(5,))


def test_a_layer_that_returns_no_tensor_is_refused_as_an_encoder():
    encoder = cut(Tokens(), "blocks.layers.0.self_attn")
    with pytest.raises(ArgumentError, match=r"shape \(n, dim\), but for n = 2 got tuple"):
        build_encoder(encoder, IMAGES)


def test_scripted_networks_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is on its way out
        scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(ArgumentError, match="network of Python modules, but got TorchScript"):
        cut(nn.Sequential(scripted), "0")
