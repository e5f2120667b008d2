"""``erasable info``: what a model is, and what it holds of somebody's rows."""

import json

import pytest
import typer
from typer.testing import CliRunner

from erasable import SPMClassifier, load
from erasable.cli._info import info
from models.toys import TINY, blobs, names

app = typer.Typer(rich_markup_mode=None, add_completion=False)
app.callback()(lambda: None)
app.command()(info)


def call(*words, code=0):
    found = CliRunner().invoke(app, ["info", *map(str, words)], catch_exceptions=False)
    assert found.exit_code == code, found.output
    return found.stdout


@pytest.fixture
def model(tmp_path):
    X, y = blobs(40)
    groups = [f"user-{row % 4}" for row in range(40)]
    trained = SPMClassifier(**TINY, epochs=1).fit(X, y, ids=names(40), groups=groups)
    trained.remember(X[:1] + 3, y[:1], ids=["later"], groups=["user-0"])
    trained.save(tmp_path / "model")
    return tmp_path / "model"


def test_rows_of_a_group_are_listed_with_their_levels(model):
    document = json.loads(call(model, "--group", "user-0", "--json"))
    levels = {row["id"]: row["level"] for row in document["rows"]}
    assert levels == {
        **{f"row-number-{row}": "memory" for row in range(0, 40, 4)},
        "later": "exact",
    }
    assert document["level"] == "memory"
    assert "rows of fit: the weights saw rows of the group" in document["reasons"]


def test_what_remains_is_told_with_how_to_remove_it(model):
    text = call(model, "--id", "later")
    assert "1 row\nlevel of forgetting them: exact (recorded)" in text
    assert "to remove it: 'erasable tombstones drop'" in text
    assert "what the weights learnt" not in text
    assert "what the weights learnt" in call(model, "--id", names(1)[0])


def test_rows_forgotten_before_are_told_with_their_day(model):
    classifier = load(model)
    day = classifier.forget(ids=names(1)).time[:10]
    classifier.save(model)
    text = call(model, "--id", names(1)[0], code=4)
    assert f"already forgotten: row 'row-number-0' on {day}, level memory" in text


def test_unknown_names_are_told(model):
    assert "unknown: row 'nobody'" in call(model, "--id", "nobody", code=3)
    assert "remains" not in call(model, "--id", "nobody", code=3)


def test_choices_that_cannot_be_known_are_named(model):
    assert "not on record" in call(model)
