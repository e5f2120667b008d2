"""Kill saves at every step and report what is left: run as ``python crash_driver.py FOLDER``.

Each attempt is a forked process that sends itself SIGKILL just before its n-th step. A step is a
flush, rename or removal of a file, a statement of SQLite, or a stretch of work inside one.
"""

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path

from erasable import SPMClassifier, load
from erasable.errors import RowIdError, StoreError
from models.toys import TINY, blobs, names

FORGOTTEN = names(3)
QUERIES = blobs(5, seed=9)[0]
_real_connect = sqlite3.connect


class Killer:
    """Counts steps and ends the process before a given one."""

    def __init__(self, last):
        self.left = last

    def step(self, *_):
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def arm(self):
        """Count every step from now on."""
        for name in ("fsync", "replace", "unlink"):
            self._count(os, name)

        class Counted(sqlite3.Connection):
            execute = self._counted(sqlite3.Connection.execute)
            executemany = self._counted(sqlite3.Connection.executemany)
            close = self._counted(sqlite3.Connection.close)

        def connect(*args, **options):
            db = _real_connect(*args, **options, factory=Counted)
            db.set_progress_handler(self.step, 400)
            return db

        sqlite3.connect = connect

    def _count(self, owner, name):
        setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call):
        def counted(*args, **options):
            self.step()
            return call(*args, **options)

        return counted


def first_model():
    """Return the model that the directories begin with."""
    X, y = blobs(12)
    return SPMClassifier(**TINY, epochs=0).fit(X, y, ids=names(12))


def other_model():
    """Return a model with other weights and other rows."""
    X, y = blobs(9, seed=4)
    return SPMClassifier(**{**TINY, "random_state": 1}, epochs=1).fit(X, y, ids=names(9, 500))


def forget(path):
    """Forget three rows and save."""
    model = load(path)
    model.forget(ids=FORGOTTEN)
    model.save(path)


def replace(path):
    """Put another model in the place of this one."""
    other_model().save(path, overwrite=True)


def begin(path):
    """Save a model where there is none."""
    other_model().save(path)


def describe(path):
    """Return what a directory loads as, or ``nothing``."""
    try:
        model = load(path)
    except StoreError as error:
        return "nothing" if "no config.json" in str(error) else f"damaged: {error}"
    state = b"".join(model.memory.canonical_state()) + model.predict_proba(QUERIES).tobytes()
    return f"{model.weights_digest} {hashlib.sha256(state).hexdigest()}"


def attempt(work, path, last):
    """Do the work in a process of its own; return whether it was killed, and whether it ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            Killer(last).arm()
            work(path)
            os.write(writer, b"done")
        finally:
            os._exit(0)
    os.close(writer)
    told = os.read(reader, 4)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status), told == b"done"


def refuses(path):
    """Tell whether a directory's model refuses a row that was forgotten."""
    try:
        load(path).remember([[9.0, 9.0, 9.0, 9.0]], ["a"], ids=FORGOTTEN[:1])
    except RowIdError:
        return True
    return False


def leftovers(path, rows):
    """Return the ids of rows of which some file still has a trace."""
    raw = b"".join(file.read_bytes() for file in path.iterdir())
    return [row for row, traces in rows.items() if any(trace in raw for trace in traces)]


def main(folder):
    """Try the steps of every kind of save and print one line of JSON per attempt."""
    start = folder / "start"
    first_model().save(start)
    rows = {
        row.id: (row.id.encode() + b"s:", row.embedding.tobytes())
        for row in load(start).memory.get(FORGOTTEN)
    }
    for work, begins in ((begin, None), (forget, start), (replace, start)):
        path = folder / work.__name__

        def reset(path=path, begins=begins):
            shutil.rmtree(path, ignore_errors=True)
            if begins:
                shutil.copytree(begins, path)

        reset()
        old = describe(path)
        work(path)
        new = describe(path)
        last, is_killed = 0, True
        while is_killed:
            reset()
            is_killed, is_done = attempt(work, path, last)
            found = describe(path)
            is_refused = found != old and refuses(path)
            if found == old:
                work(path)  # what was cut off can be done again
            else:
                model = load(path)
                model.forget(ids=[next(iter(model.memory)).id])
                model.save(path)
            line = {
                "work": work.__name__,
                "step": last,
                "killed": is_killed,
                "done": is_done,
                "state": "old" if found == old else "new" if found == new else found[:300],
                "refused": is_refused,
                "left": leftovers(path, rows),
                "files": sorted(file.name.split("-")[0] for file in path.iterdir()),
            }
            sys.stdout.write(json.dumps(line) + "\n")
            last += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
