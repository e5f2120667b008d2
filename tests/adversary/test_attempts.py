"""No attempt gets more than it must."""

from pathlib import Path

import pytest

from adversary.attempts import ATTEMPTS, Attempt, load_areas, table

load_areas()
PAGE = Path(__file__).parents[2] / "docs" / "adversary.md"


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


def test_the_page_lists_every_attempt() -> None:
    assert PAGE.read_text().endswith(table()), "run: make adversary-page"
