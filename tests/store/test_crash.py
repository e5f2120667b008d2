"""Processes that are killed while they save: the old model or the new one, never anything else."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def attempts(tmp_path_factory):
    """Return what became of each save that was killed at some step."""
    folder = tmp_path_factory.mktemp("crash")
    environment = {
        **os.environ,
        "ERASABLE_KEYS": str(folder / "keys"),
        "PYTHONPATH": str(TESTS),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, str(TESTS / "store" / "crash_driver.py"), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


works = pytest.mark.parametrize("work", ["begin", "forget", "replace"])


@works
def test_a_killed_save_leaves_the_old_model_or_the_new_one(attempts, work):
    states = {attempt["state"] for attempt in attempts if attempt["work"] == work}
    assert states == {"old", "new"}


@works
def test_saves_were_killed_before_and_after_the_commit(attempts, work):
    killed = [a for a in attempts if a["work"] == work and a["killed"]]
    assert len(killed) > 10
    assert {attempt["state"] for attempt in killed} == {"old", "new"}


@works
def test_a_state_once_reached_is_not_left_again(attempts, work):
    states = [attempt["state"] for attempt in attempts if attempt["work"] == work]
    assert states == sorted(states, reverse=True)  # "old", then "new"


@works
def test_a_save_that_returned_is_never_lost(attempts, work):
    finished = [a["state"] for a in attempts if a["work"] == work and a["done"]]
    assert finished
    assert set(finished) == {"new"}


def test_a_forget_that_survived_still_refuses_its_rows(attempts):
    survived = [a for a in attempts if a["work"] == "forget" and a["state"] == "new"]
    assert survived
    assert all(attempt["refused"] for attempt in survived)


@works
def test_the_next_save_leaves_no_trace_of_forgotten_rows(attempts, work):
    assert [a for a in attempts if a["work"] == work and a["left"]] == []


@works
def test_the_next_save_clears_away_what_a_killed_one_left(attempts, work):
    files = {tuple(attempt["files"]) for attempt in attempts if attempt["work"] == work}
    assert files == {("config.json", "rows.sqlite", "weights")}


_FORGET_AND_DIE = """
import os, signal, sys
from erasable.cli import _forget, main
real = _forget.emit
def emit(*args, **options):
    real(*args, **options)
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
_forget.emit = emit
main()
"""


def test_a_forget_whose_receipt_was_printed_is_on_disk(tmp_path):
    from erasable import load
    from models.toys import remembering

    remembering().save(tmp_path / "model")
    command = [sys.executable, "-c", _FORGET_AND_DIE, "forget", str(tmp_path / "model")]
    arguments = ["--id", "row-number-3", "--json"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    receipt = json.loads(done.stdout)
    model = load(tmp_path / "model")
    assert "row-number-3" not in model.memory
    assert model.memory.digest == receipt["digest_after"]
