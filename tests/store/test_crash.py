"""Processes that are killed while they save: the old model or the new one, never anything else."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


SAMPLE = 21
WORKS = {
    "begin": {"old", "new"},
    "forget": {"old", "replayed", "new"},
    "change_settings": {"old", "new"},
    "change_and_forget": {"old", "replayed", "new"},
    "forget_at_once": {"old", "replayed", "new"},
    "replace": {"old", "new"},
    "upgrade": {"old", "replayed", "new"},
}
"""What may be left: of a save that was about to forget, the same model without those rows."""


def killed(folder, sample):
    """Return what became of each save that was killed at some step."""
    environment = {
        **os.environ,
        "ERASABLE_KEYS": str(folder / "keys"),
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, str(TESTS / "store" / "crash_driver.py"), str(folder), str(sample)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module", params=[SAMPLE, pytest.param(0, marks=pytest.mark.slow)])
def attempts(request, tmp_path_factory):
    """Return what became of a sample of kills, and with the slow tests of all."""
    return killed(tmp_path_factory.mktemp("crash"), request.param)


def test_a_killed_save_leaves_the_old_model_or_the_new_one(attempts):
    odd = [a for a in attempts if a["state"] not in WORKS[a["work"]] or not a["settled"]]
    assert odd == []


def test_every_kind_of_save_was_killed_before_and_after_its_commit(attempts):
    for work in WORKS:
        states = [a["state"] for a in attempts if a["work"] == work]
        assert (states[0], states[-1]) == ("old", "new")


def test_a_state_once_reached_is_not_left_again(attempts):
    order = ["old", "replayed", "new"]
    for work in WORKS:
        states = [order.index(a["state"]) for a in attempts if a["work"] == work]
        # A format that is upgraded is named by its number once more, until it is gone.
        assert states == sorted(states)


def test_a_save_that_returned_is_never_lost(attempts):
    finished = [a["state"] for a in attempts if a["done"]]
    assert finished
    assert set(finished) == {"new"}


def test_a_forget_that_survived_still_refuses_its_rows(attempts):
    assert all(a["refused"] for a in attempts if "forget" in a["work"] or a["work"] == "upgrade")


def test_the_next_save_leaves_no_trace_of_forgotten_rows(attempts):
    assert [a for a in attempts if a["left"] and a["work"] != "change_settings"] == []


def test_the_next_save_clears_away_what_a_killed_one_left(attempts):
    assert {tuple(a["files"]) for a in attempts} == {("rows.sqlite", "weights")}


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
