"""Keys and tombstones as a person handles them."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from erasable import SPMClassifier, load
from erasable.cli import app
from erasable.errors import ArgumentError, StoreError
from erasable.memory import keyring


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def model(tmp_path):
    clf = SPMClassifier("identity").remember([[0.0], [1.0], [2.0]], ["a", "a", "b"], ids=[*"xyz"])
    clf.forget(ids=["x"])
    clf.save(tmp_path / "model")
    return tmp_path / "model"


def test_keys_are_listed_by_id(model):
    shown = json.loads(call("keys", "list", "--json"))
    [key] = shown["keys"]
    assert (key["id"], key["permissions"], key["is_active"]) == (keyring.active(), "0600", True)


def test_no_command_shows_a_key(model, keys):
    secret = keyring.get(keyring.active()).hex()
    shown = call("keys", "list") + call("keys", "list", "--json") + call("keys", "rotate")
    assert secret not in shown


def test_a_folder_that_others_can_read_is_warned_of(model, keys):
    keys.chmod(0o755)
    shown = json.loads(call("keys", "list", "--json"))
    assert shown["warnings"] == [f"others than the owner can read {keys}; run chmod go= on it"]


def test_after_a_rotation_older_marks_are_still_checked(model):
    before = keyring.active()
    assert "1 older key kept" in call("keys", "rotate")
    clf = load(model)
    clf.forget(ids=["y"])
    clf.save(model)
    listed = json.loads(call("tombstones", "list", model, "--json"))["tombstones"]
    assert {entry["key_id"] for entry in listed} == {before, keyring.active()}
    with pytest.raises(LookupError, match="2 of 2 rows were forgotten before"):
        load(model).remember([[0.0], [1.0]], ["a", "a"], ids=["x", "y"])


def test_keys_go_to_another_host(model, tmp_path, monkeypatch):
    assert "This file is secret" in call("keys", "export", tmp_path / "file")
    monkeypatch.setenv("ERASABLE_KEYS", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(keyring, "_known", {})
    monkeypatch.setattr(keyring, "_active", None)
    assert "1 new key" in call("keys", "import", tmp_path / "file")
    assert load(model).memory.tombstones.has_id("x")


def test_exporting_over_a_file_is_refused(model, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        call("keys", "export", tmp_path / "file")


def test_tombstones_are_counted_by_request(model):
    lines = call("tombstones", "list", model).splitlines()
    assert lines[0] == f"2 tombstones in {model}"
    assert f"level exact  key {keyring.active()}" in lines[1]


def test_dropped_tombstones_have_left_the_saved_model_and_its_ledger(model, keys):
    raw = [mark for _, mark, _ in load(model).memory.tombstones.marks.items()]
    assert call("tombstones", "drop", model, "--all").startswith("2 tombstones dropped; 0 left")
    folders = model, keys
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    files = b"".join(path.read_bytes() for path in paths)
    assert not any(mark in files for mark in raw)
    load(model).remember([[0.0]], ["a"], ids=["x"])


def test_a_dry_run_drops_nothing(model):
    assert "nothing was changed" in call("tombstones", "drop", model, "--all", "--dry-run")
    assert load(model).memory.tombstones.has_id("x")


@pytest.mark.parametrize(("days", "left"), [("0", 0), ("1", 2), ("1e6", 2)])
def test_tombstones_expire_after_days(model, days, left):
    call("tombstones", "expire", model, "--days", days)
    assert len(load(model).memory.tombstones.entries()) == left


@pytest.mark.parametrize(
    "words",
    [
        ["drop"],
        ["drop", "--all", "--before", "2026-01-01"],
        ["drop", "--before", "soon"],
        ["expire", "--days", "-1"],
        ["expire", "--days", "nan"],
        ["expire", "--days", "inf"],
    ],
)
def test_what_is_to_go_must_be_clear(model, words):
    with pytest.raises(ArgumentError):
        call("tombstones", words[0], model, *words[1:])
    assert load(model).memory.tombstones.has_id("x")


def test_a_model_that_was_emptied_of_tombstones_still_answers(model):
    before = load(model).predict_proba(np.array([[0.5]]))
    call("tombstones", "drop", model, "--all")
    assert (load(model).predict_proba(np.array([[0.5]])) == before).all()


def test_an_older_copy_is_caught_up_with_a_receipt(model, tmp_path):
    backup = shutil.copytree(model, tmp_path / "backup")
    call("forget", model, "--id", "y")
    shutil.rmtree(model)
    shutil.copytree(backup, model)

    assert call("catch-up", model, "--dry-run").splitlines() == [
        f"{model} is 1 revision old; would forget 1 row again",
        "  y",
    ]
    shown = json.loads(call("catch-up", model, "--json"))
    assert (shown["revisions"], shown["named"], shown["alike"]) == (1, ["y"], [])
    assert [(receipt["rows"], receipt["saved"]) for receipt in shown["receipts"]] == [(1, True)]
    assert "nothing was changed" in call("catch-up", model)
    assert [row.id for row in load(model).memory] == ["z"]
