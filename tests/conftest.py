"""What every test runs under: keys far from the user's home, and one hypothesis profile."""

import itertools
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from erasable.memory import keyring

_folder = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
_patch = pytest.StashKey[pytest.MonkeyPatch]()
_number = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    """Point the whole run, doctests of the package included, at a folder that goes away."""
    config.stash[_folder] = tempfile.TemporaryDirectory(prefix="erasable-keys-")
    config.stash[_patch] = pytest.MonkeyPatch()
    config.stash[_patch].setenv("ERASABLE_KEYS", str(Path(config.stash[_folder].name) / "run"))
    settings.register_profile(
        "erasable",
        deadline=None,
        max_examples=40,
        derandomize=os.environ.get("CI") == "true",
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("erasable")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Put the environment back and delete the folder."""
    config.stash[_patch].undo()
    config.stash[_folder].cleanup()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Give each test its own (not yet existing) keys folder and a process without keys."""
    folder = Path(request.config.stash[_folder].name) / f"test-{next(_number)}"
    monkeypatch.setenv("ERASABLE_KEYS", str(folder))
    monkeypatch.setattr(keyring, "_known", {})
    monkeypatch.setattr(keyring, "_active", None)
    return folder
