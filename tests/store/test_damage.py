"""Directories that are damaged, foreign or incomplete: a clear error, and no byte changed."""

import json
import shutil
import sqlite3

import pytest

from erasable import load
from erasable.errors import ErasableError, StoreError
from models.toys import fitted, names, remembering


@pytest.fixture
def path(tmp_path):
    """Return a directory with a sound model."""
    fitted(12).save(tmp_path / "model")
    return tmp_path / "model"


def contents(path):
    """Return every file of a directory with its bytes."""
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def refusal(path):
    """Return the message with which a directory is refused; nothing in it may change."""
    before = contents(path)
    with pytest.raises(StoreError) as error:
        load(path)
    assert contents(path) == before
    return str(error.value)


def weights(path):
    (found,) = path.glob("weights-*")
    return found


def change_config(path, *without, **changes):
    """Remove and set entries of the configuration."""
    config = json.loads((path / "config.json").read_bytes())
    config = {k: v for k, v in {**config, **changes}.items() if k not in without}
    (path / "config.json").write_text(json.dumps(config))


def sql(path, statement, *values):
    """Change the rows behind the library's back."""
    db = sqlite3.connect(path / "rows.sqlite", isolation_level=None)
    db.execute(statement, values)
    db.close()


# -- the directory --------------------------------------------------------------------------------


