"""The recursion of two branches, and the classifier's network as an instance of it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from erasable.encoders import GraphAttention, build_encoder, build_set_encoder
from erasable.errors import ArgumentError
from erasable.fusion import (
    DotProductFusion,
    FeatureFusion,
    RowSet,
    RowsReduction,
    VoteFusion,
    vote_weights,
)
from erasable.models import Layer, SemiParametric
from erasable.models._networks import EmbeddingNorm, SPMNetwork


def rows_of(count=6, dim=4, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, dim, generator=generator, dtype=torch.float64)
    return RowSet(features, torch.arange(count) % 2, 2)


def two_layers(seed=0):
    """Return a map, a layer that mixes features with maps of its own, and votes; in float64."""
    torch.manual_seed(seed)
    first = nn.Sequential(nn.Linear(4, 5), nn.Tanh())
    second = Layer(nn.Linear(5, 3), g=FeatureFusion(5), h=nn.Linear(5, 3))
    votes = Layer(g=VoteFusion(DotProductFusion(3), RowsReduction()), h=None)
    return SemiParametric([Layer(first), second, votes]).double().eval()


def slow(model, queries, rows, own=None):
    """Write the recursion out: ``z ← f(g(z, S))``, ``S ← h(S)``."""
    first, second, votes = model.layers
    z, S = first.f(queries), first.f(rows.features)
    mixed = []
    for place, query in enumerate(z):
        others = [i for i in range(len(S)) if own is None or i != own[place]]
        scores = second.g.scores(query[None]) @ S[others].T
        mixed.append((vote_weights(scores) @ S[others])[0])
    z, S = second.f(torch.stack(mixed)), second.h(S)
    found = []
    for place, query in enumerate(z):
        others = [i for i in range(len(S)) if own is None or i != own[place]]
        weights = vote_weights(votes.g.scores(query[None]) @ S[others].T)[0]
        found.append(
            [weights[rows.classes[others] == c].sum().log().item() for c in range(rows.count)]
        )
    return torch.tensor(found, dtype=torch.float64)


@given(st.integers(1, 4), st.integers(1, 7), st.integers(0, 99))
@settings(max_examples=20)
def test_two_layers_equal_the_recursion_written_out(count, rows, seed):
    model, queries, rows = two_layers(seed), rows_of(count, seed=seed).features, rows_of(rows)
    torch.testing.assert_close(model(queries, rows), slow(model, queries, rows))


@given(st.integers(4, 7), st.integers(0, 99))
@settings(max_examples=20)
def test_no_layer_lets_a_query_read_its_own_row(count, seed):
    model, rows, own = two_layers(seed), rows_of(count, seed=seed), torch.arange(count)
    found = model(rows.features, rows, own)
    torch.testing.assert_close(found, slow(model, rows.features, rows, own.tolist()))


def test_the_own_row_has_no_weight_and_no_gradient():
    model, rows = two_layers(), rows_of()
    queries = rows.features.clone()
    features = rows.features.clone().requires_grad_(True)
    logs = model(queries, rows.encoded(features), torch.arange(6))
    for place in range(6):
        (gradient,) = torch.autograd.grad(logs[place, 0], features, retain_graph=True)
        assert gradient[place].abs().max() == 0
        assert gradient.abs().max() > 0


@given(st.permutations(range(6)))
@settings(max_examples=20)
def test_the_order_of_rows_does_not_matter(order):
    model, rows = two_layers(), rows_of()
    shuffled = RowSet(rows.features[order], rows.classes[order], 2)
    queries = rows_of(3, seed=5).features
    torch.testing.assert_close(model(queries, shuffled), model(queries, rows), rtol=0, atol=1e-12)


class Counting(nn.Module):
    """A linear map that counts its calls."""

    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.map, self.calls = nn.Linear(dim_in, dim_out), 0

    def forward(self, inputs):
        self.calls += 1
        return self.map(inputs)


def shared(seed=0):
    torch.manual_seed(seed)
    votes = Layer(g=VoteFusion(DotProductFusion(3), RowsReduction()), h=None)
    return SemiParametric([Layer(Counting(4, 5)), Layer(Counting(5, 3)), votes]).double().eval()


def test_a_batch_that_is_its_own_memory_is_encoded_once():
    model, rows = shared(), rows_of()
    model(rows.features, rows, torch.arange(6))
    assert [layer.f.calls for layer in model.layers[:2]] == [1, 1]


def test_rows_beside_the_batch_are_encoded_by_themselves():
    model, rows = shared(), rows_of()
    model(rows.features.clone(), rows, torch.arange(6))
    assert [layer.f.calls for layer in model.layers[:2]] == [2, 2]


def test_encoding_once_gives_what_encoding_twice_gives():
    model, rows, own = shared(), rows_of(), torch.arange(6)
    once = model(rows.features, rows, own)
    twice = model(rows.features.clone(), rows, own)
    torch.testing.assert_close(once, twice, rtol=0, atol=1e-12)


def test_a_layer_after_fusion_shares_weights_but_not_the_pass():
    torch.manual_seed(0)
    counting = Counting(4, 4)
    model = SemiParametric([Layer(counting, g=FeatureFusion(4))]).double()
    rows = rows_of()
    model(rows.features, rows, torch.arange(6))
    assert counting.calls == 2


def test_a_layer_without_maps_leaves_both_branches():
    rows = rows_of()
    queries, after = Layer()(rows.features, rows)
    assert queries is rows.features
    assert after.features is rows.features


def test_a_set_encoder_is_given_the_classes():
    rows = rows_of()
    network = GraphAttention(4, heads=2).double()
    with torch.no_grad():
        network.output.weight.fill_(0.3)
    queries, after = Layer(h=network)(rows.features, rows)
    assert queries is rows.features
    assert torch.equal(after.features, network(rows.features, rows.classes))


def test_an_unknown_name_for_the_map_of_rows_is_refused():
    with pytest.raises(ArgumentError, match="Expected h to be a module, 'f' or None, but got 'g'"):
        Layer(h="g")


def test_no_layers_are_refused():
    with pytest.raises(ArgumentError, match="Expected at least one layer, but got none"):
        SemiParametric([])


# -- the set is necessary --------------------------------------------------------------------------


def episode(generator):
    """Draw points around fixed corners, with new names for the corners in every episode."""
    corners = 3 * torch.eye(4)
    places = torch.randint(4, (48,), generator=generator)
    points = corners[places] + 0.3 * torch.randn(48, 4, generator=generator)
    labels = torch.randperm(4, generator=generator)[places]
    return points[:16], labels[:16], RowSet(points[16:], labels[16:], 4)


def deep_model():
    torch.manual_seed(0)
    return SemiParametric(
        [
            Layer(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))),
            Layer(nn.Linear(8, 8), g=FeatureFusion(8, scale="none"), h=nn.Linear(8, 8)),
            Layer(g=VoteFusion(DotProductFusion(8, scale="none"), RowsReduction()), h=None),
        ]
    )


def accuracy(model, generator, read):
    """Return the share of correct queries over 20 episodes, with sets as ``read`` returns them."""
    with torch.no_grad():
        hits = [
            (model(queries, read(rows)).argmax(1) == labels).float().mean()
            for queries, labels, rows in (episode(generator) for _ in range(20))
        ]
    return float(torch.stack(hits).mean())


@pytest.fixture(scope="module")
def learnt():
    """Return a two-layer model trained on episodes whose classes change their names."""
    with torch.random.fork_rng(devices=[]):
        model, generator = deep_model(), torch.Generator().manual_seed(0)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
        for _ in range(500):
            queries, labels, rows = episode(generator)
            optimizer.zero_grad()
            nn.functional.nll_loss(model(queries, rows), labels).backward()
            optimizer.step()
    return model


def test_two_layers_learn_to_read_the_set(learnt):
    generator = torch.Generator().manual_seed(1)
    assert accuracy(learnt, generator, lambda rows: rows) > 0.9


def test_the_weights_alone_do_not_know_the_classes(learnt):
    generator = torch.Generator().manual_seed(1)

    def another(rows):
        return episode(generator)[2]

    assert accuracy(learnt, generator, another) < 0.5


# -- the classifier's network ----------------------------------------------------------------------


def networks(set_encoder="none"):
    """Return a classifier's network and the recursion it stands for, with the same parts."""
    encoder = build_encoder("mlp", (4,), options={"hidden": [6], "dim": 8}, seed=1)
    norm = EmbeddingNorm()
    votes = VoteFusion(DotProductFusion(8), RowsReduction())
    mixing = build_set_encoder(set_encoder, 8)
    network = SPMNetwork(encoder, norm, votes, set_encoder=mixing).eval()
    layers = [Layer(nn.Sequential(encoder, norm)), Layer(g=votes, h=None)]
    if mixing is not None:
        layers.insert(1, Layer(h=mixing))
    return network, SemiParametric(layers).eval()


def test_the_classifiers_network_reads_its_batch_as_the_recursion_does():
    network, recursion = networks()
    inputs, classes = rows_of().features.float(), torch.arange(6) % 2
    found = network(inputs, classes, 2)
    expected = recursion(inputs, RowSet(inputs, classes, 2), torch.arange(6))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("set_encoder", ["none", "graph"])
def test_the_classifiers_network_reads_other_rows_as_the_recursion_does(set_encoder):
    network, recursion = networks(set_encoder)
    inputs, support = rows_of().features.float(), rows_of(8, seed=3).features.float()
    classes = torch.arange(8) % 2
    found = network(inputs, classes, 2, support)
    assert torch.equal(found, recursion(inputs, RowSet(support, classes, 2)))
