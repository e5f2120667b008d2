import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import entropy, norm

from erasable.errors import ArgumentError
from erasable.metrics import klom, margins
from metrics.strategies import unhurried

SETS = np.random.default_rng(0).normal(size=(2, 30, 4))


def message_of(*args, **kwargs):
    with pytest.raises(ArgumentError) as caught:
        klom(*args, **kwargs)
    return str(caught.value)


@st.composite
def margin_sets(draw):
    """Draw margins of two sets of models, some beyond the limit."""
    rows = draw(st.integers(1, 4))
    values = st.one_of(
        st.floats(-3, 3), st.integers(-2, 2), st.sampled_from([-np.inf, np.inf, 500])
    )
    sizes = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    return tuple(draw(hnp.arrays(np.float64, (size, rows), elements=values)) for size in sizes)


def slow_klom(first, second, bins, smallest, clip=100.0):
    """Fill histograms one margin at a time."""
    first, second = ([min(max(v, -clip), clip) for v in part] for part in (first, second))
    low, high = min(*first, *second), max(*first, *second)
    p, q = [0.0] * bins, [0.0] * bins
    for part, histogram in ((first, p), (second, q)):
        for value in part:
            width = high - low
            place = 0 if width == 0 else int((value - low) / width * bins)
            histogram[min(place, bins - 1)] += 1 / len(part)
    q = [max(b, smallest) if a > 0 else b for a, b in zip(p, q, strict=True)]
    total = math.fsum(q)
    return math.fsum(a * math.log(a * total / b) for a, b in zip(p, q, strict=True) if a > 0)


@unhurried
@given(margin_sets(), st.integers(2, 20), st.sampled_from([1e-5, 0.1]))
def test_it_equals_a_loop_over_rows_and_models(sets, bins, smallest):
    found = klom(*sets, bins=bins, smallest=smallest).rows
    for row, (first, second) in enumerate(zip(sets[0].T, sets[1].T, strict=True)):
        assert found[row] == pytest.approx(slow_klom(first, second, bins, smallest), abs=1e-9)


def test_it_equals_numpy_histograms_and_entropy_of_scipy():
    found = klom(*SETS).rows
    for row in range(SETS.shape[2]):
        first, second = SETS[0, :, row], SETS[1, :, row]
        limits = min(first.min(), second.min()), max(first.max(), second.max())
        p, q = (np.histogram(part, 20, range=limits)[0] / 30 for part in (first, second))
        expected = entropy(p, np.where(p > 0, np.maximum(q, 1e-5), q))
        assert found[row] == pytest.approx(expected)


@pytest.mark.parametrize("shift", [0.5, 1.0])
def test_normal_margins_a_known_distance_apart_give_the_divergence_of_their_bins(shift):
    rng = np.random.default_rng(0)
    unlearned, oracle = shift + rng.normal(size=(20000, 20)), rng.normal(size=(20000, 20))
    # KL of two unit normals is shift²/2; binning takes away a little.
    found = klom(unlearned, oracle)
    assert found.mean == pytest.approx(shift**2 / 2, rel=0.1)
    edges = np.linspace(-4.1, 4.1 + shift, 21)
    p, q = (np.diff(norm.cdf(edges - mean)) for mean in (shift, 0.0))
    assert found.mean == pytest.approx(entropy(p, q), rel=0.05)


@unhurried
@given(margin_sets(), st.randoms(use_true_random=False))
def test_the_same_models_in_another_order_have_none(sets, random):
    order = list(range(len(sets[0])))
    random.shuffle(order)
    np.testing.assert_allclose(klom(sets[0], sets[0][order]).rows, 0.0, atol=1e-12)


@unhurried
@given(margin_sets())
def test_it_is_within_its_bounds(sets):
    rows = klom(*sets).rows
    assert (rows >= 0).all()
    assert (rows <= math.log1p(1e5) + 1e-9).all()


