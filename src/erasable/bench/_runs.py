"""Results of finished work on disk, so that a table that was interrupted goes on where it was."""

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from erasable.bench._machine import machine
from erasable.data import Dataset, Split
from erasable.errors import ArgumentError, StoreError
from erasable.files import parse_json, read_bounded, require_writable, write_atomically

_LONGEST = 2**28
FORMAT = "erasable.run.1"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """One finished piece of work.

    Attributes:
        settings: Plain values that define it.
        result: Plain values that it found.
        seconds: Wall time; of all attempts together if it was interrupted.
        machine: What it ran on, with versions and commit.
        time: When it was finished, UTC.
    """

    settings: dict[str, Any]
    result: dict[str, Any]
    seconds: float
    machine: str
    time: str


class Runs:
    """A folder of finished runs, one file each, named by a digest of its settings.

    Args:
        folder: The folder; created when needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._machine = machine()  # before anything is run, so that the commit is that of the code

    def run(self, settings: dict[str, Any], work: Callable[[Path], dict[str, Any]]) -> Run:
        """Return a finished run, or do the work and keep what it returns.

        Args:
            settings: Plain values that define the run.
            work: Takes a folder for its checkpoints, which is kept until the work is done; returns
                plain values.
        """
        path = self._path(settings)
        require_writable(self.folder)
        lock = path.with_suffix(".lock")
        with FileLock(lock):  # two of them would share the checkpoints
            done = self.find(settings) or self._do(settings, work)
            lock.unlink(missing_ok=True)  # whoever waits for it finds a finished run
        return done

    def _do(self, settings: dict[str, Any], work: Callable[[Path], dict[str, Any]]) -> Run:
        scratch = self._path(settings).with_suffix(".partial")
        require_writable(scratch)
        before = _seconds_before(scratch)
        start = time.perf_counter()
        try:
            result = work(scratch)
        finally:
            spent = before + time.perf_counter() - start
            write_atomically(scratch / "seconds", f"{spent:.3f}".encode())
        now = datetime.now(UTC).isoformat(timespec="seconds")
        done = Run(settings, result, spent, self._machine, now)
        text = json.dumps({"format": FORMAT, **vars(done)}, indent=2, sort_keys=True)
        write_atomically(self._path(settings), text.encode() + b"\n")
        shutil.rmtree(scratch, ignore_errors=True)
        return _parsed(text.encode())  # as it will be read next time

    def find(self, settings: dict[str, Any]) -> Run | None:
        """Return a finished run with exactly these settings, if there is one.

        Raises:
            StoreError: If its file is damaged.
        """
        path = self._path(settings)
        try:
            return _parsed(read_bounded(path, limit=_LONGEST))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(
                f"Expected a finished run in {path}, but it is damaged: {error}. Delete it to run "
                "it again."
            ) from error

    def place(self, folder: str, settings: dict[str, Any], ending: str = "") -> Path:
        """Return where something besides results is kept that some settings define.

        Args:
            folder: Name of a folder in that of the runs.
            settings: Plain values that define it.
            ending: End of the name.
        """
        return self.folder / folder / f"{_digest(settings)}{ending}"

    def _path(self, settings: dict[str, Any]) -> Path:
        return self.folder / f"{_digest(settings)}.json"


def _digest(settings: dict[str, Any]) -> str:
    try:
        text = json.dumps(settings, sort_keys=True)
    except TypeError as error:
        raise ArgumentError(f"Expected plain values as settings, but: {error}.") from error
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def data_settings(data: Dataset) -> dict[str, Any]:
    """Return what a run's settings say of a data set: everything but where it was fetched from."""
    return {name: value for name, value in data.record().items() if name != "source"}


def test_rows(data: Dataset) -> Split:
    """Return the test rows of a data set, which every table measures on.

    Raises:
        ArgumentError: If there are none.
    """
    if data.test is None:
        raise ArgumentError(f"Expected test rows in {data.name}, but there are none.")
    return data.test


def _parsed(text: bytes) -> Run:
    document = parse_json(text)
    if document.pop("format") != FORMAT:
        raise ValueError("another format")
    return Run(**document)


def _seconds_before(scratch: Path) -> float:
    """Return what earlier attempts took; of one that was killed only what it had noted."""
    try:
        return float((scratch / "seconds").read_text())
    except (OSError, ValueError):
        return 0.0
