"""Fitting from weights that are there already."""

import copy

import numpy as np
import pytest
import safetensors.torch
import torch
from sklearn.exceptions import NotFittedError
from torch import nn

from erasable import KNNClassifier, ParametricClassifier, SPMClassifier, declare
from erasable.errors import ArgumentError, ErasableError, StateError, StoreError
from models.toys import TINY, blobs, fitted, names, own_network, snapshot, state
from models.toys import remembering as remembers

X, Y = blobs(40)
NEW_X, NEW_Y = blobs(30, seed=5)
OPTIONS = TINY["encoder_options"]


def twin(**options):
    return ParametricClassifier(**{**TINY, "epochs": 3, **options}).fit(X, Y)


def adapted(init, *, epochs=0, kind=SPMClassifier, **options):
    """Return a model fitted on new rows, from these weights."""
    fit = {key: options.pop(key) for key in ("encoder_lr_factor",) if key in options}
    model = kind(epochs=epochs, random_state=1, **options)
    return model.fit(NEW_X, NEW_Y, ids=names(30, 500), init=init, **fit)


def weights(encoder):
    return {name: value.clone() for name, value in encoder.state_dict().items()}


def assert_same_weights(one, other):
    one, other = weights(one), weights(other)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def level(model, ids):
    plan = model.forget(ids=ids, dry_run=True)
    return plan.level, plan.basis


# -- what may be taken over ------------------------------------------------------------------------


@pytest.mark.parametrize("make", [twin, fitted])
@pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier])
def test_without_epochs_the_encoder_of_a_classifier_is_taken_as_it_is(make, kind):
    source = make()
    assert_same_weights(adapted(source, kind=kind).encoder_, source.encoder_)


def test_a_directory_stands_for_the_model_saved_there(tmp_path):
    source = fitted()
    source.save(tmp_path / "model")
    assert_same_weights(adapted(tmp_path / "model").encoder_, source.encoder_)
    assert_same_weights(adapted(str(tmp_path / "model")).encoder_, source.encoder_)


def test_a_module_is_taken_as_it_is():
    network = own_network()
    assert_same_weights(adapted(network).encoder_.module, network)


def test_weights_of_a_file_are_loaded_into_the_named_encoder(tmp_path):
    source = fitted().encoder_
    safetensors.torch.save_file(weights(source), tmp_path / "weights.safetensors")
    model = adapted(tmp_path / "weights.safetensors", encoder="mlp", encoder_options=OPTIONS)
    assert_same_weights(model.encoder_, source)


def test_a_named_encoder_takes_over_the_weights_of_a_classifier():
    source = fitted()
    model = adapted(source, encoder="mlp", encoder_options=OPTIONS)
    assert_same_weights(model.encoder_, source.encoder_)


def test_training_starts_from_the_weights():
    source = fitted()
    model = adapted(source, epochs=1, learning_rate=0.0)
    expected = dict(source.encoder_.named_parameters())
    found = dict(model.encoder_.named_parameters())
    assert all(torch.equal(found[name], value) for name, value in expected.items())


@pytest.mark.parametrize("make", [twin, fitted])
def test_the_source_stays_as_it_was(make):
    source = make()
    before = weights(source.encoder_)
    adapted(source, epochs=2)
    after = weights(source.encoder_)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_module_stays_as_it_was():
    network = own_network()
    before = weights(network)
    adapted(network, epochs=2)
    assert all(torch.equal(before[name], value) for name, value in weights(network).items())


def test_a_factor_of_zero_leaves_the_encoder_while_the_fusion_learns():
    source = fitted()
    model = adapted(source, epochs=2, encoder_lr_factor=0.0)
    expected = dict(source.encoder_.named_parameters())
    found = dict(model.encoder_.named_parameters())
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert not torch.equal(model.network_.fusion.W_q, torch.eye(8))


# -- before and after ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [twin, fitted])
def test_the_accuracy_of_the_source_on_the_new_rows_is_told(make):
    source = make()
    assert adapted(source).adaptation_["before"] == source.score(NEW_X, NEW_Y)


@pytest.mark.parametrize("reduction", ["prototypes", "rows", "neighbours", "gaussian"])
def test_the_accuracy_afterwards_leaves_each_row_out(reduction):
    model = adapted(fitted(), reduction=reduction, k=5)
    chances = model.predict_proba(NEW_X, exclude_ids=names(30, 500))
    expected = np.mean(model.classes_[chances.argmax(1)] == np.array(NEW_Y))
    assert model.adaptation_["after"] == expected


def test_a_module_has_no_accuracy_of_its_own():
    assert adapted(own_network()).adaptation_["before"] is None


def test_with_a_set_encoder_the_accuracy_afterwards_is_not_told():
    model = adapted(fitted(), set_encoder="graph")
    assert model.adaptation_["after"] is None


def test_a_single_row_has_no_accuracy_afterwards():
    model = SPMClassifier(epochs=0).fit(NEW_X[:1], NEW_Y[:1], init=fitted())
    assert model.adaptation_["after"] is None


def test_without_init_there_is_nothing_to_tell():
    assert not hasattr(fitted(), "adaptation_")


def test_fitting_again_without_init_leaves_no_word_of_the_first_time():
    model = adapted(fitted())
    assert not hasattr(model.fit(X, Y), "adaptation_")


# -- how far a forget reaches ----------------------------------------------------------------------


@pytest.mark.parametrize("make", [twin, fitted])
@pytest.mark.parametrize("epochs", [0, 1])
def test_rows_the_first_weights_were_trained_on_are_forgotten_from_memory_only(make, epochs):
    model = adapted(make(), epochs=epochs)
    model.remember(X[:2], Y[:2], ids=["seen by the source", "too"])
    assert level(model, ["seen by the source"]) == ("memory", "recorded")