def test_sets_that_share_no_bin_reach_the_stated_maximum():
    found = klom(np.full((7, 1), 1.0), np.full((5, 1), 2.0))
    assert found.rows[0] == pytest.approx(math.log1p(1e5))


def test_a_class_without_rows_in_both_sets_has_none():
    assert klom(np.full((7, 1), -np.inf), np.full((5, 1), -np.inf)).mean == 0.0


def test_the_direction_is_that_of_the_unlearned_models():
    """Where oracles go and unlearned models do not costs little; the other way, much."""
    narrow, wide = np.zeros((50, 1)), np.linspace(-1, 1, 50)[:, None]
    assert klom(wide, narrow).mean > klom(narrow, wide).mean


def test_margins_beyond_the_limit_are_taken_as_the_limit():
    unlearned, oracle = np.array([[500.0], [-500.0]]), np.array([[100.0], [-100.0]])
    assert klom(unlearned, oracle).mean == 0.0
    assert klom(unlearned, oracle, clip=1000.0).mean > 0


@pytest.mark.parametrize(
    ("models", "floor"), [(100, 0.35), (200, 0.15), (500, 0.052), (1000, 0.024)]
)
def test_two_sets_of_one_distribution_give_the_documented_floor(models, floor):
    first, second = np.random.default_rng(0).normal(size=(2, models, 400))
    found = klom(first, second).mean
    assert found == pytest.approx(floor, rel=0.1)
    assert found > 19 / models  # above the first-order bias of 20 bins


def test_the_floor_is_that_of_the_second_oracles():
    rng = np.random.default_rng(0)
    unlearned, oracle, second = rng.normal(size=(3, 200, 30))
    found = klom(unlearned + 1, oracle, second_oracle=second)
    np.testing.assert_array_equal(found.floor.rows, klom(second, oracle).rows)
    assert found.mean > 3 * found.floor.mean
    assert klom(unlearned, oracle).floor is None


def test_the_summaries_are_those_of_the_rows():
    found = klom(*SETS)
    assert found.mean == pytest.approx(found.rows.sum() / 4)
    assert found.median == pytest.approx(np.sort(found.rows)[1:3].mean())
    assert found.percentile_95 == pytest.approx(np.quantile(found.rows, 0.95))


def test_log_probabilities_with_labels_give_the_same_as_their_margins():
    logs = torch.randn(3, 30, 4, 3, generator=torch.Generator().manual_seed(0)).log_softmax(dim=3)
    labels = torch.tensor([0, 1, 2, 0])
    found = klom(logs[0], logs[1], second_oracle=logs[2], labels=labels)
    first, second, third = (margins(part, labels=labels) for part in logs)
    np.testing.assert_array_equal(found.rows, klom(first, second).rows)
    np.testing.assert_array_equal(found.floor.rows, klom(third, second).rows)


@pytest.mark.parametrize("bins", [1, 20.0, True])
def test_fewer_than_two_bins_are_refused(bins):
    assert message_of(*SETS, bins=bins) == (
        f"klom(): Expected 'bins' to be an int of 2 or more, but got {bins!r}. Pass 20."
    )


@pytest.mark.parametrize("smallest", [0.0, 1.0, math.nan])
def test_a_smallest_probability_outside_zero_and_one_is_refused(smallest):
    assert message_of(*SETS, smallest=smallest) == (
        f"klom(): Expected 'smallest' to be between 0 and 1, but got {smallest!r}. "
        "Pass a value like 1e-5."
    )


@pytest.mark.parametrize("clip", [0.0, math.inf, math.nan])
def test_a_limit_that_is_none_is_refused(clip):
    assert message_of(*SETS, clip=clip) == (
        f"klom(): Expected 'clip' to be above 0 and finite, but got {clip!r}. "
        "Pass a value like 100."
    )


def test_a_second_set_of_oracles_on_other_rows_is_refused():
    assert "Expected 'second_oracle' to have shape (models, 4) to match 'unlearned'" in message_of(
        *SETS, second_oracle=SETS[0][:, :2]
    )
