"""Tables of the unlearning benchmark on a few digits."""

import copy
import itertools
import math
import re
import shutil
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.baselines import get_method
from erasable.bench import _tune
from erasable.bench._answers_figure import answers
from erasable.bench._document import FORMS, Document, Picture
from erasable.bench._grid import Plan, run_plan
from erasable.bench._harness import Harness
from erasable.bench._runs import Runs
from erasable.bench._sequence import (
    default_sequence,
    lines_drawn,
    run_sequence,
    sequence_document,
    tuning_of,
)
from erasable.bench._sheet import Figure, Sheet
from erasable.bench._unlearning import (
    class_groups,
    graph_note,
    imagenet_groups,
    introduction,
    random_groups,
    run_unlearning,
    tuned_fact,
    unlearning_document,
)
from erasable.bench._unlearning_figures import (
    _LETTER,
    _LINE,
    along,
    labels_apart,
    unlearning_pictures,
)
from erasable.bench._unlearning_sheets import best_edit, unlearning_sheet
from erasable.data import Dataset, load_dataset
from erasable.errors import ArgumentError, StateError


def test_no_table_shows_what_was_tuned_on():
    for groups in (
        class_groups(list(range(10)), single=3, is_cifar=True),
        class_groups(list(range(10)), single=None, is_cifar=True),
        random_groups([10, 50], is_cifar=True),
        imagenet_groups([f"n{i}" for i in range(1000)], single=10),
    ):
        for group in groups:
            assert group.tuning_rule not in group.rules or group.tuning_seed == 99
            assert group.paper is not None


def test_single_classes_are_spread_over_all_but_the_last():
    one, many = class_groups(list(range(10)), single=3, is_cifar=False)
    assert one.rules == ["class:0", "class:3", "class:6"]
    assert many.rules == ["classes:0,1,2,3,4"]
    assert many.tuning_rule == "classes:5,6,7,8,9"
    assert len(class_groups(list(range(10)), single=None, is_cifar=False)[0].rules) == 10
    assert class_groups(list(range(10)), single=3, is_cifar=False, halves=0) == [one]


def test_halves_are_drawn_and_never_the_one_that_tunes():
    _, many = class_groups(list(range(10)), single=None, is_cifar=True, halves=10)
    assert len(set(many.rules)) == 10
    assert many.rules[0] == "classes:0,1,2,3,4"
    assert many.tuning_rule not in many.rules
    again = class_groups(list(range(10)), single=None, is_cifar=True, halves=10)[1]
    assert again.rules == many.rules
    assert len(class_groups([0, 1], single=None, is_cifar=True, halves=10)[1].rules) == 1


def test_the_papers_figures_stand_beside_1000_classes_only():
    (few,) = imagenet_groups([f"n{i}" for i in range(20)], single=2)
    assert (few.paper, few.rules, few.tuning_rule) == (None, ["class:n0", "class:n1"], "class:n19")
    (all_of_them,) = imagenet_groups(["a", "b"], single=5)
    assert (all_of_them.rules, all_of_them.tuning_rule) == (["class:a"], "class:b")


def test_a_sequence_is_tuned_on_a_class_that_it_does_not_name():
    classes = list(range(10))
    assert tuning_of(classes, "class:9 > random:5%") == ("class:8", 99)
    assert tuning_of(classes, "class:3") == ("class:9", 99)
    assert tuning_of([0, 1], "classes:0,1") == ("class:1", 99)
    assert default_sequence(classes) == "class:0 > random:5%@0 > class:1"
    with pytest.raises(ArgumentError, match="three classes"):
        default_sequence([0, 1])


