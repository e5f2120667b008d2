"""Learning to compare on public rows, of which none is stored and none is forgotten."""

import numpy as np
import pytest
import torch

from erasable import SPMClassifier, convert, declare, load
from erasable.errors import ArgumentError, ErasableError, RowIdError, StateError
from erasable.models import _spm, parameters_of
from erasable.store import EmbeddingCache
from erasable.training import _checkpoint
from erasable.weights import weights_digest, weights_of
from models.toys import TINY, blobs, names, own_network, snapshot, spm

PUBLIC = blobs(48, classes=("p", "q", "r"), seed=7)
PRIVATE = blobs(20)
QUERIES = blobs(9, seed=11)[0]
GRAPH = {"set_encoder": "graph", "support_size": 12}
SETTINGS = {"plain": {}, "graph": GRAPH, "support": {"support_size": 12}}
settings = pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS.keys())


def unfitted(**options):
    return spm(**{**TINY, "epochs": 2, "batch_size": 16, **options})


def pretrained(**options):
    return unfitted(**options).pretrain(*PUBLIC)


def emptied(**options):
    """Return a fitted model whose memory is empty."""
    model = unfitted(**options).remember(*blobs(2, seed=5), ids=names(2, 900))
    model.forget(ids=names(2, 900))
    return model


def level(model, ids):
    plan = model.forget(ids=ids, dry_run=True)
    return plan.level, plan.basis


def with_private_rows(model):
    return model.remember(*PRIVATE, ids=names(20))


# -- what changes, and what does not --------------------------------------------------------------


@settings
def test_the_encoder_stays_as_it_was_bit_for_bit(options):
    before = with_private_rows(unfitted(**options))
    after = pretrained(**options)
    assert weights_digest(after.encoder_) == weights_digest(before.encoder_)


@settings
@pytest.mark.parametrize("start", [unfitted, emptied])
def test_everything_after_the_encoder_is_trained(options, start):
    untrained = with_private_rows(unfitted(**options))
    model = start(**options).pretrain(*PUBLIC)
    parts = ["fusion", "set_encoder"] if "set_encoder" in options else ["fusion"]
    for part in parts:
        before = weights_of(getattr(untrained.network_, part))
        after = weights_of(getattr(model.network_, part))
        assert any(not torch.equal(before[name], after[name]) for name in before)


@settings
def test_no_row_is_stored(options):
    model = pretrained(**options)
    assert len(model.memory) == 0
    assert model.classes_.tolist() == []


@settings
def test_the_loss_falls(options):
    losses = [epoch["loss"] for epoch in pretrained(**options, epochs=8).history_]
    assert len(losses) == 8
    assert losses[-1] < losses[0]


@settings
def test_rows_remembered_afterwards_are_compared_as_was_learnt(options):
    before = with_private_rows(unfitted(**options)).predict_proba(QUERIES)
    after = with_private_rows(pretrained(**options)).predict_proba(QUERIES)
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_allclose(after.sum(axis=1), 1)


def test_rows_remembered_afterwards_have_the_embeddings_of_an_untrained_model():
    before, after = with_private_rows(unfitted()), with_private_rows(pretrained())
    assert after.memory.digest == before.memory.digest


@settings
def test_the_same_seed_gives_the_same_weights(options):
    assert pretrained(**options).weights_digest == pretrained(**options).weights_digest


def test_a_start_from_an_empty_memory_gives_the_weights_of_a_start_from_nothing():
    assert emptied().pretrain(*PUBLIC).weights_digest == pretrained().weights_digest


@settings
def test_only_which_rows_share_a_class_matters(options):
    X, y = PUBLIC
    renamed = [{"p": 10, "q": 20, "r": 30}[label] for label in y]
    assert unfitted(**options).pretrain(X, renamed).weights_digest == (
        pretrained(**options).weights_digest
    )


def test_classes_are_renumbered_whatever_the_parameter_says():
    off, on = pretrained(label_permutation=False), pretrained(label_permutation=True)
    assert off.weights_digest == on.weights_digest
    assert off.training.label_permutation is False


def test_a_second_time_goes_on_from_the_first():
    model = pretrained()
    before = model.weights_digest
    model.pretrain(*blobs(30, seed=8))
    assert model.weights_digest != before
    assert [source.name for source in model.provenance_.sources] == ["public rows of pretrain"] * 2


