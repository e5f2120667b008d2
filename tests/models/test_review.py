"""Ways in which a promise was once broken."""

import copy
import sqlite3

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from erasable import KNNClassifier, SPMClassifier, declare, load
from erasable.encoders import _registry as registry
from erasable.encoders import cut, register_encoder
from erasable.errors import ArgumentError, RowIdError, StateError, StoreError
from erasable.training import Training
from models.toys import TINY, blobs, fitted, names, own_network, remembering, spm


def test_forgetting_a_trained_row_again_is_not_exact():
    model = fitted()
    model.forget(ids=names(1))
    receipt = model.forget(ids=names(1), missing_ok=True)
    assert (receipt.rows, receipt.level) == (0, "memory")


def test_forgetting_nothing_from_unknown_weights_has_no_level():
    model = remembering(encoder=own_network())
    assert model.forget(ids=[]).level is None


@pytest.mark.parametrize("request_", [{"groups": ["nobody"]}, {"classes": ["nothing"]}])
def test_a_group_or_class_that_nothing_is_known_of_has_no_level(request_):
    for model in (fitted(), remembering()):
        receipt = model.forget(**request_, missing_ok=True)
        assert (receipt.outcome, receipt.level) == ("nothing found", None)


@pytest.mark.parametrize("request_", [{"groups": ["u"]}, {"classes": ["a"]}])
def test_a_group_or_class_whose_rows_are_gone_is_known_to_have_been_trained_on(request_):
    X, y = blobs(40)
    model = SPMClassifier(**TINY, epochs=1).fit(X, y, ids=names(40), groups=["u"] * 40)
    model.forget(ids=names(40))
    assert model.forget(**request_, missing_ok=True).level == "memory"


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM sources",
        "DELETE FROM seen",
        "DELETE FROM tombstones",
        "UPDATE rows SET content = NULL",
        "UPDATE sources SET basis = 'declared'",
    ],
)
def test_a_lost_record_does_not_load_as_a_better_level(tmp_path, damage):
    model = fitted()
    model.forget(ids=names(1))
    model.save(tmp_path / "m")
    db = sqlite3.connect(tmp_path / "m" / "rows.sqlite")
    db.execute(damage)
    db.commit()
    db.close()
    with pytest.raises(StoreError, match="damaged"):
        load(tmp_path / "m")


def test_a_registered_name_may_stand_for_trained_weights(monkeypatch):
    monkeypatch.setattr(registry, "_ENCODERS", dict(registry._ENCODERS))
    trained = fitted()
    register_encoder("trained before", lambda shape: trained.encoder_)
    X, y = blobs(4)
    model = SPMClassifier("trained before").remember(X, y, ids=["a", "b", "c", "d"])
    assert model.forget(ids=["a"]).level == "memory"


class Hidden(nn.Module):
    """A module that keeps a trained network where torch does not look."""

    def __init__(self, network):
        super().__init__()
        self.networks = [network]

    def forward(self, inputs):
        return self.networks[0](inputs)


def test_a_module_that_hides_a_network_is_of_unknown_origin():
    X, y = blobs(4)
    model = SPMClassifier(Hidden(fitted().encoder_)).remember(X, y)
    assert model.forget(ids=[0]).basis == "unknown"


class Buffered(nn.Module):
    """A module with a buffer that ``state_dict`` leaves out."""

    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.zeros(4), persistent=False)

    def forward(self, inputs):
        return torch.cat([inputs + self.shift, inputs - self.shift], dim=1)


def test_a_change_of_an_unsaved_buffer_ends_a_declaration():
    network = declare(Buffered(), "nothing but arithmetic")
    network.shift += 1
    X, y = blobs(4)
    assert SPMClassifier(network).remember(X, y).forget(ids=[0]).basis == "unknown"


def test_an_unsaved_buffer_is_saved_all_the_same(tmp_path):
    network = Buffered()
    network.shift += 1
    X, y = blobs(12)
    model = SPMClassifier(network).remember(X, y)
    model.save(tmp_path / "m")
    found = load(tmp_path / "m", encoder=Buffered())
    np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))