def test_a_single_class_cannot_be_split():
    with pytest.raises(ArgumentError, match="at least two classes"):
        class_groups([0], single=1, is_cifar=False)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"rate": 0.3, "share": 5}, "rate 0.3, share 5"),
        ({"rate": 0.1, "share": 5}, "rate 0.1, share 5, the last value tried for rate"),
        ({"rate": 1.0, "share": 5}, "rate 1.0, share 5, the last value tried for rate"),
    ],
)
def test_a_choice_at_the_edge_of_its_grid_is_said(chosen, said):
    searched = [
        {"settings": {"rate": rate, "share": 5}, "mean_gap": 0.5} for rate in (1.0, 0.1, 0.3)
    ]
    entry = {"rule": "class:1", "seed": 0, "method": "ga", "searched": searched, "chosen": chosen}
    assert tuned_fact(entry).endswith(f"Chosen: {said}")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    found = load_dataset("digits")
    data = replace(found, train=found.train.take(range(200)), test=found.test.take(range(120)))
    said = []
    runs = Runs(tmp_path_factory.mktemp("unlearning"))
    harness = Harness(data, scale="tiny", runs=runs, say=said.append)
    groups = class_groups(harness.classes, single=1, is_cifar=True)[:1]
    kwargs = {"seeds": [0], "edits": ("ga",), "kinds": ("spm",), "is_tuned": False}
    kwargs["say"] = said.append
    return run_unlearning(harness, groups, **kwargs), harness, groups, kwargs, said


def test_answers_to_images_of_a_forgotten_class_are_counted(made):
    compared, harness, groups, *_ = made
    (group,) = compared.found.values()
    shown = answers(group)
    assert list(shown) == ["Parametric: oracle", "Parametric: GA", "SPM: oracle", "SPM: Deletion"]
    forgotten = harness.train.y[harness.scenario(groups[0].rules[0], 0).is_forgotten]
    gone = harness.classes.index(forgotten[0])
    for name, shares in shown.items():
        assert list(shares) == [gone]
        assert shares[gone].sum() == pytest.approx(1)
        assert shares[gone][gone] == 0 or name == "Parametric: GA"
    told = group.cells["spm", "deletion"][0].result["compare"]
    of_class = int((harness.test.y == harness.classes[gone]).sum())
    mine, theirs = (np.array(told["answers"][who][str(gone)]) for who in ("unlearned", "oracle"))
    assert mine.sum() == theirs.sum() == of_class
    # As many as differ in their counts, at least, differ in their answers.
    least = np.abs(mine - theirs).sum() / 2 / of_class
    assert told["test_forgotten"]["prediction_gap"] >= least - 1e-12


def test_the_best_edit_is_the_same_everywhere_and_never_the_control(made):
    compared, *_ = made
    ((title, group),) = compared.found.items()
    (good,) = group.cells["parametric", "ga"]

    def at(gap):
        run = copy.deepcopy(good)
        run.result["compare"]["test"]["prediction_gap"] = gap
        return [run]

    cells = {
        ("parametric", "mute"): at(0.01),
        ("parametric", "ga"): at(0.3),
        ("parametric", "ft"): at(0.2),
        ("spm", "deletion"): group.cells["spm", "deletion"],
    }
    both = replace(group, cells=cells)
    assert best_edit(both) == ("parametric", "ft")
    assert list(answers(both))[:3] == ["Parametric: oracle", "Parametric: Mute", "Parametric: FT"]
    headline = unlearning_sheet(title, both).notes[0]
    assert "the best method that edits weights (FT)" in headline
    assert "points above muting" in headline


def test_a_class_that_is_forgotten_with_others_now_and_then_is_shown_once(made):
    compared, *_ = made
    (group,) = compared.found.values()
    (first,) = group.untouched["spm"]
    second = copy.deepcopy(first)
    second.settings["rule"] = "classes:0,1"
    for whose in second.result["compare"]["answers"].values():
        whose["0"] = [1] * 10
    twice = replace(group, untouched={**group.untouched, "spm": [first, second]})
    np.testing.assert_array_equal(
        answers(twice)["SPM: oracle"][0], answers(group)["SPM: oracle"][0]
    )


def test_muting_is_only_shown_where_whole_classes_are_forgotten(made):
    _, harness, groups, kwargs, _ = made
    asked = {**kwargs, "edits": ("mute",)}
    of_class = run_unlearning(harness, groups, **asked)
    assert ("parametric", "mute") in of_class.found[groups[0].title].cells
    muted = of_class.found[groups[0].title].cells["parametric", "mute"][0].result
    assert muted["compare"]["values"]["ua"] == 1
    at_random = random_groups([10], is_cifar=False)
    found = run_unlearning(harness, at_random, **asked).found[at_random[0].title]
    assert list(found.cells) == [("spm", "deletion")]


