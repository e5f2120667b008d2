"""Every place that holds something of a model's rows: listed, kept with it, and purged."""

import copy
import shutil

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from erasable import KNNClassifier, SPMClassifier, load
from erasable.errors import ErasableError, StateError
from erasable.models import KnownCopy, Purged
from erasable.store import EmbeddingCache
from models.toys import TINY, blobs, forget_keys, names, spm

X, LABELS = blobs(20)


def remembering(folder=None, kind=SPMClassifier, ids=None, **options):
    model = kind("identity", embedding_cache=folder, **options)
    return model.remember(X, LABELS, ids=ids or names(20))


def held(folder, ids=None):
    keys = None if ids is None else [f"s:{row_id}".encode() for row_id in ids]
    return EmbeddingCache(folder).count(keys)


def listed(model):
    return [(found.kind, found.path, found.rows) for found in model.copies()]


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "votes.html"
    path.write_text("<p>rows</p>")
    return path


# -- listing --------------------------------------------------------------------------------------


def test_a_model_that_was_never_saved_has_no_copies():
    assert remembering().copies() == []


@pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier])
def test_a_cache_is_listed_with_the_rows_in_it(tmp_path, kind):
    assert listed(remembering(tmp_path, kind)) == [("embeddings", str(tmp_path), 20)]


def test_rows_of_others_in_a_cache_do_not_count(tmp_path):
    model = remembering(tmp_path)
    model.embed(X[:3] + 1, ids=["p", "q", "r"])
    assert listed(model) == [("embeddings", str(tmp_path), 20)]


def test_the_directories_that_a_model_was_saved_to_are_listed(tmp_path):
    model = remembering()
    model.save(tmp_path / "one")
    model.save(tmp_path / "two")
    paths = [(str(tmp_path / "one")), str(tmp_path / "two")]
    assert listed(model) == [("model", path, 20) for path in paths]


def test_the_directory_that_a_model_was_loaded_from_is_listed(tmp_path):
    remembering().save(tmp_path / "model")
    assert listed(load(tmp_path / "model")) == [("model", str(tmp_path / "model"), 20)]


def test_a_checkpoint_is_listed(tmp_path):
    model = spm(**TINY, epochs=1, checkpoint=tmp_path / "runs").fit(X, LABELS)
    assert listed(model) == [("checkpoint", str(tmp_path / "runs"), None)]


def test_a_checkpoint_that_no_training_wrote_is_not_listed(tmp_path):
    model = spm(**TINY, epochs=0, checkpoint=tmp_path / "runs").fit(X, LABELS)
    assert model.copies() == []


def test_a_report_is_listed_once_it_is_noted(report):
    model = remembering()
    model.note_copy("report", report)
    model.note_copy("report", str(report))
    assert listed(model) == [("report", str(report), None)]


