"""The gap to the parametric twin under one change at a time, on a few digits."""

from dataclasses import replace

import pytest

from erasable.bench import Gap, Run, Runs, collect_gaps, gap_page, run_gap
from erasable.bench._gap import changes
from erasable.data import load_dataset
from erasable.errors import ArgumentError
from erasable.models import (
    ParametricClassifier,
    SPMClassifier,
    parameters_of,
    preset_settings,
)
from erasable.training import Training

SHAPE = (1, 8, 8)


@pytest.fixture(scope="module")
def data():
    found = load_dataset("digits")
    return replace(found, train=found.train.take(range(120)), test=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("gap")


@pytest.fixture(scope="module")
def found(data, folder):
    return run_gap(data, scale="tiny", seeds=[0], rows=80, runs=Runs(folder))


@pytest.mark.parametrize("scale", ["tiny", "laptop", "fast", "accurate", "paper"])
def test_every_change_changes_something_and_both_models_take_it(scale):
    parameters = preset_settings(scale, SHAPE)
    tried = changes(parameters)
    assert tried[0].both == tried[0].spm == {}
    names = [change.name for change in tried]
    assert len(set(names)) == len(names)
    for change in tried[1:]:
        own = {**change.both, **change.spm}
        known = {**Training().get_params(), **SPMClassifier().get_params(), **parameters}
        assert any(known[name] != value for name, value in own.items())
        ParametricClassifier(**parameters_of({**parameters, **change.both}))
        SPMClassifier(**parameters_of({**parameters, **own}))


def test_no_test_row_is_read(found):
    """The data set of these runs has none."""
    assert found["preset"][0][0].settings["data"]["test_rows"] == 0


def test_each_change_has_a_pair_of_runs_per_seed(found):
    assert list(found) == [change.name for change in changes(preset_settings("tiny", SHAPE))]
    for pairs in found.values():
        ((twin, own),) = pairs
        assert twin.settings["model"] == "ParametricClassifier"
        assert own.settings["model"] == "SPMClassifier"
        assert 0 <= twin.result["accuracy"] <= 1
        assert 0 <= own.result["accuracy"] <= 1


def test_what_only_one_model_has_is_changed_in_that_one(found):
    (preset_pair,), (hot,) = found["preset"], found["temperature 2"]
    assert hot[0] == preset_pair[0]
    assert hot[1].settings["parameters"]["temperature"] == 2.0
    assert "temperature" not in preset_pair[1].settings["parameters"]


def test_finished_runs_are_not_run_again(data, folder, found):
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = run_gap(data, scale="tiny", seeds=[0], rows=80, runs=Runs(folder))
    assert again == found
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": []}, "at least one seed"),
        ({"scale": "exact"}, "a preset that trains"),
        ({"rows": 81}, "2 to 80 rows"),
        ({"rows": 1}, "2 to 80 rows"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_work(data, tmp_path, options, message):
    asked = {"scale": "tiny", "seeds": [0], "rows": 80, **options}
    with pytest.raises(ArgumentError, match=message):
        run_gap(data, runs=Runs(tmp_path / "runs"), **asked)
    assert not (tmp_path / "runs").exists()


def run(model, accuracy, seed, **parameters):
    settings = {
        "data": {"name": "d", "train_contents": "a" * 64, "test_contents": "b" * 64},
        "rows": 100,
        "model": model,
        "parameters": parameters,
        "seed": seed,
    }
    return Run(settings, {"accuracy": accuracy}, 60.0, "machine", "now")


def test_the_page_pairs_seeds_and_counts_each_run_once():
    twins = [run("twin", 0.5, 0), run("twin", 0.7, 1)]
    first = [(twins[0], run("spm", 0.6, 0)), (twins[1], run("spm", 0.7, 1))]
    second = [(twins[0], run("spm", 0.4, 0, hot=1)), (twins[1], run("spm", 0.4, 1, hot=1))]
    pairs = {"preset": first, "hot": second}
    assert collect_gaps(pairs)[0] == Gap("preset", [0.5, 0.7], [0.6, 0.7])
    assert collect_gaps(pairs)[1].mean == pytest.approx(-0.2)
    page = "\n".join(gap_page(pairs, "the command"))
    assert "| preset | 60.00 ± 14.14 | 65.00 ± 7.07 | +5.00 ± 7.07 |" in page
    assert "| hot | 60.00 ± 14.14 | 40.00 ± 0.00 | -20.00 ± 14.14 |" in page
    assert "6 minutes in all" in page
    assert "`the command`" in page
    assert "100 of the training rows and compared on 50 others" in page
