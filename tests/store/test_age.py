"""A saved model knows its age: older copies, interrupted saves, branches, other keys."""

import os
import shutil
import sqlite3
import stat

import numpy as np
import pytest

from erasable import SPMClassifier, copy_model, load
from erasable.errors import RowIdError, StateError, StoreError
from erasable.memory import Marks
from erasable.models import catch_up, change, forgotten_since
from erasable.store import Ledger, ModelDirectory
from models.toys import blobs, fitted, forget_keys, names, remembering

QUERIES = blobs(5, seed=9)[0]


@pytest.fixture
def path(tmp_path):
    """Return a saved model of 12 rows in 3 groups, from which one was forgotten."""
    X, y = blobs(12)
    model = SPMClassifier("identity").remember([[9.0] * 4], ["a"], ids=["gone"])
    model.forget(ids=["gone"])
    model.remember(X + 5, y, ids=names(12, 100), groups=["g0", "g1", "g2"] * 4)
    model.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def backup(path, tmp_path):
    """Return a copy of the files of the model as it was first saved."""
    return shutil.copytree(path, tmp_path / "backup")


def put_back(backup, path):
    """Put a copy of the files in the model's place."""
    shutil.rmtree(path)
    shutil.copytree(backup, path)


def forget(path, *ids):
    """Forget rows as the command line does."""
    return change(path, lambda model: model.forget(ids=list(ids)))


def ids(model):
    """Return the ids of the live rows."""
    return sorted(str(row.id) for row in model.memory)


# -- older copies ---------------------------------------------------------------------------------


def test_an_older_copy_is_refused_and_says_what_was_forgotten_since(path, backup):
    forget(path, "row-number-100")
    forget(path, "row-number-101", "row-number-102")
    put_back(backup, path)
    with pytest.raises(StoreError, match=r"2 revisions old; 3 rows were forgotten since"):
        load(path)


def test_an_older_copy_without_forgets_since_is_refused_too(path, backup):
    change(path, lambda model: model.remember([[0.0] * 4], ["a"], ids=["new"]))
    put_back(backup, path)
    with pytest.raises(StoreError, match=r"1 revision old; 0 rows were forgotten since"):
        load(path)


def test_replay_forgets_again_before_anything_is_answered(path, backup):
    forget(path, "row-number-100")
    change(path, lambda model: model.forget(groups=["g2"]))
    last = load(path)
    put_back(backup, path)
    again = load(path, replay=True)
    assert ids(again) == ids(last)
    assert ids(load(path)) == ids(last)  # it was saved
    for model in (again, load(path)):
        with pytest.raises(RowIdError, match="forgotten group"):
            model.remember([[7.0] * 4], ["a"], ids=["new"], groups=["g2"])


def test_a_copy_that_was_caught_up_is_the_last_one(path, backup):
    forget(path, "row-number-100")
    newer = shutil.copytree(path, path.with_name("newer"))
    put_back(backup, path)
    load(path, replay=True)
    put_back(newer, path)
    with pytest.raises(StoreError, match="1 revision old"):
        load(path)


def test_replay_of_the_last_state_changes_nothing(path):
    before = (path / "rows.sqlite").read_bytes()
    load(path, replay=True)
    assert (path / "rows.sqlite").read_bytes() == before


def test_a_reinstated_row_is_not_forgotten_again(path, backup):
    X = blobs(12)[0] + 5
    forget(path, "row-number-100")
    change(
        path,
        lambda model: model.remember(X[:1], ["a"], ids=["row-number-100"], reinstate=True),
    )
    put_back(backup, path)
    assert "row-number-100" in load(path, replay=True).memory


def test_a_row_that_came_back_under_another_id_is_forgotten_by_its_content(path, backup):
    X, y = blobs(12)
    model = remembering(1)
    model.remember(X + 5, y, ids=names(12, 500))
    model.save(path, overwrite=True)
    forget(path, "row-number-503")
    put_back(backup, path)
    assert "row-number-103" not in load(path, replay=True).memory