@settings
def test_it_begins_with_the_weights_that_are_there(options):
    model = pretrained(**options)
    before = model.weights_digest
    model.set_params(epochs=0).pretrain(*blobs(30, seed=8))
    assert model.weights_digest == before


def test_without_epochs_nothing_is_trained():
    untrained = with_private_rows(unfitted())
    assert pretrained(epochs=0).weights_digest == untrained.weights_digest


def test_images_whose_augmentation_is_on_are_taken():
    images = np.random.default_rng(0).random((12, 6, 6))
    options = {"encoder_options": {"widths": [4], "dim": 8}, "epochs": 1, "random_state": 0}
    model = spm(**options, augmentation="crop_flip").pretrain(images, ["p", "q"] * 6)
    assert len(model.history_) == 1


def test_a_converted_network_can_learn_to_compare():
    model = convert(own_network(), "1").set_params(epochs=2, batch_size=16)
    model.remember(*blobs(2), ids=names(2))
    model.forget(ids=names(2))
    before = weights_digest(model.encoder_)
    model.pretrain(*PUBLIC)
    assert weights_digest(model.encoder_) == before


# -- levels ---------------------------------------------------------------------------------------


@settings
def test_rows_remembered_afterwards_are_exact(options):
    model = with_private_rows(pretrained(**options))
    assert level(model, names(20)) == ("exact", "recorded")


def test_a_public_row_is_recognised_by_its_content():
    X, y = PUBLIC
    model = pretrained().remember(X[:1], y[:1], ids=["a copy"])
    assert level(model, ["a copy"]) == ("memory", "recorded")


def test_a_public_row_is_recognised_by_its_id():
    model = with_private_rows(unfitted().pretrain(*PUBLIC, ids=[*names(1), *names(47, 500)]))
    assert level(model, names(1)) == ("memory", "recorded")
    assert level(model, names(1, 1)) == ("exact", "recorded")


def test_rows_that_fit_trained_on_are_still_recorded():
    model = unfitted().fit(*PRIVATE, ids=names(20))
    model.forget(ids=names(20))
    model.pretrain(*PUBLIC)
    model.remember(*PRIVATE, ids=names(20), reinstate=True)
    assert level(model, names(1)) == ("memory", "recorded")


def test_weights_of_unknown_origin_stay_unknown():
    model = SPMClassifier(own_network(), epochs=1, random_state=0).pretrain(*PUBLIC)
    assert level(with_private_rows(model), names(1)) == ("memory", "unknown")


def test_declared_weights_stay_declared():
    network = declare(own_network(), "a public source")
    model = SPMClassifier(network, epochs=1, random_state=0).pretrain(*PUBLIC)
    assert level(with_private_rows(model), names(1)) == ("exact", "declared")


@settings
def test_a_saved_model_keeps_weights_and_record(options, tmp_path):
    X, y = PUBLIC
    model = with_private_rows(pretrained(**options))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(QUERIES), model.predict_proba(QUERIES))
    again.remember(X[:1], y[:1], ids=["a copy"])
    assert level(again, names(20)) == ("exact", "recorded")
    assert level(again, ["a copy"]) == ("memory", "recorded")


@settings
def test_a_loaded_model_can_learn_to_compare(options, tmp_path):
    emptied(**options).save(tmp_path / "model")
    model = load(tmp_path / "model").set_params(random_state=0)
    model.pretrain(*PUBLIC)
    assert model.weights_digest == emptied(**options).pretrain(*PUBLIC).weights_digest
    assert level(with_private_rows(model), names(20)) == ("exact", "recorded")


# -- the cache ------------------------------------------------------------------------------------


def test_with_a_cache_public_rows_are_encoded_once(tmp_path):
    model = unfitted(embedding_cache=tmp_path).pretrain(*PUBLIC, ids=names(48))
    assert EmbeddingCache(tmp_path).count() == 48
    assert model.weights_digest == pretrained().weights_digest
    assert [copy.kind for copy in model.copies()] == ["embeddings"]


def test_without_ids_public_rows_are_not_kept(tmp_path):
    unfitted(embedding_cache=tmp_path / "cache").pretrain(*PUBLIC)
    assert not (tmp_path / "cache").exists()


# -- refusals -------------------------------------------------------------------------------------


def test_rows_in_the_memory_are_refused():
    model = with_private_rows(unfitted())
    before = snapshot(model)
    with pytest.raises(StateError, match=r"empty memory: call pretrain\(\) before remember\(\)"):
        model.pretrain(*PUBLIC)
    assert snapshot(model) == before


