"""Tuning on a few digits."""

from dataclasses import replace

import pytest

from erasable.baselines import methods
from erasable.bench._harness import Harness
from erasable.bench._runs import Run, Runs
from erasable.bench._tune import combinations, mean_gap, open_ends, trials_left, tune, untried
from erasable.data import load_dataset
from erasable.errors import ArgumentError, StateError


@pytest.fixture(scope="module")
def harness(tmp_path_factory):
    found = load_dataset("digits")
    data = replace(found, train=found.train.take(range(200)), test=found.test.take(range(100)))
    return Harness(data, scale="tiny", runs=Runs(tmp_path_factory.mktemp("tune")))


def test_every_combination_is_tried_and_the_smallest_gap_chosen(harness):
    found = tune(harness, "ga", rule="class:9")
    grid = combinations(methods()["ga"])
    assert [entry["settings"] for entry in found["searched"]][: len(grid)] == grid
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


@pytest.mark.parametrize("name", ["ga", "be", "bs"])
def test_methods_that_only_read_the_forget_set_are_tried_with_both_statistics(name):
    """Running statistics that follow one class are a change of their own."""
    tried = {settings["batch_norm"] for settings in combinations(methods()[name])}
    assert tried == {"train", "frozen"}


def test_a_choice_between_words_has_no_end():
    entries = [
        {"settings": {"learning_rate": rate, "batch_norm": mode}, "mean_gap": rate}
        for rate in (0.1, 0.2, 0.3)
        for mode in ("train", "frozen")
    ]
    chosen = {"learning_rate": 0.2, "batch_norm": "frozen"}
    assert open_ends({"searched": entries, "chosen": chosen}) == []


def searched(**gaps):
    """Return what was tried of fine-tuning, from rates to gaps."""
    return [{"settings": {"learning_rate": float(r)}, "mean_gap": g} for r, g in gaps.items()]


FT = {"0.003": 0.5, "0.01": 0.4, "0.03": 0.3, "0.1": 0.2}


def test_nothing_but_the_grid_is_tried_while_some_of_it_is_left():
    left = untried(methods()["ft"], searched(**{"0.003": 0.5, "0.1": None}))
    assert [settings["learning_rate"] for settings in left] == [0.01, 0.03]


@pytest.mark.parametrize(
    ("changed", "further"),
    [
        ({}, [0.3]),  # the last of the grid is best: one more step at its pace
        ({"0.03": 0.1}, []),  # the best one has neighbours on both sides
        ({"0.003": 0.1}, [0.0009]),
        ({"0.3": 0.1}, [0.9]),
        ({"0.3": 0.25}, []),
        ({"0.3": None}, []),
        ({"0.3": 0.1, "0.9": 0.09}, [3.0]),
        ({"0.3": 0.1, "0.9": 0.09, "3": 0.08}, []),  # far enough
        ({"0.003": None, "0.01": None, "0.03": None, "0.1": None}, []),
    ],
)
def test_beyond_an_end_that_is_best_the_next_value_is_tried(changed, further):
    left = untried(methods()["ft"], searched(**{**FT, **changed}))
    assert [settings["learning_rate"] for settings in left] == further


def test_values_that_a_method_refuses_are_not_tried():
    tried = [
        {"settings": settings, "mean_gap": -settings["share"] - settings["learning_rate"]}
        for settings in combinations(methods()["salun"])
    ]
    first = untried(methods()["salun"], tried)
    assert first == [
        {"learning_rate": 0.2, "share": 0.5},
        {"learning_rate": 0.05, "share": 1.0},
    ]
    tried += [{"settings": first[0], "mean_gap": 0}, {"settings": first[1], "mean_gap": -9}]
    assert untried(methods()["salun"], tried) == [  # a share of 2 is none
        {"learning_rate": 0.013, "share": 1.0},
        {"learning_rate": 0.2, "share": 1.0},
    ]


def test_every_setting_is_searched_around_the_best_with_the_others_as_they_are():
    """A penalty that was best at one rate need not be best at the next."""
    gaps = {(rate, alpha): -rate for rate in (0.01, 0.03, 0.1) for alpha in (1e-5, 1e-4)}
    gaps[0.1, 1e-4] = -0.2

    def left():
        tried = [
            {"settings": {"learning_rate": rate, "alpha": alpha}, "mean_gap": gap}
            for (rate, alpha), gap in gaps.items()
        ]
        best = min(tried, key=lambda entry: entry["mean_gap"])["settings"]
        found = [tuple(one.values()) for one in untried(methods()["l1_sparse"], tried)]
        return found, open_ends({"searched": tried, "chosen": best})

    assert left() == ([(0.3, 1e-4), (0.1, 1e-3)], ["learning_rate", "alpha"])
    gaps |= {(0.3, 1e-4): -0.3, (0.1, 1e-3): 0}
    assert left() == ([(0.9, 1e-4), (0.3, 1e-5), (0.3, 1e-3)], ["learning_rate", "alpha"])
    gaps |= {(0.9, 1e-4): 0, (0.3, 1e-5): 0, (0.3, 1e-3): 0}
    assert left() == ([], [])


def test_a_step_beyond_an_end_goes_beyond_it():
    class Narrow(methods()["ft"]):
        @classmethod
        def grid(cls):
            return {"learning_rate": (0.11, 0.12)}

    tried = [{"settings": {"learning_rate": r}, "mean_gap": -r} for r in (0.11, 0.12)]
    ((further,),) = (one.values() for one in untried(Narrow, tried))
    assert further > 0.12


def test_only_positive_fractions_are_stretched():
    class Odd(methods()["ft"]):
        @classmethod
        def grid(cls):
            return {"batch_norm": ("train", "frozen"), "epochs": (1, 2), "learning_rate": (0.1,)}

    tried = [{"settings": s, "mean_gap": k} for k, s in enumerate(combinations(Odd))]
    assert untried(Odd, tried) == []


def test_what_is_left_of_a_search_is_told_without_doing_it(monkeypatch, harness):
    done = dict(FT)

    def has(cell):
        return str(cell.method.learning_rate) in done

    def cell(wanted):
        gap = done[str(wanted.method.learning_rate)]
        return Run({}, {"compare": {"deltas": dict.fromkeys(("ua", "ra", "ta"), gap)}}, 0, "", "")

    monkeypatch.setattr(harness, "has_cell", has)
    monkeypatch.setattr(harness, "cell", cell)
    left, chosen = trials_left(harness, "ft", rule="class:9")
    assert ([one.method.learning_rate for one in left], chosen) == ([0.3], {})
    done["0.3"] = 0.3
    assert trials_left(harness, "ft", rule="class:9") == ([], {"learning_rate": 0.1})
    del done["0.01"]
    left, chosen = trials_left(harness, "ft", rule="class:9")
    assert ([one.method.learning_rate for one in left], chosen) == ([0.01], {})


def test_a_search_goes_on_beyond_the_grid_until_it_gets_worse(monkeypatch, harness):
    def cell(wanted):
        gap = abs(wanted.method.learning_rate - 0.8)
        return Run({}, {"compare": {"deltas": dict.fromkeys(("ua", "ra", "ta"), gap)}}, 0, "", "")

    monkeypatch.setattr(harness, "cell", cell)
    found = tune(harness, "ft", rule="class:9")
    rates = [entry["settings"]["learning_rate"] for entry in found["searched"]]
    assert rates == [0.003, 0.01, 0.03, 0.1, 0.3, 0.9, 3.0]
    assert found["chosen"] == {"learning_rate": 0.9}


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
