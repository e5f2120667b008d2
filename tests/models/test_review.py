"""Ways in which a promise was once broken."""

import sqlite3

import numpy as np
import pytest
import torch
from torch import nn

from erasable import SPMClassifier, declare, load
from erasable.encoders import _registry as registry
from erasable.encoders import register_encoder
from erasable.errors import StateError, StoreError
from models.toys import TINY, blobs, fitted, names, own_network, remembering


def test_forgetting_a_trained_row_again_is_not_exact():
    model = fitted()
    model.forget(ids=names(1))
    receipt = model.forget(ids=names(1), missing_ok=True)
    assert (receipt.rows, receipt.level) == (0, "memory")


def test_forgetting_nothing_from_unknown_weights_is_not_exact():
    model = remembering(encoder=own_network())
    assert model.forget(ids=[]).level == "memory"


@pytest.mark.parametrize("request_", [{"groups": ["nobody"]}, {"classes": ["nothing"]}])
def test_a_group_or_class_that_is_not_there_may_have_been_trained_on(request_):
    assert fitted().forget(**request_, missing_ok=True).level == "memory"
    assert remembering().forget(**request_, missing_ok=True).level == "exact"


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
    SPMClassifier(**TINY, epochs=1, checkpoint=tmp_path / "c").fit(X, y)
    with pytest.raises(StateError, match="network"):
        SPMClassifier(**TINY, epochs=1, checkpoint=tmp_path / "c", **other).fit(X, y)


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
    fitted().save(tmp_path / "m")
    config = tmp_path / "m" / "config.json"
    text = config.read_text().replace('"parameters": {', '"parameters": {"checkpoint": "/tmp/x",')
    config.write_text(text)
    assert load(tmp_path / "m").checkpoint is None
