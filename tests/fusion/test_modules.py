"""Fusion modules of the recursion."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import ArgumentError
from erasable.fusion import (
    DotProductFusion,
    FeatureFusion,
    PrototypesReduction,
    RowSet,
    RowsReduction,
    VoteFusion,
)
from fusion.references import arrays, dot, slow_softmax

CLOSE = {"rtol": 0, "atol": 1e-12}


@st.composite
def sets(draw):
    """Draw queries (queries, dim), rows (rows, dim) and their classes, below 3."""
    queries, rows, dim = (draw(st.integers(low, 5)) for low in (1, 2, 1))
    classes = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    return (
        torch.from_numpy(draw(arrays(queries, dim))),
        RowSet(torch.from_numpy(draw(arrays(rows, dim))), torch.tensor(classes), 3),
    )


def feature_fusion(dim, seed=0):
    """Return a feature fusion with weights of its own, in float64."""
    fusion = FeatureFusion(dim).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in fusion.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    return fusion


def slow_mixture(fusion, query, rows):
    """Mix rows by the softmax of ``(W_q z)ᵀ (W_k s) / √dim``."""
    W_q, W_k = fusion.scores.W_q.tolist(), fusion.scores.W_k.tolist()
    asked = [dot(line, query) for line in W_q]
    offered = [[dot(line, row) for line in W_k] for row in rows]
    weights = slow_softmax([dot(asked, key) / math.sqrt(len(query)) for key in offered])
    return [dot(weights, column) for column in zip(*rows, strict=True)]


@given(sets())
def test_a_mixture_of_features_equals_the_slow_loop(drawn):
    queries, rows = drawn
    fusion = feature_fusion(queries.shape[1])
    slow = [slow_mixture(fusion, query, rows.features.tolist()) for query in queries.tolist()]
    torch.testing.assert_close(fusion(queries, rows).tolist(), slow, rtol=0, atol=1e-9)


@given(sets())
def test_a_query_mixes_all_rows_but_its_own(drawn):
    _, rows = drawn
    fusion = feature_fusion(rows.features.shape[1])
    found = fusion(rows.features, rows, torch.arange(len(rows.features)))
    listed = rows.features.tolist()
    slow = [
        slow_mixture(fusion, query, listed[:place] + listed[place + 1 :])
        for place, query in enumerate(listed)
    ]
    torch.testing.assert_close(found.tolist(), slow, rtol=0, atol=1e-9)


@given(sets(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(drawn, random):
    queries, rows = drawn
    order = list(range(len(rows.features)))
    random.shuffle(order)
    shuffled = RowSet(rows.features[order], rows.classes[order], rows.count)
    fusion = feature_fusion(queries.shape[1])
    torch.testing.assert_close(fusion(queries, shuffled), fusion(queries, rows), **CLOSE)


@pytest.mark.parametrize("reduction", [RowsReduction(), PrototypesReduction()])
@given(drawn=sets())
def test_votes_are_the_reductions_reading(reduction, drawn):
    queries, rows = drawn
    scores = DotProductFusion(queries.shape[1]).double()
    found = VoteFusion(scores, reduction)(queries, rows)
    expected = reduction.fuse(scores(queries), rows.features, rows.classes, rows.count)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def vote(dim, **options):
    """Return the votes' scores as a matrix, with weights that are no identity."""
    fusion = VoteFusion(DotProductFusion(dim), RowsReduction(), **options).double()
    with torch.no_grad():
        fusion.scores.W_q.mul_(2).add_(0.5)
    return fusion


@given(sets())
def test_similarity_leaves_the_weights_out(drawn):
    queries, rows = drawn
    dim = queries.shape[1]
    plain = VoteFusion(DotProductFusion(dim), RowsReduction()).double()
    found = vote(dim, attention="similarity")(queries, rows)
    torch.testing.assert_close(found, plain(queries, rows), **CLOSE)


@given(sets(), st.floats(0.1, 10))
def test_the_temperature_divides_the_scores(drawn, temperature):
    queries, rows = drawn
    dim = queries.shape[1]
    found = vote(dim, temperature=temperature)(queries, rows)
    expected = vote(dim)(queries / temperature, rows)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_similarity_teaches_the_weights_nothing():
    fusion = VoteFusion(DotProductFusion(2), RowsReduction(), attention="similarity")
    rows = RowSet(torch.eye(2, requires_grad=True), torch.tensor([0, 1]), 2)
    fusion(torch.ones(1, 2), rows)[0, 0].backward()
    assert fusion.scores.W_q.grad is None


@pytest.mark.parametrize("name", ["learned", "", None])
def test_an_unknown_attention_is_refused_when_built(name):
    with pytest.raises(ArgumentError) as caught:
        VoteFusion(DotProductFusion(2), RowsReduction(), attention=name)
    assert str(caught.value) == f"Expected attention 'learnt', 'similarity', but got {name!r}."


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, True, "1"])
def test_a_temperature_that_divides_nothing_is_refused_when_built(value):
    with pytest.raises(ArgumentError, match=f"Expected a positive temperature, but got {value!r}"):
        VoteFusion(DotProductFusion(2), RowsReduction(), temperature=value)


def test_the_printed_form_tells_what_weights_do_not_show():
    shown = repr(vote(2, attention="similarity", temperature=2.0))
    assert "rows, similarity, temperature=2.0" in shown


def test_encoded_rows_keep_their_classes():
    rows = RowSet(torch.ones(2, 3), torch.tensor([1, 0]), 2)
    encoded = rows.encoded(torch.zeros(2, 5))
    assert encoded.features.shape == (2, 5)
    assert (encoded.classes is rows.classes, encoded.count) == (True, 2)
