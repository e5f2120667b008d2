"""Every command as a person would type it."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from erasable import SPMClassifier, __version__, load
from erasable.cli import app, main
from models.toys import blobs, names

COMMANDS = sorted(get_command(app).commands)


def process(*words):
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "erasable", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the entry point in this process, which is quicker: (exit code, output, errors)."""

    def entry(*words):
        monkeypatch.setattr(sys, "argv", ["erasable", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return entry


def read(path):
    """Return the arrays of a file."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def call(*words):
    """Run a command in this process, which is quicker; expected errors raise."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def rows(tmp_path):
    X, y = blobs(40)
    path = tmp_path / "rows.npz"
    groups = np.array([["user-1", ""] if i % 4 else ["user-0", "team"] for i in range(40)])
    np.savez(path, X=X, y=y, ids=names(40), groups=groups)
    return path


@pytest.fixture
def model(tmp_path, rows):
    path = tmp_path / "model"
    arrays = read(rows)
    groups = [["user-1"] if i % 4 else ["user-0", "team"] for i in range(40)]
    classifier = SPMClassifier("identity")
    classifier.remember(arrays["X"], arrays["y"], ids=arrays["ids"], groups=groups).save(path)
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples(command):
    examples = call(command, "--help").split("Examples:\n")[1].split("\n\n")[0].splitlines()
    assert len(examples) > 1
    assert all(line.strip().startswith(f"erasable {command}") for line in examples)


def test_the_version_is_printed():
    assert process("--version").stdout == f"erasable {__version__}\n"


def test_no_command_shows_the_commands():
    found = process()
    assert all(command in found.stdout + found.stderr for command in COMMANDS)


def test_an_expected_error_of_a_process_is_one_line():
    found = process("info", "no-such-model")
    assert (found.returncode, found.stdout) == (5, "")
    assert found.stderr.startswith("Error: Expected a saved model in ")
    assert found.stderr.count("\n") == 1


def test_train_stores_every_row_and_measures_accuracy(tmp_path, rows):
    out = call("train", tmp_path / "m", rows, "--test", rows, "--epochs", 2, "--json")
    document = json.loads(out)
    assert document["rows"] == 40
    assert document["classes"] == ["a", "b"]
    assert document["digest"] == load(tmp_path / "m").memory.digest
    assert 0.5 < document["test_accuracy"] <= 1


def test_train_leaves_no_partial_state_behind(tmp_path, rows):
    call("train", tmp_path / "m", rows, "--epochs", 1, "--json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "rows.npz"]


def test_train_leaves_files_of_others_alone(tmp_path, rows):
    (tmp_path / "m.partial").mkdir()
    (tmp_path / "m.partial" / "notes.txt").write_text("mine")
    call("train", tmp_path / "m", rows, "--epochs", 1, "--json")
    assert [path.name for path in (tmp_path / "m.partial").iterdir()] == ["notes.txt"]


def test_train_keeps_its_state_where_a_link_leads(run, tmp_path, rows):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "m.partial").symlink_to(tmp_path / "elsewhere")
    code, _, _ = run("train", tmp_path / "m", rows, "--epochs", 1, "--json")
    assert (code, list((tmp_path / "elsewhere").iterdir())) == (0, [])


def test_train_does_not_replace_a_model_unasked(run, model, rows):
    before = load(model).memory.digest
    code, out, err = run("train", model, rows)
    assert (code, out) == (1, "")
    assert "--overwrite" in err
    assert load(model).memory.digest == before


def test_train_refuses_forgotten_rows_before_it_trains(run, model, rows):
    call("forget", model, "--id", names(40)[0])
    code, _, err = run("train", model, rows, "--overwrite", "--json")
    assert (code, "1 of 40 rows were forgotten before" in err) == (1, True)
    assert len(load(model).memory) == 39
    assert not model.with_name("model.partial").exists()


def test_train_can_replace_a_model(model, rows):
    call("train", model, rows, "--overwrite", "--epochs", 1, "--json")
    assert load(model).network_.encoder.name == "mlp"


def test_predict_prints_labels_and_accuracy(model, rows):
    lines = call("predict", model, rows).splitlines()
    assert len(lines) == 41
    assert lines[-1].startswith("accuracy ")
    assert lines[0].split("\t")[1] in ("a", "b")


def test_predict_writes_what_it_found(model, rows, tmp_path):
    call("predict", model, rows, "--out", tmp_path / "p.npz")
    found = read(tmp_path / "p.npz")
    np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1)
    assert found["classes"].tolist() == ["a", "b"]


@pytest.mark.parametrize("reduction", ["rows", "prototypes"])
def test_votes_are_those_of_the_library(model, rows, reduction):
    document = json.loads(
        call("votes", model, rows, "--top", 2, "--reduction", reduction, "--json")
    )
    expected = load(model).set_params(reduction=reduction).votes(read(rows)["X"], top=2)
    assert document["kind"] == expected.kind
    ids = [[vote["id"] for vote in query["votes"]] for query in document["queries"]]
    assert ids == expected.ids.tolist()


def test_forget_prints_the_receipt_and_keeps_to_it(model):
    document = json.loads(call("forget", model, "--group", "team", "--request-id", "R7", "--json"))
    assert (document["rows"], document["request_id"], document["level"]) == (10, "R7", "exact")
    assert load(model).memory.digest == document["digest_after"]
    assert len(load(model).memory) == 30


def test_forget_takes_ids_groups_and_classes_together(model):
    call("forget", model, "--id", names(40)[1], "--class", "a", "--group", "team")
    memory = load(model).memory
    assert memory.classes == ["b"]
    assert names(40)[1] not in memory


def test_a_dry_run_lists_copies_on_request(model):
    first = load(model).memory.table.infos[0].id
    document = json.loads(
        call("forget", model, "--id", first, "--dry-run", "--near", 1000, "--json")
    )
    assert len(document["near"]) == len(load(model).memory) - 1
    told = call("forget", model, "--id", first, "--dry-run", "--near", 1000)
    assert f"{len(document['near'])} rows are near to these and would stay:" in told
    assert "rows are near" in call("forget", model, "--id", first, "--dry-run", "--near", 0)


def test_near_without_a_dry_run_is_refused(run, model):
    code, _, err = run("forget", model, "--class", "a", "--near", "0.1")
    assert code == 1
    assert "--near only with --dry-run" in err
    assert len(load(model).memory) == 40


def test_a_dry_run_changes_no_byte(model):
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    document = json.loads(call("forget", model, "--class", "a", "--dry-run", "--json"))
    assert (document["rows"], document["emptied"]) == (20, ["a"])
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before


def test_the_words_of_a_receipt_say_what_the_weights_keep(tmp_path, rows):
    call("train", tmp_path / "m", rows, "--epochs", 1, "--json")
    text = call("forget", tmp_path / "m", "--class", "a")
    assert "memory" in text
    assert "still carry what they learnt" in text


def test_forgetting_what_is_not_there_changes_nothing(run, model):
    code, _, err = run("forget", model, "--id", "nobody", "--id", names(40)[0])
    assert code == 1
    assert "nobody" in err
    assert len(load(model).memory) == 40


def test_remember_adds_rows_and_skips_forgotten_ones(run, model, tmp_path, rows):
    call("forget", model, "--id", names(40)[0])
    X, y = blobs(3, seed=5)
    both = {"X": np.concatenate([read(rows)["X"][:1], X]), "y": ["a", *y], "ids": names(4, 90)}
    np.savez(tmp_path / "more.npz", **both)
    code, _, err = run("remember", model, tmp_path / "more.npz")
    assert (code, "forgotten before" in err) == (1, True)
    out = json.loads(call("remember", model, tmp_path / "more.npz", "--skip-forgotten", "--json"))
    assert (out["added"], out["skipped"]) == (3, 1)
    assert len(load(model).memory) == 42


def test_find_names_copies(model, rows):
    document = json.loads(call("find", model, rows, "--json"))
    assert [query[0]["id"] for query in document["queries"]] == names(40)


def test_info_says_what_the_weights_were_trained_on(tmp_path, rows):
    call("train", tmp_path / "m", rows, "--epochs", 1, "--json")
    document = json.loads(call("info", tmp_path / "m", "--json"))
    assert document["trained_on"] == [{"basis": "recorded", "name": "rows of fit"}]
    assert document["rows"] == 40


@pytest.fixture
def numbered(tmp_path):
    path = tmp_path / "numbered"
    ids = [7, "7", 8, "9"]
    SPMClassifier("identity").remember(np.eye(4), [0, 0, 1, 1], ids=ids).save(path)
    return path


@pytest.mark.parametrize(("word", "gone"), [("8", 8), ("9", "9"), ("i:7", 7), ("s:7", "7")])
def test_a_word_finds_the_id_that_it_means(numbered, word, gone):
    call("forget", numbered, "--id", word)
    assert [row_id for row_id in (7, "7", 8, "9") if row_id not in load(numbered).memory] == [gone]


def test_a_word_with_two_meanings_is_refused(run, numbered):
    code, _, err = run("forget", numbered, "--id", "7")
    assert code == 1
    assert "'s:7'" in err
    assert len(load(numbered).memory) == 4


def test_a_class_that_is_a_number_is_found(numbered):
    call("forget", numbered, "--class", "1")
    assert load(numbered).memory.classes == [0]


@pytest.mark.parametrize("command", ["predict", "votes", "find", "remember"])
def test_a_missing_data_file_is_an_error(run, model, command):
    code, out, err = run(command, model, model / "nothing.npz")
    assert (code, out) == (1, "")
    assert err.startswith("Error: Expected an .npz file")


def test_wrong_usage_has_an_exit_code_of_its_own(run, model):
    assert run("forget", model, "--nonsense")[0] == 2


def test_naming_nothing_to_forget_is_an_error(run, model):
    code, _, err = run("forget", model)
    assert (code, "ids, groups or classes" in err) == (1, True)


TRAINING = ("--epochs", 30, "--batch-size", 4, "--seed", 3, "--json")


def test_an_interrupted_training_goes_on_to_the_same_weights(tmp_path, rows):
    whole = json.loads(process("train", tmp_path / "whole", rows, *TRAINING).stdout)
    words = [sys.executable, "-m", "erasable", "train", tmp_path / "m", rows, *TRAINING]
    # A suite that is run in the background ignores interrupts, and so would what it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    training = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    state = tmp_path / "m.partial" / "checkpoint.safetensors"
    while not state.exists():
        assert training.poll() is None, "training ended before it could be interrupted"
        time.sleep(0.01)
    os.kill(training.pid, signal.SIGINT)
    _, remark = training.communicate()
    assert training.returncode == 130
    assert "Run the same command again" in remark
    assert not (tmp_path / "m").exists()
    resumed = json.loads(process("train", tmp_path / "m", rows, *TRAINING).stdout)
    assert resumed["weights_digest"] == whole["weights_digest"]
    assert resumed["digest"] == whole["digest"]


def test_a_group_that_is_not_there_is_refused_later_as_text_and_as_number(run, model, tmp_path):
    assert run("forget", model, "--group", "42", "--missing-ok")[0] == 3
    X, y = blobs(2, seed=7)
    np.savez(tmp_path / "more.npz", X=X, y=y, ids=["n1", "n2"], groups=[42, 43])
    code, _, err = run("remember", model, tmp_path / "more.npz")
    assert (code, "1 of 2 rows were forgotten before" in err) == (1, True)
