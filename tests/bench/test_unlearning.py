"""Tables of the unlearning benchmark on a few digits."""

from dataclasses import replace

import pytest

from erasable.bench._harness import Harness
from erasable.bench._runs import Runs
from erasable.bench._sheet import FORMS, Figure, Sheet
from erasable.bench._unlearning import (
    class_groups,
    imagenet_groups,
    random_groups,
    run_unlearning,
)
from erasable.data import load_dataset
from erasable.errors import ArgumentError


def test_no_table_shows_what_was_tuned_on():
    for groups in (
        class_groups(list(range(10)), single=3, is_cifar=True),
        class_groups(list(range(10)), single=None, is_cifar=True),
        random_groups([10, 50], is_cifar=True),
        imagenet_groups([f"n{i}" for i in range(20)], single=10),
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


def test_a_single_class_cannot_be_split():
    with pytest.raises(ArgumentError, match="at least two classes"):
        class_groups([0], single=1, is_cifar=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    found = load_dataset("digits")
    data = replace(found, train=found.train.take(range(200)), test=found.test.take(range(120)))
    harness = Harness(data, scale="tiny", runs=Runs(tmp_path_factory.mktemp("unlearning")))
    groups = class_groups(harness.classes, single=1, is_cifar=True)[:1]
    kwargs = {"seeds": [0], "edits": ("ga",), "kinds": ("spm",), "is_tuned": False}
    return run_unlearning(harness, groups, **kwargs), harness, groups, kwargs


def test_a_table_has_oracles_originals_and_methods(made):
    (sheets, _, searched), *_ = made
    (sheet,) = sheets
    assert [row[0] for row in sheet.rows] == [
        "Parametric: Retrain (oracle), floor",
        "Parametric: untouched",
        "Parametric: GA",
        "SPM: Retrain (oracle), floor",
        "SPM: untouched",
        "SPM: Deletion",
    ]
    assert all(len(row) == len(sheet.header) for row in sheet.rows)
    assert searched == []
    assert sheet.rows[2][-3:] == ["18.48", "0.99", "94.20 / 94.36 / 88.34"]


def test_the_headline_follows_from_the_cells(made):
    (sheets, found, _), *_ = made
    (title,) = found
    cells = found[title].cells
    gaps = {key: runs[0].result["compare"]["test"]["prediction_gap"] for key, runs in cells.items()}
    difference = 100 * (gaps["parametric", "ga"] - gaps["spm", "deletion"])
    word = "below" if difference >= 0 else "above"
    assert f"PG_H {abs(difference):.2f} points {word}" in sheets[0].notes[0]


def test_a_second_run_gives_the_same_table(made):
    (sheets, *_), harness, groups, kwargs = made
    again, *_ = run_unlearning(harness, groups, **kwargs)
    assert [FORMS["md"](s) for s in again] == [FORMS["md"](s) for s in sheets]


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


def test_every_form_holds_the_figures(sheet):
    texts = {name: form(sheet) for name, form in FORMS.items()}
    assert "| a & b_c \\| d <e> | 20.0 ± 14.1 (90.0), 2.0 × floor |" in texts["md"]
    assert r"a \& b\_c | d <e> & 20.0 $\pm$ 14.1 (90.0), 2.0 $\times$ floor \\" in texts["tex"]
    assert "<td>a &amp; b_c | d &lt;e&gt;</td>" in texts["html"]
    lines = texts["csv"].splitlines()
    assert lines[0] == "table,model,figure,mean,spread,count,floor,beside"
    assert lines[1].startswith("Title,a & b_c | d <e>,ΔUA (UA) %,0.2,0.14142135623730")
    assert lines[2] == "Title,none,ΔUA (UA) %,nan,,0,,"