def test_rows_that_only_have_the_input_of_a_forgotten_one_are_told_apart(path):
    X, y = blobs(12)
    model = load(path)
    model.remember(X + 5, y, ids=names(12, 500))
    model.save(path)
    backup = shutil.copytree(path, path.with_name("with copies"))
    forget(path, "row-number-503")
    change(path, lambda model: model.forget(groups=["g1"]))
    last = load(path)
    put_back(backup, path)

    since = forgotten_since(path)
    named = {"row-number-503", *(f"row-number-{number}" for number in (101, 104, 107, 110))}
    alike = {"row-number-103", *(f"row-number-{number}" for number in (501, 504, 507, 510))}
    assert (since.revisions, set(since.named), set(since.alike)) == (2, named, alike)
    with pytest.raises(StoreError, match=r"10 rows were forgotten since \(5 of them under another"):
        load(path)

    done = catch_up(path)
    assert done.result == since
    [receipt] = done.receipts
    assert (receipt.rows, receipt.saved) == (10, True)
    assert ids(done.model) == ids(load(path)) == sorted(set(ids(last)) - alike)


def test_a_model_that_is_not_older_has_nothing_to_catch_up_with(path):
    before = (path / "rows.sqlite").read_bytes()
    assert forgotten_since(path) is None
    done = catch_up(path)
    assert (done.result, done.receipts) == (None, ())
    assert (path / "rows.sqlite").read_bytes() == before


def test_a_stale_process_cannot_save_over_a_copy_that_was_put_back(path, backup):
    stale = load(path)
    forget(path, "row-number-100")
    put_back(backup, path)
    stale.remember([[0.0] * 4], ["a"], ids=["new"])
    with pytest.raises(StateError):
        stale.save(path)
    with pytest.raises(RowIdError, match="were forgotten before"):
        fitted_with("row-number-100").save(path, overwrite=True)


def fitted_with(row_id):
    return remembering(2).remember([[0.0] * 4], ["a"], ids=[row_id])


def test_overwriting_an_older_copy_keeps_what_was_forgotten_since(path, backup):
    forget(path, "row-number-100")
    put_back(backup, path)
    remembering(3).save(path, overwrite=True)
    with pytest.raises(RowIdError, match="forgotten before"):
        load(path).remember([[9.0] * 4], ["a"], ids=["row-number-100"])


def test_the_model_that_was_overwritten_is_an_older_copy(path, backup):
    forgetful = remembering(3)
    forgetful.save(path, overwrite=True)
    put_back(backup, path)
    with pytest.raises(StoreError, match="1 revision old"):
        load(path)


def test_without_the_key_of_what_was_forgotten_a_copy_is_not_caught_up(path, backup, keys):
    forget(path, "row-number-100")
    put_back(backup, path)
    (key,) = keys.glob("*.key")
    key.unlink()
    forget_keys()
    with pytest.raises(StoreError, match="rows may have been forgotten since"):
        load(path)
    with pytest.raises(StateError, match="Put the key files back"):
        load(path, replay=True)


def test_copying_the_files_makes_no_second_model(path, tmp_path):
    shutil.copytree(path, tmp_path / "other")
    forget(path, "row-number-100")
    with pytest.raises(StoreError, match="1 revision old"):
        load(tmp_path / "other")


# -- branches -------------------------------------------------------------------------------------


def test_a_branch_has_an_identity_of_its_own(path, tmp_path):
    copy_model(path, tmp_path / "branch")
    forget(path, "row-number-100")
    branch = load(tmp_path / "branch")
    assert len(branch.memory) == 12
    assert branch.places_[tmp_path / "branch"].identity != load(path).places_[path].identity
    with pytest.raises(RowIdError, match="forgotten before"):  # tombstones go along
        branch.remember([[1.0] * 4], ["a"], ids=["gone"])


def test_a_branch_of_an_older_copy_is_refused(path, backup, tmp_path):
    forget(path, "row-number-100")
    put_back(backup, path)
    with pytest.raises(StoreError, match="1 revision old"):
        copy_model(path, tmp_path / "branch")


