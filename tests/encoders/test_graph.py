"""Graph attention among rows of a class."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from erasable.encoders import GraphAttention, SetEncoder, build_set_encoder
from erasable.encoders._graph import class_graph
from erasable.errors import ArgumentError


def encoder(dim=4, *, heads=2, neighbours=3, seed=0):
    """Return an encoder with weights, in float64, so that rows hear something."""
    built = GraphAttention(dim, heads=heads, neighbours=neighbours).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in built.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    return built


def rows(count=9, dim=4, *, classes=2, seed=1):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, dim, generator=generator, dtype=torch.float64)
    return features, torch.arange(count) % classes


def slow_graph(features, classes, k):
    """Return each row's nearest other rows of its class, nearest first."""
    found = []
    for here, row in enumerate(features.tolist()):
        others = [
            (math.dist(row, other), place)
            for place, other in enumerate(features.tolist())
            if place != here and classes[place] == classes[here]
        ]
        found.append([place for _, place in sorted(others)[:k]])
    return found


def slow_attend(network, features, classes):
    """Encode row by row, head by head."""
    graph = slow_graph(features, classes, network.neighbours)
    encoded = []
    for row, mine in zip(features, graph, strict=True):
        heard = []
        for head, score in enumerate(network.score):
            part = slice(head * len(score), (head + 1) * len(score))
            received = network.receive(row)[part]
            sent = [network.send(features[other])[part] for other in mine]
            raised = [
                torch.nn.functional.leaky_relu(message + received, 0.2) @ score for message in sent
            ]
            total = sum(value.exp() for value in raised)
            heard.append(
                sum(
                    (
                        value.exp() / total * message
                        for value, message in zip(raised, sent, strict=True)
                    ),
                    torch.zeros_like(score),
                )
            )
        mixed = row + network.output(torch.cat(heard))
        encoded.append((mixed - mixed.mean()) / (mixed.var(correction=0) + 1e-5).sqrt())
    return torch.stack(encoded)


@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 4), st.integers(0, 99))
def test_attention_equals_the_slow_loop(count, classes, k, seed):
    network = encoder(neighbours=k, seed=seed)
    features, places = rows(count, classes=classes, seed=seed)
    torch.testing.assert_close(
        network(features, places), slow_attend(network, features, places), rtol=0, atol=1e-10
    )


@given(st.permutations(range(9)))
def test_rows_in_another_order_are_encoded_in_that_order(order):
    features, classes = rows()
    shuffled = encoder()(features[order], classes[order])
    torch.testing.assert_close(shuffled, encoder()(features, classes)[order], rtol=0, atol=1e-12)


def test_a_row_without_neighbours_is_only_normalised():
    features, _ = rows(3)
    encoded = encoder()(features, torch.tensor([0, 1, 2]))
    expected = torch.nn.functional.layer_norm(features, (4,))
    torch.testing.assert_close(encoded, expected, rtol=0, atol=1e-12)


def test_a_single_row_is_only_normalised():
    features, classes = rows(1)
    expected = torch.nn.functional.layer_norm(features, (4,))
    torch.testing.assert_close(encoder()(features, classes), expected, rtol=0, atol=1e-12)


def test_rows_without_room_for_neighbours_are_only_normalised():
    features, _ = rows(3)
    encoded = encoder().attend(features, features.new_zeros(3, 0, 4), torch.zeros(3, 0).bool())
    torch.testing.assert_close(encoded, torch.nn.functional.layer_norm(features, (4,)))


def test_no_rows_are_encoded_as_no_rows():
    assert encoder()(*rows(0)).shape == (0, 4)


def test_rows_of_other_classes_are_not_heard():
    features, classes = rows()
    changed = features.clone()
    changed[classes == 1] += 1
    before, after = encoder()(features, classes), encoder()(changed, classes)
    torch.testing.assert_close(after[classes == 0], before[classes == 0], rtol=0, atol=0)


def test_a_row_depends_on_its_neighbours_and_on_no_other_row():
    features, classes = rows()
    features.requires_grad_(True)
    encoded = encoder(neighbours=2)(features, classes)
    for place, mine in enumerate(slow_graph(features, classes, 2)):
        (gradient,) = torch.autograd.grad(encoded[place].pow(3).sum(), features, retain_graph=True)
        heard = {other for other in range(9) if gradient[other].abs().max() > 0}
        assert heard == {place, *mine}


def test_gradients_are_those_of_finite_differences():
    features, classes = rows(6)
    network = encoder()
    assert torch.autograd.gradcheck(lambda x: network(x, classes), features.requires_grad_(True))


def test_a_lonely_row_leaves_no_nan_in_the_gradient():
    features, classes = rows(3, classes=2)
    network = encoder()
    network(features.requires_grad_(True), classes).pow(3).sum().backward()
    gradients = [features.grad, *(weight.grad for weight in network.parameters())]
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_huge_scores_do_not_overflow():
    features, classes = rows()
    assert encoder()(1e4 * features, classes).isfinite().all()


def test_an_untrained_encoder_only_normalises():
    features, classes = rows()
    untrained = GraphAttention(4).double()
    expected = torch.nn.functional.layer_norm(features, (4,))
    torch.testing.assert_close(untrained(features, classes), expected)


def test_an_untrained_encoder_can_learn():
    features, classes = rows()
    untrained = GraphAttention(4).double()
    untrained(features, classes).pow(3).sum().backward()
    assert untrained.output.weight.grad.abs().max() > 0


def test_heads_must_share_the_embedding():
    with pytest.raises(ArgumentError) as caught:
        GraphAttention(6, heads=4)
    expected = "Expected an embedding whose size 4 heads can share, but got 6."
    assert str(caught.value) == expected


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 12), st.integers(0, 99))
def test_the_graph_of_a_batch_equals_the_slow_one(count, classes, k, seed):
    features, places = rows(count, classes=classes, seed=seed)
    found = class_graph(features, places, k)
    assert [[p for p in row if p >= 0] for row in found.tolist()] == slow_graph(features, places, k)


# -- by name ---------------------------------------------------------------------------------------


def test_a_set_encoder_is_found_by_its_name():
    built = build_set_encoder("graph", 8)
    assert isinstance(built, GraphAttention)
    assert isinstance(built, SetEncoder)


def test_no_set_encoder_is_called_none():
    assert build_set_encoder("none", 8) is None


def test_an_unknown_set_encoder_is_refused_with_the_known_names():
    with pytest.raises(ArgumentError) as caught:
        build_set_encoder("gnn", 8)
    assert str(caught.value) == "Expected set_encoder to be 'none', 'graph', but got 'gnn'."


def test_the_seed_decides_the_first_weights():
    first, same, other = (build_set_encoder("graph", 8, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.send.weight, same.send.weight)
    assert not torch.equal(first.send.weight, other.send.weight)


def test_building_leaves_the_callers_random_state():
    before = torch.get_rng_state()
    build_set_encoder("graph", 8, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
