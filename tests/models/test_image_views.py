"""Predictions that are a mean over views of an image."""

import numpy as np
import pytest
from scipy.special import log_softmax

from erasable import KNNClassifier, ParametricClassifier, SPMClassifier, load
from erasable.errors import ArgumentError
from models.toys import blobs, names, snapshot

COUNT, SHAPE = 24, (3, 6, 5)
IMAGES = np.random.default_rng(0).normal(size=(COUNT, *SHAPE)).astype(np.float32)
LABELS = [("a", "b", "c")[place % 3] for place in range(COUNT)]
QUERIES = np.random.default_rng(1).normal(size=(9, *SHAPE)).astype(np.float32)
CNN = {"encoder": "small_cnn", "encoder_options": {"widths": [4], "dim": 6}, "random_state": 0}
READOUTS = {
    **{
        reduction: lambda reduction=reduction, **options: SPMClassifier(
            reduction=reduction, k=5, **CNN, **options
        )
        for reduction in ("prototypes", "rows", "neighbours", "gaussian")
    },
    "similarity": lambda **options: SPMClassifier(attention="similarity", **CNN, **options),
    "knn": lambda **options: KNNClassifier(k=5, **CNN, **options),
    "parametric": lambda **options: ParametricClassifier(**CNN, **options),
}
every = pytest.mark.parametrize("name", READOUTS)
several = pytest.mark.parametrize("views", ["mirror", "six"])


def fitted(name, **options):
    """Return a classifier of images that was trained for a moment."""
    model = READOUTS[name](epochs=1, batch_size=12, **options)
    named = {} if name == "parametric" else {"ids": names(COUNT)}
    return model.fit(IMAGES, LABELS, **named)


def mirrored(images):
    return images[..., ::-1].copy()


