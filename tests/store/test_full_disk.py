"""Disks that are full: it is said so, and nothing is lost."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from erasable import SPMClassifier, load
from erasable.errors import StoreError
from models.toys import fitted, names

TESTS = Path(__file__).parents[1]

_SAVE = """
import resource, signal, sys
from erasable import load
from models.toys import blobs
import numpy as np
model = load(sys.argv[1])
model.forget(ids=["row-number-0"])
model.remember(np.random.default_rng(0).normal(size=(3000, 4)), ["a"] * 3000)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
digest = model.memory.digest
try:
    model.save(sys.argv[1], overwrite=len(sys.argv) > 3)
except OSError as error:
    print(type(error).__name__, error)
assert model.memory.digest == digest
"""


def contents(path):
    """Return every file of a directory with its bytes."""
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


_slow = [pytest.param(most, marks=pytest.mark.slow) for most in (0, 20_000, 100_000)]


@pytest.mark.parametrize("most", [1_000, 60_000, 150_000, *_slow])
def test_a_save_that_finds_no_room_changes_nothing(tmp_path, keys, most):
    path = tmp_path / "model"
    fitted(40).save(path)
    before = contents(path)
    environment = {
        **os.environ,
        "ERASABLE_KEYS": str(keys),
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", _SAVE, str(path), str(most)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "StoreError" in done.stdout
    assert "full" in done.stdout
    assert "damaged" not in done.stdout
    assert "estore" not in done.stdout
    left = load(path)
    if "Nothing was changed" in done.stdout:
        assert len(left.memory) == 40
        assert contents(path) == before
    else:  # the ledger could not be told that it failed
        assert len(left.memory) == 39


@pytest.fixture
def small(tmp_path):
    """Return a folder on a disk of 6 MB, where such a disk can be made."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = (
        shutil.which("mount")
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk)],  # noqa: S607 - any mount
            capture_output=True,
            check=False,
        ).returncode
    )
    if not mounted:
        pytest.skip("no right to mount a small disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)  # noqa: S607 - any mount


def big(count, seed=0):
    """Return a model of rows of 2 kB."""
    X = np.random.default_rng(seed).normal(size=(count, 512)).astype(np.float32)
    return SPMClassifier("identity").remember(X, ["a", "b"] * (count // 2), ids=names(count))


def test_a_full_disk_is_called_full_and_can_be_used_again(small):
    model = big(100)
    model.save(small / "model")
    before = contents(small / "model")
    model.forget(ids=names(1))
    X = np.random.default_rng(1).normal(size=(3000, 512)).astype(np.float32)
    model.remember(X, ["a"] * 3000, ids=names(3000, 1000))
    with pytest.raises(StoreError, match=r"The disk of .* is full.*Nothing was changed"):
        model.save(small / "model")
    assert contents(small / "model") == before
    model.forget(ids=names(3000, 1000))
    model.save(small / "model")
    assert len(load(small / "model").memory) == 99


def test_a_first_save_on_a_full_disk_leaves_nothing(small):
    with pytest.raises(StoreError, match=r"The disk of .* is full"):
        big(4000).save(small / "model")
    assert list(small.iterdir()) == []
