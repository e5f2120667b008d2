"""Models of the format before: loaded, never trusted beyond what it can show, and upgraded."""

import json
import os
import shutil
import sqlite3

import numpy as np
import pytest

from erasable import KNNClassifier, SPMClassifier, load
from erasable.errors import RowIdError, StateError, StoreError
from erasable.models import change
from erasable.training import Training
from models.toys import blobs, fitted, names
from store.format_1 import save_as_format_1

QUERIES = blobs(5, seed=9)[0]


@pytest.fixture
def model(tmp_path):
    """Return a model from which a row was forgotten, and which knows of a report."""
    found = fitted(12)
    found.forget(ids=names(1, 11))
    (tmp_path / "report.html").touch()
    found.note_copy("report", tmp_path / "report.html")
    return found


@pytest.fixture
def path(model, tmp_path):
    """Return a directory with the model in the format before."""
    save_as_format_1(model, tmp_path / "model")
    return tmp_path / "model"


def change_config(path, **changes):
    """Set entries of the configuration."""
    config = json.loads((path / "config.json").read_bytes())
    (path / "config.json").write_text(json.dumps({**config, **changes}))


def refusal(path):
    """Return the message with which a directory is refused."""
    with pytest.raises(StoreError) as error:
        load(path)
    return str(error.value)


def test_it_is_loaded_as_it_was_saved(path, model):
    found = load(path)
    assert found.memory.digest == model.memory.digest
    assert found.copies_ == model.copies_
    np.testing.assert_array_equal(found.predict_proba(QUERIES), model.predict_proba(QUERIES))
    with pytest.raises(RowIdError, match="forgotten before"):
        found.remember(blobs(1)[0], ["a"], ids=names(1, 11))


def test_nothing_vouches_for_it_so_its_level_is_memory(path, caplog):
    found = load(path).remember([[9.0] * 4], ["a"], ids=["new"])
    assert not found.is_verified_
    assert found.forget(ids=["new"], dry_run=True).level == "memory"
    assert "an earlier version" in caplog.text


def test_loading_it_changes_nothing(path):
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    load(path)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_the_next_save_upgrades_it(path):
    found = load(path)
    found.forget(ids=names(1))
    found.save(path)
    assert sorted(file.name.split("-")[0] for file in path.iterdir()) == ["rows.sqlite", "weights"]
    again = load(path)
    assert again.is_verified_
    assert len(again.memory) == 10
    with pytest.raises(RowIdError, match="forgotten before"):
        again.remember(blobs(1)[0], ["a"], ids=names(1, 11))
    assert again.forget(ids=names(1, 1), dry_run=True).level == "memory"


def test_what_a_killed_upgrade_has_left_is_swept(path, tmp_path):
    before = shutil.copytree(path, tmp_path / "before")
    change(path, lambda found: found.forget(ids=names(1)))
    for name in ("config.json", "copies.json"):
        shutil.copy(before / name, path / name)
    assert len(load(path).memory) == 10
    assert not (path / "config.json").exists()
    assert not (path / "copies.json").exists()


def test_an_older_copy_of_an_upgraded_model_is_refused(path, tmp_path):
    before = shutil.copytree(path, tmp_path / "before")
    change(path, lambda found: found.forget(ids=names(1)))
    shutil.rmtree(path)
    shutil.copytree(before, path)
    assert "1 revision old; 1 row was forgotten since" in refusal(path)
    assert len(load(path, replay=True).memory) == 10


def test_a_stale_process_cannot_save_over_an_upgraded_model(path):
    stale = load(path)
    change(path, lambda found: found.forget(ids=names(1)))
    with pytest.raises(StateError, match="another process has changed it"):
        stale.save(path)


def test_another_model_takes_its_place_only_if_asked(path):
    other = fitted(4, random_state=1)
    with pytest.raises(StoreError, match="already holds a model"):
        other.save(path)
    other.save(path, overwrite=True)
    with pytest.raises(RowIdError, match="forgotten before"):
        load(path).remember(blobs(1)[0], ["a"], ids=names(1, 11))


FLAT = {
    "support_size": 7, "support_sampling": "balanced", "sampler": "classes", "momentum": 0.5,
    "weight_decay": 0.25, "label_smoothing": 0.125, "label_permutation": True,
    "augmentation": "crop",
}  # fmt: skip
"""Values of a training as they stood among the parameters of a classifier before."""


def flat(path, **others):
    """Give a configuration the parameters that it had before a training was one of them."""
    parameters = json.loads((path / "config.json").read_bytes())["parameters"]
    del parameters["training"], parameters["views"]
    change_config(path, parameters={**parameters, **FLAT, **others})


