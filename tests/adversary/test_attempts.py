"""No attempt gets more than it must."""

import importlib
import pkgutil
from pathlib import Path

import pytest

import adversary
from adversary.attempts import ATTEMPTS, Attempt

for _module in pkgutil.iter_modules(adversary.__path__):
    if not _module.name.startswith(("test_", "attempts", "__")):
        importlib.import_module(f"adversary.{_module.name}")


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(one, id=one.name, marks=[pytest.mark.slow] if one.is_slow else [])
        for one in ATTEMPTS
    ],
)
def test_the_attempt_gets_no_more_than_it_must(attempt: Attempt, tmp_path: Path) -> None:
    assert attempt.run(tmp_path) == attempt.now, attempt.story


def test_no_attempt_has_the_name_of_another() -> None:
    names = [attempt.name for attempt in ATTEMPTS]

    assert sorted(names) == sorted(set(names))