def test_a_branch_takes_no_place_that_is_taken(path, tmp_path):
    remembering().save(tmp_path / "other")
    with pytest.raises(StoreError, match="already holds a model"):
        copy_model(path, tmp_path / "other")


# -- interrupted saves ----------------------------------------------------------------------------


def intend(path, *gone, is_replacement=False):
    """Leave what a process leaves that dies just before it commits a forget."""
    model = load(path)
    before = model.memory.tombstones.marks.copy()
    ledger = Ledger(model.places_[path].identity)
    model.forget(ids=list(gone))
    marks = Marks(set(model.memory.tombstones.marks) - set(before))
    known = ledger.read()
    assert ledger.intend(known, known.revision + 1, marks, is_replacement=is_replacement)
    return ledger


def test_an_intent_that_was_not_committed_is_carried_out_by_the_next_load(path):
    ledger = intend(path, "row-number-100")
    assert len(load(path).memory) == 11
    assert ledger.read().intent is None
    assert len(load(path).memory) == 11


def test_an_intent_forgets_no_other_row_of_the_same_content(path):
    X = blobs(12)[0] + 5
    change(path, lambda model: model.remember(X[:1], ["a"], ids=["twin"]))
    intend(path, "row-number-100")
    assert "twin" in load(path).memory


def test_an_intent_to_replace_a_model_forgets_nothing_of_it(path):
    intend(path, "row-number-100", is_replacement=True)
    assert len(load(path).memory) == 12
    forget(path, "row-number-101")
    assert len(load(path).memory) == 11


def test_a_stale_process_cannot_save_past_an_intent(path):
    stale = load(path)
    intend(path, "row-number-100")
    stale.remember([[0.0] * 4], ["a"], ids=["new"])
    with pytest.raises(StateError, match="another process has changed it"):
        stale.save(path)
    forget(path, "row-number-101")
    assert len(load(path).memory) == 10


def test_a_ledger_that_was_not_told_of_the_commit_is_told_by_the_next_load(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "settle", lambda *_: None)
        forget(path, "row-number-100")
    model = load(path)
    known = Ledger(model.places_[path].identity).read()
    assert (known.revision, known.intent) == (model.places_[path].revision, None)
    assert len(model.memory) == 11


# -- without ledger or key ------------------------------------------------------------------------


def test_without_a_ledger_a_model_opens_and_says_so(path, keys, caplog):
    shutil.rmtree(keys / "models")
    model = load(path)
    assert model.is_verified_
    assert "nobody can tell whether this is its last state" in caplog.text
    model.save(path)
    assert load(path).doubts_ == ()


def test_a_ledger_is_readable_by_its_owner_only(path, keys):
    (ledger,) = (keys / "models").glob("*.sqlite")
    assert stat.S_IMODE(ledger.stat().st_mode) == 0o600
    assert stat.S_IMODE((keys / "models").stat().st_mode) == 0o700


def test_a_ledger_that_is_damaged_is_named(path, keys):
    (ledger,) = (keys / "models").glob("*.sqlite")
    ledger.write_bytes(b"garbage" * 1000)
    with pytest.raises(StoreError, match=str(ledger)):
        load(path)


def test_a_ledger_holds_tombstones_and_nothing_that_is_read_without_the_key(path, keys):
    forget(path, "row-number-100")
    (ledger,) = (keys / "models").glob("*.sqlite")
    assert b"row-number" not in ledger.read_bytes()


def test_a_dropped_tombstone_leaves_the_ledger(path, keys):
    X = blobs(12)[0] + 5
    forget(path, "row-number-100")
    (ledger,) = (keys / "models").glob("*.sqlite")
    known = Ledger(ledger.stem).read()
    change(path, lambda model: model.remember(X[:1], ["a"], ids=["row-number-100"], reinstate=True))
    lifted = set(known.marks) - set(Ledger(ledger.stem).read().marks)
    assert len(lifted) == 2
    assert not any(mark in ledger.read_bytes() for _, mark in lifted)


