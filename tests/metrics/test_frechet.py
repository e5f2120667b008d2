"""Fréchet distances: closed forms, scipy's matrix square root, and what is refused."""

import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm

from erasable import ParametricClassifier
from erasable.errors import ArgumentError, MissingExtraError, StateError
from erasable.metrics import (
    ClassifierFeatures,
    FrechetDistance,
    InceptionFeatures,
    frechet_distance,
    gaussian_distance,
)
from models.toys import blobs

unhurried = settings(deadline=None, max_examples=40)
seeds = st.integers(0, 2**32 - 1)


def drawn(count, dim, seed=0, scale=1.0):
    return scale * np.random.default_rng(seed).normal(size=(count, dim))


def by_scipy(first, second):
    """Compute the distance by scipy's square root of the product of covariances."""
    means = [values.mean(axis=0) for values in (first, second)]
    covariances = [np.atleast_2d(np.cov(values, rowvar=False)) for values in (first, second)]
    root = np.real(sqrtm(covariances[0] @ covariances[1]))
    apart = ((means[0] - means[1]) ** 2).sum()
    return apart + np.trace(covariances[0] + covariances[1] - 2 * root)


@unhurried
@given(seeds, st.integers(1, 6), st.integers(8, 20), st.integers(8, 20))
def test_it_equals_the_square_root_of_scipy(seed, dim, count, other):
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(count, dim)) @ rng.normal(size=(dim, dim))
    second = rng.normal(size=(other, dim)) @ rng.normal(size=(dim, dim)) + rng.normal(size=dim)
    expected = by_scipy(first, second)
    assert frechet_distance(first, second) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@unhurried
@given(seeds, st.integers(1, 5))
def test_of_gaussians_with_parallel_axes_it_is_a_sum_over_axes(seed, dim):
    rng = np.random.default_rng(seed)
    means, deviations = rng.normal(size=(2, dim)), rng.uniform(0, 3, size=(2, dim))
    found = gaussian_distance(
        means[0], np.diag(deviations[0] ** 2), means[1], np.diag(deviations[1] ** 2)
    )
    expected = ((means[0] - means[1]) ** 2 + (deviations[0] - deviations[1]) ** 2).sum()
    assert found == pytest.approx(expected, abs=1e-9)


@unhurried
@given(seeds)
def test_it_is_symmetric_and_zero_for_equal_sets(seed):
    first, second = drawn(30, 5, seed), drawn(20, 5, seed + 1, scale=2.0)
    forth, back = frechet_distance(first, second), frechet_distance(second, first)
    assert forth == pytest.approx(back, rel=1e-9)
    assert frechet_distance(first, first) == pytest.approx(0, abs=1e-9)


def test_fewer_images_than_features_are_no_obstacle():
    first, second = drawn(5, 40), drawn(6, 40, 1)
    assert frechet_distance(first, second) == pytest.approx(by_scipy(first, second), rel=1e-4)


@unhurried
@given(seeds, st.integers(1, 5))
def test_batches_give_what_the_whole_gives(seed, parts):
    first, second = drawn(20, 3, seed), drawn(15, 3, seed + 1) + 5
    metric = FrechetDistance(3)
    for values, is_first in ((first, True), (second, False)):
        for part in np.array_split(values, parts):
            metric.update(torch.from_numpy(part), is_first=is_first)
    assert metric.compute().item() == pytest.approx(frechet_distance(first, second), rel=1e-9)


def test_what_is_malformed_is_named():
    with pytest.raises(ArgumentError, match=r"'first'.*at least two images.*'second'.*finite"):
        frechet_distance(drawn(1, 3), np.full((4, 3), np.nan))
    with pytest.raises(ArgumentError, match="one network"):
        frechet_distance(drawn(4, 3), drawn(4, 2))
    with pytest.raises(ArgumentError, match="'first' to be numbers"):
        frechet_distance(np.array([["a"]]), drawn(4, 2))


def test_a_wrong_batch_changes_nothing():
    metric = FrechetDistance(3)
    metric.update(drawn(4, 3), is_first=True)
    with pytest.raises(ArgumentError, match=r"\(n, 3\)"):
        metric.update(drawn(4, 2), is_first=True)
    with pytest.raises(ArgumentError, match="finite"):
        metric.update(np.full((4, 3), np.nan), is_first=True)
    with pytest.raises(StateError, match="second set, but got 0"):
        metric.compute()
    metric.update(drawn(4, 3), is_first=False)
    assert metric.compute().item() == pytest.approx(0, abs=1e-9)


def test_features_of_a_classifier_are_its_embeddings():
    X, y = blobs(40)
    classifier = ParametricClassifier("mlp", epochs=1, random_state=0).fit(X, y)
    features = ClassifierFeatures(classifier, name="mlp")
    with torch.no_grad():
        expected = classifier.network_.encoder(torch.from_numpy(X)).double().numpy()
    np.testing.assert_allclose(features(X), expected, rtol=1e-6, atol=1e-6)
    assert features.name == "mlp"


def test_inception_asks_for_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_fidelity", None)
    with pytest.raises(MissingExtraError, match="torch-fidelity"):
        InceptionFeatures()