def test_a_missing_directory_says_what_to_give(tmp_path):
    with pytest.raises(StoreError, match=r"no config.json.*save\(\) or 'erasable train'"):
        load(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_file_is_no_model(tmp_path):
    (tmp_path / "model").write_text("text")
    with pytest.raises(StoreError, match=r"no config.json"):
        load(tmp_path / "model")


@pytest.mark.parametrize("name", ["config.json", "rows.sqlite", "weights"])
def test_a_missing_file_is_named(path, name):
    file = weights(path) if name == "weights" else path / name
    file.unlink()
    message = refusal(path)
    assert name in message
    assert "not there" in message or "no config.json" in message


# -- config.json ----------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"null {}", b"\0" * 100])
def test_a_config_that_is_no_json_is_refused(path, data):
    (path / "config.json").write_bytes(data)
    assert "damaged" in refusal(path)


@pytest.mark.parametrize("data", [b"[]", b"null", b'"text"', b"{}", b'{"model_type": "bert"}'])
def test_a_foreign_config_is_refused(path, data):
    (path / "config.json").write_bytes(data)
    assert "Expected the format 'erasable.model.1'" in refusal(path)


def test_another_version_of_the_format_is_refused_by_name(path):
    change_config(path, format="erasable.model.2")
    assert "but got 'erasable.model.2'" in refusal(path)


def test_another_kind_of_model_is_refused_by_name(path):
    change_config(path, kind="SPMGenerator")
    assert "SPMGenerator" in refusal(path)


@pytest.mark.parametrize(
    "name", ["kind", "weights", "generation", "encoder", "input_shape", "parameters"]
)
def test_a_config_without_an_entry_is_refused(path, name):
    change_config(path, name)
    assert "Expected" in refusal(path)


def test_a_config_written_again_is_accepted(path):
    # Without this the tests around it could not fail.
    change_config(path)
    assert len(load(path).memory) == 12


WRONG = {
    "generation": ["seven", {}, [1], -1, 10**6],
    "weights": [7, "", "0" * 64, "../../etc/passwd", "Z" * 64],
    "encoder": [7, "mlp", {}, {"name": "magic", "options": {}}, {"name": "mlp", "options": 3}],
    "input_shape": [7, ["a"], [-3], [5], [], [2, 2, 2, 2, 2]],
    "parameters": [7, {"magic": 1}, {"normalize": "magic"}, {"scale": -1}, {"grid_bits": "x"}],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_config_with_a_wrong_entry_is_refused(path, name, value):
    change_config(path, **{name: value})
    assert "Expected" in refusal(path)


def test_a_generation_that_is_not_there_says_that_files_do_not_belong_together(path):
    change_config(path, generation=10**6)
    assert "do not belong together" in refusal(path)


def test_rows_of_another_model_are_refused(path, tmp_path):
    remembering().save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "rows.sqlite", path / "rows.sqlite")
    assert "do not belong together" in refusal(path)


# -- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.99])
def test_truncated_weights_are_refused(path, share):
    data = weights(path).read_bytes()
    weights(path).write_bytes(data[: int(share * len(data))])
    assert "damaged" in refusal(path)


def test_weights_that_are_garbage_are_refused(path):
    weights(path).write_bytes(b"\x80\x04garbage" * 50)
    assert "damaged" in refusal(path)


def test_any_changed_byte_of_the_weights_is_noticed(path):
    data = weights(path).read_bytes()
    for place in {*range(0, 200, 3), *range(200, len(data), 97), len(data) - 1}:
        changed = bytearray(data)
        changed[place] ^= 1
        weights(path).write_bytes(changed)
        with pytest.raises(StoreError, match="Expected"):
            load(path)


def test_weights_of_another_model_are_refused(path, tmp_path):
    fitted(12, random_state=1).save(tmp_path / "other")
    shutil.copy(weights(tmp_path / "other"), weights(path))
    assert "match their name" in refusal(path)


# -- rows -----------------------------------------------------------------------------------------


def test_rows_that_are_no_database_are_refused(path):
    (path / "rows.sqlite").write_bytes(b"garbage" * 1000)
    assert "restore it from a copy" in refusal(path)


@pytest.mark.parametrize("size", [0, 50, 100, 4096, 9000])
def test_truncated_rows_are_refused(path, size):
    data = (path / "rows.sqlite").read_bytes()
    assert size < len(data)
    (path / "rows.sqlite").write_bytes(data[:size])
    assert str(path / "rows.sqlite") in refusal(path)


def test_a_foreign_database_is_refused(path):
    (path / "rows.sqlite").unlink()
    sql(path, "CREATE TABLE things (name TEXT)")
    assert "it is another file" in refusal(path)


def test_a_later_version_of_the_rows_says_to_use_it(path):
    sql(path, "PRAGMA user_version = 2")
    assert "Use the version of erasable that wrote it" in refusal(path)


def test_any_changed_byte_of_an_embedding_is_noticed(path):
    embedding = load(path).memory.get(names(1))[0].embedding.astype("<f4").tobytes()
    for place in range(len(embedding)):
        changed = bytearray(embedding)
        changed[place] ^= 1
        sql(path, "UPDATE rows SET embedding = ? WHERE id = 's:row-number-0'", bytes(changed))
        assert "damaged" in refusal(path)


CHANGES = {
    "an id": "UPDATE rows SET id = 's:somebody' WHERE id = 's:row-number-0'",
    "an id of another type": "UPDATE rows SET id = 'f:0x1p0' WHERE id = 's:row-number-0'",
    "an id without a type": "UPDATE rows SET id = 'row-number-0' WHERE id = 's:row-number-0'",
    "a label": "UPDATE rows SET label = 's:b' WHERE id = 's:row-number-0'",
    "a label that cannot be read": "UPDATE rows SET label = x'ff00' WHERE id = 's:row-number-0'",
    "groups": "UPDATE rows SET groups = '[\"s:g\"]' WHERE id = 's:row-number-0'",
    "groups that are no JSON": "UPDATE rows SET groups = '[' WHERE id = 's:row-number-0'",
    "groups that are no list": "UPDATE rows SET groups = '7' WHERE id = 's:row-number-0'",
    "an embedding cut short": "UPDATE rows SET embedding = x'00000000' WHERE id = 's:row-number-0'",
    "an embedding of NaN": (
        "UPDATE rows SET embedding = x'" + "0000c07f" * 8 + "' WHERE id = 's:row-number-0'"
    ),
    "an embedding that is text": "UPDATE rows SET embedding = 'x' WHERE id = 's:row-number-0'",
    "a row that is gone": "DELETE FROM rows WHERE id = 's:row-number-0'",
    "no rows at all": "DELETE FROM rows",
    "a row twice": (
        "INSERT INTO rows SELECT generation, serial + 100, id, label, groups, content, embedding "
        "FROM rows WHERE id = 's:row-number-0'"
    ),
    "the size of an embedding": "UPDATE generations SET dim = 4",
    "a size that is no size": "UPDATE generations SET dim = -1",
    "the grid": "UPDATE generations SET grid_bits = 13",
    "a grid that is no grid": "UPDATE generations SET grid_bits = 99",
    "the digest": "UPDATE generations SET digest = 'x'",
    "a missing table": "DROP TABLE tombstones",
}


@pytest.mark.parametrize("statement", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_behind_the_librarys_back_is_noticed(path, statement):
    sql(path, statement)
    assert str(path / "rows.sqlite") in refusal(path)


def test_a_changed_training_record_is_noticed(path):
    sql(path, "UPDATE sources SET basis = 'recorxed'")
    assert "match their digest" in refusal(path)


@pytest.mark.parametrize("name", ["config.json", "rows.sqlite"])
def test_a_damaged_directory_is_not_saved_over(path, name):
    model = load(path)
    model.forget(ids=names(1))
    (path / name).write_bytes(b"garbage" * 1000)
    before = contents(path)
    for overwrite in (False, True):
        with pytest.raises(StoreError):
            model.save(path, overwrite=overwrite)
    assert contents(path) == before


def test_a_locked_file_is_reported_and_nothing_is_lost(path, monkeypatch):
    model = load(path)
    model.forget(ids=names(1))
    db = sqlite3.connect(path / "rows.sqlite", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **o: connect(*a, **{**o, "timeout": 0}))
    with pytest.raises(StoreError, match="locked"):
        model.save(path)
    db.close()
    model.save(path)
    assert len(load(path).memory) == 11


def test_an_error_of_the_store_is_an_error_of_the_library(path):
    (path / "config.json").unlink()
    with pytest.raises(ErasableError):
        load(path)
    with pytest.raises(OSError, match=r"config\.json"):
        load(path)
