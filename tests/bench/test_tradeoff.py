"""Accuracy against forgetting, on a few digits."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from erasable.bench import _tradeoff
from erasable.bench._runs import Runs
from erasable.bench._tradeoff import Recipe, recipes, run_tradeoff, tradeoff_document
from erasable.data import load_dataset
from erasable.errors import ArgumentError

RECIPES = [
    Recipe("all", "line"),
    Recipe("half", "line", 0.5),
    Recipe("slow", "public", 1, True, 0.1),
    Recipe("only", "public", 0, True, 0),
]


@pytest.fixture(scope="module")
def data():
    found = load_dataset("digits")
    return replace(found, train=found.train.take(range(200)), test=found.test.take(range(100)))


@pytest.fixture(scope="module")
def public(data):
    """Return other rows of the same shape, with ids of their own."""
    others = load_dataset("digits").train.take(range(300, 500))
    named = replace(others, ids=[f"public-{i}" for i in range(200)])
    return replace(data, name="others", train=named)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tradeoff")


@pytest.fixture(scope="module")
def points(data, public, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tradeoff, "recipes", lambda has_public: RECIPES)
        kwargs = {"scale": "tiny", "seeds": [0, 1], "runs": Runs(folder), "public": public}
        return run_tradeoff(data, **kwargs)


def test_the_recipes_go_from_all_rows_to_none():
    shares = [recipe.share for recipe in recipes(has_public=True)]
    assert shares == [1, 0.5, 0.25, 0.1, 1, 1, 1, 0, 0]
    assert not any(recipe.is_public for recipe in recipes(has_public=False))
    names = [recipe.name for recipe in recipes(has_public=True)]
    assert len(set(names)) == len(names)


def test_levels_follow_from_what_the_weights_saw(points):
    exact = {point.recipe.name: point.runs[0].result["exact"] for point in points}
    assert exact["all"] == exact["slow"] == 0
    assert 0 < exact["half"] < 1
    assert exact["only"] == 1


def test_nothing_is_left_at_level_exact(points):
    (only,) = (point for point in points if point.recipe.name == "only")
    assert only.gaps("prediction_gap").values == [0, 0]
    assert only.gaps("kl_oracle_unlearned").values == [0, 0]
    assert only.attack == [0, 0]


def test_weights_that_saw_the_rows_keep_a_gap(points):
    (whole,) = (point for point in points if point.recipe.name == "all")
    assert min(whole.gaps("prediction_gap").values) > 0
    assert whole.gaps("prediction_gap").floor > 0


def test_the_document_has_a_line_per_recipe_and_a_curve(points, tmp_path):
    document = tradeoff_document(points, "erasable tables tradeoff")
    assert [row[0] for row in document.sheets[0].rows] == ["all", "half", "slow", "only"]
    assert document.sheets[0].rows[3][1] == "100 %"
    assert "Public data to start from: others" in document.facts
    document.write(tmp_path / "page.md")
    assert (tmp_path / "page-curve.png").read_bytes().startswith(b"\x89PNG")


def test_the_most_accurate_recipe_within_the_floor_is_named(points):
    def judged(floors):
        changed = copy.deepcopy(points)
        for point, floor in zip(changed, floors, strict=True):
            for pair in point.floor.result["pairs"]:
                pair["deltas"]["ua"] = floor
            for number, run in enumerate(point.runs):
                run.result["compare"]["deltas"]["ua"] = 0.1 + 0.02 * number
        return tradeoff_document(changed, "command").sheets[0].notes

    by_accuracy = sorted(range(4), key=lambda i: -np.mean(points[i].values("ta")))
    for best in by_accuracy:  # each in turn is the most accurate one of those within the floor
        alike = by_accuracy[by_accuracy.index(best) :]
        (note,) = judged([0.12 if i in alike else 0.1 for i in range(4)])
        assert f"within the floor: {points[best].recipe.name}, TA" in note
    assert judged([0.1] * 4) == []


def test_what_a_row_shows_the_weights_does_not_depend_on_the_others():
    ids = [f"row-{i}" for i in range(400)]
    seen = _tradeoff._seen(ids, 0.25)
    np.testing.assert_array_equal(_tradeoff._seen(ids[::2], 0.25), seen[::2])
    assert 0.15 < seen.mean() < 0.35
    assert _tradeoff._seen(ids, 1).all()


def test_finished_points_are_not_made_again(data, public, folder, points, monkeypatch):
    monkeypatch.setattr(_tradeoff, "recipes", lambda has_public: RECIPES)
    monkeypatch.setattr(_tradeoff, "SPMClassifier", None)
    again = run_tradeoff(data, scale="tiny", seeds=[0, 1], runs=Runs(folder), public=public)
    assert again == points


def test_lost_predictions_of_an_oracle_are_made_again(data, public, folder, points, monkeypatch):
    monkeypatch.setattr(_tradeoff, "recipes", lambda has_public: RECIPES[:1])
    for path in (folder / "predictions").iterdir():
        path.unlink()
    kwargs = {"scale": "tiny", "runs": Runs(folder), "public": public}
    (point,) = run_tradeoff(data, seeds=[0, 1, 2], **kwargs)
    assert point.runs[:2] == points[0].runs
    assert len(point.floor.result["pairs"]) == 3


def test_what_cannot_be_compared_is_refused(data, public, tmp_path):
    runs = Runs(tmp_path)
    with pytest.raises(ArgumentError, match="at least two seeds"):
        run_tradeoff(data, scale="tiny", seeds=[0], runs=runs)
    with pytest.raises(ArgumentError, match="a preset that trains"):
        run_tradeoff(data, scale="exact", seeds=[0, 1], runs=runs)
    flat = replace(public.train, X=public.train.X.reshape(200, -1))
    with pytest.raises(ArgumentError, match="Expected public rows of shape"):
        run_tradeoff(
            data, scale="tiny", seeds=[0, 1], runs=runs, public=replace(public, train=flat)
        )
