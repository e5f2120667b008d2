import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import ArgumentError
from erasable.fusion import (
    PLAIN,
    DotProductFusion,
    aggregate,
    log_aggregate,
    scale_factor,
    vote_weights,
)
from fusion.references import arrays, dot, slow_softmax

INF = math.inf


@st.composite
def random_fusions(draw, scale):
    """Draw a fusion with random weights, a query and rows, all float64."""
    dim, count = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    fusion = DotProductFusion(dim, scale=scale).double()
    with torch.no_grad():
        fusion.W_q.copy_(torch.from_numpy(draw(arrays(dim, dim, bound=1))))
        fusion.W_k.copy_(torch.from_numpy(draw(arrays(dim, dim, bound=1))))
    return fusion, draw(arrays(2, dim)), draw(arrays(count, dim))


def paper_scores(fusion, query, rows):
    """Return (W_q z)ᵀ (W_k s) of one query z and each row s."""

    def project(matrix, vector):
        return [dot(row, vector) for row in matrix.tolist()]

    return [dot(project(fusion.W_q, query), project(fusion.W_k, row)) for row in rows]


@given(random_fusions(scale="none"))
def test_votes_are_the_papers_softmax(drawn):
    fusion, queries, rows = drawn
    weights = vote_weights(fusion(torch.from_numpy(queries)) @ torch.from_numpy(rows).T)
    expected = [slow_softmax(paper_scores(fusion, query, rows)) for query in queries]
    assert weights.tolist() == [pytest.approx(row, abs=1e-12) for row in expected]


@given(random_fusions(scale=0.25))
def test_the_scale_multiplies_the_scores(drawn):
    fusion, queries, rows = drawn
    scores = fusion(torch.from_numpy(queries)) @ torch.from_numpy(rows).T
    expected = [[0.25 * s for s in paper_scores(fusion, query, rows)] for query in queries]
    assert scores.tolist() == [pytest.approx(row, abs=1e-10) for row in expected]


@given(drawn=random_fusions(scale="sqrt"), attention=st.sampled_from(["learnt", "plain"]))
def test_scores_are_the_same_whichever_side_is_projected(drawn, attention):
    fusion, queries, rows = drawn
    rule = fusion.attention().evaluation() if attention == "learnt" else PLAIN
    queries, rows = torch.from_numpy(queries), torch.from_numpy(rows)
    one_by_one = torch.cat([rule.scores(query[None], rows) for query in queries])
    row_by_row = torch.cat([rule.scores(queries, row[None]) for row in rows], dim=1)
    assert one_by_one.tolist() == [pytest.approx(r, abs=1e-10) for r in row_by_row.tolist()]
    assert rule.scores(queries, rows).tolist() == [
        pytest.approx(r, abs=1e-10) for r in one_by_one.tolist()
    ]


def test_evaluation_is_in_float64_and_leaves_the_weights_as_they_are():
    fusion = DotProductFusion(2)
    rule = fusion.attention().evaluation()
    assert rule.W_q.dtype == rule.W_k.dtype == torch.float64
    assert not rule.W_q.requires_grad
    assert fusion.W_q.dtype == torch.float32


@given(arrays(3, 4))
def test_an_untrained_fusion_is_plain_similarity(queries):
    assert DotProductFusion(4, scale=1.0)(torch.from_numpy(queries)).tolist() == queries.tolist()


@given(arrays(3, 4))
def test_without_a_factor_the_first_scores_are_those_with_one(queries):
    found, usual = (DotProductFusion(4, scale=scale) for scale in ("none", "sqrt"))
    rows = torch.from_numpy(queries)
    torch.testing.assert_close(found(rows), usual(rows))
    assert (found.factor, found.rate) == (1.0, pytest.approx(0.5))


def test_the_weights_are_read_in_the_dtype_of_the_queries():
    assert DotProductFusion(2)(torch.ones(1, 2, dtype=torch.float64)).dtype == torch.float64


def test_both_weights_learn():
    fusion = DotProductFusion(2)
    fusion(torch.ones(1, 2)).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in fusion.parameters())


@pytest.mark.parametrize(
    ("scale", "expected"),
    [("sqrt", 0.25), ("none", 1.0), (3, 3.0), (0.5, 0.5), (np.float32(0.5), 0.5)],
)
def test_scale_factor_of(scale, expected):
    assert scale_factor(scale, 16) == expected


@pytest.mark.parametrize("scale", ["root", 0, -1.0, True, math.nan, math.inf, None])
def test_scale_factor_refuses(scale):
    message = f"Expected scale 'sqrt', 'none' or a positive number, but got {scale!r}."
    with pytest.raises(ArgumentError) as caught:
        scale_factor(scale, 16)
    assert str(caught.value) == message


