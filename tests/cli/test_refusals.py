"""What the command line refuses: exit code 1, one line, no traceback, nothing changed."""

import pickle
import sys

import numpy as np
import pytest

from erasable import SPMClassifier, load
from erasable.cli import main
from models.toys import blobs, fitted, names, own_network


@pytest.fixture
def refused(monkeypatch, capsys):
    """Run a command that must be refused, and return its message."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["erasable", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert (ended.value.code in (1, 3, 4, 5), out) == (True, "")
        assert err.startswith("Error: ")
        assert "Traceback" not in err
        return err

    return run


@pytest.fixture
def model(tmp_path):
    fitted(12).save(tmp_path / "model")
    return tmp_path / "model"


def write(path, **arrays):
    X, y = blobs(4, seed=5)
    np.savez(path, **{"X": X, "y": y, "ids": names(4, 100), **arrays})
    return path


BAD = {
    "NaN": {"X": np.full((4, 4), np.nan)},
    "too many features": {"X": np.zeros((4, 5))},
    "images": {"X": np.zeros((4, 2, 2))},
    "text": {"X": np.full((4, 4), "x")},
    "one axis": {"X": np.zeros(4)},
}


@pytest.mark.parametrize("command", ["predict", "votes", "find", "remember"])
@pytest.mark.parametrize("arrays", BAD.values(), ids=BAD.keys())
def test_inputs_that_do_not_fit_are_refused(refused, model, tmp_path, command, arrays):
    refused(command, model, write(tmp_path / "data.npz", **arrays))


LABELS = {
    "two columns": np.zeros((4, 2)),
    "regression targets": np.array([0.1, 0.2, 0.3, 0.4]),
    "NaN": np.full(4, np.nan),
    "dates": np.array(["2030-01-01"] * 4, "datetime64[D]"),
}


@pytest.mark.parametrize("y", LABELS.values(), ids=LABELS.keys())
@pytest.mark.parametrize("command", ["train", "remember"])
def test_labels_that_are_none_are_refused(refused, model, tmp_path, command, y):
    data = write(tmp_path / "data.npz", y=y)
    where = model if command == "remember" else tmp_path / "new"
    refused(command, where, data)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("command", ["train", "remember"])
def test_data_without_labels_is_refused(refused, model, tmp_path, command):
    np.savez(tmp_path / "data.npz", X=np.zeros((4, 4)))
    where = model if command == "remember" else tmp_path / "new"
    assert "'y'" in refused(command, where, tmp_path / "data.npz")


def test_a_pickle_is_refused_and_not_run(refused, model, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("the pickle was run",))

    (tmp_path / "data.npz").write_bytes(pickle.dumps(Bomb()))
    assert "cannot be read" in refused("predict", model, tmp_path / "data.npz")


@pytest.mark.parametrize("command", ["predict", "votes", "find", "info", "forget"])
def test_a_damaged_model_is_refused(refused, model, tmp_path, command):
    (model / "rows.sqlite").write_bytes(b"garbage" * 1000)
    data = {"info": [], "forget": ["--class", "a"]}.get(command, [write(tmp_path / "data.npz")])
    assert "damaged" in refused(command, model, *data)


def test_a_model_with_a_users_network_says_how_to_load_it(refused, tmp_path):
    SPMClassifier(own_network()).remember(*blobs(4)).save(tmp_path / "model")
    assert "encoder=network" in refused("info", tmp_path / "model")


def test_a_place_that_cannot_be_written_is_refused(refused, tmp_path):
    (tmp_path / "file").write_text("mine")
    data = write(tmp_path / "data.npz")
    assert "file" in refused("train", tmp_path / "file" / "model", data, "--epochs", 0, "--json")


def test_a_place_that_was_not_made_for_models_is_refused(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = write(tmp_path / "data.npz")
    assert "holds other files" in refused("train", ".", data, "--epochs", 0, "--json")


def test_an_unknown_encoder_is_refused_with_the_known_ones(refused, tmp_path):
    data = write(tmp_path / "data.npz")
    assert "'mlp'" in refused("train", tmp_path / "new", data, "--encoder", "magic")


@pytest.mark.parametrize("word", ["007", "1_0", "+7", " 7", "7.0", "0x7", "٧"])
def test_a_word_that_only_resembles_a_number_finds_no_row(refused, tmp_path, word):
    path = tmp_path / "model"
    SPMClassifier("identity").remember(*blobs(2), ids=[7, 10]).save(path)
    assert repr(word) in refused("forget", path, "--id", word)
    assert len(load(path).memory) == 2


def test_a_forgotten_row_is_not_trained_over(refused, model, tmp_path):
    X, y = blobs(12)
    classifier = load(model)
    classifier.forget(ids=names(1))
    classifier.save(model)
    data = write(tmp_path / "data.npz", X=X, y=y, ids=names(12, 100))
    words = ("--overwrite", "--epochs", 1, "--json")
    assert "1 of 12 rows were forgotten before" in refused("train", model, data, *words)
    assert load(model).memory.digest == classifier.memory.digest