def test_rows_a_saved_models_weights_were_trained_on_are_forgotten_from_memory_only(tmp_path):
    fitted().save(tmp_path / "model")
    model = adapted(tmp_path / "model").remember(X[:1], Y[:1], ids=["seen by the source"])
    assert level(model, ["seen by the source"]) == ("memory", "recorded")


def test_rows_of_a_fit_without_epochs_are_exact():
    assert level(adapted(fitted()), names(30, 500)) == ("exact", "recorded")


def test_rows_that_training_saw_are_forgotten_from_memory_only():
    assert level(adapted(fitted(), epochs=1), names(1, 500)) == ("memory", "recorded")


def test_rows_remembered_later_are_exact():
    model = adapted(fitted(), epochs=1).remember(*blobs(2, seed=9), ids=["p", "q"])
    assert level(model, ["p", "q"]) == ("exact", "recorded")


def test_rows_that_were_only_remembered_by_the_source_are_exact():
    source = fitted().remember(*blobs(2, seed=9), ids=["p", "q"])
    model = adapted(source).remember(*blobs(2, seed=9), ids=["p", "q"])
    assert level(model, ["p", "q"]) == ("exact", "recorded")


def test_a_named_encoder_carries_the_record_of_the_weights_it_took_over():
    model = adapted(fitted(), encoder="mlp", encoder_options=OPTIONS)
    model.remember(X[:1], Y[:1], ids=["seen by the source"])
    assert level(model, ["seen by the source"]) == ("memory", "recorded")


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_module_of_unknown_origin_may_have_seen_everything(epochs):
    model = adapted(own_network(), epochs=epochs).remember(*blobs(1, seed=9), ids=["p"])
    assert level(model, ["p"]) == ("memory", "unknown")


def test_a_declared_module_is_exact_on_the_users_word():
    model = adapted(declare(own_network(), "public data"))
    assert level(model, names(30, 500)) == ("exact", "declared")


def test_weights_of_a_file_may_have_seen_everything(tmp_path):
    safetensors.torch.save_file(weights(fitted().encoder_), tmp_path / "w.safetensors")
    model = adapted(tmp_path / "w.safetensors", encoder="mlp", encoder_options=OPTIONS)
    assert level(model, names(1, 500)) == ("memory", "unknown")


def test_weights_that_were_changed_since_may_have_seen_everything():
    source = fitted()
    with torch.no_grad():
        next(source.encoder_.parameters()).add_(1)
    assert level(adapted(source), names(1, 500)) == ("memory", "unknown")


# -- refusals --------------------------------------------------------------------------------------


def _misfit_file(path):
    safetensors.torch.save_file({"weight": torch.ones(2)}, path / "w.safetensors")
    return path / "w.safetensors"


def _no_tensors(path):
    (path / "w.safetensors").write_bytes(b"no tensors")
    return path / "w.safetensors"


WRONG = {
    "a number": (lambda path: 3, ArgumentError, "Expected init to be a fitted classifier"),
    "weights by themselves": (lambda path: {}, ArgumentError, "but got dict"),
    "a classifier of other inputs": (
        lambda path: SPMClassifier(**TINY, epochs=0).fit(np.eye(3), [*"abc"]),
        ArgumentError,
        r"like those init was fitted on, \(3,\), but got \(4,\)",
    ),
    "a network of other inputs": (lambda path: nn.Linear(3, 2), ErasableError, "inputs of shape"),
    "a network that returns no embeddings": (
        lambda path: nn.Unflatten(1, (2, 2)),
        ArgumentError,
        r"of shape \(n, dim\), but for n = 2 got \(2, 2, 2\)",
    ),
    "a folder without a model": (lambda path: path, StoreError, "Expected a saved model in"),
    "a file that is not there": (lambda path: path / "none", StoreError, "Expected the directory"),
    "a file without tensors": (_no_tensors, StoreError, "Expected the directory of a saved model"),
    "a file of other weights": (_misfit_file, StateError, "that fit the encoder, but"),
    "a classifier that was never fitted": (
        lambda path: SPMClassifier(),
        NotFittedError,
        "This SPMClassifier instance is not fitted yet",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_init_is_refused_and_nothing_changes(name, tmp_path):
    make, kind, message = WRONG[name]
    model = fitted(encoder="auto", encoder_options=OPTIONS)
    before, wrong = snapshot(model), make(tmp_path)
    with pytest.raises(kind, match=message):
        model.fit(NEW_X, NEW_Y, init=wrong)
    assert snapshot(model) == before


def test_weights_that_do_not_fit_the_named_encoder_are_refused():
    with pytest.raises(ErasableError):
        adapted(fitted(), encoder="mlp", encoder_options={"hidden": [3], "dim": 8})


@pytest.mark.parametrize("factor", [-1.0, "small", None])
def test_a_factor_that_is_none_is_refused_and_nothing_changes(factor):
    model = fitted()
    before = snapshot(model)
    with pytest.raises(ArgumentError, match="Expected encoder_lr_factor in"):
        model.fit(NEW_X, NEW_Y, encoder_lr_factor=factor)
    assert snapshot(model) == before


def test_the_source_may_be_the_model_itself():
    model = fitted(encoder="auto", encoder_options=None)
    first = copy.deepcopy(model.encoder_)
    model.set_params(epochs=0).fit(NEW_X, NEW_Y, init=model)
    assert_same_weights(model.encoder_, first)
    assert len(state(model)[0]) > 0


def test_a_source_that_only_remembers_can_be_adapted():
    source = remembers(encoder="random_features", encoder_options={"dim": 8})
    assert_same_weights(adapted(source).encoder_, source.encoder_)
