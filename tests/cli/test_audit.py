"""``erasable audit`` as a person would type it."""

import json
import sqlite3

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from erasable import SPMClassifier, load
from erasable.cli import _audit as audit_module
from erasable.cli._audit import audit
from erasable.errors import ArgumentError, RowIdError, StateError, StoreError
from models.toys import blobs, fitted, names, own_network

app = typer.Typer(rich_markup_mode=None, add_completion=False)
app.callback()(lambda: None)
app.command()(audit)


def call(*words, code=0):
    """Run the command in this process; expected errors raise."""
    found = CliRunner().invoke(app, ["audit", *map(str, words)], catch_exceptions=False)
    assert found.exit_code == code, found.output
    return found.stdout


def report(*words, code=0):
    return json.loads(call(*words, "--json", code=code))


@pytest.fixture
def model(tmp_path):
    X, y = blobs(40)
    ids = [*names(38), 7, "7"]
    groups = [["user-1"] if i % 4 else ["user-0", 5] for i in range(40)]
    path = tmp_path / "model"
    SPMClassifier("identity").remember(X, y, ids=ids, groups=groups).save(path)
    return path


def forget(path, **named):
    classifier = load(path)
    classifier.forget(**named)
    classifier.save(path)


def test_a_sound_model_is_verified(model):
    lines = call(model).splitlines()
    assert lines[0] == "exact: verified"
    assert "40, built anew" in lines[1]


def test_rows_that_are_there_are_forgotten_in_a_copy_only(model):
    before = load(model).memory.digest
    named = ("--id", names(1)[0], "--group", "user-0", "--class", "b")
    document = report(model, *named, "--simulate")
    assert (document["verdict"], document["simulated"]) == ("exact_verified", True)
    assert document["live"] == 30
    assert load(model).memory.digest == before


def test_rows_that_are_there_are_said_to_be_there(model):
    document = report(model, "--id", names(1)[0], code=1)
    assert (document["verdict"], document["live"]) == ("still_there", 1)
    assert call(model, "--group", "user-0", code=1).startswith("still there: 10 rows were not")


@pytest.mark.parametrize("words", [("--id", names(1)[0]), ("--group", "user-0"), ("--group", 5)])
def test_rows_forgotten_before_are_known_by_their_words(model, words):
    forget(model, ids=names(1))
    forget(model, groups=["user-0"])
    forget(model, groups=[5], missing_ok=True)
    document = report(model, *words)
    assert (document["forgotten_before"], document["not_found"]) == (1, 0)


def test_a_number_forgotten_before_is_told_from_the_text(model):
    forget(model, ids=[7])
    assert report(model, "--id", "i:7")["forgotten_before"] == 1
    assert report(model, "--id", 7, code=1)["live"] == 1
    forget(model, ids=["7"])
    assert report(model, "--id", 7)["forgotten_before"] == 2


def test_unknown_names_are_an_error_unless_skipped(model):
    words = (model, "--id", "x", "--group", "y", "--class", "z")
    with pytest.raises(RowIdError, match="Expected ids of rows that are live or were forgotten"):
        call(*words)
    assert report(*words, "--missing-ok", code=3)["not_found"] == 3


def test_queries_are_read_from_a_file(model, tmp_path):
    np.savez(tmp_path / "queries.npz", X=blobs(5, seed=3)[0])
    assert report(model, "--queries", tmp_path / "queries.npz")["queries"] == 5


def test_a_missing_file_of_queries_is_an_error(model, tmp_path):
    with pytest.raises(ArgumentError, match="there is no"):
        call(model, "--queries", tmp_path / "queries.npz")


def test_the_report_is_written_to_a_file(model, tmp_path):
    printed = report(model, "--out", tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_bytes()) == printed


def test_a_directory_cannot_be_the_report(model, tmp_path):
    with pytest.raises(ArgumentError, match="is a directory"):
        call(model, "--out", tmp_path)


def test_a_model_trained_on_the_rows_is_verified_in_its_memory_only(tmp_path):
    fitted().save(tmp_path / "m")
    text = call(tmp_path / "m", "--id", names(1)[0], "--simulate")
    assert text.startswith("simulated: memory, verified for a copy")
    assert "\nnot verified: rows of fit: the weights saw 1 row." in text


def test_a_failed_audit_ends_with_code_1_and_still_writes_its_report(model, tmp_path, monkeypatch):
    def tampered(path):
        classifier = load(path)
        classifier.memory.sums._sums[0, 0] += 1
        return classifier

    monkeypatch.setattr("erasable.models.load", tampered)
    document = report(model, "--out", tmp_path / "report.json", code=1)
    assert (document["verdict"], document["first_difference"]["part"]) == ("failed", "sums")
    assert json.loads((tmp_path / "report.json").read_bytes()) == document
    assert call(model, code=1).startswith("failed: sums, class 'a', dimension 0: ")


def test_rows_changed_on_disk_are_not_loaded_at_all(model):
    with sqlite3.connect(model / "rows.sqlite") as db:
        db.execute("UPDATE rows SET embedding = ? WHERE id = 'i:7'", (bytes(16),))
    db.close()
    with pytest.raises(StoreError, match="rows do not match their digest"):
        call(model)


def test_a_model_with_a_network_of_ones_own_is_refused(tmp_path):
    SPMClassifier(own_network()).remember(*blobs(6)).save(tmp_path / "m")
    with pytest.raises(StateError, match="network of your own"):
        call(tmp_path / "m")


def test_steps_are_told_once_they_take_long(model, monkeypatch):
    quick = CliRunner().invoke(app, ["audit", str(model)])
    assert quick.stderr == ""
    monkeypatch.setattr(audit_module, "_PATIENCE", -1.0)
    slow = CliRunner().invoke(app, ["audit", str(model)])
    assert slow.stderr.splitlines()[0] == "copying the memory (0 s)"
    assert slow.stdout.splitlines()[0] == "exact: verified"


def test_the_help_shows_examples():
    examples = call("--help").split("Examples:\n")[1].split("\n\n")[0].splitlines()
    assert len(examples) > 1
    assert all(line.strip().startswith("erasable audit") for line in examples)


def test_differencing_measures_every_readout(tmp_path):
    X, y = blobs(30)
    SPMClassifier("identity").remember(X, y).save(tmp_path / "m")
    out = tmp_path / "report.json"
    result = CliRunner().invoke(
        app, ["audit", str(tmp_path / "m"), "--differencing", "--out", str(out), "--json"]
    )
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert {one["readout"] for one in found["readouts"]} == {
        "prototypes",
        "rows",
        "neighbours",
        "gaussian",
    }
    assert json.loads(out.read_text()) == found


def test_differencing_takes_no_names(tmp_path):
    X, y = blobs(30)
    SPMClassifier("identity").remember(X, y).save(tmp_path / "m")
    words = ["audit", str(tmp_path / "m"), "--differencing", "--id", "1"]
    assert isinstance(CliRunner().invoke(app, words).exception, ArgumentError)