@st.composite
def scored(draw, min_rows=1):
    """Draw scores (some −inf, but never a whole row of them), classes and their number."""
    rows, count = draw(st.integers(min_rows, 7)), draw(st.integers(1, 4))
    scores = draw(arrays(draw(st.integers(1, 3)), rows, bound=30))
    hidden = draw(st.lists(st.booleans(), min_size=scores.size, max_size=scores.size))
    hidden = np.array(hidden).reshape(scores.shape)
    hidden[:, draw(st.integers(0, rows - 1))] = False
    places = draw(st.lists(st.integers(0, count - 1), min_size=rows, max_size=rows))
    return (
        torch.from_numpy(np.where(hidden, -np.inf, scores)),
        torch.tensor(places),
        count,
    )


@given(scored())
def test_vote_weights_sum_to_one(drawn):
    scores, _, _ = drawn
    assert vote_weights(scores).sum(1).tolist() == pytest.approx([1.0] * len(scores), abs=1e-12)


@given(scored())
def test_vote_weights_are_the_softmax_of_the_scores(drawn):
    scores, _, _ = drawn
    expected = [pytest.approx(slow_softmax(row), abs=1e-12) for row in scores.tolist()]
    assert vote_weights(scores).tolist() == expected


def test_a_row_of_score_minus_infinity_has_exactly_no_weight():
    assert vote_weights(torch.tensor([[1.0, -INF, 2.0]]))[0, 1] == 0


@given(scored())
def test_aggregate_adds_up_the_weights_of_each_class(drawn):
    scores, places, count = drawn
    weights = scores.exp()
    expected = [
        [math.fsum(w for w, p in zip(row, places, strict=True) if p == c) for c in range(count)]
        for row in weights.tolist()
    ]
    got = aggregate(weights, places, count).tolist()
    assert got == [pytest.approx(row, rel=1e-12) for row in expected]


@given(scored())
def test_log_aggregate_is_the_log_of_the_aggregated_votes(drawn):
    scores, places, count = drawn
    expected = aggregate(vote_weights(scores), places, count).log()
    torch.testing.assert_close(log_aggregate(scores, places, count), expected)


def test_a_class_far_below_the_others_keeps_its_log():
    logs = log_aggregate(torch.tensor([[0.0, -5000.0]]), torch.tensor([0, 1]), 2)
    assert logs.tolist() == [[0.0, -5000.0]]


def test_large_scores_do_not_overflow():
    scores = torch.tensor([[5000.0, 5000.0, 4999.0]], dtype=torch.float64)
    logs = log_aggregate(scores, torch.tensor([0, 1, 1]), 2)
    expected = [-math.log(2 + math.exp(-1)), math.log((1 + math.exp(-1)) / (2 + math.exp(-1)))]
    assert logs[0].tolist() == pytest.approx(expected, abs=1e-11)


def test_a_class_without_rows_gets_minus_infinity():
    assert log_aggregate(torch.zeros(1, 2), torch.tensor([0, 2]), 3)[0, 1] == -INF


def test_a_class_whose_rows_are_all_hidden_gets_minus_infinity():
    assert log_aggregate(torch.tensor([[0.0, -INF]]), torch.tensor([0, 1]), 2)[0, 1] == -INF


@pytest.mark.parametrize("place", [0, 1])
def test_a_nan_score_is_not_taken_for_a_missing_class(place):
    logs = log_aggregate(torch.tensor([[math.nan, 1.0]]), torch.tensor([0, 1]), 2)
    assert logs[0, place].isnan()


@given(scored(min_rows=2))
def test_hidden_rows_leave_no_nan_in_the_gradient(drawn):
    scores, places, count = drawn
    scores.requires_grad_(True)
    logs = log_aggregate(scores, places, count)
    logs[logs.isfinite()].sum().backward()
    assert scores.grad.isfinite().all()


def test_gradients_of_log_aggregate_are_those_of_finite_differences():
    rng = np.random.default_rng(0)
    scores = torch.from_numpy(rng.normal(size=(3, 6))).requires_grad_(True)
    hidden = torch.eye(3, 6, dtype=torch.bool)
    places = torch.tensor([0, 1, 1, 2, 2, 2])

    def finite_part(leaf):
        logs = log_aggregate(leaf.masked_fill(hidden, -INF), places, 4)
        return logs[logs != -INF]

    assert torch.autograd.gradcheck(finite_part, scores)