def test_without_the_key_a_model_opens_at_level_memory(path, keys, caplog):
    assert load(path).forget(ids=["row-number-100"], dry_run=True).level == "exact"
    for key in keys.glob("*.key"):
        key.unlink()
    forget_keys()
    model = load(path)
    assert not model.is_verified_
    assert model.forget(ids=["row-number-100"], dry_run=True).level == "memory"
    assert "The key" in caplog.text
    np.testing.assert_array_equal(model.predict(QUERIES).shape, (5,))


def test_what_was_once_unverified_stays_at_level_memory(path, keys):
    for key in keys.glob("*.key"):
        key.unlink()
    forget_keys()
    load(path).save(path)
    model = load(path)
    assert model.is_verified_
    assert model.forget(ids=["row-number-100"], dry_run=True).level == "memory"


# -- folders that cannot be written to ------------------------------------------------------------


class ReadOnly:
    """Makes folders read-only for SQLite, also for root."""

    def __init__(self, monkeypatch, *folders):
        self.folders, connect = folders, sqlite3.connect

        def refuse(path, *args, **options):
            db = connect(path, *args, **options)
            if any(str(path).startswith(str(folder)) for folder in folders):
                db.execute("PRAGMA query_only = ON")
            return db

        monkeypatch.setattr(sqlite3, "connect", refuse)


def test_models_and_keys_that_are_read_only_are_loaded(path, keys, monkeypatch):
    forget(path, "row-number-100")
    ReadOnly(monkeypatch, path, keys)
    assert len(load(path).memory) == 11


def test_an_intent_beside_a_read_only_model_is_carried_out_in_memory(path, keys, monkeypatch):
    intend(path, "row-number-100")
    with monkeypatch.context() as patch:
        ReadOnly(patch, path)
        model = load(path)
        assert len(model.memory) == 11
        assert any("still in its files" in doubt for doubt in model.doubts_)
    assert len(load(path).memory) == 11


def test_saving_beside_a_read_only_folder_of_keys_changes_nothing(path, keys, monkeypatch):
    model = load(path)
    model.forget(ids=["row-number-100"])
    before = (path / "rows.sqlite").read_bytes()
    with monkeypatch.context() as patch:
        ReadOnly(patch, keys)
        with pytest.raises(StoreError, match="write"):
            model.save(path)
    assert (path / "rows.sqlite").read_bytes() == before
    model.save(path)


# -- tidying --------------------------------------------------------------------------------------


def test_loading_sweeps_what_a_killed_save_left(path):
    (path / ("weights-" + "0" * 16 + ".safetensors")).write_bytes(b"left")
    (path / ".weights-0123456789abcdef.safetensors.0123abcd.tmp").write_bytes(b"left")
    load(path)
    assert sorted(file.name.split("-")[0] for file in path.iterdir()) == ["rows.sqlite", "weights"]


def test_a_link_never_leads_a_deletion_outside_of_the_model(path, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".config.json.0123abcd.tmp").write_bytes(b"mine")
    (outside / "diffusion_pytorch_model.safetensors").write_bytes(b"mine")
    os.symlink(outside, path / "unet")
    (path / "model_index.json").write_text('{"unet": ["erasable.diffusion", "MemoryUNet"]}')
    forget(path, "row-number-100")
    load(path)
    assert len(list(outside.iterdir())) == 2


def test_a_reader_keeps_the_weights_while_it_reads(path):
    directory = ModelDirectory(path)
    with directory.reading() as file:
        head = file.head()
        assert directory.has_weights(head.weights)


# -- many writers ---------------------------------------------------------------------------------


def test_of_many_who_forget_at_once_nobody_is_refused(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    fitted(40).save(tmp_path / "model")

    def one(number):
        return forget(tmp_path / "model", f"row-number-{number}").receipts[0].outcome

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(one, range(24)))
    assert found == ["done"] * 24
    assert len(load(tmp_path / "model").memory) == 16
