"""Tuning on a few digits."""

from dataclasses import replace

import pytest

from erasable.baselines import methods
from erasable.bench._harness import Harness
from erasable.bench._runs import Run, Runs
from erasable.bench._tune import combinations, mean_gap, tune
from erasable.data import load_dataset
from erasable.errors import ArgumentError, StateError


@pytest.fixture(scope="module")
def harness(tmp_path_factory):
    found = load_dataset("digits")
    data = replace(found, train=found.train.take(range(200)), test=found.test.take(range(100)))
    return Harness(data, scale="tiny", runs=Runs(tmp_path_factory.mktemp("tune")))


def test_every_combination_is_tried_and_the_smallest_gap_chosen(harness):
    found = tune(harness, "ga", rule="class:9")
    rates = [entry["settings"]["learning_rate"] for entry in found["searched"]]
    assert rates == list(methods()["ga"].grid()["learning_rate"])
    gaps = [entry["mean_gap"] for entry in found["searched"] if entry["mean_gap"] is not None]
    assert found["mean_gap"] == min(gaps)
    chosen = next(e for e in found["searched"] if e["settings"] == found["chosen"])
    assert chosen["mean_gap"] == found["mean_gap"]


def test_combinations_are_the_whole_grid():
    grid = methods()["salun"].grid()
    found = combinations(methods()["salun"])
    assert len(found) == len(grid["learning_rate"]) * len(grid["share"])
    assert len({tuple(sorted(entry.items())) for entry in found}) == len(found)
    assert combinations(methods()["deletion"]) == [{}]


def test_a_cell_that_diverged_is_never_chosen(monkeypatch, harness):
    deltas = {0.003: 0.5, 0.01: None, 0.03: 0.1, 0.1: 0.2}

    def cell(wanted):
        gap = deltas[wanted.method.learning_rate]
        compare = {"deltas": dict.fromkeys(("ua", "ra", "ta"), gap)}
        result = {"failed": "no"} if gap is None else {"compare": compare}
        return Run({}, result, 0.0, "", "")

    monkeypatch.setattr(harness, "cell", cell)
    assert tune(harness, "ft", rule="class:9")["chosen"] == {"learning_rate": 0.03}
    deltas.update(dict.fromkeys(deltas))
    with pytest.raises(StateError, match="all of them diverged"):
        tune(harness, "ft", rule="class:9")


def test_the_mean_gap_is_that_of_three_accuracies():
    compare = {"deltas": {"ua": 0.3, "ra": 0.1, "ta": 0.2, "ra_left_out": 9.0}}
    assert mean_gap(Run({}, {"compare": compare}, 0.0, "", "")) == pytest.approx(0.2)


def test_an_unknown_method_is_refused(harness):
    with pytest.raises(ArgumentError, match="name of a method"):
        tune(harness, "odd", rule="class:9")
