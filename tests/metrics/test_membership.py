"""Membership attacks on predictions whose answer is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import ArgumentError
from erasable.metrics import membership
from erasable.metrics.functional._membership import ATTACKS, SCORES

CLASSES = 5


def predictions(count, sharpness, seed):
    """Return predictions that are the surer of the true class the sharper they are."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    logits = rng.normal(size=(count, CLASSES))
    logits[np.arange(count), labels] += sharpness
    exp = np.exp(logits)
    return exp / exp.sum(1, keepdims=True), labels


def ask(attack, forget, fresh):
    known = {"retain": predictions(500, 6, 10), "other": predictions(500, 2, 11)}
    return membership(attack, forget=forget, fresh=fresh, **known)


@pytest.mark.parametrize("attack", ATTACKS)
def test_rows_that_look_trained_on_are_found(attack):
    found = ask(attack, predictions(400, 6, 0), predictions(400, 2, 1))
    assert found.auc > 0.85
    assert found.tpr > 0.02
    assert found.advantage == pytest.approx(found.auc - 0.5)


@pytest.mark.parametrize("attack", ATTACKS)
def test_rows_that_look_fresh_are_not(attack):
    found = ask(attack, predictions(2000, 2, 0), predictions(2000, 2, 1))
    assert found.auc == pytest.approx(0.5, abs=0.03)
    assert found.tpr == pytest.approx(0.01, abs=0.015)


@pytest.mark.parametrize("attack", list(SCORES))
def test_rows_that_look_less_familiar_than_fresh_ones_are_given_away_below_one_half(attack):
    found = ask(attack, predictions(400, 0, 0), predictions(400, 3, 1))
    assert found.auc < 0.4
    assert found.advantage == pytest.approx(0.5 - found.auc)


@pytest.mark.parametrize("attack", list(SCORES))
def test_the_same_rows_are_a_toss(attack):
    rows = predictions(150, 2, 0)
    assert membership(attack, forget=rows, fresh=rows).auc == 0.5


def test_few_fresh_rows_have_no_rate():
    found = membership("entropy", forget=predictions(50, 2, 0), fresh=predictions(50, 2, 1))
    assert math.isnan(found.tpr)


def test_a_seed_decides_what_the_machine_learns_from():
    many = {"retain": predictions(2500, 4, 10), "other": predictions(2500, 2, 11)}
    rows = {"forget": predictions(100, 3, 0), "fresh": predictions(100, 2, 1)}
    first, again, other = (membership("svc", **rows, **many, seed=seed) for seed in (0, 0, 1))
    assert first.auc == again.auc
    assert first.auc != other.auc


# -- the scores -----------------------------------------------------------------------------------


@st.composite
def rows(draw):
    raw = draw(st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(sum))
    p = np.array(raw, float) / sum(raw)
    return p, draw(st.integers(0, 2))


def slow_modified_entropy(p, y):
    """Song and Mittal 2021, equation by equation, with the published floor."""
    log = lambda x: math.log(max(x, 1e-30))  # noqa: E731
    others = sum(p[i] * log(1 - p[i]) for i in range(len(p)) if i != y)
    return -(1 - p[y]) * log(p[y]) - others


@given(rows())
def test_scores_are_those_of_their_formulas(row):
    p, y = row
    one, label = p[None], np.array([y])
    entropy = -sum(x * math.log(x) for x in p if x)
    assert SCORES["confidence"](one, label)[0] == p[y]
    assert SCORES["entropy"](one, label)[0] == pytest.approx(-entropy)
    assert SCORES["modified_entropy"](one, label)[0] == pytest.approx(-slow_modified_entropy(p, y))


@given(rows())
def test_certainty_of_the_truth_looks_most_like_training(row):
    p, y = row
    sure = np.eye(3)[[y]]
    for score in SCORES.values():
        assert score(sure, np.array([y]))[0] >= score(p[None], np.array([y]))[0] - 1e-12


def test_bad_requests_are_refused():
    rows_ = predictions(5, 1, 0)
    with pytest.raises(ArgumentError, match="Expected attack 'confidence'"):
        membership("odd", forget=rows_, fresh=rows_)
    with pytest.raises(ArgumentError, match="retain and other"):
        membership("svc", forget=rows_, fresh=rows_)
    with pytest.raises(ArgumentError, match="'forget' to sum to 1"):
        membership("entropy", forget=(rows_[0] * 2, rows_[1]), fresh=rows_)
    with pytest.raises(ArgumentError, match="'labels'"):
        membership("entropy", forget=rows_, fresh=(rows_[0], rows_[1] + 9))
