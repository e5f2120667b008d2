"""Nearest neighbours with deletion."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from erasable import KNNClassifier, ParametricClassifier, load
from erasable.errors import ArgumentError, RowIdError, StateError
from erasable.training import Training
from models.toys import TINY, blobs, names, snapshot

QUERIES = blobs(7, seed=11)[0]
CLASSES = ("a", "b", "c")


def remembering(count=40, *, classes=CLASSES, **options):
    X, y = blobs(count, classes=classes)
    return KNNClassifier("identity", **{"k": 3, **options}).remember(X, y, ids=names(count))


def fitted(count=40, **options):
    model = KNNClassifier(**{**TINY, "epochs": 3, "k": 5, **options})
    return model.fit(*blobs(count), ids=names(count))


# -- predictions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3, 7, 50])
def test_predictions_are_those_of_scikit_learn(k):
    # On the memory's grid, so that both see the same distances.
    X, y = blobs(60, classes=CLASSES)
    X = np.round(X * 2**14) / 2**14
    queries = np.round(blobs(100, classes=CLASSES, seed=3)[0] * 2**14) / 2**14
    model = KNNClassifier("identity", k=k).remember(X, y)
    other = KNeighborsClassifier(k).fit(X, y)
    np.testing.assert_allclose(
        model.predict_proba(queries), other.predict_proba(queries), rtol=0, atol=1e-12
    )


def test_a_trained_model_tells_its_classes_apart():
    assert fitted(epochs=5).score(*blobs(40, seed=1)) > 0.9


def test_the_encoder_is_trained_as_the_twins():
    X, y = blobs(40)
    twin = ParametricClassifier(**TINY, epochs=3).fit(X, y)
    weights = twin.encoder_.state_dict()
    mine = fitted().encoder_.state_dict()
    assert all(torch.equal(weights[name], mine[name]) for name in weights)


def test_the_head_is_thrown_away():
    assert not any("head" in name for name in fitted().network_.state_dict())


def test_without_epochs_nothing_is_trained():
    assert fitted(epochs=0).history_ == []


def test_fewer_rows_than_k_all_vote():
    model = remembering(6, classes=("a", "a", "b"), k=50)
    np.testing.assert_allclose(model.predict_proba(QUERIES), [[2 / 3, 1 / 3]] * 7)


def test_k_is_changed_without_refitting():
    model = fitted()
    before = model.predict_proba(QUERIES)
    one = model.set_params(k=1).predict_proba(QUERIES)
    assert set(np.unique(one)) == {0.0, 1.0}
    np.testing.assert_array_equal(model.set_params(k=5).predict_proba(QUERIES), before)


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", True])
def test_a_k_that_is_no_count_is_refused_before_training(k):
    with pytest.raises(ArgumentError, match=f"Expected k to be a positive int, but got {k!r}"):
        fitted(k=k)


class _Breaks(nn.Module):
    """Returns NaN for inputs whose first value is large."""

    def forward(self, inputs):
        return torch.where(inputs[:, :1] > 100, torch.nan, inputs)


def test_a_query_without_an_embedding_is_an_error_not_a_prediction():
    X, y = blobs(40)
    model = KNNClassifier(_Breaks(), epochs=0, normalize="none").fit(X, y)
    with pytest.raises(StateError, match="Expected finite embeddings of the queries"):
        model.predict_proba(X + 1000)


# -- votes and forgetting --------------------------------------------------------------------------


def test_every_neighbour_has_one_equal_vote():
    votes = fitted().votes(QUERIES, top=9)
    assert votes.kind == "probability"
    np.testing.assert_allclose(votes.weights, np.full((7, 5), 0.2))


def test_votes_come_nearest_first():
    X, _ = blobs(40, classes=CLASSES)
    model = remembering(k=9)
    places = [[names(40).index(i) for i in mine] for mine in model.votes(QUERIES, top=9).ids]
    apart = np.linalg.norm(X[places] - QUERIES[:, None], axis=2)
    assert (np.diff(apart, axis=1) > -1e-3).all()


def test_votes_that_are_not_shown_are_the_rest():
    votes = fitted().votes(QUERIES, top=2)
    np.testing.assert_allclose(votes.rest, 0.6)


def test_a_forgotten_neighbour_makes_room_for_the_next():
    model = remembering()
    gone = model.votes(QUERIES[:1], top=1).ids[0, 0]
    fourth = model.set_params(k=4).votes(QUERIES[:1], top=4).ids[0, 3]
    model.set_params(k=3).forget(ids=[gone])
    found = model.votes(QUERIES[:1], top=3).ids[0].tolist()
    assert gone not in found
    assert found[-1] == fourth


def test_forgetting_and_remembering_again_restores_the_predictions():
    X, y = blobs(40, classes=CLASSES)
    model = remembering()
    before, digest = model.predict_proba(QUERIES), model.memory.digest
    model.forget(ids=names(10))
    model.remember(X[:10], y[:10], ids=names(10), reinstate=True)
    assert model.memory.digest == digest
    np.testing.assert_array_equal(model.predict_proba(QUERIES), before)


def test_a_forgotten_row_is_refused():
    X, y = blobs(40, classes=CLASSES)
    model = remembering()
    model.forget(ids=names(1))
    with pytest.raises(RowIdError, match="1 of 1 rows were forgotten before"):
        model.remember(X[:1], y[:1], ids=["under another name"])


def test_excluding_a_row_equals_never_having_stored_it():
    X, y = blobs(12, classes=CLASSES)
    got = remembering(12).predict_proba(X, exclude_ids=names(12))
    for place in range(12):
        keep = [i for i in range(12) if i != place]
        other = KNNClassifier("identity", k=3).remember(X[keep], [y[i] for i in keep])
        np.testing.assert_allclose(got[place], other.predict_proba(X[[place]])[0], atol=1e-12)


def test_rows_of_fit_are_forgotten_from_memory_only():
    plan = fitted().forget(ids=names(1), dry_run=True)
    assert (plan.level, plan.basis) == ("memory", "recorded")


def test_rows_remembered_after_fit_are_exact():
    model = fitted().remember(*blobs(2, seed=3), ids=["p", "q"])
    plan = model.forget(ids=["p", "q"], dry_run=True)
    assert (plan.level, plan.basis) == ("exact", "recorded")


# -- tuning ----------------------------------------------------------------------------------------


def held_out(spread=3.0):
    """Return rows that are hard to tell apart, so that k matters."""
    rng = np.random.default_rng(5)
    X, y = blobs(60, classes=CLASSES, seed=5)
    return (X + spread * rng.normal(size=X.shape)).astype(np.float32), y


KS = [7, 1, 2, 30, 99, 2]


def test_tuning_scores_are_those_of_a_slow_sweep():
    X, y = held_out()
    model = remembering().tune(X, y, ks=KS)
    expected = {k: remembering(k=k).score(X, y) for k in sorted(set(KS))}
    assert model.k_scores_ == pytest.approx(expected, abs=1e-12)
    assert len(set(expected.values())) > 1


def test_tuning_chooses_the_smallest_of_the_best():
    X, y = held_out()
    model = remembering().tune(X, y, ks=KS)
    best = max(model.k_scores_.values())
    assert model.k == min(k for k, score in model.k_scores_.items() if score == best)


def test_tuning_returns_the_model():
    model = remembering()
    assert model.tune(*held_out()) is model


def test_tuning_changes_nothing_but_k():
    model = remembering()
    before = model.memory.digest, model.weights_digest
    model.tune(*held_out())
    assert (model.memory.digest, model.weights_digest) == before


@pytest.mark.parametrize("unknown", ["zebra", 1, True])
def test_an_unknown_label_counts_as_wrong(unknown):
    X, y = blobs(40, classes=CLASSES)
    model = remembering(k=1).tune(X, [unknown, *y[1:]], ks=[1])
    assert model.k_scores_ == {1: 39 / 40}


def test_tuning_tells_labels_apart_by_type():
    model = KNNClassifier("identity", k=1).remember([[0.0, 0.0], [5.0, 5.0]], [True, 1])
    X = [[0.0, 0.0], [5.0, 5.0], [5.0, 5.0]]
    assert model.tune(X, [True, 1, True], ks=[1]).k_scores_ == {1: 2 / 3}


@pytest.mark.parametrize("ks", [[0], [1, -2], [1.5], ["3"], [True]])
def test_a_k_to_try_that_is_no_count_is_refused(ks):
    model = remembering()
    before = snapshot(model)
    with pytest.raises(ArgumentError, match="Expected k to be a positive int"):
        model.tune(*held_out(), ks=ks)
    assert snapshot(model) == before


def test_no_k_to_try_is_refused():
    with pytest.raises(ArgumentError, match="Expected at least one k to try, but got none"):
        remembering().tune(*held_out(), ks=[])


def test_one_label_per_input_is_needed():
    with pytest.raises(ArgumentError, match="Expected 7 labels, but got 2"):
        remembering().tune(QUERIES, ["a", "b"])


def test_tuning_needs_rows():
    model = remembering()
    model.forget(classes=list(CLASSES))
    with pytest.raises(StateError, match=r"empty: remember\(\) some first"):
        model.tune(*held_out())


# -- saving ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [remembering, fitted])
def test_a_loaded_model_is_the_saved_one(make, tmp_path):
    model = make(k=4)
    model.forget(ids=names(3))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again, KNNClassifier)
    assert again.weights_digest == model.weights_digest
    assert again.memory.digest == model.memory.digest
    np.testing.assert_allclose(
        again.predict_proba(QUERIES), model.predict_proba(QUERIES), rtol=0, atol=1e-12
    )


def test_settings_survive(tmp_path):
    settings = {
        "k": 7, "candidates": 99, "search": "exact", "normalize": "layer", "grid_bits": 10,
        "epochs": 1, "batch_size": 20, "learning_rate": 0.05,
        "training": Training(momentum=0.5, weight_decay=0.001, label_smoothing=0.1, clip=9.0),
    }  # fmt: skip
    fitted(**settings).save(tmp_path / "model")
    found = load(tmp_path / "model").get_params()
    assert {name: found[name] for name in settings} == settings


def test_a_tuned_k_survives(tmp_path):
    model = remembering().tune(*held_out(), ks=[np.int64(9)])
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").k == 9


def test_a_loaded_model_goes_on_forgetting(tmp_path):
    remembering().save(tmp_path / "model")
    again = load(tmp_path / "model")
    again.forget(classes=["a"])
    again.save(tmp_path / "model")
    assert load(tmp_path / "model").classes_.tolist() == ["b", "c"]
