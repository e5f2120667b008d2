"""Kill saves and report what is left: run as ``python crash_driver.py FOLDER SAMPLE``.

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
from erasable.models import change
from models.toys import TINY, blobs, names
from store.format_1 import save_as_format_1

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
        for name in ("fsync", "replace", "unlink", "mkdir"):
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


def change_and_forget(path):
    """Change a setting, forget three rows and save."""
    model = load(path)
    model.set_params(reduction="rows", temperature=2.0)
    model.forget(ids=FORGOTTEN)
    model.save(path)


def change_settings(path):
    """Change settings and save."""
    load(path).set_params(reduction="rows", temperature=2.0).save(path)


def forget_at_once(path):
    """Forget three rows as the command line does."""
    change(path, lambda model: model.forget(ids=FORGOTTEN))


def replace(path):
    """Put another model in the place of this one."""
    other_model().save(path, overwrite=True)


def begin(path):
    """Save a model where there is none."""
    other_model().save(path)


def upgrade(path):
    """Forget three rows of a model in the format before, and save it in this one."""
    forget(path)


def describe(path):
    """Return what a directory loads as, or ``nothing``."""
    try:
        model = load(path)
    except StoreError as error:
        return "nothing" if "not there, or empty" in str(error) else f"damaged: {error}"
    return outline(model)


def outline(model):
    """Return everything that a model answers from."""
    state = hashlib.sha256(b"".join(model.memory.canonical_state())).hexdigest()
    model.predict_proba(QUERIES)
    return f"{model.weights_digest} {state} {json.dumps(model.get_params(), sort_keys=True)}"


def replayed(path):
    """Return what a directory loads as once rows are forgotten that were only about to be."""
    model = load(path)
    model.forget(ids=FORGOTTEN)
    return outline(model)


def attempt(work, path, last):
    """Do the work in a process of its own; return whether it was killed, ended, and its steps."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            killer = Killer(last)
            killer.arm()
            work(path)
            os.write(writer, b"done %d" % (last - killer.left))
        finally:
            os._exit(0)
    os.close(writer)
    told = os.read(reader, 100).decode().split()
    os.close(reader)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status), bool(told), int(told[1]) if told else 0


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


WORKS = (begin, forget, change_settings, change_and_forget, forget_at_once, replace, upgrade)


def main(folder, sample):
    """Kill every kind of work before its steps; print one line of JSON per attempt.

    Args:
        folder: Where to work.
        sample: About how many kills to spread over the steps of all; 0 for every step.
    """
    starts = {"format_2": folder / "start", "format_1": folder / "start_1"}
    first_model().save(starts["format_2"])
    save_as_format_1(first_model(), starts["format_1"])
    keys = Path(os.environ["ERASABLE_KEYS"])
    shutil.copytree(keys, folder / "keys_at_start")
    live = load(starts["format_2"]).memory.get(FORGOTTEN)
    rows = {row.id: (row.id.encode() + b"s:", row.embedding.tobytes()) for row in live}
    for work in WORKS:
        start = starts["format_1" if work is upgrade else "format_2"]
        path = folder / work.__name__

        def reset(path=path, start=None if work is begin else start):
            for place, origin in ((path, start), (keys, folder / "keys_at_start")):
                shutil.rmtree(place, ignore_errors=True)
                if origin is not None:
                    shutil.copytree(origin, place)

        reset()
        states = {describe(path): "old"}
        if work is not begin:
            states[replayed(path)] = "replayed"
        _, _, steps = attempt(work, path, 10**9)
        states[describe(path)] = "new"
        kills = range(steps + 1)
        if sample:
            size = max(2, round(sample / len(WORKS)))
            kills = sorted({round(i * steps / (size - 1)) for i in range(size)})
        for last in kills:
            reset()
            is_killed, is_done, _ = attempt(work, path, last)
            found = describe(path)
            line = {
                "work": work.__name__,
                "step": last,
                "killed": is_killed,
                "done": is_done,
                "state": states.get(found, found[:300]),
                "settled": describe(path) == found,
                "refused": states.get(found) == "old" or refuses(path),
            }
            if states.get(found) == "old":
                work(path)  # what was cut off can be done again
            else:
                model = load(path)
                model.forget(ids=[next(iter(model.memory)).id])
                model.save(path)
            line["left"] = leftovers(path, rows)
            line["files"] = sorted(file.name.split("-")[0] for file in path.iterdir())
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
