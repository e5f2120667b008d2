"""Columns of tables are found by name."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from erasable import SPMClassifier, load
from erasable.cli import app

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(0, 1, 60), RNG.normal(5, 1, 60), RNG.normal(-5, 1, 60)])
X[::2, 0] += 6
Y = ["even" if row % 2 == 0 else "odd" for row in range(60)]
COLUMNS = ("age", "height", "mass")
TRAINING = ("--encoder", "identity", "--epochs", "0")


def table(path, columns=COLUMNS, *, rows=slice(None), **odd):
    """Write a table whose columns are in the given order."""
    place = {name: number for number, name in enumerate(COLUMNS)}
    lines = [",".join(["id", *columns, "label"])]
    for row in range(60)[rows]:
        cells = [odd.get(name, X[row, place[name]] if name in place else 0) for name in columns]
        lines.append(",".join(map(str, [f"row-{row}", *cells, Y[row]])))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def call():
    def run(*words, code=0):
        found = CliRunner().invoke(app, [*map(str, words)])
        message = str(found.exception) if found.exception else ""
        assert bool(found.exit_code) == bool(code), found.output + message
        return found.output + message if code else found.stdout

    return run


@pytest.fixture
def model(tmp_path, call):
    call("train", tmp_path / "model", table(tmp_path / "train.csv"), *TRAINING)
    return tmp_path / "model"


def test_names_of_columns_are_kept_with_the_model(model):
    assert list(load(model).feature_names_in_) == list(COLUMNS)


ORDERS = [("mass", "age", "height"), ("height", "age", "mass")]
orders = pytest.mark.parametrize("order", ORDERS, ids="-".join)


@orders
@pytest.mark.parametrize(
    "words", [("predict",), ("votes",), ("find",)], ids=["predict", "votes", "find"]
)
def test_the_order_of_columns_does_not_matter(model, tmp_path, call, words, order):
    same = call(*words, model, table(tmp_path / "same.csv"), "--json")
    assert call(*words, model, table(tmp_path / "other.csv", order), "--json") == same


@orders
def test_rows_are_remembered_by_the_names_of_columns(tmp_path, call, order):
    first = table(tmp_path / "first.csv", rows=slice(0, 30))
    digests = []
    for name, columns in (("same", COLUMNS), ("other", order)):
        call("train", tmp_path / name, first, *TRAINING)
        more = table(tmp_path / f"{name}.csv", columns, rows=slice(30, 60))
        digests.append(json.loads(call("remember", tmp_path / name, more, "--json"))["digest"])
    assert digests[0] == digests[1]


@orders
def test_test_rows_are_read_by_the_names_of_columns(tmp_path, call, order):
    found = []
    for name, columns in (("same", COLUMNS), ("other", order)):
        test = table(tmp_path / f"{name}.csv", columns)
        train = table(tmp_path / "train.csv")
        words = ("train", tmp_path / name, train, *TRAINING, "--reduction", "gaussian")
        found.append(json.loads(call(*words, "--test", test, "--json"))["test_accuracy"])
    assert found[0] == found[1] > 0.9


@orders
def test_queries_of_an_audit_are_read_by_the_names_of_columns(model, tmp_path, call, order):
    words = ("audit", model, "--queries", table(tmp_path / "queries.csv", order))
    assert "verified" in call(*words)


BAD = {
    "missing": (("age", "mass"), {}, "missing: 'height'"),
    "extra": ((*COLUMNS, "shoe"), {}, "but got: 'shoe'"),
    "renamed": (("age", "size", "mass"), {}, "missing: 'height'.*but got: 'size'"),
    "retyped": (COLUMNS, {"height": "tall"}, "tall in row 0 of height"),
}


@pytest.mark.parametrize(("columns", "odd", "message"), BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("verb", ["predict", "votes", "find", "remember"])
def test_columns_that_differ_are_named(model, tmp_path, call, verb, columns, odd, message):
    before = load(model).memory.digest
    found = call(verb, model, table(tmp_path / "bad.csv", columns, **odd), code=1)
    assert re.search(message, " ".join(found.split()))
    assert load(model).memory.digest == before


def test_a_table_for_a_model_without_names_is_remarked(tmp_path, caplog):
    from erasable.cli._common import read_rows

    rows = read_rows(str(table(tmp_path / "t.csv")), "test")
    model = SPMClassifier("identity").remember(X, Y)
    model.predict(rows.X)
    assert "taken in their order" in caplog.text
