import os
import stat
from pathlib import Path

import pytest

from erasable.files import sync_folder, write_atomically


class RefusedError(Exception):
    """What an injected failure raises."""


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "state.bin"
    path.write_bytes(b"old")
    return path


@pytest.fixture(params=["write", "fsync", "replace"])
def failure(request, monkeypatch):
    """Let one step of writing fail."""

    def fail(*arguments, **options):
        raise RefusedError

    if request.param == "write":
        fdopen = os.fdopen

        def open_failing(*arguments):
            file = fdopen(*arguments)
            file.write(b"half of ")
            file.flush()
            file.close()  # the next write raises ValueError: the file is closed
            return file

        monkeypatch.setattr(os, "fdopen", open_failing)
        return ValueError
    places = {"fsync": os, "replace": Path}
    monkeypatch.setattr(places[request.param], request.param, fail)
    return RefusedError


def test_the_data_is_written(target):
    write_atomically(target, b"new")
    assert target.read_bytes() == b"new"


def test_a_new_file_is_written(tmp_path):
    write_atomically(tmp_path / "state.bin", b"new")
    assert (tmp_path / "state.bin").read_bytes() == b"new"


def test_missing_folders_are_made(tmp_path):
    write_atomically(tmp_path / "a" / "b" / "state.bin", b"new")
    assert (tmp_path / "a" / "b" / "state.bin").read_bytes() == b"new"


def test_nothing_else_is_left_behind(target):
    write_atomically(target, b"new")
    assert os.listdir(target.parent) == ["state.bin"]


def test_a_failure_leaves_the_old_content(target, failure):
    with pytest.raises(failure):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"


def test_a_failure_leaves_no_temporary_file(target, failure):
    with pytest.raises(failure):
        write_atomically(target, b"new")
    assert os.listdir(target.parent) == ["state.bin"]


def test_a_failure_leaves_no_file_where_there_was_none(tmp_path, failure):
    with pytest.raises(failure):
        write_atomically(tmp_path / "state.bin", b"new")
    assert os.listdir(tmp_path) == []


def test_an_interrupt_leaves_no_temporary_file(target, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(target, b"new")
    assert os.listdir(target.parent) == ["state.bin"]


def test_a_folder_in_the_way_leaves_no_temporary_file(tmp_path):
    (tmp_path / "state.bin").mkdir()
    with pytest.raises(OSError, match=r"state\.bin"):
        write_atomically(tmp_path / "state.bin", b"new")
    assert os.listdir(tmp_path) == ["state.bin"]


def test_the_old_content_is_there_until_the_new_is_complete(target, monkeypatch):
    seen = []
    fsync, rename = os.fsync, Path.replace

    def watch_fsync(handle):
        seen.append(("fsync", target.read_bytes()))
        fsync(handle)

    def watch_rename(self, place):
        seen.append(("rename", target.read_bytes(), self.read_bytes(), self.parent == place.parent))
        return rename(self, place)

    monkeypatch.setattr(os, "fsync", watch_fsync)
    monkeypatch.setattr(Path, "replace", watch_rename)
    write_atomically(target, b"new")
    assert seen == [("fsync", b"old"), ("rename", b"old", b"new", True), ("fsync", b"new")]


@pytest.fixture(params=[0o022, 0o077, 0o002, 0o000])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_permissions_follow_the_umask(tmp_path, umask):
    write_atomically(tmp_path / "state.bin", b"new")
    assert stat.S_IMODE((tmp_path / "state.bin").stat().st_mode) == 0o666 & ~umask


def test_the_umask_stays_as_it_was(tmp_path, umask):
    write_atomically(tmp_path / "state.bin", b"new")
    after = os.umask(0)
    os.umask(after)
    assert after == umask


def test_syncing_a_folder_closes_it_again(tmp_path, monkeypatch):
    handles = []
    monkeypatch.setattr(os, "fsync", handles.append)
    sync_folder(tmp_path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handles[0])


def test_a_folder_that_is_not_there_cannot_be_synced(tmp_path):
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "missing")
