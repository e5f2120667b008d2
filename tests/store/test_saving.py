"""Saving and loading a model, alone and beside other processes."""

import json
import sqlite3

import numpy as np
import pytest
import torch
from torch import nn

from erasable import SPMClassifier, load
from erasable.errors import ErasableError, RowIdError, StateError, StoreError
from erasable.store import Change, Ledger, ModelDirectory, RowsFile
from models.toys import TINY, blobs, fitted, forget_keys, names, own_network, remembering, state

QUERIES = blobs(7, seed=11)[0]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "model"


def contents(path):
    """Return every file of a directory with its bytes."""
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def raw(path):
    """Return the bytes of all files of a directory."""
    return b"".join(contents(path).values())


# -- round trips ----------------------------------------------------------------------------------


def images(**options):
    """Return a tiny model of images."""
    X = np.random.default_rng(0).random((20, 6, 5)).astype(np.float32)
    model = SPMClassifier(encoder_options={"widths": [4], "dim": 8}, epochs=1, **options)
    return model.fit(X, ["a", "b"] * 10)


@pytest.mark.parametrize("make", [fitted, remembering, images])
@pytest.mark.parametrize("reduction", ["prototypes", "rows"])
def test_a_loaded_model_is_the_saved_one(make, reduction, path):
    model = make(reduction=reduction)
    model.save(path)
    again = load(path)
    assert b"".join(again.memory.canonical_state()) == b"".join(model.memory.canonical_state())
    assert again.weights_digest == model.weights_digest


@pytest.mark.parametrize("make", [fitted, images])
@pytest.mark.parametrize("reduction", ["prototypes", "rows"])
def test_two_loads_predict_bit_equal(make, reduction, path):
    make(reduction=reduction).save(path)
    one, other = load(path), load(path)
    X = np.random.default_rng(1).random((9, *one.input_shape_)).astype(np.float32)
    np.testing.assert_array_equal(one.predict_log_proba(X), other.predict_log_proba(X))


def test_forgetting_and_never_storing_load_bit_equal(tmp_path):
    X, y = blobs(40)
    one = remembering(reduction="rows")
    one.forget(ids=names(20))
    other = SPMClassifier("identity", "rows").remember(X[:19:-1], y[:19:-1], ids=names(40)[:19:-1])
    one.save(tmp_path / "one")
    other.save(tmp_path / "other")
    readings = [load(tmp_path / name).predict_log_proba(QUERIES) for name in ("one", "other")]
    np.testing.assert_array_equal(*readings)


def test_settings_survive(path):
    fitted(reduction="rows", scale=0.25, grid_bits=10, normalize="none").save(path)
    found = load(path).get_params()
    names_ = ("reduction", "scale", "grid_bits", "normalize", "epochs")
    assert [found[name] for name in names_] == ["rows", 0.25, 10, "none", 3]


def test_settings_given_as_numpy_values_survive(path):
    fitted(label_permutation=np.True_).save(path)
    assert load(path).training.label_permutation is True


def test_labels_ids_and_groups_keep_their_types(path):
    labels = [1, "1", True, 1.0]
    ids = [7, "7", 2**70, "nul\0é"]
    groups = [[1, "1"], None, "g", [2**65]]
    SPMClassifier("identity").remember(np.eye(4), labels, ids=ids, groups=groups).save(path)
    rows = load(path).memory.get(ids)
    assert [(type(r.label), r.label) for r in rows] == [(type(v), v) for v in labels]
    assert [row.id for row in rows] == ids
    assert [row.groups for row in rows] == [(1, "1"), (), ("g",), (2**65,)]


def test_an_empty_model_can_be_saved(path):
    model = remembering()
    model.forget(classes=["a", "b"])
    model.save(path)
    assert len(load(path).memory) == 0


def test_generated_ids_go_on_where_they_were(path):
    model = SPMClassifier("identity").remember(*blobs(4))
    model.forget(ids=[3])
    model.save(path)
    again = load(path).remember(*blobs(1, seed=5))
    assert 4 in again.memory


