"""Differences between lines of a table."""

import math
from dataclasses import replace

import pytest

from erasable.bench._grid import Found
from erasable.bench._paired import Difference, difference
from erasable.bench._runs import Run

OWN, OTHER = ("spm", "deletion"), ("parametric", "salun")


def run(rule, seed, gap):
    result = {"compare": {"test": {"prediction_gap": gap}}}
    return Run({"rule": rule, "seed": seed}, result, 0.0, "", "")


def floor(rule, *gaps):
    pairs = [{"test": {"prediction_gap": gap}} for gap in gaps]
    return Run({"rule": rule}, {"pairs": pairs}, 0.0, "", "")


@pytest.fixture
def found():
    """Return two classes with two seeds: points beyond floors are 2, 3 and 2, 2 against 2 and 3."""
    return Found(
        cells={
            OWN: [run("a", 0, 0.03), run("a", 1, 0.04), run("b", 0, 0.04), run("b", 1, 0.04)],
            OTHER: [run(rule, seed, 0.05) for rule in "ab" for seed in (0, 1)],
        },
        floors={
            "spm": [floor("a", 0.01, 0.01), floor("b", 0.01, 0.03)],
            "parametric": [floor("a", 0.03), floor("b", 0.02)],
        },
    )


def test_differences_are_of_gaps_beyond_the_floor_of_each_kind(found):
    made = difference(found, OWN, OTHER)
    assert made.values == pytest.approx((0.005, -0.01))
    assert (made.is_by_seed, made.nearer, made.count) == (False, 1, 2)
    assert made.mean == pytest.approx(-0.0025)
    assert made.error == pytest.approx(0.0075)


def test_the_other_way_round_is_the_opposite(found):
    one, other = difference(found, OWN, OTHER), difference(found, OTHER, OWN)
    assert one.values == pytest.approx([-value for value in other.values])


def test_of_one_scenario_seeds_are_compared(found):
    found.cells = {key: runs[:2] for key, runs in found.cells.items()}
    made = difference(found, OWN, OTHER)
    assert made.values == pytest.approx((0.0, 0.01))
    assert made.is_by_seed


def test_cells_without_a_score_are_left_out(found):
    found.cells[OWN][0] = replace(found.cells[OWN][0], result={"failed": "diverged"})
    assert difference(found, OWN, OTHER).values == pytest.approx((0.01, -0.01))
    found.cells[OWN] = []
    assert difference(found, OWN, OTHER) is None


def test_one_difference_has_no_error():
    alone = Difference((0.02,), is_by_seed=True)
    assert math.isnan(alone.error)
    assert alone.text() == "+2.00 points (nearer in 0 of 1)"