def test_values_of_its_training_are_found_among_its_parameters(path, model):
    flat(path)
    found = load(path)
    assert found.training == Training(**FLAT)
    assert (found.epochs, found.views) == (model.epochs, "one")
    np.testing.assert_array_equal(found.predict_proba(QUERIES), model.predict_proba(QUERIES))
    found.save(path)
    assert load(path).training == Training(**FLAT)


def test_a_knn_model_has_fewer_of_them(tmp_path):
    own = {name: FLAT[name] for name in ("momentum", "weight_decay", "label_smoothing")}
    save_as_format_1(KNNClassifier("identity", k=3).remember(*blobs(12)), tmp_path / "model")
    parameters = json.loads((tmp_path / "model" / "config.json").read_bytes())["parameters"]
    del parameters["training"]
    change_config(tmp_path / "model", parameters={**parameters, **own})
    assert load(tmp_path / "model").training == Training(**own)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_precision_of_its_encoder_is_that_of_its_training(tmp_path, precision):
    images = np.random.default_rng(0).random((12, 1, 8, 8), dtype=np.float32)
    model = SPMClassifier("fast_cnn", encoder_options={"width": 0.1}, epochs=0, random_state=0)
    path = tmp_path / "model"
    save_as_format_1(model.fit(images, [0, 1] * 6), path)
    flat(path)
    options = {"width": 0.1, "dim": None, "precision": precision}
    change_config(path, encoder={"name": "fast_cnn", "options": options, "holds": None})
    found = load(path)
    assert found.training == Training(**FLAT, precision=precision)
    np.testing.assert_array_equal(found.predict_proba(images), model.predict_proba(images))


@pytest.mark.parametrize("nested", [True, False])
def test_it_cannot_choose_where_a_later_fit_writes(path, nested, tmp_path):
    place = {"checkpoint": str(tmp_path / "place"), "verbose": True}
    if nested:
        change_config(path, parameters={"training": place})
    else:
        flat(path, **place)
    assert load(path).training.checkpoint is None
    assert load(path).training.verbose is False


DOCUMENTS = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b"\xff\xfe",
    "a list": b"[]",
    "another format": b'{"format": "bert"}',
    "no end": b"[" * 200_000,
    "a long number": b'{"format": ' + b"1" * 10_000 + b"}",
}


@pytest.mark.parametrize("name", ["config.json", "copies.json"])
@pytest.mark.parametrize("data", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_a_damaged_document_is_named(path, name, data):
    (path / name).write_bytes(data)
    assert str(path / name) in refusal(path)


@pytest.mark.parametrize("name", ["config.json", "copies.json"])
def test_a_document_without_end_is_not_read(path, name):
    (path / name).unlink()
    os.symlink("/dev/zero", path / name)
    assert "not an ordinary file" in refusal(path)


def test_a_large_document_is_not_read(path):
    with (path / "config.json").open("r+b") as file:
        file.truncate(2**36)  # no block of it is on disk
    assert "more than" in refusal(path)


WRONG = {
    "generation": [10**30, "seven", {}, [1], -1, 10**6, None, True],
    "weights": [7, "", "0" * 64, "../../etc/passwd", "Z" * 64],
    "kind": [None, 7, "SPMGenerator"],
    "encoder": [7, "mlp", {}, {"name": "magic", "options": {}}, {"name": "mlp", "options": 3}],
    "input_shape": [7, ["a"], [-3], [5], [], [2, 2, 2, 2, 2], [10**30]],
    "parameters": [
        7,
        {"magic": 1},
        {"normalize": "magic"},
        {"scale": -1},
        {"grid_bits": "x"},
        {"training": 3},
        {"training": {"magic": 1}},
        {"training": {"momentum": 9}},
        {"training": "slow"},
        {"views": "both"},
        {"views": []},
        {"momentum": "x"},
    ],
    "data": [{}, 7, {"name": 3}],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_config_with_a_wrong_entry_is_refused(path, name, value):
    change_config(path, **{name: value})
    assert "Expected" in refusal(path)


def test_rows_that_do_not_belong_to_the_configuration_are_refused(path, tmp_path):
    save_as_format_1(fitted(4), tmp_path / "other", generation=7)
    shutil.copy(tmp_path / "other" / "rows.sqlite", path / "rows.sqlite")
    assert "do not belong together" in refusal(path)


CHANGES = {
    "a label": "UPDATE rows SET label = 's:b' WHERE id = 's:row-number-0'",
    "a tombstone": "DELETE FROM tombstones",
    "the training record": "UPDATE sources SET basis = 'declared'",
    "a size": "UPDATE generations SET dim = 10000000000",
    "a trigger": "CREATE TRIGGER t AFTER DELETE ON rows BEGIN DELETE FROM rows; END",
}


@pytest.mark.parametrize("statement", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_behind_the_librarys_back_is_noticed(path, statement):
    with sqlite3.connect(path / "rows.sqlite") as db:
        db.execute(statement)
    db.close()
    assert str(path) in refusal(path)