def test_a_loaded_model_can_be_fitted_again(path):
    fitted().save(path)
    again = load(path).fit(*blobs(8, seed=3), ids=names(8, 100))
    assert len(again.memory) == 8


def test_column_names_survive(path):
    pandas = pytest.importorskip("pandas")
    X, y = blobs(8)
    frame = pandas.DataFrame(X, columns=list("pqrs"))
    SPMClassifier("identity").remember(frame, y).save(path)
    with pytest.raises(ValueError, match="feature names"):
        load(path).predict(frame.rename(columns={"p": "x"}))


def test_loading_changes_no_byte(path):
    fitted().save(path)
    before = contents(path)
    load(path).predict(QUERIES)
    assert contents(path) == before


def test_a_model_can_be_loaded_while_another_process_writes(path):
    fitted().save(path)
    db = sqlite3.connect(path / "rows.sqlite", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    assert len(load(path).memory) == 40
    db.close()


def test_an_unfitted_model_cannot_be_saved(path):
    with pytest.raises(ValueError, match="not fitted"):
        SPMClassifier().save(path)
    assert not path.exists()


# -- networks of the user -------------------------------------------------------------------------


def test_a_model_with_a_users_network_needs_it_to_load(path):
    SPMClassifier(own_network()).remember(*blobs(8)).save(path)
    with pytest.raises(StateError, match=r"load\(path, encoder=network\)"):
        load(path)


def test_the_saved_weights_go_into_a_copy_of_the_network_given(path):
    model = SPMClassifier(own_network()).remember(*blobs(8))
    model.save(path)
    fresh = own_network(seed=1)
    before = [p.clone() for p in fresh.parameters()]
    again = load(path, encoder=fresh)
    np.testing.assert_array_equal(again.predict_proba(QUERIES), model.predict_proba(QUERIES))
    assert all(torch.equal(*pair) for pair in zip(before, fresh.parameters(), strict=True))


@pytest.mark.parametrize("wrong", [nn.Linear(4, 6), nn.Linear(5, 6)])
def test_another_network_is_refused(path, wrong):
    SPMClassifier(own_network()).remember(*blobs(8)).save(path)
    with pytest.raises(StoreError, match="Expected"):
        load(path, encoder=wrong)


# -- bringing a directory up to date --------------------------------------------------------------


def test_a_saved_forget_holds_after_loading(path):
    fitted().save(path)
    model = load(path)
    model.forget(ids=names(3))
    model.save(path)
    assert state(load(path))[0] == state(model)[0]


def test_a_saved_forget_refuses_the_rows_after_loading(path):
    X, y = blobs(40)
    model = fitted()
    model.forget(ids=names(3))
    model.save(path)
    forget_keys()
    with pytest.raises(RowIdError, match="1 of 1 rows were forgotten before"):
        load(path).remember(X[:1], y[:1], ids=["new"])


def test_saving_again_keeps_the_weights_file(path):
    model = fitted()
    model.save(path)
    (weights,) = path.glob("weights-*")
    before = weights.stat().st_mtime_ns
    model.forget(ids=names(1))
    model.save(path)
    assert weights.stat().st_mtime_ns == before


def test_saving_again_after_remember_adds_the_rows(path):
    model = fitted()
    model.save(path)
    model.remember(*blobs(3, seed=5), ids=names(3, 100))
    model.save(path)
    assert load(path).memory.digest == model.memory.digest


def test_a_row_forgotten_and_reinstated_between_saves_is_there(path):
    X, y = blobs(40)
    model = fitted()
    model.save(path)
    model.forget(ids=names(1))
    model.remember(X[:1], y[:1], ids=names(1), reinstate=True)
    model.save(path)
    assert load(path).memory.digest == model.memory.digest


def test_a_setting_changed_between_saves_is_kept(path):
    model = fitted()
    model.save(path)
    model.set_params(reduction="rows").save(path)
    assert load(path).reduction == "rows"


def test_a_model_saved_to_two_places_is_kept_apart(tmp_path):
    model = fitted()
    model.save(tmp_path / "one")
    model.forget(ids=names(1))
    model.save(tmp_path / "two")
    assert [len(load(tmp_path / name).memory) for name in ("one", "two")] == [40, 39]


# -- other processes ------------------------------------------------------------------------------


def test_a_save_that_failed_leaves_the_weights_of_one_that_came_after(path, monkeypatch):
    fitted().save(path / "first")
    one, two = load(path / "first"), load(path / "first")
    write, undo, saves = RowsFile.write, Change.undo, iter([two.save])

    def failing(self, *args, **options):
        monkeypatch.setattr(RowsFile, "write", write)
        raise sqlite3.OperationalError("disk I/O error")

    def late(self):
        for save in saves:
            save(path / "new")
        undo(self)

    monkeypatch.setattr(RowsFile, "write", failing)
    monkeypatch.setattr(Change, "undo", late)
    with pytest.raises(StoreError):
        one.save(path / "new")
    assert load(path / "new").weights_digest == two.weights_digest


def test_a_stale_process_cannot_undo_a_forget(path):
    fitted().save(path)
    stale, other = load(path), load(path)
    other.forget(ids=names(3))
    other.save(path)
    stale.remember(*blobs(1, seed=5), ids=["new"])
    before = contents(path)
    with pytest.raises(StateError, match="another process has changed it"):
        stale.save(path)
    assert contents(path) == before


def test_a_stale_process_cannot_undo_a_forget_by_overwriting(path):
    fitted().save(path)
    stale, other = load(path), load(path)
    other.forget(ids=names(3))
    other.save(path)
    with pytest.raises(StateError, match="another process has changed it"):
        stale.save(path, overwrite=True)
    assert len(load(path).memory) == 37


def test_a_process_that_loads_again_can_save(path):
    fitted().save(path)
    other = load(path)
    other.forget(ids=names(3))
    other.save(path)
    again = load(path)
    again.forget(ids=names(1, 3))
    again.save(path)
    assert len(load(path).memory) == 36


def test_a_directory_made_anew_is_not_taken_for_the_old_one(path, tmp_path):
    # Same weights (none at all), same number of rows, same age: only the rows differ.
    stale = remembering()
    stale.save(path)
    path.rename(tmp_path / "elsewhere")
    SPMClassifier("identity").remember(*blobs(40, seed=8), ids=names(40)).save(path)
    before = load(path).memory.digest
    with pytest.raises(ErasableError):
        stale.save(path)
    assert load(path).memory.digest == before


def _before_it_is_locked(monkeypatch, action):
    """Let something happen just before the next save has the model to itself."""
    real = ModelDirectory.writing

    def step(self, *args, **options):
        monkeypatch.setattr(ModelDirectory, "writing", real)
        action()
        return real(self, *args, **options)

    monkeypatch.setattr(ModelDirectory, "writing", step)


def test_overwriting_cannot_undo_a_forget_that_happens_meanwhile(path, monkeypatch):
    fitted().save(path)
    other = load(path)
    other.forget(ids=names(3))
    newer = fitted(random_state=1)  # holds the same rows
    _before_it_is_locked(monkeypatch, lambda: other.save(path))
    with pytest.raises(RowIdError, match="were forgotten before"):
        newer.save(path, overwrite=True)
    assert load(path).memory.digest == other.memory.digest


def test_a_save_that_waits_for_another_one_sees_what_it_did(path, monkeypatch):
    fitted().save(path)
    first, second = load(path), load(path)
    first.forget(ids=names(1))
    second.forget(ids=names(1, 1))
    _before_it_is_locked(monkeypatch, lambda: first.save(path))
    with pytest.raises(StateError, match="another process has changed it"):
        second.save(path)
    assert load(path).memory.digest == first.memory.digest


def test_an_overwritten_model_cannot_be_saved_by_who_had_loaded_it(path):
    fitted().save(path)
    stale = load(path)
    fitted(random_state=1).save(path, overwrite=True)
    for overwrite in (False, True):
        with pytest.raises(StateError, match="another process has changed it"):
            stale.save(path, overwrite=overwrite)


# -- overwriting ----------------------------------------------------------------------------------


def test_another_model_is_not_replaced_by_accident(path):
    fitted().save(path)
    before = contents(path)
    with pytest.raises(StoreError, match=r"already holds a model.*overwrite=True"):
        remembering().save(path)
    assert contents(path) == before


def test_overwriting_replaces_the_model(path):
    fitted().save(path)
    remembering(6).save(path, overwrite=True)
    assert (len(load(path).memory), load(path).encoder) == (6, "identity")


def test_overwriting_leaves_no_second_weights(path):
    fitted().save(path)
    fitted(random_state=1).save(path, overwrite=True)
    assert len(list(path.glob("weights-*"))) == 1


def test_overwriting_keeps_tombstones(path):
    X, y = blobs(40)
    model = fitted()
    model.forget(ids=names(3))
    model.save(path)
    SPMClassifier(**TINY, epochs=0).fit(*blobs(8, seed=4)).save(path, overwrite=True)
    with pytest.raises(RowIdError, match="forgotten before"):
        load(path).remember(X[:1], y[:1], ids=["new"])


def test_overwriting_with_a_forgotten_row_is_refused_and_names_it(path):
    model = fitted()
    model.forget(ids=names(3))
    model.save(path)
    before = contents(path)
    with pytest.raises(RowIdError, match="'row-number-0', 'row-number-1', 'row-number-2'"):
        remembering().save(path, overwrite=True)
    assert contents(path) == before


# -- what a directory may hold --------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["notes.txt", "weights-mine.safetensors", "rows.sqlite.bak", ".hidden.tmp", "config.json.old"],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_with_other_files_is_refused(path, name, overwrite):
    path.mkdir(parents=True)
    (path / name).write_bytes(b"mine")
    with pytest.raises(StoreError, match="holds other files"):
        fitted().save(path, overwrite=overwrite)
    assert contents(path) == {name: b"mine"}


@pytest.mark.parametrize("name", ["notes.txt", "weights-mine.safetensors", ".hidden.tmp"])
def test_files_put_into_a_model_stay_there(path, name):
    fitted().save(path)
    (path / name).write_bytes(b"mine")
    fitted(random_state=1).save(path, overwrite=True)
    assert (path / name).read_bytes() == b"mine"


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "model").write_text("mine")
    with pytest.raises(StoreError, match="holds other files"):
        fitted().save(tmp_path / "model")
    assert (tmp_path / "model").read_text() == "mine"