def test_the_pace_is_that_of_cells_which_are_not_done_yet(made):
    _, harness, groups, kwargs, _ = made
    said = []
    wider = {**kwargs, "edits": ("ga", "ft"), "say": said.append}
    run_unlearning(harness, groups, **wider)
    (told,) = [line for line in said if line.endswith("at this pace")]
    assert told.startswith("1 of 1 cells (2 of 3 were done before), about 0 seconds left")


def test_a_table_has_oracles_originals_and_methods(made):
    compared, *_ = made
    sheet, *details = compared.sheets
    assert [d.title.partition(": ")[2] for d in details] == [
        "where the gap lives",
        "membership attacks",
        "checks",
    ]
    assert [row[0] for row in sheet.rows] == [
        "Parametric: Retrain (oracle), floor",
        "Parametric: untouched",
        "Parametric: GA",
        "SPM: Retrain (oracle), floor",
        "SPM: untouched",
        "SPM: Deletion",
    ]
    assert all(len(row) == len(sheet.header) for row in sheet.rows)
    assert compared.searched == []
    assert sheet.rows[2][-4:] == ["18.48", "0.99", "94.20 / 94.36 / 88.34", "8.9"]
    assert sheet.rows[5][-1] == "< 1"


def test_the_headline_follows_from_the_cells(made):
    compared, *_ = made
    ((_, group),) = compared.found.items()
    cells = group.cells
    gaps = {key: runs[0].result["compare"]["test"]["prediction_gap"] for key, runs in cells.items()}
    difference = 100 * (gaps["parametric", "ga"] - gaps["spm", "deletion"])
    word = "below" if difference >= 0 else "above"
    assert f"PG_H {abs(difference):.2f} points {word}" in compared.sheets[0].notes[0]


def test_what_doing_nothing_gives_is_said(made):
    compared, *_ = made
    ((_, group),) = compared.found.items()
    note = compared.sheets[0].notes[1]
    gaps = {
        kind: statistics.fmean(r.result["compare"]["test"]["prediction_gap"] for r in runs)
        for kind, runs in group.untouched.items()
    }
    assert f"SPM {100 * gaps['spm']:.2f}, " in note


@pytest.mark.parametrize(
    ("differences", "said"),
    [
        ((0.1, 0.1), "Farther from the oracle than that in every cell: SPM Deletion."),
        ((-0.1, -0.1), "Nearer to the oracle than that in every cell: SPM Deletion."),
        ((-0.1, 0.3), None),
        ((0.0, 0.0), None),
        ((0.1, "failed"), None),
    ],
)
def test_methods_are_compared_with_doing_nothing_cell_by_cell(made, differences, said):
    compared, *_ = made
    ((title, group),) = compared.found.items()
    runs = group.cells["spm", "deletion"] + group.untouched["spm"]
    cells, bases = [], []
    for seed, difference in enumerate(differences):
        cell, base = (replace(copy.deepcopy(r), settings=r.settings | {"seed": seed}) for r in runs)
        base.result["compare"]["test"]["prediction_gap"] = 0.4 + 0.2 * seed
        if difference == "failed":
            cell.result["failed"] = "diverged"
        else:
            cell.result["compare"]["test"]["prediction_gap"] = 0.4 + 0.2 * seed + difference
        cells.append(cell)
        bases.insert(0, base)  # the order of cells does not matter
    changed = replace(
        group,
        cells={("spm", "deletion"): cells},
        untouched={**group.untouched, "spm": bases},
    )
    note = " ".join(unlearning_sheet(title, changed).notes)
    assert ("in every cell" in note) == (said is not None)
    assert said is None or said in note


