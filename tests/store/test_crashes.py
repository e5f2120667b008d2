"""A process that dies at any point leaves the old model or the new one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from erasable import load
from erasable.errors import ErasableError
from models.toys import fitted, names, remembering

# Forks one child per point. The n-th child dies by SIGKILL at the n-th call of a function through
# which bytes reach the disk, until one child gets through.
SCRIPT = """
import json, os, shutil, signal, sqlite3, sys
from pathlib import Path

sys.path.insert(0, {tests!r})
import torch
from erasable import load
from models.toys import fitted

torch.set_num_threads(1)
left = 10**9

def counted(function):
    def wrapper(*args, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **options)
    return wrapper

class Connection(sqlite3.Connection):
    execute = counted(sqlite3.Connection.execute)
    executemany = counted(sqlite3.Connection.executemany)
    close = counted(sqlite3.Connection.close)

connect = sqlite3.connect
sqlite3.connect = lambda *args, **options: connect(*args, factory=Connection, **options)
os.fsync, Path.replace, os.fdopen = counted(os.fsync), counted(Path.replace), counted(os.fdopen)
Path.unlink, Path.mkdir = counted(Path.unlink), counted(Path.mkdir)
base, statuses = Path(sys.argv[1]), []
model = {model}
while not statuses or statuses[-1]:
    path = base / str(len(statuses))
    if (base / "model").exists():
        shutil.copytree(base / "model", path)
    child = os.fork()
    if not child:
        {prepare}
        left = len(statuses)
        {work}
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    statuses.append(status)
print(json.dumps(statuses))
"""


def die_everywhere(folder, *, model="None", prepare="pass", work):
    """Let the work die at every point; return the directories that it left, the whole one last."""
    tests = str(Path(__file__).parent.parent)
    code = SCRIPT.format(tests=tests, model=model, prepare=prepare, work=work)
    found = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert found.returncode == 0, found.stderr
    statuses = json.loads(found.stdout)
    assert len(statuses) > 10, "hardly any point was counted"
    return [folder / str(point) for point in range(len(statuses))]


@pytest.fixture
def saved(tmp_path):
    """Return a saved model that was never trained."""
    model = remembering(12)
    model.save(tmp_path / "model")
    return model


def test_a_forget_is_there_whole_or_not_at_all(saved, tmp_path):
    before = saved.memory.digest
    after = saved.forget(classes=["a"]).digest_after
    *died, whole = die_everywhere(
        tmp_path,
        prepare="model = load(path)",
        work="model.forget(classes=['a']); model.save(path)",
    )
    assert {load(path).memory.digest for path in died} == {before, after}
    assert load(whole).memory.digest == after
    # Once a later point is reached the forget stays: it is never there, then gone again.
    seen = [load(path).memory.digest for path in died]
    assert seen == sorted(seen, key=[before, after].index)


def test_a_forget_that_survived_still_refuses_the_row(saved, tmp_path):
    saved.forget(classes=["a"])
    found = die_everywhere(
        tmp_path,
        prepare="model = load(path)",
        work="model.forget(classes=['a']); model.save(path)",
    )
    for path in found:
        model = load(path)
        if len(model.memory) == len(saved.memory):
            with pytest.raises(ErasableError, match="forgotten before"):
                model.remember([[9.0, 9.0, 9.0, 9.0]], ["a"], ids=names(1))


def test_replacing_a_model_leaves_one_of_the_two(saved, tmp_path):
    old, new = saved.memory.digest, fitted(10, epochs=1).memory.digest
    *died, whole = die_everywhere(
        tmp_path, model="fitted(10, epochs=1)", work="model.save(path, overwrite=True)"
    )
    assert {load(path).memory.digest for path in died} == {old, new}
    assert load(whole).memory.digest == new


def test_what_an_interrupted_save_left_can_be_used_and_saved_again(saved, tmp_path):
    for path in die_everywhere(
        tmp_path, model="fitted(10, epochs=1)", work="model.save(path, overwrite=True)"
    ):
        model = load(path)
        model.forget(ids=[next(iter(model.memory)).id])
        model.save(path)
        assert load(path).memory.digest == model.memory.digest


def test_an_unfinished_first_save_can_be_repeated(tmp_path):
    model = fitted(10, epochs=1)
    for path in die_everywhere(tmp_path, model="fitted(10, epochs=1)", work="model.save(path)"):
        if not (path / "config.json").exists():
            model.save(path)
            model.place_ = None
        assert load(path).memory.digest == model.memory.digest
