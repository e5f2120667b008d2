"""How figures are written, and pictures of very few things."""

from dataclasses import fields, replace

import numpy as np
import pytest

from erasable.bench import Gaps
from erasable.bench._demo import GalleryItem, Line
from erasable.bench._figures import data_url, gallery_figure
from erasable.bench._table import HEADER, cells, times

ZERO = Gaps(**{field.name: 0.0 for field in fields(Gaps)})
LINE = Line(
    scenario="class 3",
    model="SPM",
    level="memory",
    gaps=[replace(ZERO, prediction_gap=0.01, ua=0.5), replace(ZERO, prediction_gap=0.02, ua=0.7)],
    floor=replace(ZERO, prediction_gap=0.005, kl_unlearned_oracle=0.25),
    seconds=0.0123,
    seconds_reencoding=0.5,
    retrain_seconds=2.0,
)


def test_a_line_has_a_cell_per_heading():
    assert len(cells(LINE)) == len(HEADER)


def test_gaps_are_means_in_percent_beside_their_floor():
    assert cells(LINE)[2] == "1.50 [0.50]"


def test_divergences_are_in_nats():
    assert cells(LINE)[3] == "0.000 [0.250]"


def test_accuracies_come_with_the_models_own_value():
    assert cells(LINE)[5] == "0.00 [0.00] (60.0)"


def test_a_line_without_a_floor_shows_none():
    assert cells(replace(LINE, floor=None))[2] == "1.50"


def test_the_level_is_in_the_line():
    assert cells(LINE)[:2] == ["SPM", "memory"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "forget 12.3 ms, with re-encoding 0.50 s, retraining 2.00 s"),
        ({"floor": None}, "forget 12.3 ms, with re-encoding 0.50 s, rebuilding 2.00 s"),
        ({"seconds": None}, "retraining 2.00 s"),
    ],
)
def test_times_say_what_they_are_of(changes, text):
    assert times(replace(LINE, **changes)) == text


@pytest.mark.parametrize("count", [1, 2])
def test_a_gallery_may_have_a_single_query(count):
    votes = [(np.zeros((8, 8), np.float32), "digits/1", 0.5, True)]
    png = gallery_figure([GalleryItem(np.zeros((8, 8), np.float32), 3, votes, votes)] * count)
    assert data_url(png).startswith("data:image/png;base64,iVBOR")
