"""SISA forgets exactly: its state after forgetting is that of a model that never had the rows."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from erasable.baselines import SISAClassifier, unlearn
from erasable.errors import ArgumentError, RowIdError, StateError
from erasable.training import TrainingConfig
from erasable.weights import weights_digest

COUNT = 120


def make(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, COUNT)
    X = rng.normal(size=(COUNT, 4)).astype(np.float32)
    X[np.arange(COUNT), y] += 3
    return X, y, [f"row-{i}" for i in range(COUNT)]


def model(**settings):
    config = TrainingConfig(epochs=3, batch_size=16)
    return SISAClassifier(make, config, **{"shards": 3, "slices": 2, "seed": 1, **settings})


def fit(rows, keep=None, **settings):
    X, y, ids = rows
    keep = range(COUNT) if keep is None else keep
    keep = list(keep)
    return model(**settings).fit(X[keep], y[keep], ids=[ids[i] for i in keep], classes=[0, 1, 2])


def states(found):
    return [weights_digest(network) for network in found.networks]


@pytest.fixture(scope="module")
def original(rows):
    return fit(rows)


def test_it_learns(rows, original):
    X, y, _ = rows
    assert (original.predict(X) == y).mean() > 0.8
    np.testing.assert_allclose(original.predict_proba(X).sum(1), 1)
    np.testing.assert_allclose(np.exp(original.predict_log_proba(X)), original.predict_proba(X))


@pytest.mark.parametrize("gone", [[5], [5, 77], list(range(40)), list(range(0, 120, 2))])
def test_forgetting_is_never_having_had_the_rows(rows, original, gone):
    found = copy.deepcopy(original)
    result = found.forget(ids=[rows[2][i] for i in gone])
    assert result.rows == len(gone)
    without = fit(rows, [i for i in range(COUNT) if i not in gone])
    assert states(found) == states(without)


def test_forgetting_twice_is_forgetting_both(rows, original):
    first, both = copy.deepcopy(original), copy.deepcopy(original)
    first.forget(ids=["row-3"])
    first.forget(ids=["row-60"])
    both.forget(ids=["row-60", "row-3"])
    assert states(first) == states(both)


def test_one_row_touches_one_shard(original):
    found = copy.deepcopy(original)
    result = found.forget(ids=["row-9"])
    assert result.shards == 1
    assert 0 < result.passes < 0.6
    changed = [a != b for a, b in zip(states(found), states(original), strict=True)]
    assert sum(changed) == 1


def test_the_original_is_not_changed_by_its_copy(rows, original):
    before = states(original)
    found = unlearn("deletion", original, **_splits(rows, [1, 2, 3]))
    assert states(original) == before
    assert states(found.model) == states(fit(rows, [0, *range(4, COUNT)]))


def _splits(rows, gone):
    from erasable.data import Split

    X, y, ids = rows
    whole = Split(X, y, ids)
    return {
        "forget": whole.take(gone),
        "retain": whole.take([i for i in range(COUNT) if i not in gone]),
    }


def test_forgetting_nothing_changes_nothing(original):
    found = copy.deepcopy(original)
    result = found.forget(ids=[])
    assert (result.rows, result.shards, result.passes) == (0, 0, 0)
    assert states(found) == states(original)


def test_shards_hold_about_as_many_rows_each():
    places = model(shards=4, slices=5)._places([f"row-{i}" for i in range(4000)])
    counts = np.bincount(places[:, 0] * 5 + places[:, 1], minlength=20)
    assert counts.min() > 150
    assert counts.max() < 250


def test_a_shard_without_rows_answers_as_it_was_drawn(rows):
    found = fit(rows, range(3), shards=5, slices=3)
    assert np.isfinite(found.predict_log_proba(rows[0])).all()


def test_bad_requests_change_nothing(rows, original):
    before = states(original)
    with pytest.raises(RowIdError, match="'nobody'"):
        original.forget(ids=["row-1", "nobody"])
    assert states(original) == before
    with pytest.raises(StateError, match="fit"):
        model().predict(rows[0])
    with pytest.raises(ArgumentError, match="shards"):
        model(shards=0)
    with pytest.raises(RowIdError, match="distinct"):
        model().fit(rows[0][:2], rows[1][:2], ids=["a", "a"])
