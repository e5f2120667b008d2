"""Encoders of users: which are known, which are tried, and what is said of the others."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from erasable import KNNClassifier, SPMClassifier, convert, declare, load
from erasable.encoders import Encoder, cut
from erasable.errors import ArgumentError, StateError
from erasable.models import provenance_of
from erasable.models._fingerprint import UnreadableError, fingerprint
from erasable.models._overlap import is_row_of, names_data
from erasable.models._stateless import unknowns
from models.toys import blobs, fitted, names, own_network


class Shifted(nn.Module):
    """A user's network of one input, with all that such networks hold."""

    def __init__(self, by=0.5):
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.by = torch.full((4,), by)
        self.settings = {"steps": [1, 2], "name": "x"}
        self.register_forward_hook(lambda module, inputs, output: output + by)

    def forward(self, inputs):
        return self.layer(inputs - self.by)


class Centred(nn.Module):
    """A network that centres each batch."""

    def forward(self, inputs):
        return inputs - inputs.mean(0)


class Summing(nn.Module):
    """A network that adds up what it encodes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.sums = []

    def forward(self, inputs):
        self.sums.append(inputs.sum(0))
        return self.layer(inputs)


class Relational(Encoder):
    """An encoder that says that it mixes rows."""

    name = "relational"
    is_relational = True

    @property
    def dim(self):
        return 4

    def options(self):
        return {}

    def forward(self, inputs):
        return inputs - inputs.mean(0)


def remembered(encoder, *, kind=SPMClassifier, **options):
    return kind(encoder, **options).remember(*blobs(24), ids=names(24))


class Unreadable:
    """A value that can be copied but not read."""

    def __deepcopy__(self, memo):
        return self

    def __reduce_ex__(self, version):
        raise TypeError("there is no way to read this")


def level(model, ids=None):
    plan = model.forget(ids=ids or names(1), dry_run=True)
    return plan.level, plan.basis


# -- what is known ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.Flatten(), nn.LayerNorm(4, elementwise_affine=False), nn.Softmax(dim=-1)),
        nn.Sequential(nn.Unflatten(1, (2, 2)), nn.AvgPool1d(2), nn.Flatten()),
        nn.BatchNorm1d(4, affine=False),
        nn.Dropout(),
        cut(nn.Sequential(nn.Flatten(), nn.Tanh(), nn.Identity()), "1"),
    ],
    ids=lambda network: type(network).__name__,
)
def test_a_network_of_known_layers_is_known(network):
    assert unknowns(network) == []


def test_a_network_of_known_layers_without_weights_is_exact():
    network = nn.Sequential(nn.Flatten(), nn.Tanh(), nn.Softmax(dim=1))
    assert level(remembered(network)) == ("exact", "recorded")


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (nn.Softmax(dim=0), "mix the rows"),
        (nn.Softmax(), "mix the rows"),
        (nn.BatchNorm1d(4, track_running_stats=False), "mix the rows"),
        (nn.Flatten(0), "mix the rows"),
        (Shifted(), "Shifted"),
        (nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), "ParametrizedLinear"),
        (nn.LazyLinear(3), "LazyLinear"),
    ],
    ids=str,
)
def test_it_is_said_what_is_not_known(network, reason):
    assert any(reason in found for found in unknowns(network))


def test_a_receipt_says_why_an_encoder_is_of_unknown_origin():
    network = nn.Flatten()
    network.register_forward_hook(lambda module, inputs, output: 2 * output)
    receipt = remembered(network).forget(ids=names(1))
    assert receipt.level == "memory"
    assert "has forward hooks" in receipt.notes[0]


def test_the_encoders_of_trained_models_are_known():
    assert unknowns(fitted().network_) == []
    assert unknowns(KNNClassifier(epochs=1).fit(*blobs(20)).network_) == []


# -- what is tried ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Shifted, own_network])
@pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier])
def test_a_declared_network_that_passes_is_exact_as_declared(make, kind):
    model = remembered(declare(make(), "a public source"), kind=kind)
    assert level(model) == ("exact", "declared")


def test_a_declared_network_stays_exact_while_it_is_used(tmp_path):
    model = remembered(declare(Shifted(), "a public source"))
    model.predict(blobs(9, seed=3)[0])
    model.remember(*blobs(300, seed=4), ids=names(300, 500))
    copied = copy.deepcopy(model)
    assert level(copied, names(300, 500)) == level(model) == ("exact", "declared")


def test_a_declared_network_is_exact_after_training_others():
    model = SPMClassifier(declare(Shifted(), "public"), epochs=1).fit(*blobs(20), ids=names(20))
    model.remember(*blobs(4, seed=3), ids=["a", "b", "c", "d"])
    assert level(model) == ("memory", "recorded")
    assert level(model, ["a"]) == ("exact", "declared")


def test_a_compiled_network_that_passes_is_exact_as_declared():
    network = declare(torch.compile(own_network(), backend="eager"), "a public source")
    assert level(remembered(network)) == ("exact", "declared")


def test_weights_that_two_layers_share_are_no_reason_to_refuse():
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    network[2].weight = network[0].weight
    assert level(remembered(declare(network, "a public source"))) == ("exact", "declared")


def test_a_converted_network_of_a_users_class_is_exact_as_declared():
    network = nn.Sequential(Shifted(), nn.Linear(6, 2))
    model = convert(declare(network, "a public source"), "0")
    assert level(model.remember(*blobs(8), ids=names(8))) == ("exact", "declared")


@pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier])
@pytest.mark.parametrize("make", [Centred, Summing])
def test_an_encoder_that_fails_is_refused_by_remember(make, kind):
    with pytest.raises(ArgumentError, match="pass allow_memory_level=True"):
        remembered(make(), kind=kind)


@pytest.mark.parametrize("epochs", [0, 1])
def test_an_encoder_that_fails_is_refused_by_fit(epochs):
    model = SPMClassifier(Summing(), epochs=epochs)
    with pytest.raises(ArgumentError, match="encoding changes what it holds"):
        model.fit(*blobs(20))
    assert not hasattr(model, "network_")


def test_an_encoder_that_fails_is_refused_by_pretrain():
    with pytest.raises(ArgumentError, match="alone and in a batch of others differently"):
        SPMClassifier(Centred(), epochs=1).pretrain(*blobs(20))


def test_an_encoder_that_fails_is_refused_by_init():
    source = nn.Sequential(Centred(), nn.Linear(4, 4))
    with pytest.raises(ArgumentError, match="alone and in a batch"):
        SPMClassifier(epochs=0).fit(*blobs(20), init=source)


def test_an_encoder_whose_state_cannot_be_read_is_refused():
    network = Shifted()
    network.kept = Unreadable()
    with pytest.raises(ArgumentError, match="holds a value of the type Unreadable"):
        remembered(network)


@pytest.mark.parametrize("make", [Centred, Summing])
@pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier])
def test_an_accepted_encoder_is_never_exact(make, kind):
    model = remembered(declare(make(), "public"), kind=kind, allow_memory_level=True)
    assert level(model) == ("memory", "unknown")


class NotAlone(nn.Module):
    """A network that gives no numbers for a row that comes alone, and mixes others."""

    def forward(self, inputs):
        return inputs - inputs.mean(0) if len(inputs) > 1 else inputs * torch.nan


def test_an_encoder_that_gives_no_numbers_alone_is_refused():
    with pytest.raises(ArgumentError, match="alone and in a batch"):
        remembered(NotAlone())


def test_numbers_that_are_too_large_are_not_taken_for_mixing():
    network = nn.Linear(4, 8)
    with torch.no_grad():
        network.weight.fill_(1e38)
    with pytest.raises(ArgumentError, match="finite"):
        remembered(network, normalize="none")


def test_an_accepted_encoder_is_saved_as_accepted(tmp_path):
    remembered(declare(Centred(), "public"), allow_memory_level=True).save(tmp_path / "m")
    model = load(tmp_path / "m", encoder=Centred())
    assert model.allow_memory_level is True
    assert level(model) == ("memory", "unknown")


def test_a_wrong_allow_memory_level_is_not_saved(tmp_path):
    with pytest.raises(ArgumentError, match="allow_memory_level to be True or False"):
        remembered("identity").set_params(allow_memory_level="yes").save(tmp_path / "m")


def test_a_relational_encoder_is_not_tried_and_never_exact():
    assert level(remembered(declare(Relational(), "public"))) == ("memory", "unknown")


def test_a_set_encoder_does_not_change_the_level():
    model = remembered("identity", set_encoder="graph")
    assert level(model) == ("exact", "recorded")


# -- saving and loading ----------------------------------------------------------------------------


def test_a_network_that_holds_the_same_is_exact_after_loading(tmp_path):
    remembered(declare(Shifted(), "public")).save(tmp_path / "m")
    assert level(load(tmp_path / "m", encoder=Shifted())) == ("exact", "declared")


def test_a_network_that_holds_something_else_is_not_exact_after_loading(tmp_path):
    remembered(declare(Shifted(), "public")).save(tmp_path / "m")
    assert level(load(tmp_path / "m", encoder=Shifted(0.25))) == ("memory", "unknown")


def test_a_network_that_fails_is_refused_by_load_unless_it_is_accepted(tmp_path):
    remembered(declare(own_network(), "public")).save(tmp_path / "m")
    failing = own_network()
    failing.register_forward_hook(lambda module, inputs, output: output - output.mean(0))
    with pytest.raises(ArgumentError, match="pass allow_memory_level=True"):
        load(tmp_path / "m", encoder=failing)
    model = load(tmp_path / "m", encoder=failing, allow_memory_level=True)
    assert level(model) == ("memory", "unknown")


# -- fingerprints ----------------------------------------------------------------------------------


def test_a_copy_has_the_same_fingerprint():
    network = Shifted()
    assert fingerprint(copy.deepcopy(network)) == fingerprint(network)


def test_encoding_and_modes_leave_the_fingerprint():
    network = Shifted()
    before = fingerprint(network)
    network.train()(torch.rand(3, 4))
    network.eval()(torch.rand(2, 4))
    assert fingerprint(network) == before


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None)
@given(VALUES, VALUES)
def test_fingerprints_are_equal_exactly_where_values_are(one, other):
    first, second = nn.Identity(), nn.Identity()
    first.kept, second.kept = one, other
    assert (fingerprint(first) == fingerprint(second)) == (repr(one) == repr(other))


@pytest.mark.parametrize(
    "change",
    [
        lambda network: network.by.add_(1),
        lambda network: network.settings["steps"].append(3),
        lambda network: setattr(network, "late", np.ones(2)),
        lambda network: network.register_buffer("late", torch.ones(2)),
        lambda network: network.layer.register_forward_pre_hook(print),
        lambda network: setattr(network, "forward", print),
        lambda network: setattr(network.layer, "bias", None),
    ],
)
def test_a_change_shows_in_the_fingerprint(change):
    network = Shifted()
    before = fingerprint(network)
    change(network)
    assert fingerprint(network) != before


def test_a_value_without_readable_state_has_no_fingerprint():
    network = nn.Identity()
    network.kept = (row for row in [1])
    with pytest.raises(UnreadableError):
        fingerprint(network)


def test_a_network_that_holds_itself_has_a_fingerprint():
    network = nn.Identity()
    network.kept = [network]
    assert fingerprint(network) == fingerprint(copy.deepcopy(network))


# -- declaring -------------------------------------------------------------------------------------


def test_copied_weights_of_a_training_are_refused_with_a_way_out():
    copied = copy.deepcopy(fitted().encoder_.layers)
    fresh = nn.Sequential(*[(type(layer) is nn.Linear and layer) or layer for layer in copied])
    with pytest.raises(StateError, match="produced by a training in this process"):
        declare(fresh, "ImageNet")
    declare(fresh, "ImageNet", overlap=True)
    assert level(remembered(fresh)) == ("memory", "unknown")


def test_weights_that_training_left_as_they_were_may_be_declared():
    source = own_network()
    for parameter in source.parameters():
        parameter.requires_grad_(requires_grad=False)
    declare(source, "ImageNet")
    model = SPMClassifier(source, epochs=1).fit(*blobs(20), ids=names(20))
    assert provenance_of(declare(copy.deepcopy(source), "ImageNet")).sources[0].basis == "declared"
    assert level(model) == ("memory", "recorded")


def test_a_declared_source_that_may_overlap_makes_no_row_exact():
    network = declare(own_network(), "the whole web", overlap=True)
    assert level(remembered(network)) == ("memory", "unknown")


def test_a_lazy_network_is_declared_once_it_has_its_weights():
    network = nn.Sequential(nn.LazyLinear(3))
    with pytest.raises(StateError, match="lazy modules"):
        declare(network, "public")
    network(torch.zeros(1, 4))
    assert level(remembered(declare(network, "public"))) == ("exact", "declared")


@pytest.mark.parametrize("source", ["", "  ", 3, None])
def test_a_source_has_a_name(source):
    with pytest.raises(ArgumentError, match="name of a source"):
        declare(own_network(), source)


@pytest.mark.parametrize(
    ("source", "data", "expected"),
    [
        ("CIFAR-10", "cifar10", True),
        ("cifar 10 (train)", "cifar10", True),
        ("CIFAR-100", "cifar10", False),
        ("Fashion-MNIST", "mnist", False),
        ("FashionMNIST", "fashion-mnist", True),
        ("MNIST", "fashion-mnist", False),
        ("ImageNet-1k", "/data/imagenet-1k/val", True),
        ("ImageNet-1k", "cifar10", False),
        ("ImageNet-1k", "/data/flowers", False),
        ("CIFAR-10", "/data/cifar10.npz", True),
    ],
)
def test_a_source_names_data_in_whatever_spelling(source, data, expected):
    assert names_data(source, data) is expected


def test_ids_of_known_data_sets_say_where_rows_come_from():
    assert is_row_of("CIFAR-10", "cifar10/train/7")
    assert not is_row_of("CIFAR-10", "mnist/train/7")
    assert not is_row_of("CIFAR-10", 7)
    assert not is_row_of("CIFAR-10", "cifar10")


# -- choices ---------------------------------------------------------------------------------------


def tuned(**options):
    X, y = blobs(40)
    model = KNNClassifier("identity", k=1).remember(X[:20], y[:20], ids=names(20))
    return model.tune(X[20:30], y[20:30], ks=[1, 3], **options)


def test_rows_that_came_after_the_choice_are_exact():
    model = tuned().remember(*blobs(2, seed=9), ids=["a", "b"])
    assert level(model, ["a"]) == ("exact", "recorded")
    assert level(model, names(1)) == ("memory", "recorded")


def test_rows_that_chose_are_recognised_by_id_and_by_content():
    model = tuned(ids=names(10, 20))
    X, y = blobs(40)
    model.remember(X[20:21], y[20:21], ids=["a copy"])
    model.remember(*blobs(1, seed=9), ids=names(1, 21))
    assert level(model, ["a copy"]) == level(model, names(1, 21)) == ("memory", "recorded")


def test_a_wrong_number_of_ids_leaves_the_model_as_it_was():
    model = KNNClassifier("identity", k=1).remember(*blobs(20), ids=names(20))
    with pytest.raises(ArgumentError):
        model.tune(*blobs(10, seed=2), ks=[1, 3], ids=names(9, 50))
    assert (model.k, level(model)) == (1, ("exact", "recorded"))
