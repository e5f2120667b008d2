"""The list of places outside a saved model that hold something of its rows."""

import pytest

from erasable import load
from erasable.store import Copy
from models.toys import remembering


@pytest.fixture
def three(tmp_path):
    """Return a copy of each kind, all of which exist."""
    found = []
    for kind in ("embeddings", "checkpoint", "report"):
        (tmp_path / kind).mkdir()
        found.append(Copy(kind, str(tmp_path / kind)))
    return found


def saved(path, copies):
    """Save a model with a list of copies, and return the list that is read back."""
    model = load(path) if path.exists() else remembering(2)
    model.copies_ = list(copies)
    model.save(path)
    return load(path).copies_


def test_what_was_written_is_read_back(tmp_path, three):
    assert saved(tmp_path / "model", three) == three


def test_a_copy_is_listed_once(tmp_path, three):
    assert saved(tmp_path / "model", three * 2) == three


def test_a_copy_that_is_gone_is_not_listed_but_a_cache_may_only_be_away(tmp_path, three):
    (tmp_path / "checkpoint").rmdir()
    (tmp_path / "embeddings").rmdir()
    assert saved(tmp_path / "model", three) == [three[0], three[2]]


def test_noted_copies_are_added_to_those_that_are_known(tmp_path, three):
    saved(tmp_path / "model", three[:1])
    assert saved(tmp_path / "model", three[1:]) == three


def test_saving_again_drops_those_that_are_gone(tmp_path, three):
    saved(tmp_path / "model", three)
    (tmp_path / "checkpoint").rmdir()
    assert saved(tmp_path / "model", []) == [three[0], three[2]]


def test_is_there_tells_whether_a_copy_still_exists(tmp_path, three):
    (tmp_path / "report").rmdir()
    assert [copy.is_there for copy in three] == [True, True, False]
