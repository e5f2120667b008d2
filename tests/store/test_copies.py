"""The list of places outside a saved model that hold something of its rows."""

import json

import pytest

from erasable.errors import StoreError
from erasable.store import Copy, ModelDirectory
from erasable.store._copies import read_copies, write_copies

FORMAT = "erasable.copies.1"


@pytest.fixture
def three(tmp_path):
    """Return a copy of each kind, all of which exist."""
    found = []
    for kind in ("embeddings", "checkpoint", "report"):
        (tmp_path / kind).mkdir()
        found.append(Copy(kind, str(tmp_path / kind)))
    return found


def test_what_was_written_is_read_back(tmp_path, three):
    write_copies(tmp_path / "copies.json", three)
    assert read_copies(tmp_path / "copies.json") == three


def test_no_file_lists_no_copies(tmp_path):
    assert read_copies(tmp_path / "copies.json") == []


def test_a_copy_is_listed_once(tmp_path, three):
    write_copies(tmp_path / "copies.json", three * 2)
    assert read_copies(tmp_path / "copies.json") == three


def test_a_copy_that_is_gone_is_not_listed(tmp_path, three):
    (tmp_path / "checkpoint").rmdir()
    write_copies(tmp_path / "copies.json", three)
    assert read_copies(tmp_path / "copies.json") == [three[0], three[2]]


def test_a_kind_of_a_later_version_is_skipped(tmp_path, three):
    listed = [{"kind": "hologram", "path": str(tmp_path)}, {"kind": "report", "path": "page"}]
    (tmp_path / "copies.json").write_text(json.dumps({"format": FORMAT, "copies": listed}))
    assert read_copies(tmp_path / "copies.json") == [Copy("report", "page")]


DAMAGED = {
    "nothing": b"",
    "not JSON": b"{",
    "not UTF-8": b'{"format": "\xff"}',
    "not an object": b"[]",
    "another format": b'{"format": "erasable.copies.9", "copies": []}',
    "no format": b'{"copies": []}',
    "no list": b'{"format": "erasable.copies.1"}',
    "a number for a list": b'{"format": "erasable.copies.1", "copies": 3}',
    "text for a copy": b'{"format": "erasable.copies.1", "copies": ["page"]}',
    "a copy without a path": b'{"format": "erasable.copies.1", "copies": [{"kind": "report"}]}',
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_list_is_told_with_its_path(tmp_path, data):
    path = tmp_path / "copies.json"
    path.write_bytes(data)
    with pytest.raises(
        StoreError, match=f"Expected a list of copies in {path}, but it is damaged: "
    ):
        read_copies(path)


def test_is_there_tells_whether_a_copy_still_exists(tmp_path, three):
    (tmp_path / "report").rmdir()
    assert [copy.is_there for copy in three] == [True, True, False]


# -- beside a model -------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "model").mkdir()
    return ModelDirectory(tmp_path / "model")


def test_noted_copies_are_added_to_those_that_are_known(directory, three):
    directory.note_copies(three[:1])
    directory.note_copies(three[1:])
    assert directory.copies() == three


def test_noting_nothing_writes_no_file(directory):
    directory.note_copies([])
    assert list(directory.path.iterdir()) == []


def test_noting_what_is_known_does_not_touch_the_file(directory, three):
    directory.note_copies(three)
    before = (directory.path / "copies.json").stat().st_mtime_ns
    directory.note_copies(three[1:])
    assert (directory.path / "copies.json").stat().st_mtime_ns == before


def test_noting_another_copy_drops_those_that_are_gone(directory, three, tmp_path):
    directory.note_copies(three[:2])
    (tmp_path / "checkpoint").rmdir()
    directory.note_copies(three[2:])
    assert directory.copies() == [three[0], three[2]]


def test_a_damaged_list_is_not_overwritten(directory, three):
    (directory.path / "copies.json").write_text("{")
    with pytest.raises(StoreError, match="Expected a list of copies"):
        directory.note_copies(three)
    assert (directory.path / "copies.json").read_text() == "{"


def test_a_list_of_copies_does_not_keep_a_model_from_being_saved_there(directory, three):
    directory.note_copies(three)
    assert directory.is_free


def test_what_a_killed_write_of_the_list_left_is_cleaned_up(directory):
    left = directory.path / ".copies.json.0123abcd.tmp"
    left.write_text("{")
    assert directory.is_free
    directory.clean(digest="0" * 64)
    assert not left.exists()
