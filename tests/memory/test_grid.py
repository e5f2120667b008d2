from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import ArgumentError
from erasable.memory import Grid, _grid
from erasable.memory._grid import LIMIT

BITS = st.integers(0, 20)


def rounded(value, bits=14, dtype=np.float64):
    return Grid(bits).round(np.array([[value]], dtype))[0][0, 0]


def grid_units(value, bits):
    """Return the multiple of the step nearest to a float, ties to even, in exact arithmetic."""
    return round(Fraction(value) * 2**bits)


@given(st.floats(allow_nan=False, allow_infinity=False), BITS)
def test_a_value_in_range_is_rounded_as_exact_fractions_are(value, bits):
    units = grid_units(value, bits)
    values, not_finite, too_large = Grid(bits).round(np.array([[value]]))
    expected = (Fraction(units, 2**bits), []) if abs(units) < LIMIT else (None, [0])
    found = None if too_large else Fraction(float(values[0, 0]))
    assert (found, too_large, not_finite) == (*expected, [])


@given(st.integers(-LIMIT + 1, LIMIT - 2), BITS)
def test_a_tie_goes_to_the_even_neighbour(units, bits):
    even = units + units % 2
    assert rounded((units + 0.5) * 2.0**-bits, bits) == even * 2.0**-bits


@given(st.floats(-64, 64, width=32), BITS)
def test_float32_and_float64_of_one_value_round_to_the_same_bits(value, bits):
    grid = Grid(bits)
    one = grid.round(np.array([[value]], np.float32))
    other = grid.round(np.array([[value]], np.float64))
    assert (one[0].tobytes(), one[1:]) == (other[0].tobytes(), other[1:])


@given(st.integers(-LIMIT + 1, LIMIT - 1), BITS)
def test_units_are_the_integers_the_values_are_multiples_of(units, bits):
    grid = Grid(bits)
    values, _, _ = grid.round(np.array([[units * grid.step]]))
    assert grid.units(values).tolist() == [[units]]


@given(st.floats(-63, 63))
def test_rounding_twice_changes_nothing(value):
    once = Grid().round(np.array([[value]]))[0]
    assert Grid().round(once)[0].tobytes() == once.tobytes()


def test_units_are_little_endian_int32():
    assert Grid(0).units(np.array([[-2.0]], np.float32)).tobytes() == b"\xfe\xff\xff\xff"


@pytest.mark.parametrize("value", [-0.0, -(2.0**-15), -1e-300])
def test_what_rounds_to_zero_has_no_sign(value):
    assert not np.signbit(rounded(value))


def test_rounded_values_are_float32():
    assert Grid().round(np.zeros((1, 1)))[0].dtype == np.float32


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_value_below_the_bound_is_accepted(sign):
    grid = Grid(14)
    assert rounded(sign * (grid.bound - grid.step)) == sign * (64 - 2.0**-14)


@pytest.mark.parametrize("value", [64.0, -64.0, 64 - 2.0**-15, 1e300])
def test_what_rounds_to_the_bound_or_beyond_is_out_of_range(value):
    assert Grid(14).round(np.array([[0.0], [value]]))[1:] == ([], [1])


def test_a_float32_that_overflows_in_units_is_out_of_range_not_infinite():
    assert Grid(20).round(np.array([[3e38]], np.float32))[1:] == ([], [0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_rows_are_reported_as_such_only(value):
    assert Grid().round(np.array([[0.0, 0.0], [0.0, value]]))[1:] == ([1], [])


def test_a_row_that_is_both_is_reported_as_not_finite():
    assert Grid().round(np.array([[np.nan, 100.0]]))[1:] == ([0], [])


def test_positions_count_from_the_first_row_across_chunks(monkeypatch):
    monkeypatch.setattr(_grid, "_CHUNK", 2)
    values = np.array([[0.0], [1.0], [2.0], [np.nan], [99.0]])
    assert Grid().round(values)[1:] == ([3], [4])


def test_chunks_do_not_change_values(monkeypatch):
    values = np.random.default_rng(0).normal(size=(7, 3))
    whole = Grid().round(values)[0]
    monkeypatch.setattr(_grid, "_CHUNK", 2)
    np.testing.assert_array_equal(Grid().round(values)[0], whole)


def test_no_rows_give_no_rows():
    assert Grid().round(np.zeros((0, 5)))[0].shape == (0, 5)


def test_the_default_grid_has_fourteen_bits():
    assert (Grid().bits, Grid().step, Grid().bound) == (14, 2.0**-14, 64.0)


@pytest.mark.parametrize("bits", [-1, 21, 1.0, True, "14", None])
def test_other_bits_are_refused(bits):
    with pytest.raises(ArgumentError, match=r"Expected grid bits to be an int in 0…20, but got "):
        Grid(bits)


@pytest.mark.parametrize("bits", [0, 20])
def test_the_outermost_bits_are_accepted(bits):
    assert Grid(bits).bound == 2.0 ** (20 - bits)
