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

from erasable.bench._machine import machine
from erasable.errors import StoreError
from erasable.files import require_writable, write_atomically

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

    def run(self, settings: dict[str, Any], work: Callable[[Path], dict[str, Any]]) -> Run:
        """Return a finished run, or do the work and keep what it returns.

        Args:
            settings: Plain values that define the run.
            work: Takes a folder for its checkpoints, which is kept until the work is done; returns
                plain values.
        """
        found = self.find(settings)
        if found is not None:
            return found
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
        done = Run(settings, result, spent, machine(), now)
        document = {"format": FORMAT, **vars(done)}
        text = json.dumps(document, indent=2, sort_keys=True, allow_nan=True)
        write_atomically(self._path(settings), text.encode() + b"\n")
        shutil.rmtree(scratch, ignore_errors=True)
        return Run(**json.loads(json.dumps(vars(done))))  # as it will be read next time

    def find(self, settings: dict[str, Any]) -> Run | None:
        """Return a finished run with exactly these settings, if there is one.

        Raises:
            StoreError: If its file is damaged.
        """
        path = self._path(settings)
        try:
            document = json.loads(path.read_bytes())
            if document.pop("format") != FORMAT:
                raise ValueError("another format")
            return Run(**document)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"Expected a finished run in {path}, but it is damaged: {error}. Delete it to run "
                "it again."
            ) from error

    def _path(self, settings: dict[str, Any]) -> Path:
        text = json.dumps(settings, sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def _seconds_before(scratch: Path) -> float:
    """Return what earlier attempts took; of one that was killed only what it had noted."""
    try:
        return float((scratch / "seconds").read_text())
    except (OSError, ValueError):
        return 0.0
