"""Pages are well formed, and every figure on them comes from a run."""

import csv
import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.bench import Run, exact_page, share_page, std_cls_document, std_cls_page
from erasable.bench._pages import PAPER, spread, table
from erasable.bench._share import SHARES
from erasable.bench._std_cls import FRACTIONS, REDUCTIONS

DATA = {
    "name": "toys",
    "classes": 10,
    "train_rows": 1234,
    "test_rows": 567,
    "train_digest": "a" * 64,
    "test_digest": "b" * 64,
    "train_contents": "c" * 64,
    "test_contents": "d" * 64,
}
MODELS = (
    "KNN on the twin's features",
    *(f"SPM {reduction}" for reduction in REDUCTIONS),
    "SPM prototypes, graph",
)


def std_cls_run(seed=0, twin=0.95, spm=0.94, **data):
    """Return a run of table std_cls with figures of its own for every cell."""
    cells = [{"model": "parametric", "fraction": None, "accuracy": twin, "ratio": 1.0}]
    for number, (model, fraction) in enumerate(itertools.product(MODELS, FRACTIONS)):
        is_main = (model, fraction) == ("SPM prototypes", 1.0)
        accuracy = spm if is_main else 0.5 + number / 97 + seed / 1000
        ratio = 1 + number / 10
        cells.append({"model": model, "fraction": fraction, "accuracy": accuracy, "ratio": ratio})
    seconds = {"twin_fit": 11.0, "spm_fit": 22.0, "graph_fit": 33.0, "twin_predict": 0.1}
    settings = {
        "table": "std_cls",
        "data": {**DATA, **data},
        "preset": "tiny",
        "parameters": {"encoder": "mlp"},
        "seed": seed,
    }
    return Run(settings, {"cells": cells, "seconds": seconds}, 90.0, f"machine {seed}", "now")


def exact_runs():
    """Return the runs of table exact, of two readings and one attack."""
    settings = {"table": "exact", "data": DATA, "encoder": "public", "options": {}}
    found = {}
    for number, reduction in enumerate(("prototypes", "rows")):
        accuracies = {"0.05": [0.5, 0.6, 0.7 + number / 10], "0.1": [0.7, 0.7, 0.7], "1.0": [0.81]}
        result = {"accuracies": accuracies, "seconds": {"0.05": 1.0, "0.1": 2.0, "1.0": 3.25}}
        found[f"accuracy {reduction}"] = result
    found["forget"] = {
        "audit": {
            "verdict": "exact_verified",
            "text": "exact: verified\n  rows 3",
            "seconds": 5,
            "rows": 3,
        },
        "levels": [["exact", "declared"]],
        "median_ms": 1.234,
        "p99_ms": 5.678,
        "digest_ms": 0.912,
        "class": {"rows": 4321, "seconds": 0.25},
        "gaussian_refit_seconds": 0.75,
    }
    attack = {"error": 0.01, "auc": 0.512, "tpr": {"0.001": 0.0011, "0.01": 0.0123}}
    kloms = {"mean": 0.0456, "percentile_95": 0.1}
    shadows = {"record": {"shadows": 77, "forget": 9, "rows_per_model": 55, "equal_states": 76}}
    for name, accuracy in (("before", 0.666), ("unlearned", 0.501), ("second_oracle", 0.499)):
        shadows[f"u_lira {name}"] = {**attack, "accuracy": accuracy}
        for part in ("forget", "retain", "validation"):
            shadows[f"klom {name} {part}"] = kloms
    found["shadows prototypes"] = shadows
    return {name: Run(settings, result, 30.0, "machine", "now") for name, result in found.items()}


def share_runs(seeds=2):
    return [
        Run(
            {"table": "share", "data": DATA, "exact_share": share, "seed": seed},
            {
                "accuracies": {"prototypes": 0.9 - share / 10 + seed / 100, "gaussian": 0.8},
                "rows_seen": round(1000 * (1 - share)),
            },
            60.0,
            "machine",
            "now",
        )
        for share in SHARES
        for seed in range(seeds)
    ]


def std_cls(*runs, command="the command"):
    return "\n".join(std_cls_page(list(runs), command))


PAGES = {
    "std_cls": std_cls(std_cls_run(0), std_cls_run(1)),
    "std_cls, one seed": std_cls(std_cls_run(0)),
    "std_cls on CIFAR-10": std_cls(std_cls_run(0, name="cifar10")),
    "std_cls on ImageNet": std_cls(std_cls_run(0, classes=1000)),
    "exact": "\n".join(exact_page({"one at 32 pixels": exact_runs(), "two": exact_runs()}, "c")),
    "share": "\n".join(share_page({"a": share_runs(), "b": share_runs(1)}, "c", "p.png")),
}
EVERY_PAGE = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES.keys())


