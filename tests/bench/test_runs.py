"""Finished work is kept, interrupted work goes on, and damage is told."""

import json
import math
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable.bench import Runs, machine
from erasable.errors import ArgumentError, ErasableError, StoreError

SETTINGS = {"table": "toy", "seed": 0}


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")


def never(folder):
    pytest.fail("a finished run was done again")


def files(runs):
    """Return the names of finished runs."""
    return sorted(path.name for path in runs.folder.glob("*.json"))


def scratches(runs):
    return sorted(runs.folder.glob("*.partial"))


def interrupted(runs, seconds, monkeypatch, error=KeyboardInterrupt):
    """Do half of the work, which takes some seconds by the clock that runs use."""

    def work(folder):
        (folder / "checkpoint").write_text("half")
        monkeypatch.setattr("time.perf_counter", lambda: 100.0 + seconds)
        raise error

    monkeypatch.setattr("time.perf_counter", lambda: 100.0)
    with pytest.raises(error):
        runs.run(SETTINGS, work)
    monkeypatch.undo()


# -- finished -------------------------------------------------------------------------------------


def test_a_finished_run_is_not_done_again(runs):
    first = runs.run(SETTINGS, lambda _: {"accuracy": 0.5})
    assert runs.run(SETTINGS, never) == first
    assert Runs(runs.folder).find(dict(reversed(SETTINGS.items()))) == first


def test_a_run_tells_what_it_is_and_where_it_was_made(runs):
    done = runs.run(SETTINGS, lambda _: {"accuracy": 0.5})
    assert (done.settings, done.result) == (SETTINGS, {"accuracy": 0.5})
    assert done.machine == machine()
    assert done.time.endswith("+00:00")
    assert 0 <= done.seconds < 60


@pytest.mark.parametrize(
    "other",
    [
        {"table": "toy", "seed": 1},
        {"table": "toy"},
        {**SETTINGS, "more": None},
        {"table": "toy", "seed": "0"},
        {"table": "toy", "seed": 0.0},
        {"table": "toy", "seed": False},
        {"table": "toy", "seed": [0]},
    ],
)
def test_a_run_of_other_settings_is_done(runs, other):
    runs.run(SETTINGS, lambda _: {"who": "first"})
    assert runs.find(other) is None
    assert runs.run(other, lambda _: {"who": "second"}).result == {"who": "second"}
    assert runs.run(SETTINGS, never).result == {"who": "first"}


def test_what_was_never_run_is_not_found_and_leaves_no_folder(runs):
    assert runs.find(SETTINGS) is None
    assert not runs.folder.exists()


def test_a_finished_run_leaves_one_file_that_can_be_read_without_this_library(runs):
    done = runs.run(SETTINGS, lambda folder: {"there": folder.is_dir()})
    (path,) = runs.folder.iterdir()
    document = json.loads(path.read_bytes())
    assert document == {"format": "erasable.run.1", **vars(done)}
    assert done.result == {"there": True}


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda some: st.lists(some) | st.dictionaries(st.text(), some) | st.tuples(some, some),
    max_leaves=8,
)


@settings(max_examples=12)
@given(wanted=st.dictionaries(st.text(), PLAIN), result=st.dictionaries(st.text(), PLAIN))
def test_what_is_returned_first_is_what_is_read_later(tmp_path_factory, wanted, result):
    runs = Runs(tmp_path_factory.mktemp("runs"))
    first = runs.run(wanted, lambda _: result)
    assert runs.run(wanted, never) == first
    assert first.result == json.loads(json.dumps(result))


def test_figures_that_are_not_numbers_are_kept(runs):
    first = runs.run(SETTINGS, lambda _: {"tpr": math.nan, "limit": -math.inf})
    again = runs.run(SETTINGS, never)
    for done in (first, again):
        assert math.isnan(done.result["tpr"])
        assert done.result["limit"] == -math.inf


def test_the_order_of_names_is_the_same_at_first_and_later(runs):
    first = runs.run({"z": 1, "a": 2}, lambda _: {"later": 1, "early": 2})
    again = runs.run({"z": 1, "a": 2}, never)
    assert [list(first.settings), list(first.result)] == [list(again.settings), list(again.result)]


def test_settings_that_are_not_plain_are_refused_before_any_work(runs):
    with pytest.raises(ArgumentError, match="Expected plain values as settings"):
        runs.run({"cache": Path("somewhere")}, never)
    assert not runs.folder.exists()


@pytest.mark.parametrize("odd", [{"cache": Path("x")}, {"a": 1, 2: 3}])
def test_settings_that_are_not_plain_are_refused_in_words(runs, odd):
    with pytest.raises(ErasableError):
        runs.run(odd, never)


# -- interrupted ----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
def test_interrupted_work_leaves_its_folder_and_no_finished_run(runs, monkeypatch, error):
    interrupted(runs, 1, monkeypatch, error)
    assert files(runs) == []
    assert runs.find(SETTINGS) is None
    (scratch,) = scratches(runs)
    assert (scratch / "checkpoint").read_text() == "half"