FAILING = {
    "NaN": ({"X": np.full((48, 4), np.nan)}, {}),
    "a wrong number of labels": ({"y": ["p"]}, {}),
    "no labels": ({"y": None}, {}),
    "a wrong number of ids": ({"ids": ["p"]}, {}),
    "a bad setting": ({}, {"batch_size": 1}),
    "a graph without support": ({}, {"set_encoder": "graph", "support_size": None}),
    "training that diverges": ({}, {"learning_rate": 1e30}),
    "an unknown device": ({}, {"device": "abacus"}),
    "a checkpoint without a seed": ({}, {"checkpoint": "somewhere", "random_state": None}),
}
failing = pytest.mark.parametrize(
    ("arguments", "wrong"), FAILING.values(), ids=[f"because of {name}" for name in FAILING]
)


@failing
def test_a_failure_leaves_an_unfitted_model_unfitted(arguments, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = unfitted(**wrong)
    before = dict(vars(model))
    with pytest.raises(ErasableError):
        model.pretrain(**{"X": PUBLIC[0], "y": PUBLIC[1], **arguments})
    assert vars(model) == before


@failing
def test_a_failure_leaves_a_fitted_model_as_it_was(arguments, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = emptied()
    vars(model).update(parameters_of(wrong))  # set_params would refuse some of them
    before = snapshot(model)
    with pytest.raises(ErasableError):
        model.pretrain(**{"X": PUBLIC[0], "y": PUBLIC[1], **arguments})
    assert snapshot(model) == before


def test_inputs_of_another_shape_are_refused():
    with pytest.raises(ArgumentError, match="features"):
        emptied().pretrain(np.zeros((4, 3)), ["p", "q"] * 2)


def test_rows_that_were_forgotten_are_refused():
    model = with_private_rows(unfitted())
    model.forget(ids=names(20))
    before = model.weights_digest
    with pytest.raises(RowIdError, match="forgotten before"):
        model.pretrain(*PRIVATE)
    assert model.weights_digest == before


def test_a_failure_after_training_leaves_a_fitted_model_as_it_was(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    model = emptied()
    before = snapshot(model)
    monkeypatch.setattr(_spm, "record_rows", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.pretrain(*PUBLIC)
    assert snapshot(model) == before


@pytest.mark.parametrize(
    ("count", "options", "message"),
    [(1, {}, "rows"), (3, {"support_size": 4}, "at least 4 rows with support_size")],
)
def test_too_few_rows_are_told_as_such(count, options, message):
    X, y = PUBLIC
    with pytest.raises(ArgumentError, match=message):
        unfitted(**options).pretrain(X[:count], y[:count])


# -- checkpoints ----------------------------------------------------------------------------------


class Interrupting:
    """Save checkpoints, but be interrupted after the second."""

    def __init__(self, save):
        self.save, self.saves = save, 0

    def __call__(self, *args, **rest):
        self.save(*args, **rest)
        self.saves += 1
        if self.saves == 2:
            raise KeyboardInterrupt


@settings
@pytest.mark.parametrize("start", [unfitted, emptied])
def test_an_interrupted_run_goes_on_from_its_checkpoint(options, start, tmp_path, monkeypatch):
    expected = start(**options, epochs=4).pretrain(*PUBLIC)
    model = start(**options, epochs=4, checkpoint=tmp_path)
    save = Interrupting(_checkpoint.Checkpoint.save)
    with monkeypatch.context() as patch:
        patch.setattr(_checkpoint.Checkpoint, "save", lambda *args, **rest: save(*args, **rest))
        with pytest.raises(KeyboardInterrupt):
            model.pretrain(*PUBLIC)
    later = Interrupting(_checkpoint.Checkpoint.save)
    later.saves = 10
    with monkeypatch.context() as patch:
        patch.setattr(_checkpoint.Checkpoint, "save", lambda *args, **rest: later(*args, **rest))
        model.pretrain(*PUBLIC)
    assert later.saves == 12  # two epochs were left
    assert model.weights_digest == expected.weights_digest
    assert model.history_ == expected.history_


def test_a_checkpoint_of_other_rows_is_refused(tmp_path):
    pretrained(checkpoint=tmp_path)
    with pytest.raises(StateError, match="it differs in data"):
        unfitted(checkpoint=tmp_path).pretrain(*blobs(48, seed=3))
