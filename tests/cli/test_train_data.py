"""Commands on data sets by name, folders and tables; training by presets."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from erasable import SPMClassifier, load
from erasable.cli import app, main
from erasable.data import load_dataset
from erasable.models import preset

TINY = ("--preset", "tiny", "--epochs", 1, "--json")


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the entry point in this process: (exit code, output, errors)."""

    def entry(*words):
        monkeypatch.setattr(sys, "argv", ["erasable", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return entry


@pytest.fixture
def refused(run):
    """Run a command that must be refused, and return its message."""

    def entry(*words):
        code, out, err = run(*words)
        assert (code, out) == (1, "")
        assert err.startswith("Error: Expected ")
        return err

    return entry


def call(*words):
    """Run a command in this process; expected errors raise."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*words):
    return json.loads(call(*words))


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


def write(path, split):
    np.savez(path, X=split.X, y=split.y, ids=split.ids, groups=split.groups)
    return path


@pytest.fixture
def table(tmp_path):
    """Return a table of 30 rows of three easy classes."""
    rng = np.random.default_rng(0)
    lines = [
        f"{a:.3f},{b + 3 * (row % 3):.3f},row-{row},user-{row % 4},{'xyz'[row % 3]}"
        for row, (a, b) in enumerate(rng.normal(size=(30, 2)))
    ]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["a,b,id,group,label", *lines]) + "\n")
    return path


@pytest.fixture
def empty(tmp_path):
    """Return a model for such tables that holds a single row."""
    path = tmp_path / "empty"
    SPMClassifier("identity").remember([[0.0, 0.0]], ["x"], ids=["first"]).save(path)
    return path


# -- what to train on -----------------------------------------------------------------------------


def test_a_data_set_by_name_is_trained_on_as_a_file_of_its_rows(tmp_path, digits):
    rows, test = write(tmp_path / "rows.npz", digits.train), write(tmp_path / "t.npz", digits.test)
    named = document("train", tmp_path / "a", "--data", "digits", *TINY)
    filed = document("train", tmp_path / "b", rows, "--test", test, *TINY)
    for name in ("model", "data"):  # a file does not say where it comes from
        assert named.pop(name) != filed.pop(name)
    assert named == filed
    assert named["rows"] == len(digits.train)


def test_accuracy_is_that_on_the_data_sets_own_test_rows(tmp_path, digits):
    found = document("train", tmp_path / "a", "digits", *TINY)
    model = load(tmp_path / "a")
    assert found["test_accuracy"] == model.score(digits.test.X, digits.test.y)
    assert all(row_id not in model.memory for row_id in digits.test.ids)


def test_other_test_rows_are_taken_where_given(tmp_path, digits):
    few = write(tmp_path / "few.npz", digits.test.take(range(20)))
    found = document("train", tmp_path / "a", "digits", "--test", few, *TINY)
    model = load(tmp_path / "a")
    assert found["test_accuracy"] == model.score(digits.test.X[:20], digits.test.y[:20])
    assert found["rows"] == len(digits.train)


def test_a_model_without_a_name_is_called_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert document("train", "--data", "digits", *TINY)["model"] == "model"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("words", [(), ("m",), ("m", "digits", "--data", "digits")])
def test_data_is_given_once(refused, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    assert "once: as DATA or with --data" in refused("train", *words, "--epochs", 0)
    assert not list(tmp_path.iterdir())


def test_data_that_is_not_there_is_refused_with_the_known_names(refused, tmp_path):
    assert "digits, mnist, fashion-mnist, cifar10" in refused("train", tmp_path / "m", "imagenet")


def test_a_table_is_split_trained_on_and_measured(tmp_path, table):
    words = ("--epochs", 0, "--encoder", "identity", "--reduction", "gaussian", "--json")
    found = document("train", tmp_path / "m", table, *words)
    assert (found["rows"], found["classes"]) == (24, ["x", "y", "z"])
    assert found["test_accuracy"] > 0.5
    assert load(tmp_path / "m").forget(groups=["user-1"]).rows > 3


@pytest.mark.parametrize("name", ["{}/rows", "arrays:{}/rows.npz"])
def test_a_file_of_arrays_may_have_any_name(tmp_path, digits, name):
    path = write(tmp_path / "rows.npz", digits.train.take(range(50)))
    (tmp_path / "rows").write_bytes(path.read_bytes())
    found = document("train", tmp_path / "m", name.format(tmp_path), "--epochs", 0, "--json")
    assert found["rows"] > 0


# -- presets --------------------------------------------------------------------------------------


def test_a_preset_is_what_its_settings_are(tmp_path, digits):
    found = document("train", tmp_path / "m", "digits", "--preset", "tiny", "--json")
    model = SPMClassifier(**preset("tiny", (1, 8, 8)), random_state=0)
    rows = digits.train
    model.fit(rows.X, rows.y, ids=rows.ids, groups=rows.groups)
    assert found["weights_digest"] == model.weights_digest
    assert found["digest"] == model.memory.digest


def test_what_is_given_wins_over_the_preset(tmp_path):
    given = ("--epochs", 0, "--learning-rate", 0.3, "--augmentation", "crop", "--json")
    call("train", tmp_path / "m", "digits", "--preset", "laptop", *given)
    model, expected = load(tmp_path / "m"), preset("laptop", (1, 8, 8))
    found = (model.epochs, model.learning_rate, model.training.augmentation)
    assert found == (0, 0.3, "crop")
    assert model.batch_size == expected["batch_size"]
    assert model.training.label_smoothing == expected["training"].label_smoothing
    assert model.network_.encoder.options().items() >= expected["encoder_options"].items()


@pytest.mark.parametrize("encoder", ["small_cnn", "fast_cnn", "identity"])
def test_another_encoder_does_not_get_the_options_of_the_presets_own(tmp_path, encoder):
    words = ("--preset", "tiny", "--epochs", 0, "--encoder", encoder, "--json")
    call("train", tmp_path / "m", "digits", *words)
    found = load(tmp_path / "m").network_.encoder
    assert found.name == encoder
    assert found.options() == type(found)((1, 8, 8)).options()


def test_knn_takes_presets_too(tmp_path):
    found = document("train", tmp_path / "m", "digits", "--kind", "knn", *TINY)
    assert found["kind"] == "KNNClassifier"
    assert found["test_accuracy"] > 0.5


def test_an_unknown_preset_is_refused_with_the_known_ones(refused, tmp_path):
    words = ("train", tmp_path / "m", "digits", "--preset", "huge")
    assert "'tiny', 'laptop', 'fast', 'accurate', 'paper' and 1 more" in refused(*words)
    assert not (tmp_path / "m").exists()


def test_the_preset_exact_trains_nothing_and_keeps_embeddings(tmp_path, table):
    cache = tmp_path / "cache"
    words = ("--preset", "exact", "--embedding-cache", cache, "--json")
    call("train", tmp_path / "m", table, *words)
    info = document("info", tmp_path / "m", "--json")
    assert (info["encoder"], info["trained_on"]) == ("random_features", [])
    assert {copy["path"]: copy["rows"] for copy in info["copies"]} == {
        str(tmp_path / "m"): 24,
        str(cache): 24,
    }
    first = next(iter(load(tmp_path / "m").memory.table.infos)).id
    assert document("forget", tmp_path / "m", "--id", first, "--json")["level"] == "exact"


# -- options of an encoder ------------------------------------------------------------------------


def test_options_of_an_encoder_are_numbers_or_lists_where_they_read_as_such(tmp_path, table):
    words = ("--encoder", "mlp", "--encoder-option", "dim=6", "--encoder-option", "hidden=[5, 4]")
    call("train", tmp_path / "m", table, *words, "--epochs", 0, "--json")
    assert load(tmp_path / "m").network_.encoder.options() == {"hidden": [5, 4], "dim": 6}


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("dim", "NAME=VALUE, but got 'dim'"),
        ("", "NAME=VALUE, but got ''"),
        ("=3", "options of the encoder 'mlp'"),
        ("breadth=3", "'breadth'"),
        ("dim=wide", "dim"),
        ("dim=-1", "dim"),
        ("dim=1.5", "dim"),
        ("dim=", "dim"),
        ("dim=null", "dim"),
        ("input_shape=[3]", "options of the encoder 'mlp'"),
    ],
)
def test_a_bad_option_of_an_encoder_is_refused(refused, tmp_path, table, word, told):
    words = ("--encoder", "mlp", "--encoder-option", word, "--epochs", 0)
    assert told in refused("train", tmp_path / "m", table, *words)
    assert not (tmp_path / "m").exists()


def test_an_option_that_is_set_leaves_the_others_of_the_preset(tmp_path):
    words = ("--preset", "tiny", "--encoder-option", "dim=8", "--epochs", 0, "--json")
    call("train", tmp_path / "m", "digits", *words)
    options = load(tmp_path / "m").network_.encoder.options()
    assert (options["width"], options["dim"]) == (0.125, 8)


def test_a_precision_among_the_options_of_an_encoder_is_that_of_its_training(tmp_path):
    words = ("--preset", "tiny", "--encoder-option", "precision=bfloat16", "--epochs", 1, "--json")
    call("train", tmp_path / "m", "digits", *words)
    assert load(tmp_path / "m").training.precision == "bfloat16"


@pytest.mark.parametrize("kind", ["spm", "knn"])
def test_views_of_a_prediction_can_be_chosen(tmp_path, kind):
    words = ("--kind", kind, "--preset", "tiny", "--epochs", 0, "--views", "mirror", "--json")
    call("train", tmp_path / "m", "digits", *words)
    assert load(tmp_path / "m").views == "mirror"


def test_views_of_vectors_are_refused(refused, tmp_path, table):
    message = refused("train", tmp_path / "m", table, "--epochs", 0, "--views", "six")
    assert "Expected images with views='six'" in message
    assert not (tmp_path / "m").exists()


# -- killed ---------------------------------------------------------------------------------------


def test_a_killed_training_goes_on_to_the_same_weights(run, tmp_path):
    words = ("--data", "digits", "--preset", "tiny", "--epochs", 4, "--json")
    command = [sys.executable, "-m", "erasable", "train", tmp_path / "m", *words]
    training = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE)
    state = tmp_path / "m.partial" / "checkpoint.safetensors"
    while not state.exists():
        assert training.poll() is None, "training ended before it could be killed"
        time.sleep(0.005)
    os.kill(training.pid, signal.SIGKILL)
    assert (training.communicate()[1], training.returncode) == (b"", -signal.SIGKILL)
    assert not (tmp_path / "m").exists()
    code, out, err = run("train", tmp_path / "m", *words)
    assert (code, "Going on with the training" in err) == (0, True)
    resumed, whole = json.loads(out), document("train", tmp_path / "whole", *words)
    assert resumed.pop("model") != whole.pop("model")
    assert resumed == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "whole"]


def test_the_checkpoint_of_other_data_is_refused(run, tmp_path, digits):
    rows = write(tmp_path / "rows.npz", digits.train.take(range(100)))
    state = tmp_path / "m.partial"
    other = SPMClassifier(**preset("tiny", (1, 8, 8)), random_state=0)
    other.set_params(training__checkpoint=state)
    other.fit(digits.train.X[:99], digits.train.y[:99])
    before = (state / "checkpoint.safetensors").read_bytes()
    code, out, err = run("train", tmp_path / "m", rows, "--preset", "tiny", "--json")
    assert (code, out) == (1, "")
    assert "it differs in data." in err
    assert (state / "checkpoint.safetensors").read_bytes() == before
    assert not (tmp_path / "m").exists()


# -- data sets for the other commands -------------------------------------------------------------


@pytest.fixture(scope="module")
def knows_test_rows(tmp_path_factory, digits):
    """Return a model that holds the first of the digits' test rows."""
    path = tmp_path_factory.mktemp("models") / "model"
    few = digits.test.take(range(40))
    SPMClassifier("identity").remember(few.X, few.y, ids=few.ids).save(path)
    return path


def test_predict_takes_the_test_rows_of_a_data_set(knows_test_rows, digits):
    found = document("predict", knows_test_rows, "digits", "--json")
    model = load(knows_test_rows)
    assert found["labels"] == model.predict(digits.test.X).tolist()
    assert found["accuracy"] == model.score(digits.test.X, digits.test.y)


def test_votes_takes_the_test_rows_of_a_data_set(knows_test_rows, digits):
    words = ("--top", 2, "--reduction", "rows", "--json")
    found = document("votes", knows_test_rows, "digits", *words)["queries"]
    expected = load(knows_test_rows).set_params(reduction="rows").votes(digits.test.X, top=2)
    assert [[vote["id"] for vote in query["votes"]] for query in found] == expected.ids.tolist()


def test_find_takes_the_test_rows_of_a_data_set(knows_test_rows, digits):
    found = document("find", knows_test_rows, "digits", "--json")["queries"]
    assert len(found) == len(digits.test)
    assert [query[0]["id"] for query in found[:40]] == digits.test.ids[:40]


def test_remember_takes_the_training_rows_of_a_data_set(tmp_path, digits, knows_test_rows):
    load(knows_test_rows).save(tmp_path / "m")
    found = document("remember", tmp_path / "m", "digits", "--json")
    assert (found["added"], found["skipped"]) == (len(digits.train), 0)
    memory = load(tmp_path / "m").memory
    assert all(row_id in memory for row_id in digits.train.ids)
    assert digits.train.groups[0] in memory.get(digits.train.ids[:1])[0].groups


@pytest.mark.parametrize("command", ["predict", "votes", "find", "remember"])
def test_a_data_set_of_another_shape_is_refused(refused, empty, command):
    assert "(n, 2)" in refused(command, empty, "digits")
    assert len(load(empty).memory) == 1


def test_remember_stores_every_row_of_a_table(empty, table):
    found = document("remember", empty, table, "--json")
    assert (found["added"], found["skipped"]) == (30, 0)


@pytest.mark.parametrize("command", ["votes", "find"])
def test_every_row_of_a_table_is_a_query(empty, table, command):
    assert len(document(command, empty, table, "--json")["queries"]) == 30


def test_predict_answers_for_every_row_of_a_table(empty, table):
    assert len(document("predict", empty, table, "--json")["labels"]) == 30


@pytest.mark.parametrize("command", ["predict", "votes", "find"])
def test_a_table_of_few_rows_is_answered(run, empty, tmp_path, command):
    (tmp_path / "few.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    assert run(command, empty, tmp_path / "few.csv", "--json")[0] == 0


def test_a_folder_of_images_is_trained_on_and_predicted(tmp_path):
    rng, root = np.random.default_rng(0), tmp_path / "photographs"
    for place, label in enumerate(("cat", "dog")):
        (root / label).mkdir(parents=True)
        for number in range(5):
            pixels = rng.integers(0, 100, size=(30, 40, 3))
            pixels[..., place] += 150
            Image.fromarray(pixels.astype(np.uint8)).save(root / label / f"{number}.png")
    words = ("--encoder", "fast_cnn", "--encoder-option", "width=0.05", "--epochs", 0, "--json")
    found = document("train", tmp_path / "m", "--data", root, *words)
    assert (found["rows"], found["classes"]) == (8, ["cat", "dog"])
    model = load(tmp_path / "m")
    assert model.input_shape_ == (3, 224, 224)
    assert "cat/1.png" in model.memory or "cat/0.png" in model.memory
    assert len(document("predict", tmp_path / "m", root, "--json")["labels"]) == 10


# -- what a model says of the data it was made of -------------------------------------------------


def kept_of(record):
    """Return what a model keeps of the record of a data set."""
    return {k: v for k, v in record.items() if not k.endswith(("_digest", "_contents"))}


def test_a_model_records_the_split_it_was_trained_on(digits, tmp_path):
    model = tmp_path / "model"
    told = document("train", model, "--data", "digits", *TINY)
    assert told["data"] == digits.record()
    kept = kept_of(digits.record())
    assert load(model).data_ == kept
    assert document("info", model, "--json")["data"]["seed"] == 0
    assert "test share 0.2, seed 0" in call("info", model)
    reloaded = load(model)
    reloaded.forget(ids=[digits.train.ids[0]])
    reloaded.save(model)
    assert load(model).data_ == kept


def test_digests_that_an_earlier_version_saved_go_with_the_next_save(digits, tmp_path):
    model = tmp_path / "model"
    call("train", model, "--data", "digits", *TINY)
    old = load(model)
    old._data = digits.record()
    old.save(model)
    assert load(model).data_ == kept_of(digits.record())
    call("forget", model, "--id", digits.train.ids[0])
    saved = b"".join(path.read_bytes() for path in model.iterdir() if path.is_file())
    for digest in (digits.train.digest, digits.train.contents_digest, digits.test.digest):
        assert digest.encode() not in saved


def test_predicting_rows_of_the_memory_is_said(table, tmp_path):
    model = tmp_path / "model"
    call("train", model, table, *TINY)
    told = CliRunner().invoke(app, ["predict", str(model), str(table), "--json"])
    assert "24 of the 30 inputs are rows of this memory" in told.stderr
    assert json.loads(told.stdout)["in_memory"] == 24