def test_doing_nothing_at_the_floor_is_told_apart_from_forgetting(made):
    compared, *_ = made
    ((title, group),) = compared.found.items()
    phrase = "cannot tell forgetting from doing nothing"
    for factor, is_alike in ((1.05, True), (1.5, False)):
        changed = copy.deepcopy(group)
        for kind, runs in changed.untouched.items():
            pairs = changed.pairs(kind)
            floor = statistics.fmean(pair["test"]["prediction_gap"] for pair in pairs)
            for run in runs:
                run.result["compare"]["test"]["prediction_gap"] = factor * floor
        notes = " ".join(unlearning_sheet(title, changed).notes)
        assert (phrase in notes) == is_alike
        assert ("SPM deletion: PG_H" in notes) == (not is_alike)
        assert ("How near either is to its oracle PG_H cannot tell" in notes) == is_alike


def test_oracles_that_agree_are_no_obstacle(made):
    compared, *_ = made
    ((title, group),) = compared.found.items()
    changed = copy.deepcopy(group)
    for kind in changed.floors:
        for pair in changed.pairs(kind):
            pair["test"]["prediction_gap"] = 0.0
    assert "Doing nothing has PG_H" in unlearning_sheet(title, changed).notes[1]


def test_a_second_run_gives_the_same_document(made):
    compared, harness, groups, kwargs, said = made
    assert any("in all; interrupted, the same command goes on" in line for line in said)
    said.clear()
    again = run_unlearning(harness, groups, **kwargs)
    assert again == compared
    assert said == []


def test_only_methods_with_a_score_in_every_cell_can_be_the_best(made):
    compared, *_ = made
    ((_, group),) = compared.found.items()
    good = group.cells["parametric", "ga"]
    failed = [replace(run, result={"failed": "diverged"}) for run in good]
    twice = {key: 2 * runs for key, runs in group.cells.items()}
    worse = replace(group, cells={**twice, ("parametric", "ft"): [*good, *failed]})
    rows = unlearning_sheet("T", worse).rows
    assert any("FT (1 of 2 diverged)" in row[0] for row in rows)
    assert "(GA)" in unlearning_sheet("T", worse).notes[0]
    none = replace(group, cells={**group.cells, ("parametric", "ga"): failed})
    assert not any("SPM deletion" in note for note in unlearning_sheet("T", none).notes)
    assert unlearning_pictures({"T": none}, list(range(10)))[0].draw().startswith(b"\x89PNG")


def test_a_rule_is_finished_with_its_floors_before_the_next(made, tmp_path):
    _, harness, *_ = made
    plan = Plan(["class:0", "class:1"], [("spm", get_method("deletion"))], [0])
    told = []

    def say(text):
        told.append(text)
        if text.startswith("training") and "class:1" in text:
            raise KeyboardInterrupt

    kwargs = {"scale": "tiny", "runs": Runs(tmp_path), "say": say}
    data = Dataset("digits", harness.train, harness.test, "tests")
    with pytest.raises(KeyboardInterrupt):
        run_plan(Harness(data, **kwargs), plan)
    shutil.rmtree(tmp_path / "predictions")
    shutil.rmtree(tmp_path / "weights")
    told.clear()
    with pytest.raises(KeyboardInterrupt):
        run_plan(Harness(data, **kwargs), plan)
    assert not any("class:0" in text for text in told)


def test_a_cell_may_fail_in_any_way_and_its_method_is_then_not_the_best(made, monkeypatch):
    _, harness, groups, kwargs, said = made
    cell = harness.cell

    def fails(one):
        if one.method.name == "ga":
            raise RuntimeError("no such kernel")
        return cell(one)

    monkeypatch.setattr(harness, "cell", fails)
    compared = run_unlearning(harness, groups, **{**kwargs, "edits": ("ga", "ft")})
    notes = compared.sheets[0].notes
    (rule,) = groups[0].rules
    assert f"Failed: ga on parametric, {rule}, seed 0: RuntimeError: no such kernel" in notes
    assert best_edit(next(iter(compared.found.values()))) == ("parametric", "ft")
    said.clear()