def shifted(images, by):
    """Move images down and right by a pixel, or up and left; pixels at the edge are reflected."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="reflect")
    height, width = images.shape[2:]
    return padded[..., 1 - by : 1 - by + height, 1 - by : 1 - by + width].copy()


def views_of(images, views):
    """Return the views of images with their weights, written out."""
    own = [(images, 0.5), (mirrored(images), 0.5)]
    if views == "mirror":
        return own
    moved = [shifted(images, by) for by in (-1, 1)]
    return [
        *((view, 0.25) for view, _ in own),
        *((view, 0.125) for one in moved for view in (one, mirrored(one))),
    ]


# -- what is predicted ----------------------------------------------------------------------------


@every
def test_a_mirror_image_gets_the_same_prediction(name):
    model = fitted(name)
    assert not np.allclose(model.predict_proba(QUERIES), model.predict_proba(mirrored(QUERIES)))
    model.set_params(views="mirror")
    np.testing.assert_allclose(
        model.predict_proba(QUERIES), model.predict_proba(mirrored(QUERIES)), rtol=0, atol=1e-6
    )


@several
@pytest.mark.parametrize("name", ["prototypes", "similarity", "parametric"])
def test_where_logits_are_linear_the_prediction_is_that_of_their_mean(name, views):
    model = fitted(name)
    logs = [weight * model.predict_log_proba(view) for view, weight in views_of(QUERIES, views)]
    model.set_params(views=views)
    found = model.predict_log_proba(QUERIES)
    np.testing.assert_allclose(found, log_softmax(sum(logs), axis=1), rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, atol=1e-12)


@several
def test_a_query_is_the_mean_of_the_embeddings_of_its_views(views):
    model = fitted("rows")
    expected = sum(weight * model.embed(view) for view, weight in views_of(QUERIES, views))
    found = model.set_params(views=views).embed(QUERIES, as_queries=True)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_with_one_view_a_query_is_embedded_as_a_row():
    model = fitted("rows")
    np.testing.assert_array_equal(model.embed(QUERIES, as_queries=True), model.embed(QUERIES))


@several
@pytest.mark.parametrize("name", [name for name in READOUTS if name != "parametric"])
def test_rows_have_one_view(name, views):
    plain, model = fitted(name), fitted(name, views=views)
    assert model.weights_digest == plain.weights_digest
    assert model.memory.digest == plain.memory.digest
    np.testing.assert_array_equal(model.embed(QUERIES), plain.embed(QUERIES))
    assert not np.allclose(model.predict_proba(QUERIES), plain.predict_proba(QUERIES))


@several
@pytest.mark.parametrize("name", ["rows", "neighbours", "knn"])
def test_votes_sum_to_class_probabilities(name, views):
    model = fitted(name, views=views)
    votes = model.votes(QUERIES, top=COUNT)
    assert votes.kind == "probability"
    sums = [np.where(votes.labels == c, votes.weights, 0).sum(axis=1) for c in model.classes_]
    np.testing.assert_allclose(np.stack(sums, 1), model.predict_proba(QUERIES), atol=1e-9)


@several
def test_votes_of_prototypes_sum_to_logits(views):
    model = fitted("prototypes", views=views)
    votes = model.votes(QUERIES, top=COUNT)
    logits = [np.where(votes.labels == c, votes.weights, 0).sum(axis=1) for c in model.classes_]
    found = log_softmax(np.stack(logits, 1), axis=1)
    np.testing.assert_allclose(found, model.predict_log_proba(QUERIES), rtol=0, atol=1e-9)


@several
def test_a_row_that_is_left_out_does_not_vote(views):
    model = fitted("rows", views=views)
    votes = model.votes(IMAGES[:4], top=COUNT, exclude_ids=names(4))
    assert all(row not in ids for row, ids in zip(names(4), votes.ids.tolist(), strict=True))
    others = model.votes(IMAGES[:1], top=COUNT, exclude_ids=names(1))
    model.forget(ids=names(1))
    expected = model.votes(IMAGES[:1], top=COUNT)
    np.testing.assert_allclose(others.weights[:, :-1], expected.weights[:, :23], atol=1e-9)


def test_k_is_chosen_by_the_views_that_predict():
    model = fitted("knn", views="mirror")
    scores = [
        dict(model.tune(images, LABELS[:9], ks=[1, 5]).k_scores_)
        for images in (QUERIES, mirrored(QUERIES))
    ]
    assert scores[0] == scores[1]


@every
def test_views_are_changed_at_any_time(name):
    model = fitted(name)
    before = model.predict_proba(QUERIES)
    there = model.set_params(views="six").predict_proba(QUERIES)
    assert not np.allclose(before, there)
    np.testing.assert_array_equal(model.set_params(views="one").predict_proba(QUERIES), before)


@several
@pytest.mark.parametrize("name", ["prototypes", "rows", "knn"])
def test_a_loaded_model_predicts_the_same(name, views, tmp_path):
    model = fitted(name, views=views)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.views == views
    np.testing.assert_allclose(
        again.predict_proba(QUERIES), model.predict_proba(QUERIES), rtol=0, atol=1e-9
    )


@several
def test_images_as_bytes_are_seen_in_the_same_views(views):
    images = np.random.default_rng(3).integers(0, 256, (COUNT, 6, 5, 3), dtype=np.uint8)
    model = SPMClassifier(**CNN, epochs=0, views=views).fit(images, LABELS)
    np.testing.assert_allclose(
        model.predict_proba(images),
        model.predict_proba((images / 255).astype(np.float32)),
        rtol=0,
        atol=1e-6,
    )


# -- refusals -------------------------------------------------------------------------------------

WRONG = {
    "vectors": ("mirror", blobs(12), "Expected images with views='mirror'"),
    "an unknown name": ("both", (IMAGES, LABELS), "'one', 'mirror', 'six', but got 'both'"),
    "no name": (None, (IMAGES, LABELS), "'one', 'mirror', 'six', but got None"),
    "a list": (["one"], (IMAGES, LABELS), "'one', 'mirror', 'six', but got"),
    "too narrow images": ("six", (IMAGES[:, :, :1], LABELS), "at least 2 × 2 pixels"),
}
wrong = pytest.mark.parametrize(("views", "rows", "message"), WRONG.values(), ids=WRONG.keys())
KINDS = pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier, ParametricClassifier])


@KINDS
@wrong
def test_fit_refuses_views_that_there_are_not(kind, views, rows, message):
    model = kind(views=views, epochs=0)
    with pytest.raises(ArgumentError, match=message):
        model.fit(*rows)
    assert not hasattr(model, "network_")


@pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier])
@wrong
def test_remember_refuses_views_that_there_are_not(kind, views, rows, message):
    model = kind(views=views)
    with pytest.raises(ArgumentError, match=message):
        model.remember(*rows)
    assert not hasattr(model, "network_")


@KINDS
@wrong
def test_setting_refuses_views_that_there_are_not(kind, views, rows, message):
    model = kind(epochs=0, random_state=0).fit(*rows)
    before = snapshot(model)
    with pytest.raises(ArgumentError, match=message):
        model.set_params(learning_rate=0.5, views=views)
    assert snapshot(model) == before


def test_narrow_images_have_a_mirror_image():
    model = SPMClassifier(epochs=0, views="mirror", random_state=0).fit(IMAGES[:, :, :1], LABELS)
    assert np.isfinite(model.predict_proba(IMAGES[:, :, :1])).all()
