"""What somebody learns who asks before and after."""

import json

import numpy as np
import pytest

from erasable import KNNClassifier, SPMClassifier
from erasable.errors import ArgumentError, StateError
from erasable.models import differencing
from models.toys import blobs, names


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6)) + 3 * np.eye(6)[np.arange(60) % 3]
    return X, np.arange(60) % 3


def found(model, **options):
    return {one.readout: one for one in differencing(model, **options).readouts}


@pytest.mark.parametrize("attention", ["similarity", "learnt"])
def test_prototypes_rows_and_gaussian_show_the_row(rows, attention):
    model = SPMClassifier("mlp", epochs=2, attention=attention, random_state=0)
    shown = found(model.fit(*rows), rows=8)
    for readout in ("prototypes", "rows"):
        assert shown[readout].least > 0.999, readout
    assert shown["gaussian"].mean > 0.7


def test_nearest_neighbours_are_attacked_by_where_answers_changed(rows):
    shown = found(KNNClassifier("identity", k=5).remember(*rows), rows=8)
    assert list(shown) == ["knn"]
    assert 0 <= shown["knn"].least <= shown["knn"].largest <= 1


def test_the_model_is_not_changed(rows):
    model = SPMClassifier("identity").remember(*rows)
    before = model.memory.digest, model.memory.tombstones.entries()
    differencing(model, rows=5)
    assert (model.memory.digest, model.memory.tombstones.entries()) == before


def test_the_order_in_which_rows_came_does_not_matter(rows):
    X, y = rows
    order = np.random.default_rng(1).permutation(60)
    one = SPMClassifier("identity").remember(X, y, ids=names(60))
    other = SPMClassifier("identity").remember(X[order], y[order], ids=np.array(names(60))[order])
    means = [[s.mean for s in differencing(m, rows=3).readouts] for m in (one, other)]
    assert np.allclose(*means, atol=1e-4)


def test_never_the_last_row_of_a_class_is_drawn():
    model = SPMClassifier("identity").remember([[0.0], [1.0], [5.0]], ["a", "a", "b"])
    assert differencing(model, rows=20).rows == 1


def test_rows_that_are_alike_show_nothing_of_their_own():
    model = SPMClassifier("identity").remember([[1.0], [1.0], [1.0], [1.0]], [*"aabb"])
    assert {one.mean for one in differencing(model, rows=2).readouts} == {0.0}


@pytest.mark.parametrize("labels", [["a", "a", "a"], ["a", "b", "c"]])
def test_what_cannot_be_measured_is_refused(labels):
    model = SPMClassifier("identity").remember([[0.0], [1.0], [2.0]], labels)
    with pytest.raises(StateError, match="two classes"):
        differencing(model)


@pytest.mark.parametrize("options", [{"rows": 0}, {"rows": 1.5}, {"seed": -1}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ArgumentError):
        differencing(SPMClassifier("identity").remember(*blobs(20)), **options)


def test_a_report_is_plain_json_and_says_who_asks(rows):
    report = differencing(SPMClassifier("identity").remember(*rows), rows=2)
    assert json.loads(report.to_json())["format"] == "erasable.differencing.1"
    assert "attacker: Somebody who knows the weights" in str(report)
    assert "does not hide the row" in str(report)


@pytest.mark.parametrize("kind", ["spm", "knn"])
def test_an_exact_receipt_says_what_it_does_not_hide(rows, kind):
    model = SPMClassifier("identity") if kind == "spm" else KNNClassifier("identity")
    receipt = model.remember(*rows).forget(ids=[0])
    assert receipt.level == "exact"
    assert "asks the model before and after" in receipt.notes[-1]


def test_a_receipt_of_level_memory_gives_its_reasons_alone(rows):
    receipt = SPMClassifier("mlp", epochs=1, random_state=0).fit(*rows).forget(ids=[0])
    assert len(receipt.notes) == 1