def test_a_method_without_every_cell_is_not_the_best(made):
    compared, *_ = made
    ((_, group),) = compared.found.items()
    good = group.cells["parametric", "ga"]
    more = {("parametric", "ga"): good, ("spm", "deletion"): 2 * group.cells["spm", "deletion"]}
    assert best_edit(replace(group, cells=more)) is None


def test_what_tuning_promised_stands_beside_what_the_table_has(made):
    _, harness, groups, kwargs, said = made
    tuned = run_unlearning(harness, groups, **{**kwargs, "edits": ("munba",), "is_tuned": True})
    ((_, group),) = tuned.found.items()
    (run,) = group.cells["parametric", "munba"]
    document = unlearning_document("T", tuned, list(range(10)), "command")
    (fact,) = [fact for fact in document.facts if fact.startswith("Tuned on")]
    assert fact.endswith(f"; in the table its mean is {100 * _tune.mean_gap(run):.2f}")
    assert any(fact.startswith("Settings of munba, ") for fact in document.facts)
    assert any("as many rows as 1 pass over all of them" in fact for fact in document.facts)
    said.clear()


def test_a_kind_whose_oracles_fail_is_left_out(made, monkeypatch):
    _, harness, groups, kwargs, said = made
    floor = harness.floor

    def fails(kind, rule, seeds):
        if kind == "spm":
            raise StateError("Expected finite weights.")
        return floor(kind, rule, seeds)

    monkeypatch.setattr(harness, "floor", fails)
    compared = run_unlearning(harness, groups, **kwargs)
    (rule,) = groups[0].rules
    assert all("SPM" not in row[0] for row in compared.sheets[0].rows)
    assert f"Failed: oracles of spm, {rule}: Expected finite weights." in compared.sheets[0].notes
    said.clear()


def test_tuning_that_fails_leaves_the_method_out(made, monkeypatch):
    _, harness, groups, kwargs, said = made

    def fails(*_, **__):
        raise StateError("all of them diverged")

    monkeypatch.setattr(_tune, "tune", fails)
    compared = run_unlearning(harness, groups, **{**kwargs, "is_tuned": True})
    assert "Failed: tuning of ga: all of them diverged" in compared.sheets[0].notes
    said.clear()


def test_where_the_gap_lives_adds_up(made):
    compared, *_ = made
    ((_, group),) = compared.found.items()
    (run,) = group.cells["spm", "deletion"]
    row = next(row for row in compared.sheets[1].rows if row[0] == "SPM: Deletion")
    assert row[1].values == [run.result["compare"]["test_remaining"]["prediction_gap"]]
    assert row[2].values == [run.result["compare"]["test_forgotten"]["prediction_gap"]]


def test_the_claim_is_judged_in_words(made):
    compared, *_ = made
    assert "of 2 cells" in next(n for n in compared.sheets[0].notes if "vacuous" in n)


def test_pictures_show_every_group(made):
    compared, harness, *_ = made
    document = unlearning_document("T", compared, harness.classes, "erasable tables cls_cifar")
    assert [picture.name for picture in document.pictures] == [
        "floor",
        "time",
        "classes",
        "answers",
    ]
    assert all(picture.draw().startswith(b"\x89PNG") for picture in document.pictures)
    facts = "\n".join(document.facts)
    assert "Command: erasable tables cls_cifar" in facts
    assert "Preset: tiny" in facts


def test_gaps_are_drawn_by_rule_or_by_class_of_the_image():
    both = [
        ("a", {"test": {"prediction_gap": 0.1}, "by_class": [0.1, None]}),
        ("b", {"test": {"prediction_gap": 0.3}, "by_class": [0.3, None]}),
        ("b", {"test": {"prediction_gap": 0.5}, "by_class": [0.5, None]}),
    ]
    assert along(both, ["a", "b", "c"], 2) == pytest.approx([10, 40, np.nan], nan_ok=True)
    assert along(both[1:], ["b"], 2) == pytest.approx([40, np.nan], nan_ok=True)