def test_weights_in_another_order_are_other_weights(tmp_path):
    model = remembering(encoder="random_features")
    before = model.weights_digest
    directions = model.network_.encoder.directions
    directions.data.copy_(directions.flip(1))
    assert model.weights_digest != before
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").weights_digest == model.weights_digest


@pytest.mark.parametrize("other", [{"scale": 5.0}, {"normalize": "none"}])
def test_a_checkpoint_of_another_network_is_refused(tmp_path, other):
    X, y = blobs(20)
    training = Training(checkpoint=tmp_path / "c")
    SPMClassifier(**TINY, epochs=1, training=training).fit(X, y)
    with pytest.raises(StateError, match="network"):
        SPMClassifier(**TINY, epochs=1, training=training, **other).fit(X, y)


def test_parameters_set_after_training_do_not_change_what_is_saved(tmp_path):
    X, _ = blobs(10)
    model = fitted().set_params(scale=9.0, normalize="none", grid_bits=3)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict_proba(X), model.predict_proba(X))


def test_an_interrupted_forget_leaves_the_memory_whole(tmp_path, monkeypatch):
    model = remembering()
    before = model.memory.digest
    calls = iter(range(100))
    bury = model.memory.tombstones.bury

    def interrupted(*args):
        if next(calls) == 2:
            raise KeyboardInterrupt
        bury(*args)

    monkeypatch.setattr(model.memory.tombstones, "bury", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.forget(classes=["a"])
    assert (len(model.memory), model.memory.digest) == (40, before)
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").memory.digest == before


def test_a_model_is_brought_up_to_date_wherever_it_was_saved(tmp_path):
    model = remembering()
    model.save(tmp_path / "a")
    model.save(tmp_path / "b")
    model.forget(ids=names(1))
    for name in "ab":
        model.save(tmp_path / name)
        assert load(tmp_path / name).memory.digest == model.memory.digest


def test_a_live_copy_of_a_forgotten_row_is_no_reason_to_refuse_the_model_itself(tmp_path):
    model = SPMClassifier("identity").remember([[1.0, 2.0], [1.0, 2.0]], [0, 0], ids=["a", "b"])
    model.forget(ids=["a"])
    model.save(tmp_path / "m")
    model.places_ = {}
    model.save(tmp_path / "m", overwrite=True)
    assert len(load(tmp_path / "m").memory) == 1


def test_what_was_trained_here_cannot_be_declared_public():
    with pytest.raises(StateError, match="trained here: on 'rows of fit'"):
        declare(fitted().encoder_, "ImageNet-1k")


def test_a_directory_cannot_choose_where_a_later_fit_writes(tmp_path):
    model = fitted().set_params(training__checkpoint="/tmp/x")  # noqa: S108 - never written to
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").training.checkpoint is None


class Secretive(nn.Module):
    """A module that may keep what it learnt where no weight shows it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs):
        return self.layer(inputs)


def test_a_module_that_takes_over_weights_may_still_hide_what_it_learnt():
    X, y = blobs(40)
    drawn = SPMClassifier("mlp", epochs=0, random_state=0, encoder_options={"hidden": []})
    source = nn.Sequential()
    source.layer = nn.Linear(4, 4)
    declare(source, "public data")
    model = SPMClassifier(Secretive(), epochs=0).fit(X, y, ids=names(40), init=source)
    assert model.forget(ids=names(1)).level == "memory"
    assert drawn.fit(X, y).forget(ids=[0]).level == "exact"


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1.0},
        {"k": 0},
        {"attention": "x"},
        {"reduction": "nope"},
        {"reduction": []},
        {"search": "zz"},
        {"set_encoder": "zz"},
        {"grid_bits": 99},
    ],
    ids=str,
)
def test_parameters_that_no_fit_would_take_are_not_saved(tmp_path, wrong):
    model = fitted()
    model.save(tmp_path / "m")
    files = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    model.forget(ids=names(1))
    with pytest.raises(ArgumentError):
        model.set_params(**wrong).save(tmp_path / "m")
    assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == files


def test_a_wrong_k_of_nearest_neighbours_is_not_saved(tmp_path):
    X, y = blobs(20)
    model = KNNClassifier("identity", k=3).remember(X, y)
    model.k = 0
    with pytest.raises(ArgumentError, match="Expected k to be a positive int"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_the_accuracy_before_is_that_of_the_model_as_it_was():
    X, y = blobs(40)
    model = fitted()
    expected = (model.classes_[model.predict_proba(X, exclude_ids=names(40)).argmax(1)] == y).mean()
    model.fit(X, y, ids=names(40), init=model)
    assert model.adaptation_["before"] == expected


def test_a_source_without_rows_has_no_accuracy_and_does_no_harm():
    source = fitted()
    source.forget(classes=["a", "b"])
    Z, z = blobs(40, seed=7)
    model = SPMClassifier(epochs=1, random_state=0).fit(Z, z, ids=names(40, 900), init=source)
    assert model.adaptation_["before"] is None


def test_nothing_trained_nothing_gained():
    X, y = blobs(40)
    source = KNNClassifier("identity", k=1).remember(X, y)
    model = KNNClassifier("identity", k=1, epochs=0).fit(X, y, init=source)
    assert model.adaptation_["before"] == model.adaptation_["after"]


def test_what_the_source_forgot_is_refused():
    X, y = blobs(40)
    source = fitted()
    source.forget(ids=names(3))
    with pytest.raises(RowIdError, match="were forgotten before"):
        SPMClassifier(epochs=1, random_state=0).fit(X, y, ids=names(40), init=source)


def test_an_edit_of_the_set_encoder_shows_at_the_next_prediction():
    X, y = blobs(40)
    model = SPMClassifier("identity", set_encoder="graph").remember(X, y)
    with torch.no_grad():
        model.network_.set_encoder.output.weight.normal_()
    before = model.predict_proba(X)
    with torch.no_grad():
        model.network_.set_encoder.output.weight.mul_(-1)
    expected = copy.deepcopy(model).predict_proba(X)
    assert not np.allclose(before, expected)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_a_part_of_a_network_trained_here_cannot_be_declared_public():
    trained = fitted().encoder_
    last = [name for name, _ in trained.named_modules()][-1]
    with pytest.raises(StateError, match="was trained here"):
        declare(cut(trained, last), "ImageNet")


@pytest.mark.parametrize("sampling", ["uniform", "balanced"])
def test_too_few_rows_for_a_support_are_refused(sampling):
    X, y = blobs(3)
    model = spm(support_size=4, support_sampling=sampling, epochs=1)
    with pytest.raises(ArgumentError, match="at least 4 rows with support_size"):
        model.fit(X, y)


def test_a_balanced_support_of_lonely_classes_draws_others():
    X, _ = blobs(9)
    model = spm(support_size=4, support_sampling="balanced", epochs=1, random_state=0)
    model.fit(X, list(range(9)))
    assert model.history_[0]["left_out"] == 9


def test_a_wrong_support_sampling_is_refused_even_if_unused():
    X, y = blobs(12)
    with pytest.raises(ArgumentError, match="Expected support_sampling"):
        spm(support_sampling="magic", epochs=1).fit(X, y)


def test_tune_does_not_choose_what_predict_refuses():
    X, y = blobs(40)
    model = KNNClassifier("identity", k=5, search="pq", candidates=10).remember(X, y)
    with pytest.raises(ArgumentError, match="Expected candidates to be an int ≥ k = 20"):
        model.tune(X, y, ks=[20])


def test_tune_settles_ties_as_predict_does():
    X = np.zeros((3, 2), np.float32)
    model = KNNClassifier("identity", k=1).remember(X, ["b", "a", "b"], ids=["z", "a", "m"])
    assert model.predict(X[:1]).tolist() == ["a"]
    assert model.tune(X[:1], ["a"], ks=[1, 3]).k_scores_[1] == 1


def test_an_empty_init_is_refused():
    X, y = blobs(12)
    with pytest.raises(ArgumentError, match="Expected init to be"):
        SPMClassifier(epochs=0).fit(X, y, init="")


def test_a_model_is_saved_under_names_that_say_what_they_are(tmp_path):
    fitted().save(tmp_path / "m")
    file = next((tmp_path / "m").glob("weights-*.safetensors"))
    names_there = safetensors.torch.load_file(file)
    assert {name.partition(".")[0] for name in names_there} == {"encoder", "fusion"}