def test_a_relative_path_is_noted_in_full(tmp_path, report, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = remembering()
    model.note_copy("report", "votes.html")
    assert listed(model) == [("report", str(report), None)]


def test_a_report_that_is_gone_is_not_listed_but_a_cache_may_only_be_away(tmp_path, report):
    model = remembering(tmp_path / "cache")
    model.note_copy("report", report)
    report.unlink()
    shutil.rmtree(tmp_path / "cache")
    (left,) = model.copies()
    assert (left.kind, left.path, left.rows) == ("embeddings", str(tmp_path / "cache"), None)
    assert "not there now" in left.holds


def test_each_copy_says_what_it_holds(tmp_path, report):
    model = remembering(tmp_path / "cache")
    model.note_copy("report", report)
    model.save(tmp_path / "model")
    assert all(isinstance(found, KnownCopy) and found.holds for found in model.copies())
    assert len({found.holds for found in model.copies()}) == 3


def test_copies_of_an_unfitted_model_are_not_known(tmp_path):
    for call in ("copies", "purge"):
        with pytest.raises(NotFittedError):
            getattr(SPMClassifier(), call)()


def test_rows_that_were_forgotten_are_not_counted(tmp_path):
    model = remembering(tmp_path)
    model.forget(ids=names(5))
    assert listed(model) == [("embeddings", str(tmp_path), 15)]


def test_a_directory_that_is_gone_is_not_listed(tmp_path):
    model = remembering()
    model.save(tmp_path / "model")
    shutil.rmtree(tmp_path / "model")
    assert model.copies() == []


def test_a_row_that_two_encoders_have_encoded_counts_once(tmp_path):
    other = SPMClassifier("random_features", embedding_cache=tmp_path)
    other.remember(X, LABELS, ids=names(20))
    assert listed(remembering(tmp_path)) == [("embeddings", str(tmp_path), 20)]


def test_an_unknown_kind_of_copy_is_refused(report):
    model = remembering()
    with pytest.raises(ErasableError, match="kind"):
        model.note_copy("hologram", report)
    assert model.copies() == []


def test_a_copy_of_an_unfitted_model_is_refused_as_such(report):
    with pytest.raises(NotFittedError):
        SPMClassifier().note_copy("report", report)


# -- saving ---------------------------------------------------------------------------------------


def test_copies_are_saved_with_the_model(tmp_path, report):
    model = remembering(tmp_path / "cache")
    model.note_copy("report", report)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert sorted(listed(again), key=str) == sorted(listed(model), key=str)
    assert len(again.copies()) == 3


def test_a_copy_noted_after_loading_is_saved_the_next_time(tmp_path, report):
    remembering().save(tmp_path / "model")
    model = load(tmp_path / "model")
    model.note_copy("report", report)
    model.save(tmp_path / "model")
    assert ("report", str(report), None) in listed(load(tmp_path / "model"))


def test_saving_elsewhere_takes_the_list_along(tmp_path):
    remembering(tmp_path / "cache").save(tmp_path / "one")
    load(tmp_path / "one").save(tmp_path / "two")
    shutil.rmtree(tmp_path / "one")
    model = load(tmp_path / "two")
    model.forget(ids=names(5))
    assert held(tmp_path / "cache", names(5)) == 0


def test_a_model_that_replaces_another_knows_its_copies_too(tmp_path, report):
    first = remembering()
    first.note_copy("report", report)
    first.save(tmp_path / "model")
    remembering().save(tmp_path / "model", overwrite=True)
    assert ("report", str(report), None) in listed(load(tmp_path / "model"))


def test_a_copy_of_a_model_has_a_list_of_its_own(tmp_path, report):
    model = remembering(tmp_path / "cache")
    other = copy.deepcopy(model)
    other.note_copy("report", report)
    assert [found.kind for found in model.copies()] == ["embeddings"]
    other.forget(ids=names(1))
    assert held(tmp_path / "cache", names(1)) == 0


# -- purging --------------------------------------------------------------------------------------


def test_purging_finds_nothing_after_a_forget(tmp_path):
    model = remembering(tmp_path)
    model.forget(ids=names(5))
    assert model.purge() == Purged(0, [])
    assert held(tmp_path) == 15


@pytest.mark.parametrize("ids", [names(5), names(5, 100)])
def test_forgotten_rows_that_came_back_are_purged_under_any_id(tmp_path, ids):
    model = remembering(tmp_path)
    model.forget(ids=names(5))
    remembering(tmp_path, ids=[*ids, *names(15, 5)])  # another model, which does not know
    assert held(tmp_path) == 20
    assert model.purge().entries == 5
    assert (held(tmp_path), held(tmp_path, ids)) == (15, 0)


def test_another_model_that_brings_rows_back_is_purged_too(tmp_path):
    model = remembering(tmp_path)
    model.forget(ids=names(5))
    SPMClassifier("random_features", embedding_cache=tmp_path).remember(X, LABELS, ids=names(20))
    assert model.purge().entries == 5
    assert held(tmp_path) == 30


def test_a_loaded_model_purges_what_came_back(tmp_path):
    model = remembering(tmp_path / "cache")
    model.forget(ids=names(5))
    model.save(tmp_path / "model")
    remembering(tmp_path / "cache")
    forget_keys()  # as in a new process, which has them on disk
    assert load(tmp_path / "model").purge().entries == 5


def test_entries_are_removed_where_the_description_of_their_encoder_was_lost(tmp_path):
    model = remembering(tmp_path)
    for description in tmp_path.glob("*/encoder.json"):
        description.unlink()
    model.forget(ids=names(5))
    assert held(tmp_path) == 15


def test_reinstated_rows_are_not_purged(tmp_path):
    model = remembering(tmp_path)
    model.forget(ids=names(5))
    model.remember(X[:5], LABELS[:5], ids=names(5), reinstate=True)
    assert model.purge().entries == 0
    assert held(tmp_path) == 20


def test_purging_does_not_change_the_model(tmp_path):
    model = remembering(tmp_path)
    model.forget(ids=names(5))
    model.embed(X[:5], ids=names(5))
    digest, expected = model.memory.digest, model.predict_proba(X)
    model.purge()
    assert model.memory.digest == digest
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_reports_and_checkpoints_are_named_and_left(tmp_path, report):
    model = spm(**TINY, epochs=1, checkpoint=tmp_path / "runs").fit(X, LABELS)
    model.note_copy("report", report)
    model.save(tmp_path / "model")
    assert [found.kind for found in model.purge().left] == ["checkpoint", "report"]
    assert report.exists()
    assert any((tmp_path / "runs").iterdir())


def test_without_copies_there_is_nothing_to_purge():
    model = remembering()
    model.forget(ids=names(5))
    assert model.purge() == Purged(0, [])


def test_without_the_keys_purging_says_that_it_cannot_tell(tmp_path):
    model = remembering(tmp_path)
    model.forget(ids=names(5))
    remembering(tmp_path / "cache")
    forget_keys()
    with pytest.raises(StateError, match="keys"):
        model.purge()