def test_a_sequence_has_a_column_per_request(made):
    _, harness, *_ = made
    rule, said = "class:3 > random:5%", []
    asked = {"seeds": [0], "edits": ["ga"], "kinds": ["spm"]}
    found = run_sequence(harness, rule, **asked, say=said.append)
    assert said[0].startswith("About ")
    said.clear()
    run_sequence(harness, rule, **asked, say=said.append)
    assert said == []  # nothing is left to do
    document = sequence_document(found, "erasable tables sequence")
    gaps, times = document.sheets
    assert gaps.header[1:] == ["after 1: class:3", "after 2: random:5%"]
    assert [row[0] for row in gaps.rows] == [
        "Parametric: Retrain (oracle), floor",
        "Parametric: untouched",
        "Parametric: GA",
        "SPM: Retrain (oracle), floor",
        "SPM: untouched",
        "SPM: Deletion",
    ]
    untouched = harness.untouched("spm", rule, 0).result["compare"]["test"]["prediction_gap"]
    assert gaps.rows[4][2].values == [untouched]
    assert [row[0] for row in times.rows] == ["Parametric: GA", "SPM: Deletion"]
    steps = found.runs["spm", "deletion"][0].result["steps"]
    assert gaps.rows[5][2].values == [steps[1]["compare"]["test"]["prediction_gap"]]
    assert "PG_H of SPM deletion goes from" in gaps.notes[0]
    assert any(fact.startswith("Settings of ga, each request: ") for fact in document.facts)
    (picture,) = document.pictures
    assert picture.draw().startswith(b"\x89PNG")
    drawn = {name: values for name, _, values in lines_drawn(found)}
    assert list(drawn) == ["GA", "SPM", "SPM: floor", "SPM: untouched"]
    assert drawn["SPM: untouched"][1] == [100 * untouched]


def test_muting_is_never_the_best_edit_of_a_sequence(made):
    _, harness, *_ = made
    found = run_sequence(harness, "class:3", seeds=[0], edits=["mute", "ga"], kinds=["spm"])
    (muted,) = found.runs["parametric", "mute"]
    (step,) = muted.result["steps"]
    step["compare"]["test"]["prediction_gap"] = 0.0
    note = sequence_document(found, "c").sheets[0].notes[0]
    assert "the best edit after the last (GA)" in note
    assert "that of muting from 0.00 to 0.00" in note


def test_a_sequence_that_diverges_says_so(made):
    _, harness, *_ = made
    found = run_sequence(harness, "class:3 > class:4", seeds=[0], edits=[], kinds=["spm"])
    (run,) = found.runs["spm", "deletion"]
    found.runs["spm", "deletion"] = [replace(run, result={"steps": [], "failed": "diverged"})]
    document = sequence_document(found, "c")
    assert document.sheets[0].rows[2] == ["SPM: Deletion", "diverged", "diverged"]
    assert "Deletion: diverged" in document.sheets[0].notes


def test_the_graph_encoder_is_compared_by_accuracy(made):
    _, harness, groups, *_ = made
    found = run_unlearning(harness, groups, seeds=[0], edits=(), kinds=("spm", "gnn"))
    assert "with a graph set encoder" in graph_note(found)


def test_a_page_names_the_level_of_what_it_shows_and_nothing_else():
    graphs = introduction([("parametric", "ga"), ("spm", "deletion"), ("gnn", "deletion")])
    assert "`memory` for deletion from SPM and SPM with graph (" in graphs
    assert "SISA" not in graphs
    assert "`exact` for SISA" in introduction([("sisa", "deletion")])
    assert "Level of forgetting" not in introduction([("parametric", "ga")])


def test_lines_are_compared_scenario_by_scenario(made):
    compared, *_ = made
    ((title, group),) = compared.found.items()
    alone = " ".join(unlearning_sheet(title, group).notes)
    assert "error" not in alone  # one seed of one scenario: there is nothing to pair
    twice = copy.deepcopy(group)
    for part in (twice.cells, twice.untouched, twice.oracles, twice.floors):
        for runs in part.values():
            runs += [
                replace(run, settings={**run.settings, "rule": "class:9"}) for run in list(runs)
            ]
    (note,) = [n for n in unlearning_sheet(title, twice).notes if "scenario by scenario" in n]
    assert re.search(
        r"SPM deletion less GA [+-]\d+\.\d\d ± 0\.00 points \(nearer in \d of 2\)", note
    )