def test_a_foreign_directory_is_not_overwritten(path):
    path.mkdir(parents=True)
    (path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(StoreError, match="holds other files"):
        fitted().save(path, overwrite=True)
    assert contents(path) == {"config.json": b'{"model_type": "bert"}'}


def test_an_empty_directory_is_taken(path):
    path.mkdir(parents=True)
    fitted().save(path)
    assert load(path).classes_.tolist() == ["a", "b"]


def test_nothing_in_the_directory_is_pickled(path):
    fitted().save(path)
    assert sorted(name.split("-")[0] for name in contents(path)) == ["rows.sqlite", "weights"]
    (weights,) = path.glob("weights-*")
    header = weights.read_bytes()
    size = int.from_bytes(header[:8], "little")
    assert isinstance(json.loads(header[8 : 8 + size]), dict)  # safetensors
    assert (path / "rows.sqlite").read_bytes().startswith(b"SQLite format 3\0")


# -- keys and traces ------------------------------------------------------------------------------


def test_keys_lie_outside_the_directory(path, keys):
    model = fitted()
    model.forget(ids=names(1))
    model.save(path)
    secrets = [file.read_bytes() for file in keys.glob("*.key")]
    assert secrets
    assert not any(secret in raw(path) for secret in secrets)


def test_keys_are_readable_by_their_owner_only(path, keys):
    fitted().save(path)
    (key,) = keys.glob("*.key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert keys.stat().st_mode & 0o777 == 0o700


def test_a_refused_save_writes_no_key(path, keys):
    path.mkdir(parents=True)
    (path / "notes.txt").touch()
    with pytest.raises(StoreError):
        fitted().save(path)
    assert not keys.exists()


def test_fitting_without_saving_writes_no_key(keys):
    fitted().forget(ids=names(1))
    assert not keys.exists()


def traces(model, ids):
    """Return what a row could be recognised by: id, content digest and embedding."""
    found = {}
    for row in model.memory.get(ids):
        record = model.memory.record(int(model.memory.positions([row.id])[0]))
        found[row.id] = (row.id.encode(), record.content, row.embedding.astype("<f4").tobytes())
    return found


def test_live_rows_leave_traces(path):
    # Without this the next test could not fail.
    model = remembering()
    model.save(path)
    for parts in traces(model, names(40)).values():
        assert all(part in raw(path) for part in parts)


def test_a_forgotten_row_leaves_no_trace(path):
    model = remembering()
    model.save(path)
    gone = traces(model, ["row-number-33"])["row-number-33"]
    model.forget(ids=["row-number-33"])
    model.save(path)
    assert not any(part in raw(path) for part in gone)


def test_forgotten_names_leave_no_trace(path):
    model = fitted()
    model.remember(np.eye(4), ["a-secret-class"] * 4, ids=names(4, 100), groups=["subject-x"] * 4)
    model.save(path)
    model.forget(groups=["subject-x"])
    model.save(path)
    assert b"a-secret-class" not in raw(path)
    assert b"subject-x" not in raw(path)


def test_no_trace_stays_however_rows_come_and_go(path):
    # SQLite moves rows between pages as others come and go, and forgets to wipe where they were.
    rng = np.random.default_rng(0)
    ids = [f"id-{n}-{'q' * int(rng.integers(60))}" for n in rng.permutation(10**6)[:900]]
    model = SPMClassifier("identity").remember(rng.normal(size=(300, 6)), [1] * 300, ids=ids[:300])
    model.save(path)
    gone, start = {}, 300
    for _ in range(25):
        live = [row.id for row in model.memory]
        chosen = [live[i] for i in rng.permutation(len(live))[:24]]
        gone |= traces(model, chosen)
        model.forget(ids=chosen)
        model.remember(rng.normal(size=(24, 6)), [1] * 24, ids=ids[start : start + 24])
        start += 24
        model.save(path)
        bytes_ = raw(path)
        left = [row for row, parts in gone.items() if any(part in bytes_ for part in parts)]
        assert left == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_save_that_fails_leaves_model_files_and_ledger_as_they_were(
    path, keys, monkeypatch, overwrite
):
    fitted().save(path)
    model = fitted(4, random_state=1) if overwrite else load(path)
    model.forget(ids=names(1, 3))
    before, known, marks = contents(path), ledgers(keys), set(model.memory.tombstones.marks)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "intend", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.save(path, overwrite=overwrite)
    assert contents(path) == before
    assert ledgers(keys) == known
    assert set(model.memory.tombstones.marks) == marks


def ledgers(keys):
    """Return what each ledger in a folder of keys says."""
    found = [Ledger(file.stem).read() for file in sorted((keys / "models").glob("*.sqlite"))]
    return [(one.revision, one.intent, sorted(one.marks)) for one in found]


def test_a_first_save_that_fails_leaves_nothing(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "intend", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fitted().save(path)
    assert not path.exists()


def test_a_save_that_fails_can_be_repeated(path, monkeypatch):
    model = fitted()
    with monkeypatch.context() as patch:
        patch.setattr(ModelDirectory, "write_weights", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.save(path)
    model.save(path)
    assert load(path).memory.digest == model.memory.digest