def test_the_next_attempt_is_handed_the_folder_of_the_last(runs, monkeypatch):
    interrupted(runs, 1, monkeypatch)
    done = runs.run(SETTINGS, lambda folder: {"found": (folder / "checkpoint").read_text()})
    assert done.result == {"found": "half"}
    assert scratches(runs) == []


def test_another_run_is_not_handed_that_folder(runs, monkeypatch):
    interrupted(runs, 1, monkeypatch)
    runs.run({"table": "other"}, lambda folder: {"found": list(map(str, folder.iterdir()))})
    assert len(scratches(runs)) == 1


def test_seconds_of_all_attempts_add_up(runs, monkeypatch):
    interrupted(runs, 20, monkeypatch)
    interrupted(runs, 300, monkeypatch)
    done = runs.run(SETTINGS, lambda _: {})
    assert 320 <= done.seconds < 380
    assert runs.run(SETTINGS, never).seconds == done.seconds


def test_a_note_of_seconds_that_cannot_be_read_counts_as_none(runs, monkeypatch):
    interrupted(runs, 900, monkeypatch)
    (scratches(runs)[0] / "seconds").write_text("many")
    assert runs.run(SETTINGS, lambda _: {}).seconds < 60


def test_a_result_that_cannot_be_kept_leaves_the_folder_for_the_next_attempt(runs):
    def work(folder):
        (folder / "checkpoint").write_text("all of it")
        return {"path": folder}

    with pytest.raises(TypeError, match="not JSON serializable"):
        runs.run(SETTINGS, work)
    assert files(runs) == []
    done = runs.run(SETTINGS, lambda folder: {"found": (folder / "checkpoint").read_text()})
    assert done.result == {"found": "all of it"}


KILLED = """
import os, signal, sys
from pathlib import Path
from erasable.bench._runs import Runs

def work(folder):
    (folder / "checkpoint").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)

Runs(Path(sys.argv[1])).run({"table": "toy", "seed": 0}, work)
"""


def test_a_killed_run_goes_on_and_keeps_the_seconds_noted_before(runs, monkeypatch):
    interrupted(runs, 50, monkeypatch)
    command = [sys.executable, "-c", KILLED, str(runs.folder)]
    killed = subprocess.run(command, check=False, capture_output=True)
    assert (killed.returncode, killed.stderr) == (-signal.SIGKILL, b"")
    assert files(runs) == []
    done = runs.run(SETTINGS, lambda folder: {"found": (folder / "checkpoint").read_text()})
    assert done.result == {"found": "half"}
    assert 50 <= done.seconds < 110


# -- damage ---------------------------------------------------------------------------------------


def damaged(runs, content):
    runs.run(SETTINGS, lambda _: {})
    path = runs.folder / files(runs)[0]
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"it is damaged: .*Delete it to run it again\.$") as told:
        runs.run(SETTINGS, never)
    assert str(path) in str(told.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"format": "erasable.run.1"',
        b"\xff\xfe\x00",
        b"[]",
        b"{}",
        b'{"format": "erasable.chunk.1"}',
        b'{"format": "erasable.run.1", "settings": {}}',
        b'{"format": "erasable.run.1", "settings": {}, "result": {}, "seconds": 1, "machine": "",'
        b' "time": "", "surplus": 1}',
    ],
)
def test_a_damaged_run_is_named_and_neither_used_nor_replaced(runs, content):
    damaged(runs, content)


@pytest.mark.parametrize("content", [b"null", b"7", b'"text"'])
def test_a_file_of_other_json_is_named_as_damaged(runs, content):
    damaged(runs, content)


def test_a_damaged_run_that_was_deleted_is_done_again(runs):
    runs.run(SETTINGS, lambda _: {"try": 1})
    (runs.folder / files(runs)[0]).unlink()
    assert runs.run(SETTINGS, lambda _: {"try": 2}).result == {"try": 2}


def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="file"):
        Runs(tmp_path / "file" / "runs").run(SETTINGS, never)


# -- two at once ----------------------------------------------------------------------------------


def test_of_two_at_once_one_works_and_both_get_its_figures(runs):
    started, may_end = threading.Event(), threading.Event()
    found = []

    def work(folder):
        (folder / "chunk").write_text("mine")
        started.set()
        assert may_end.wait(30)
        return {"kept": (folder / "chunk").exists()}

    first = threading.Thread(target=lambda: found.append(runs.run(SETTINGS, work)))
    first.start()
    assert started.wait(30)
    second = threading.Thread(target=lambda: found.append(runs.run(SETTINGS, never)))
    second.start()
    may_end.set()
    for thread in (first, second):
        thread.join(30)
    assert [done.result for done in found] == [{"kept": True}] * 2
    assert scratches(runs) == []