PLACES = st.tuples(st.floats(0.01, 100), st.floats(0.1, 90))


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=18), PLACES, min_size=1, max_size=12),
    st.lists(PLACES, max_size=4),
)
def test_labels_of_the_picture_of_time_stand_on_nothing(points, others):
    labels = labels_apart(points, others=others)
    line = _LINE * max(gap for _, gap in points.values())
    spans = [
        (math.log10(place), math.log10(place) + _LETTER * len(name), height)
        for name, (place, height) in labels.items()
    ]
    dots = [(math.log10(place), math.log10(place), gap) for place, gap in points.values()]
    dots += [(math.log10(place), math.log10(place), gap) for place, gap in others]
    pairs = [*itertools.combinations(spans, 2), *itertools.product(spans, dots)]
    for (left, right, height), (start, end, other) in pairs:
        is_beside = right <= start or end <= left
        assert is_beside or abs(height - other) >= line * (1 - 1e-9)
    assert all(height >= points[name][1] for name, (_, height) in labels.items())


def test_a_label_with_room_stands_beside_its_point():
    assert labels_apart({"a": (1.0, 5.0), "b": (10.0, 5.0)})["a"] == (1.12, 5.0)


# -- forms ----------------------------------------------------------------------------------------


@pytest.fixture
def sheet():
    rows = [
        ["a & b_c | d <e>", Figure([0.1, 0.3], 0.1, 100, 1, [0.9, 0.9])],
        ["none", Figure([])],
    ]
    return Sheet("Title", ["model", "ΔUA (UA) %"], rows, ["A note."])


def test_a_figure_is_mean_spread_value_and_multiple_of_the_floor():
    assert Figure([0.1, 0.3], 0.1, 100, 1, [0.9]).text() == "20.0 ± 14.1 (90.0), 2.0 × floor"
    assert Figure([0.5]).text() == "0.50"
    assert Figure([]).text() == "–"
    assert Figure([0.5], 0.0).text() == "0.50"
    assert Figure([0.5, float("inf")]).text() == "∞"


def test_every_form_holds_the_figures(sheet, tmp_path):
    picture = Picture("gap", "A <picture>", lambda: b"\x89PNG")
    document = Document("T", "Level: memory.", [sheet, sheet], ["Seeds: 0"], [picture])
    texts = {}
    for form in FORMS:
        document.write(tmp_path / f"page.{form}")
        texts[form] = (tmp_path / f"page.{form}").read_text()
    assert "| a & b_c \\| d \\<e> | 20.0 ± 14.1 (90.0), 2.0 × floor |" in texts["md"]
    assert "![A <picture>](page-gap.png)" in texts["md"]
    assert (tmp_path / "page-gap.png").read_bytes() == picture.draw()
    assert r"a \& b\_c | d <e> & 20.0 $\pm$ 14.1 (90.0), 2.0 $\times$ floor \\" in texts["tex"]
    assert r"\par A note." in texts["tex"]
    assert "<td>a &amp; b_c | d &lt;e&gt;</td>" in texts["html"]
    assert "data:image/png;base64," in texts["html"]
    assert all("Seeds: 0" in texts[form] for form in ("md", "tex", "html"))
    lines = texts["csv"].splitlines()
    assert lines[0] == "table,model,figure,mean,spread,count,floor,beside"
    assert lines[1].startswith("Title,a & b_c | d <e>,ΔUA (UA) %,20.0,14.142135623730")
    assert lines[2] == "Title,none,ΔUA (UA) %,nan,,0,,"
    assert len(lines) == 5
    assert [float(cell) for cell in lines[1].split(",")[-2:]] == pytest.approx([10.0, 90.0])


def test_an_unknown_form_is_refused(sheet, tmp_path):
    with pytest.raises(ArgumentError, match="ends in 'md', 'csv', 'tex', 'html'"):
        Document("T", "", [sheet], []).write(tmp_path / "page.pdf")
    assert not list(tmp_path.iterdir())