def tables(page):
    """Return the tables of a page, each a list of rows of cells, with the line before each."""
    found, before = [], ""
    for line in page.split("\n"):
        if line.startswith("|"):
            if not before.startswith("|"):
                found.append((before, []))
            assert line.endswith(" |") or line.endswith("-:|")
            found[-1][1].append([cell.strip() for cell in line[1:-1].split("|")])
        before = line
    return found


# -- form -----------------------------------------------------------------------------------------


@EVERY_PAGE
def test_tables_have_as_many_cells_in_every_line(page):
    for before, rows in tables(page):
        assert before == "", "a table needs an empty line before it"
        assert {len(row) for row in rows} == {len(rows[0])}
        assert rows[1] == ["---", *["---:"] * (len(rows[0]) - 1)]
        assert len(rows) > 2


@EVERY_PAGE
def test_a_page_has_one_title_and_ends_with_how_it_was_run(page):
    titles = [line for line in page.split("\n") if re.match(r"#+ ", line)]
    assert [title.startswith("# ") for title in titles] == [True, *[False] * (len(titles) - 1)]
    assert titles[-1] == "## How it was run"
    for title in titles:
        assert f"\n\n{title}\n\n" in f"\n\n{page}"


@EVERY_PAGE
def test_a_page_tells_data_digests_machine_and_time(page):
    facts = page.split("## How it was run\n")[1]
    assert "- data: toys; digests of training and test rows" in facts or "cifar10" in facts
    assert "`cccccccccccccccc` and `dddddddddddddddd`" in facts
    assert "\n- machine" in facts
    assert re.search(r"\n- [1-9]\d* minutes in all$", facts)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_figures_are_percent_with_the_deviation_of_numpy(values):
    shown = spread(values).split(" ± ")
    assert float(shown[0]) == pytest.approx(100 * np.mean(values), abs=0.0051)
    if len(values) > 1:
        assert float(shown[1]) == pytest.approx(100 * np.std(values, ddof=1), abs=0.0051)
    else:
        assert len(shown) == 1


def test_a_table_without_rows_is_a_header():
    assert list(table(["a", "b"], [])) == ["| a | b |", "|---|---:|", ""]


# -- std_cls --------------------------------------------------------------------------------------


def test_every_cell_of_the_table_is_a_figure_of_the_runs():
    runs = [std_cls_run(0), std_cls_run(1)]
    ((_, rows),) = tables(std_cls(*runs))
    shown = {row[0]: row[1:] for row in rows[2:]}
    assert shown["parametric"] == ["", "", "95.00 ± 0.00", "1.00"]
    for model in MODELS:
        for place, fraction in enumerate(FRACTIONS):
            key = {"model": model, "fraction": fraction}
            cells = [c for run in runs for c in run.result["cells"] if key.items() <= c.items()]
            assert shown[model][place] == spread([cell["accuracy"] for cell in cells])
        assert shown[model][3] == f"{cells[0]['ratio']:.2f}"


@pytest.mark.parametrize("number", range(1 + len(MODELS) * len(FRACTIONS)))
def test_a_figure_that_changes_in_a_run_changes_on_the_page(number):
    run = std_cls_run()
    cells = [dict(cell) for cell in run.result["cells"]]
    cells[number]["accuracy"] = 0.1234
    changed = replace(run, result={**run.result, "cells": cells})
    assert "12.34" in std_cls(changed)
    assert "12.34" not in std_cls(run)


@pytest.mark.parametrize(
    ("spm", "word"),
    [(0.99, "not more"), (0.95, "not more"), (0.948, "not more"), (0.94, "MORE")],
)
def test_a_gap_to_the_twin_that_is_too_large_is_said_plainly(spm, word):
    gap = f"{100 * (spm - 0.95):+.2f}"
    expected = f"points per seed: {gap}; mean {gap}. So it is {word} than 0.3 points behind"
    assert expected in std_cls(std_cls_run(spm=spm))


def test_the_gap_is_taken_seed_by_seed_and_judged_by_its_mean():
    page = std_cls(std_cls_run(0, 0.95, 0.945), std_cls_run(1, 0.93, 0.931))
    assert "points per seed: -0.50, +0.10; mean -0.20. So it is not more than" in page


def test_a_gap_of_exactly_what_was_aimed_at_is_not_more():
    assert "mean -0.30. So it is not more" in std_cls(std_cls_run(twin=0.947, spm=0.944))


def test_training_times_are_those_of_the_runs():
    assert "twin 11 s (11 s), SPM 22 s (22 s), graph 33 s (33 s) more" in std_cls(std_cls_run())


def test_command_seeds_parameters_and_every_machine_are_told():
    page = std_cls(std_cls_run(0), std_cls_run(3), command="erasable tables std_cls --seeds 4")
    assert "`erasable tables std_cls --seeds 4`" in page
    assert "- seeds: 0, 3" in page
    assert "- parameters: `{'encoder': 'mlp'}`" in page
    assert "- machine 0\n- machine 3\n" in page
    assert "- 3 minutes in all" in page


