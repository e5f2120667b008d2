"""How far a forget reaches: the level of each request, and how it is known."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from erasable import ParametricClassifier, SPMClassifier, audit, declare, load
from erasable.encoders import build_encoder
from erasable.models import Provenance, Source, provenance_of
from erasable.models._provenance import record_rows
from models.toys import TINY, blobs, fitted, forget_keys, names, own_network, remembering


def level(model, ids):
    """Return level and basis of a request, without carrying it out."""
    plan = model.forget(ids=ids, dry_run=True)
    return plan.level, plan.basis


def frozen(encoder, *, count=6, seed=7, **options):
    """Return a model with a given encoder that only remembers rows nobody trained on."""
    X, y = blobs(count, seed=seed)
    return SPMClassifier(encoder, **options).remember(X, y, ids=names(count, 1000))


# -- rows of fit and rows of remember -------------------------------------------------------------


def test_rows_of_fit_are_forgotten_from_memory_only():
    assert level(fitted(), names(1)) == ("memory", "recorded")


def test_rows_remembered_after_fit_are_exact():
    X, y = blobs(4, seed=1)
    model = fitted().remember(X, y, ids=names(4, 100))
    assert level(model, names(4, 100)) == ("exact", "recorded")


def test_a_row_of_fit_remembered_again_under_another_id_is_not_exact():
    X, y = blobs(40)
    model = fitted().remember(X[:1], y[:1], ids=["a copy"])
    assert level(model, ["a copy"]) == ("memory", "recorded")


def test_another_row_under_an_id_of_fit_is_not_exact():
    model = fitted()
    model.forget(ids=names(1))
    X, y = blobs(1, seed=5)
    model.remember(X, y, ids=names(1), reinstate=True)
    assert level(model, names(1)) == ("memory", "recorded")


def test_a_request_is_as_weak_as_its_weakest_row():
    X, y = blobs(4, seed=1)
    model = fitted().remember(X, y, ids=names(4, 100))
    assert level(model, [*names(4, 100), *names(1)]) == ("memory", "recorded")


def test_a_group_that_training_may_have_seen_weakens_a_request_for_other_rows():
    X, y = blobs(4, seed=1)
    model = fitted().remember(X, y, ids=names(4, 100))  # fit was told of no groups
    named = {"groups": ["of whom rows were trained on and forgotten"], "missing_ok": True}
    assert model.forget(**named, dry_run=True).level is None
    assert model.forget(ids=names(1, 100), **named, dry_run=True).level == "memory"
    assert audit(model, ids=names(1, 100), **named, simulate=True).level == "memory"
    model.forget(ids=names(1, 100))
    assert model.forget(ids=names(1, 100), **named, dry_run=True).level == "memory"


def test_a_class_is_not_taken_for_one_that_is_equal_but_of_another_type():
    X, _ = blobs(40)
    model = SPMClassifier(**TINY).fit(X, [1, 2] * 20, ids=names(40))
    model.forget(classes=[1])
    model.remember(X[:1] + 9, [1], ids=["later"])
    plan = model.forget(classes=[1, True], missing_ok=True, dry_run=True)
    assert (plan.rows, plan.unknown, plan.level) == (1, 1, "memory")


def test_forgetting_nothing_has_no_level():
    assert level(fitted(), []) == level(remembering(), []) == (None, None)


def test_the_receipt_says_what_the_plan_said():
    model = fitted()
    plan = model.forget(ids=names(1), dry_run=True)
    receipt = model.forget(ids=names(1))
    assert (receipt.level, receipt.basis) == (plan.level, plan.basis) == ("memory", "recorded")


def test_no_epochs_train_nothing():
    model = fitted(epochs=0)
    assert level(model, names(40)) == ("exact", "recorded")
    assert model.provenance_ == Provenance()


def test_a_single_row_is_not_trained_on():
    model = SPMClassifier(**TINY, epochs=3).fit([[1.0, 2.0]], ["a"], ids=["only"])
    assert level(model, ["only"]) == ("exact", "recorded")


@pytest.mark.parametrize("encoder", ["identity", "random_features", "mlp"])
def test_a_named_encoder_that_was_never_trained_is_exact(encoder):
    assert level(frozen(encoder), names(6, 1000)) == ("exact", "recorded")


def test_fit_of_other_rows_does_not_forget_what_the_encoder_saw_before():
    X, y = blobs(40)
    second = SPMClassifier(fitted().encoder_, epochs=1).fit(*blobs(40, seed=3), ids=names(40, 500))
    second.remember(X[:1], y[:1], ids=["seen by the first"])
    assert level(second, ["seen by the first"]) == ("memory", "recorded")


def test_a_model_without_votes_records_its_rows_too():
    X, y = blobs(40)
    twin = ParametricClassifier(**TINY, epochs=1).fit(X, y)
    model = SPMClassifier(twin.network_.encoder).remember(X[:2], y[:2], ids=["p", "q"])
    assert level(model, ["p"]) == ("memory", "recorded")


# -- encoders that come from elsewhere ------------------------------------------------------------


def test_a_trained_encoder_passed_on_still_knows_its_rows():
    X, y = blobs(40)
    model = SPMClassifier(fitted().encoder_).remember(X, y, ids=names(40, 1000))
    assert level(model, names(1, 1000)) == ("memory", "recorded")


def test_a_trained_encoder_passed_on_is_exact_for_other_rows():
    assert level(frozen(fitted().encoder_), names(6, 1000)) == ("exact", "recorded")


def test_a_users_network_trained_by_fit_knows_its_rows_when_passed_on():
    X, y = blobs(40)
    model = SPMClassifier(own_network(), epochs=1).fit(X, y, ids=names(40))
    again = SPMClassifier(model.encoder_.module).remember(X, y, ids=names(40, 1000))
    assert level(again, names(1, 1000)) == ("memory", "recorded")


def test_flattened_images_are_still_the_images_the_encoder_saw():
    images = np.random.default_rng(0).random((20, 4, 4)).astype(np.float32)
    y = ["a", "b"] * 10
    first = SPMClassifier(**TINY, epochs=1).fit(images, y, ids=names(20))
    flat = images.reshape(20, 16)
    second = SPMClassifier(first.encoder_).remember(flat, y, ids=names(20, 1000))
    assert level(second, names(1, 1000)) == ("memory", "recorded")


def test_bytes_are_still_the_images_the_encoder_saw():
    images = np.random.default_rng(0).integers(0, 256, (20, 4, 4), dtype=np.uint8)
    y = ["a", "b"] * 10
    first = SPMClassifier(**TINY, epochs=1).fit(images, y, ids=names(20))
    scaled = images.astype(np.float32) / np.float32(255)
    second = SPMClassifier(first.encoder_).remember(scaled, y, ids=names(20, 1000))
    assert level(second, names(1, 1000)) == ("memory", "recorded")


def test_a_network_of_unknown_origin_may_have_seen_everything():
    assert level(frozen(own_network()), names(6, 1000)) == ("memory", "unknown")


def test_training_does_not_launder_a_network_of_unknown_origin():
    X, y = blobs(40)
    model = SPMClassifier(own_network(), epochs=1).fit(X, y, ids=names(40))
    model.remember(*blobs(2, seed=3), ids=["p", "q"])
    assert level(model, ["p"]) == ("memory", "unknown")


def test_a_network_without_weights_has_nothing_to_know_with():
    assert level(frozen(nn.Flatten()), names(6, 1000)) == ("exact", "recorded")


class _Centred(nn.Module):
    """Subtract a mean that was taken from rows, kept in one way or another."""

    def __init__(self, mean, how):
        super().__init__()
        if how == "buffer that is not saved":
            self.register_buffer("mean", torch.tensor(mean), persistent=False)
        else:
            self.mean = {"tensor": torch.tensor(mean), "array": mean}[how]

    def forward(self, inputs):
        return inputs - torch.as_tensor(self.mean)


@pytest.mark.parametrize("how", ["buffer that is not saved", "tensor", "array"])
def test_what_a_network_keeps_outside_its_weights_counts_as_unknown(how):
    network = nn.Sequential(_Centred(blobs(6)[0].mean(axis=0), how))
    assert level(frozen(network), names(6, 1000)) == ("memory", "unknown")


def test_weights_copied_into_another_network_are_unknown():
    model = fitted()
    other = build_encoder("mlp", (4,), options={"hidden": [16], "dim": 8})
    other.load_state_dict(model.encoder_.state_dict())
    assert level(frozen(other), names(6, 1000)) == ("memory", "unknown")


def test_weights_copied_into_an_untrained_model_are_unknown():
    model = frozen("mlp", encoder_options={"hidden": [16], "dim": 8})
    assert level(model, names(1, 1000)) == ("exact", "recorded")
    model.encoder_.load_state_dict(fitted().encoder_.state_dict())
    assert level(model, names(1, 1000)) == ("memory", "unknown")


def test_weights_changed_after_training_are_unknown():
    model = fitted()
    with torch.no_grad():
        next(model.encoder_.parameters()).add_(1)
    assert level(model, names(1)) == ("memory", "unknown")


def test_a_part_of_a_trained_encoder_is_unknown():
    assert level(frozen(fitted().encoder_.layers), names(6, 1000)) == ("memory", "unknown")


# -- declared sources -----------------------------------------------------------------------------


def test_a_declared_network_is_exact_on_the_users_word():
    network = declare(own_network(), "public data")
    assert level(frozen(network), names(6, 1000)) == ("exact", "declared")


def test_declaring_returns_the_network_itself():
    network = own_network()
    assert declare(network, "public data") is network


def test_a_copy_of_a_declared_network_is_declared():
    network = copy.deepcopy(declare(own_network(), "public data"))
    assert level(frozen(network), names(6, 1000)) == ("exact", "declared")


def test_a_declared_network_that_was_changed_is_unknown():
    network = declare(own_network(), "public data")
    with torch.no_grad():
        network[0].weight.mul_(2)
    assert level(frozen(network), names(6, 1000)) == ("memory", "unknown")


def test_rows_that_a_declared_network_was_trained_on_further_are_not_exact():
    X, y = blobs(40)
    network = declare(own_network(), "public data")
    model = SPMClassifier(network, epochs=1).fit(X, y, ids=names(40))
    assert level(model, names(1)) == ("memory", "recorded")


def test_rows_remembered_after_training_a_declared_network_are_exact_as_declared():
    X, y = blobs(40)
    network = declare(own_network(), "public data")
    model = SPMClassifier(network, epochs=1).fit(X, y, ids=names(40))
    model.remember(*blobs(2, seed=3), ids=["p", "q"])
    assert level(model, ["p", "q"]) == ("exact", "declared")


def test_training_leaves_the_users_network_as_declared():
    network = declare(own_network(), "public data")
    before = copy.deepcopy(network.state_dict())
    SPMClassifier(network, epochs=2).fit(*blobs(40))
    assert provenance_of(network).sources[0].basis == "declared"
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


# -- keys and saving ------------------------------------------------------------------------------


def test_without_the_key_nothing_is_exact(tmp_path, keys):
    model = fitted().remember(*blobs(2, seed=3), ids=["p", "q"])
    assert level(model, ["p"]) == ("exact", "recorded")
    model.save(tmp_path / "model")
    for path in keys.glob("*.key"):
        path.unlink()
    forget_keys()
    assert level(load(tmp_path / "model"), ["p"]) == ("memory", "unknown")


def test_without_the_key_rows_of_fit_are_not_exact(tmp_path, keys):
    fitted().save(tmp_path / "model")
    for path in keys.glob("*.key"):
        path.write_bytes(b"x" * 32)
    forget_keys()
    assert level(load(tmp_path / "model"), names(1)) == ("memory", "unknown")


def _trained():
    return fitted().remember(*blobs(2, seed=3), ids=["p", "q"]), names(1), None


def _remembered():
    return fitted().remember(*blobs(2, seed=3), ids=["p", "q"]), ["p"], None


def _untrained():
    return frozen("random_features"), names(1, 1000), None


def _unknown():
    return frozen(own_network()), names(1, 1000), own_network(seed=1)


def _declared():
    network = declare(own_network(), "public data")
    return frozen(network), names(1, 1000), own_network(seed=1)


@pytest.mark.parametrize("make", [_trained, _remembered, _untrained, _unknown, _declared])
def test_levels_survive_saving_and_loading(make, tmp_path):
    model, ids, encoder = make()
    model.save(tmp_path / "model")
    forget_keys()
    assert level(load(tmp_path / "model", encoder=encoder), ids) == level(model, ids)


def test_an_encoder_taken_from_a_loaded_model_still_knows_its_rows(tmp_path):
    X, y = blobs(40)
    fitted().save(tmp_path / "model")
    encoder = load(tmp_path / "model").encoder_
    model = SPMClassifier(encoder).remember(X, y, ids=names(40, 1000))
    assert level(model, names(1, 1000)) == ("memory", "recorded")


def test_the_record_does_not_name_its_rows():
    source = fitted().provenance_.sources[0]
    assert source.basis == "recorded"
    assert "row-number" not in repr(list(source.marks))


def test_weights_written_behind_torchs_back_are_of_unknown_origin():
    model = remembering(encoder="random_features")
    next(model.network_.parameters()).data.add_(1)
    receipt = model.forget(ids=names(1))
    assert (receipt.level, receipt.basis) == ("memory", "unknown")


# -- rows that earlier versions stored -------------------------------------------------------------

STORED, OTHER = b"s" * 32, b"o" * 32


@pytest.mark.parametrize(
    ("on_record", "content", "expected"),
    [
        pytest.param([OTHER * 2], STORED * 2, False, id="both of this version"),
        pytest.param([OTHER + STORED], STORED * 2, True, id="another form of it is on record"),
        pytest.param([OTHER * 2], STORED, True, id="a stored one has no forms: it may be"),
        pytest.param([], STORED, True, id="nobody can tell by one form"),
    ],
)
def test_a_row_without_forms_may_be_on_record_in_another_one(on_record, content, expected):
    source = record_rows("rows", ["a"], on_record, groups=None, labels=["x"])
    assert source.may_hold("b", content) is expected


def test_a_record_of_an_earlier_version_is_asked_as_that_version_did():
    marks = record_rows("rows", ["a"], [OTHER], groups=None, labels=["x"]).marks
    old = Source("recorded", "rows", marks, frozenset({"id", "content"}))
    assert not old.may_hold("b", STORED)
    assert old.may_hold("b", STORED + OTHER)
