"""Smaller images of the same rows."""

import numpy as np
import pytest

from erasable.data import Dataset, Split, in_bytes, shrunk
from erasable.errors import ArgumentError


def dataset(images, **options):
    rows = Split(images, np.arange(len(images)), list(range(len(images))))
    return Dataset("toy", rows, rows, source="here", **options)


def test_halving_averages_squares():
    images = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4)
    found = shrunk(dataset(images), 2)
    expected = [[[2.5, 4.5], [10.5, 12.5]], [[18.5, 20.5], [26.5, 28.5]]]
    np.testing.assert_array_equal(found.train.X, np.round(expected))
    assert found.train.ids == [0, 1]
    assert "2 × 2" in found.name


def test_what_is_no_multiple_is_padded_around():
    images = np.full((1, 28, 28), 100, np.uint8)
    found = shrunk(dataset(images), 16).train.X[0]
    assert found.shape == (16, 16)
    assert found[1:15, 1:15].min() == 100
    assert found[0].max() == 0


def test_colours_are_averaged_each():
    images = np.zeros((1, 4, 4, 3), np.uint8)
    images[..., 1] = 200
    assert shrunk(dataset(images), 2).train.X[0, 0, 0].tolist() == [0, 200, 0]


def test_numbers_become_bytes():
    images = np.array([[[0.0, 1.0], [0.5, 0.25]]], np.float32)
    assert in_bytes(dataset(images)).train.X.tolist() == [[[0, 255], [128, 64]]]
    as_they_are = np.zeros((1, 2, 2), np.uint8)
    assert in_bytes(dataset(as_they_are)).train.X is as_they_are


@pytest.mark.parametrize("side", [0, 9, 2.0])
def test_an_impossible_side_is_refused(side):
    with pytest.raises(ArgumentError, match="side of 1 to 8"):
        shrunk(dataset(np.zeros((1, 8, 8), np.uint8)), side)


def test_what_is_no_image_is_refused():
    with pytest.raises(ArgumentError, match="images of bytes"):
        shrunk(dataset(np.zeros((2, 5), np.float32)), 2)
    with pytest.raises(ArgumentError, match="from 0 to 1"):
        in_bytes(dataset(np.full((1, 2, 2), 7.0, np.float32)))