def test_the_level_and_what_the_weights_keep_are_told():
    words = std_cls(std_cls_run()).replace("\n", " ")
    assert "Level of forgetting: `memory`." in words
    assert "the weights still carry what they learnt" in words


@pytest.mark.parametrize(
    ("data", "prototypes"),
    [
        ({"name": "cifar10"}, ["94.5 / 94.5 / 94.5", "1.00"]),
        ({"classes": 1000}, ["66.1 / 66.6 / 67.1", "1.20"]),
    ],
)
def test_the_papers_figures_stand_beside_its_data_sets(data, prototypes):
    ((_, rows),) = tables(std_cls(std_cls_run(**data)))
    assert rows[0][-2:] == ["paper: 5% / 10% / 100%", "paper: time / ResNet"]
    shown = {row[0]: row[-2:] for row in rows[2:]}
    assert shown["SPM prototypes"] == prototypes
    assert shown["SPM gaussian"] == shown["SPM prototypes, graph"] == ["", ""]
    assert set(PAPER) <= set(shown)


def test_other_data_sets_have_no_such_figures():
    assert "paper:" not in PAGES["std_cls"]
    assert "The paper's figures" not in PAGES["std_cls"]


# -- exact ----------------------------------------------------------------------------------------


def test_the_page_of_level_exact_is_made_of_its_runs():
    page = "\n".join(exact_page({"public at 32 pixels": exact_runs()}, "c"))
    assert "\n| prototypes | 60.00 ± 10.00 | 70.00 ± 0.00 | 81.00 | 3.2 |" in page
    assert "\n| rows | 63.33 ± 15.28 | 70.00 ± 0.00 | 81.00 | 3.2 |" in page
    assert "median 1.23 ms, 99th percentile 5.68 ms, of which 0.91 ms hash all weights" in page
    assert "a class of 4,321 rows: 0.25 s." in page
    assert "Level: exact on the basis declared." in page
    assert "solves anew: 0.75 s" in page
    assert "```text\nexact: verified\n  rows 3\n```" in page
    assert "77 shadow models per world" in page
    assert "never holding the rows: 76 of 77;" in page
    assert "TPR % at FPR 0.1 % / 1 %" in page
    assert "| before forgetting | 66.60 ± 1.96 | 0.512 | 0.11 / 1.23 | 0.0456 |" in page
    assert "| after forgetting | 50.10 ± 1.96 | 0.512 |" in page
    assert "retain 0.0456 [0.0456], validation 0.0456 [0.0456]" in page


def test_every_encoder_has_a_part_of_its_own():
    assert "\n## one at 32 pixels\n" in PAGES["exact"]
    assert "\n## two\n" in PAGES["exact"]
    assert len(tables(PAGES["exact"])) == 4


def test_a_page_without_attacks_shows_none():
    runs = {name: run for name, run in exact_runs().items() if not name.startswith("shadows")}
    page = "\n".join(exact_page({"two": runs}, "c"))
    assert len(tables(page)) == 1
    assert "Attack" not in page


# -- share ----------------------------------------------------------------------------------------


def test_the_page_of_shares_is_made_of_its_runs():
    page = "\n".join(share_page({"a": share_runs()}, "c", None))
    ((_, rows),) = tables(page)
    assert rows[0] == ["exact rows", "rows trained on", "prototypes", "gaussian"]
    assert rows[2] == ["0%", "1,000", "90.50 ± 0.71", "80.00 ± 0.00"]
    assert rows[-1] == ["95%", "50", "81.00 ± 0.71", "80.00 ± 0.00"]
    assert [row[0] for row in rows[2:]] == ["0%", "50%", "75%", "90%", "95%"]


def test_a_single_seed_is_shown_without_a_spread():
    ((_, rows),) = tables("\n".join(share_page({"a": share_runs(1)}, "c", None)))
    assert rows[2] == ["0%", "1,000", "90.00", "80.00"]


# -- std_cls in other forms -----------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "tex", "html", "md"])
def test_std_cls_in_every_form_has_the_same_figures(form, tmp_path):
    runs = [std_cls_run(0, name="cifar10"), std_cls_run(1, name="cifar10")]
    document = std_cls_document(runs, "the command")
    path = tmp_path / f"page.{form}"
    document.write(path)
    text = path.read_text()
    (sheet,) = document.sheets
    assert [row[0] for row in sheet.rows] == ["parametric", *MODELS]
    assert "SPM prototypes" in text
    if form == "csv":
        lines = list(csv.DictReader(text.splitlines()))
        twin = [line for line in lines if line["model"] == "parametric"]
        assert [float(line["mean"]) for line in twin] == pytest.approx([95.0, 1.0])
    else:
        assert "95.00" in text
    if form == "html":
        assert "94.9" in text  # the paper's
