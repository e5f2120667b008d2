"""Predictions, votes, copies and embeddings."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import nn

from erasable import KNNClassifier, ParametricClassifier, SPMClassifier
from erasable.errors import ArgumentError, RowIdError, StateError
from erasable.fusion._neighbours import _NearestRows
from models.toys import TINY, blobs, fitted, names, remembering

QUERIES = blobs(7, seed=11)[0]
both = pytest.mark.parametrize("reduction", ["prototypes", "rows"])
every = pytest.mark.parametrize("reduction", ["prototypes", "rows", "neighbours", "gaussian"])


# -- probabilities --------------------------------------------------------------------------------


@every
def test_probabilities_sum_to_one(reduction):
    probabilities = fitted(reduction=reduction).predict_proba(QUERIES)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)


@both
def test_log_probabilities_are_logs_of_probabilities(reduction):
    model = fitted(reduction=reduction)
    expected = np.log(model.predict_proba(QUERIES))
    np.testing.assert_allclose(model.predict_log_proba(QUERIES), expected, atol=1e-12)


@pytest.mark.parametrize("reduction", ["neighbours", "knn"])
def test_queries_read_together_answer_as_read_alone(reduction, monkeypatch):
    # 600 rows are embedded in three batches; exclusions must stay with their queries.
    X, y = blobs(600)
    kind = KNNClassifier if reduction == "knn" else partial(SPMClassifier, reduction=reduction)
    model = kind("identity", k=5).remember(X, y, ids=names(600))
    together = model.predict_log_proba(X, exclude_ids=names(600))
    votes = model.votes(X, top=3, exclude_ids=names(600))
    for size in (1, 300):
        monkeypatch.setattr(_NearestRows, "queries_at_once", size)
        np.testing.assert_array_equal(model.predict_log_proba(X, exclude_ids=names(600)), together)
        apart = model.votes(X, top=3, exclude_ids=names(600))
        assert apart.ids.tolist() == votes.ids.tolist()
        np.testing.assert_array_equal(apart.weights, votes.weights)


@both
def test_predict_is_the_most_probable_class(reduction):
    model = fitted(reduction=reduction)
    expected = model.classes_[model.predict_proba(QUERIES).argmax(axis=1)]
    assert model.predict(QUERIES).tolist() == expected.tolist()


@every
def test_a_trained_model_tells_its_classes_apart(reduction):
    X, y = blobs(40, seed=1)
    assert fitted(reduction=reduction, epochs=5).score(X, y) > 0.9


class _Breaks(nn.Module):
    """Returns NaN for inputs whose first value is large."""

    def forward(self, inputs):
        return torch.where(inputs[:, :1] > 100, torch.nan, inputs)


def test_a_query_without_an_embedding_is_an_error_not_a_prediction():
    X, y = blobs(40)
    model = SPMClassifier(_Breaks(), epochs=0, normalize="none").fit(X, y)
    with pytest.raises(StateError, match="Expected finite embeddings of the queries"):
        model.predict_proba(X + 1000)


def test_prototypes_are_a_softmax_over_class_means():
    model = remembering(scale=0.5)
    X, y = blobs(40)
    means = np.stack([X[np.array(y) == label].mean(axis=0) for label in ("a", "b")])
    logits = 0.5 * QUERIES.astype(np.float64) @ means.T
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(QUERIES), expected, atol=1e-3)


def test_rows_are_a_softmax_over_every_row():
    model = remembering(scale=0.5, reduction="rows")
    X, y = blobs(40)
    weights = np.exp(0.5 * QUERIES.astype(np.float64) @ X.T)
    sums = np.stack([weights[:, np.array(y) == label].sum(axis=1) for label in ("a", "b")], 1)
    expected = sums / sums.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(QUERIES), expected, atol=1e-3)


def test_columns_follow_the_classes_asked_for():
    model = fitted()
    plain = model.predict_proba(QUERIES)
    aligned = model.predict_proba(QUERIES, classes=["b", "zebra", "a"])
    np.testing.assert_array_equal(aligned[:, [2, 0]], plain)


def test_a_class_without_rows_has_probability_zero():
    aligned = fitted().predict_proba(QUERIES, classes=["a", "zebra", "b"])
    assert (aligned[:, 1] == 0).all()


def test_a_class_without_rows_has_log_probability_minus_infinity():
    logs = fitted().predict_log_proba(QUERIES, classes=["zebra", "a", "b"])
    assert (logs[:, 0] == -np.inf).all()


def test_a_forgotten_class_keeps_its_column_when_asked_for():
    model = fitted()
    model.forget(classes=["a"])
    aligned = model.predict_proba(QUERIES, classes=["a", "b"])
    np.testing.assert_array_equal(aligned, [[0, 1]] * len(QUERIES))


def test_alignment_tells_types_apart():
    model = SPMClassifier("identity").remember(np.eye(3), [1, "1", True], ids=["p", "q", "r"])
    aligned = model.predict_proba(np.eye(3), classes=["1", 1, 1.0, True])
    np.testing.assert_array_equal(aligned[:, [3, 1, 0]], model.predict_proba(np.eye(3)))
    assert (aligned[:, 2] == 0).all()


# -- leaving out the own row ----------------------------------------------------------------------


@every
def test_excluding_a_row_equals_never_having_stored_it(reduction):
    X, y = blobs(12)
    model = remembering(12, reduction=reduction)
    got = model.predict_proba(X, exclude_ids=names(12))
    for place in range(12):
        keep = np.arange(12) != place
        other = SPMClassifier("identity", reduction).remember(X[keep], np.array(y)[keep].tolist())
        np.testing.assert_allclose(got[[place]], other.predict_proba(X[[place]]), atol=1e-8)


@every
def test_votes_without_a_row_are_those_of_a_model_that_never_stored_it(reduction):
    X, y = blobs(12)
    model = remembering(12, reduction=reduction)
    got = model.votes(X, top=12, exclude_ids=names(12))
    for place in range(12):
        keep = [i for i in range(12) if i != place]
        other = SPMClassifier("identity", reduction)
        other.remember(X[keep], [y[i] for i in keep], ids=[names(12)[i] for i in keep])
        expected = other.votes(X[[place]], top=12)
        assert got.ids[place].tolist() == [*expected.ids[0], None]
        np.testing.assert_allclose(got.weights[place, :11], expected.weights[0], atol=1e-8)
        assert (got.labels[place, 11], got.weights[place, 11]) == (None, 0)


@every
def test_none_excludes_nothing(reduction):
    model = remembering(reduction=reduction)
    got = model.predict_proba(QUERIES, exclude_ids=[None] * len(QUERIES))
    np.testing.assert_allclose(got, model.predict_proba(QUERIES), atol=1e-12)


@every
def test_excluding_the_only_row_of_a_class_leaves_probability_zero(reduction):
    X, y = blobs(3, classes=("a", "b", "c"))
    model = SPMClassifier("identity", reduction).remember(X, y, ids=names(3))
    assert model.predict_proba(X[:1], exclude_ids=["row-number-0"])[0, 0] == 0


@every
def test_excluding_the_only_row_is_refused(reduction):
    model = SPMClassifier("identity", reduction).remember([[1.0, 2.0]], ["a"], ids=["only"])
    with pytest.raises(StateError, match="only one left"):
        model.predict_proba([[1.0, 2.0]], exclude_ids=["only"])


@every
def test_excluding_changes_nothing_in_the_model(reduction):
    model = remembering(reduction=reduction)
    before = model.predict_proba(QUERIES)
    model.predict_proba(QUERIES, exclude_ids=names(len(QUERIES)))
    np.testing.assert_array_equal(model.predict_proba(QUERIES), before)


def test_excluding_a_row_that_is_not_there_is_refused():
    with pytest.raises(RowIdError, match="'nobody'"):
        remembering().predict_proba(QUERIES[:1], exclude_ids=["nobody"])


def test_one_excluded_row_per_query_is_needed():
    with pytest.raises(ArgumentError, match="Expected 7 exclude_ids, but got 2"):
        remembering().predict_proba(QUERIES, exclude_ids=names(2))


# -- votes ----------------------------------------------------------------------------------------


@both
def test_votes_have_one_row_per_query(reduction):
    votes = fitted(reduction=reduction).votes(QUERIES, top=3)
    shapes = [array.shape for array in (votes.ids, votes.labels, votes.weights, votes.rest)]
    assert shapes == [(7, 3), (7, 3), (7, 3), (7,)]


@every
def test_votes_are_sorted(reduction):
    weights = fitted(reduction=reduction).votes(QUERIES, top=9).weights
    assert (np.diff(weights, axis=1) <= 0).all()


@both
def test_votes_carry_the_labels_of_their_rows(reduction):
    votes = fitted(reduction=reduction).votes(QUERIES, top=40)
    labels = dict(zip(names(40), blobs(40)[1], strict=True))
    assert [labels[row] for row in votes.ids.ravel()] == votes.labels.ravel().tolist()


def test_votes_of_rows_sum_to_one():
    votes = fitted(reduction="rows").votes(QUERIES, top=3)
    assert votes.kind == "probability"
    np.testing.assert_allclose(votes.weights.sum(axis=1) + votes.rest, 1, atol=1e-12)


def test_votes_of_rows_sum_to_class_probabilities():
    model = fitted(reduction="rows")
    votes = model.votes(QUERIES, top=40)
    sums = np.where(votes.labels == "b", votes.weights, 0).sum(axis=1)
    np.testing.assert_allclose(sums, model.predict_proba(QUERIES)[:, 1], atol=1e-9)


def test_votes_of_prototypes_sum_to_logits():
    model = fitted()
    votes = model.votes(QUERIES, top=40)
    assert votes.kind == "logit"
    logits = np.stack(
        [np.where(votes.labels == c, votes.weights, 0).sum(axis=1) for c in ("a", "b")], 1
    )
    expected = np.diff(model.predict_log_proba(QUERIES), axis=1)
    np.testing.assert_allclose(np.diff(logits, axis=1), expected, atol=1e-9)


@every
def test_the_rest_is_what_the_top_leaves_out(reduction):
    model = fitted(reduction=reduction)
    every, few = model.votes(QUERIES, top=40), model.votes(QUERIES, top=5)
    np.testing.assert_allclose(few.rest, every.weights[:, 5:].sum(axis=1), atol=1e-9)


@both
def test_more_votes_than_rows_gives_every_row(reduction):
    assert fitted(reduction=reduction).votes(QUERIES, top=99).ids.shape == (7, 40)


@pytest.mark.parametrize("top", [0, -1, 2.0, True, "3"])
def test_a_top_that_is_no_count_is_refused(top):
    with pytest.raises(ArgumentError, match="Expected top to be a positive int"):
        fitted().votes(QUERIES, top=top)


# -- copies and embeddings ------------------------------------------------------------------------


def test_find_names_copies_under_other_ids():
    X, y = blobs(40)
    model = fitted().remember(X[[3]], [y[3]], ids=["a copy"])
    found = [match.id for match in model.find(X[[3]], tolerance=1e-4)[0]]
    assert found == ["a copy", "row-number-3"]


def test_find_answers_each_query():
    found = remembering().find(np.concatenate([blobs(40)[0][[5]], [[30.0, 0, 0, 0]]]))
    assert [[match.id for match in matches] for matches in found] == [["row-number-5"], []]


def test_find_with_more_tolerance_finds_near_rows():
    assert len(remembering().find(blobs(40)[0][[5]], tolerance=0.8)[0]) > 1


def test_find_in_an_empty_memory_finds_nothing():
    model = remembering()
    model.forget(classes=["a", "b"])
    assert model.find(QUERIES) == [[] for _ in QUERIES]


def test_embeddings_are_those_of_the_memory_before_rounding():
    model = fitted()
    stored = np.stack([row.embedding for row in model.memory.get(names(40))])
    np.testing.assert_allclose(model.embed(blobs(40)[0]), stored, atol=2.0**-15 + 1e-9)


def test_the_identity_embeds_inputs_as_they_are():
    np.testing.assert_array_equal(remembering().embed(QUERIES), QUERIES)


# -- what a prediction may depend on --------------------------------------------------------------


@every
def test_predictions_do_not_depend_on_the_batch(reduction):
    X = blobs(600, seed=4)[0]
    model = fitted(reduction=reduction)
    together = model.predict_proba(X)
    alone = np.concatenate([model.predict_proba(X[[i]]) for i in range(0, 600, 37)])
    np.testing.assert_allclose(together[::37], alone, rtol=0, atol=1e-5)


def test_predictions_of_a_convolutional_network_do_not_depend_on_the_batch():
    images = np.random.default_rng(0).random((300, 6, 6)).astype(np.float32)
    model = SPMClassifier(encoder_options={"widths": [8], "dim": 8}, epochs=1, random_state=0)
    model.fit(images[:60], ["a", "b"] * 30)
    together = model.predict_proba(images)
    alone = np.concatenate([model.predict_proba(images[[i]]) for i in range(0, 300, 29)])
    np.testing.assert_allclose(together[::29], alone, rtol=0, atol=1e-5)


@every
def test_predictions_do_not_depend_on_the_order_of_rows(reduction):
    X, y = blobs(40)
    order = np.random.default_rng(3).permutation(40)
    shuffled = SPMClassifier("identity", reduction).remember(X[order], [y[i] for i in order])
    expected = remembering(reduction=reduction).predict_proba(QUERIES)
    np.testing.assert_allclose(shuffled.predict_proba(QUERIES), expected, rtol=0, atol=1e-12)


def test_training_with_one_seed_gives_the_same_bits_twice():
    assert fitted().weights_digest == fitted().weights_digest


def test_training_with_another_seed_gives_other_weights():
    assert fitted().weights_digest != fitted(random_state=1).weights_digest


def test_the_reduction_changes_without_refitting():
    model = fitted()
    before = model.weights_digest, model.memory.digest
    prototypes = model.predict_proba(QUERIES)
    rows = model.set_params(reduction="rows").predict_proba(QUERIES)
    assert (model.weights_digest, model.memory.digest) == before
    assert not np.allclose(rows, prototypes)
    np.testing.assert_array_equal(
        model.set_params(reduction="prototypes").predict_proba(QUERIES), prototypes
    )


@every
def test_a_reduction_that_comes_back_predicts_the_same_bits(reduction):
    model = fitted(reduction=reduction, k=5)
    before = model.predict_log_proba(QUERIES)
    for other in ("prototypes", "rows", "neighbours", "gaussian"):
        model.set_params(reduction=other).predict(QUERIES)
    model.set_params(reduction=reduction)
    np.testing.assert_array_equal(model.predict_log_proba(QUERIES), before)


@pytest.mark.parametrize("reduction", ["prototypes", "rows", "neighbours"])
def test_similarity_is_attention_with_the_identity_for_weights(reduction):
    model = fitted(reduction=reduction)
    similar = model.set_params(attention="similarity").predict_proba(QUERIES)
    fusion = model.set_params(attention="learnt").network_.fusion
    with torch.no_grad():
        fusion.W_q.copy_(torch.eye(8))
        fusion.W_k.copy_(torch.eye(8))
    np.testing.assert_allclose(similar, model.predict_proba(QUERIES), rtol=0, atol=1e-12)


@both
def test_attention_changes_and_comes_back_without_refitting(reduction):
    model = fitted(reduction=reduction)
    before, digest = model.predict_log_proba(QUERIES), model.weights_digest
    similar = model.set_params(attention="similarity").predict_log_proba(QUERIES)
    assert not np.allclose(similar, before)
    assert model.weights_digest == digest
    model.set_params(attention="learnt")
    np.testing.assert_array_equal(model.predict_log_proba(QUERIES), before)


def test_training_with_similarity_leaves_the_projections_as_they_were():
    fusion = fitted(attention="similarity").network_.fusion
    assert torch.equal(fusion.W_q, torch.eye(8))
    assert torch.equal(fusion.W_k, torch.eye(8))


@every
def test_the_temperature_divides_differences_of_logits(reduction):
    def gap(model):
        logs = model.predict_log_proba(QUERIES)
        return logs[:, 1] - logs[:, 0]

    # One row per class: then votes of rows are a softmax over two scores as well.
    model = SPMClassifier("identity", reduction).remember(
        [[1.0, 0, 0, 2], [0, 1, 1, 0]], ["a", "b"]
    )
    cold, warm = gap(model), gap(model.set_params(temperature=4.0))
    np.testing.assert_allclose(4 * warm, cold, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(gap(model.set_params(temperature=1.0)), cold)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attention", "learned"),
        ("temperature", 0.0),
        ("temperature", "warm"),
        ("k", 0),
        ("k", 2.5),
        ("search", "fuzzy"),
    ],
)
def test_a_way_to_read_that_there_is_not_is_refused(name, value):
    model = fitted(reduction="neighbours")
    with pytest.raises(ArgumentError, match=repr(value)):
        model.set_params(**{name: value})
    setattr(model, name, value)
    with pytest.raises(ArgumentError, match=repr(value)):
        model.predict(QUERIES)


@pytest.mark.parametrize(("name", "value"), [("attention", "learned"), ("temperature", -1.0)])
def test_a_way_to_read_that_there_is_not_is_refused_before_training(name, value):
    with pytest.raises(ArgumentError, match=repr(value)):
        fitted(**{name: value})


def test_equal_votes_are_another_classifiers_business():
    with pytest.raises(ArgumentError, match="Expected KNNClassifier for the reduction 'knn'"):
        fitted(reduction="knn")


@every
def test_predictions_follow_what_was_forgotten_since_the_last_one(reduction):
    X, y = blobs(40)
    model = remembering(reduction=reduction)
    model.predict(QUERIES)
    model.forget(ids=names(10))
    other = SPMClassifier("identity", reduction).remember(X[10:], y[10:], ids=names(40)[10:])
    np.testing.assert_allclose(
        model.predict_proba(QUERIES), other.predict_proba(QUERIES), rtol=0, atol=1e-12
    )


def test_an_unknown_reduction_is_refused_with_the_known_ones():
    model = fitted()
    with pytest.raises(ArgumentError, match="'gaussian', 'knn', but got 'magic'"):
        model.set_params(reduction="magic")
    model.reduction = "magic"
    with pytest.raises(ArgumentError, match="'gaussian', 'knn', but got 'magic'"):
        model.predict(QUERIES)


def test_swapping_the_rows_of_two_classes_swaps_the_predictions():
    X, y = blobs(40)
    model = SPMClassifier(fitted().encoder_).remember(X, y)
    swapped = SPMClassifier(fitted().encoder_).remember(X, ["ba"["ab".index(c)] for c in y])
    np.testing.assert_allclose(
        model.predict_proba(QUERIES), swapped.predict_proba(QUERIES)[:, ::-1], atol=1e-12
    )


# -- states in which there is no answer -----------------------------------------------------------


@pytest.mark.parametrize("call", ["predict", "predict_proba", "votes", "find", "embed"])
def test_a_model_that_was_never_fitted_says_so(call):
    with pytest.raises(NotFittedError):
        getattr(SPMClassifier(), call)(QUERIES)


@pytest.mark.parametrize("name", ["memory", "encoder_", "provenance_", "weights_digest"])
def test_a_model_that_was_never_fitted_has_no_state(name):
    with pytest.raises(NotFittedError):
        getattr(SPMClassifier(), name)


@pytest.mark.parametrize("kind", [SPMClassifier, ParametricClassifier])
def test_a_model_that_was_never_fitted_has_no_classes(kind):
    assert not hasattr(kind(), "classes_")


@pytest.mark.parametrize("call", ["predict", "predict_proba", "votes"])
def test_an_empty_memory_has_no_answer(call):
    model = fitted()
    model.forget(classes=["a", "b"])
    with pytest.raises(StateError, match=r"empty: remember\(\) some first"):
        getattr(model, call)(QUERIES)


def test_an_empty_memory_has_no_classes():
    model = fitted()
    model.forget(classes=["a", "b"])
    assert model.classes_.tolist() == []


# -- the twin -------------------------------------------------------------------------------------


def test_the_twin_tells_its_classes_apart():
    X, y = blobs(40)
    assert ParametricClassifier(**TINY, epochs=5).fit(X, y).score(*blobs(40, seed=1)) > 0.9


def test_the_twin_keeps_a_column_for_classes_it_never_saw():
    X, y = blobs(40)
    twin = ParametricClassifier(**TINY, epochs=1).fit(X, y, classes=["zebra", "a"])
    assert twin.classes_.tolist() == ["a", "b", "zebra"]
    assert twin.predict_proba(QUERIES).shape == (7, 3)


@pytest.mark.parametrize("name", ["forget", "remember", "votes", "memory"])
def test_the_twin_cannot_forget(name):
    assert not hasattr(ParametricClassifier(), name)


def test_a_deep_copy_forgets_by_itself():
    model = fitted()
    before = model.memory.digest
    copy.deepcopy(model).forget(classes=["a"])
    assert model.memory.digest == before


@every
def test_a_deep_copy_that_forgets_leaves_the_originals_predictions(reduction):
    model = fitted(reduction=reduction)
    before = model.predict_log_proba(QUERIES)
    twin = copy.deepcopy(model)
    twin.forget(ids=names(9))
    assert not np.array_equal(twin.predict_log_proba(QUERIES), before)
    np.testing.assert_array_equal(model.predict_log_proba(QUERIES), before)
