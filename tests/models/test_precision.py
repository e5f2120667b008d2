"""Training in half precision: the encoder alone computes in it."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from erasable import KNNClassifier, SPMClassifier
from erasable.baselines import unlearn
from erasable.data import Split
from erasable.encoders import Identity, build_encoder, build_set_encoder
from erasable.fusion import DotProductFusion, RowSet, VoteFusion, get_reduction
from erasable.models import ParametricClassifier
from erasable.models._networks import EmbeddingNorm, ParametricNetwork, SPMNetwork
from erasable.training import InBatchMemory, Training, computing_in, make_fabric
from models.toys import blobs
from training.toy import Acting, changed, images, memory_network, vectors

half = partial(torch.autocast, "cpu", torch.bfloat16)
REDUCTIONS = pytest.mark.parametrize("reduction", ["prototypes", "rows", "neighbours", "gaussian"])
NORMS = pytest.mark.parametrize("norm", [EmbeddingNorm, nn.Identity])
CLASSES = torch.arange(12) % 3


def inputs(count=12, seed=0):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


def voting(reduction, norm=EmbeddingNorm, *, encoder=None, set_encoder=None):
    """Return a network whose weights are none that cancel by chance."""
    torch.manual_seed(0)
    encoder = encoder or build_encoder("mlp", (4,), options={"dim": 8})
    scores = DotProductFusion(8)
    nn.init.normal_(scores.W_q)
    nn.init.normal_(scores.W_k)
    vote = VoteFusion(scores, get_reduction(reduction))
    return SPMNetwork(encoder, norm(), vote, set_encoder=set_encoder).eval()


# -- what follows the encoder ---------------------------------------------------------------------


@REDUCTIONS
@NORMS
def test_votes_are_those_of_the_embeddings_in_full_precision(reduction, norm):
    network, alone = voting(reduction, norm), voting(reduction, encoder=Identity((8,)), norm=norm)
    with half(), torch.no_grad():
        embeddings = network.encoder(inputs())
        found = network(inputs(), CLASSES, 3)
    assert embeddings.dtype == torch.bfloat16
    expected = alone(embeddings.float(), CLASSES, 3)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert (found - network(inputs(), CLASSES, 3)).abs().max() > 1e-4


@REDUCTIONS
def test_rows_that_mix_are_those_of_the_embeddings_in_full_precision(reduction):
    def made(**options):
        return voting(reduction, set_encoder=build_set_encoder("graph", 8, seed=1), **options)

    network, alone = made(), made(encoder=Identity((8,)), norm=nn.Identity)
    for one in (network, alone):
        nn.init.ones_(one.set_encoder.output.weight)
    queries, rows = inputs(5, seed=1), inputs()
    with half(), torch.no_grad():
        seen = [network.embedder(part) for part in (queries, rows)]
        found = network(queries, CLASSES, 3, support=rows)
    expected = alone(seen[0], CLASSES, 3, support=seen[1])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_logits_are_those_of_the_embeddings_in_full_precision():
    torch.manual_seed(0)
    network = ParametricNetwork(build_encoder("mlp", (4,), options={"dim": 8}), EmbeddingNorm(), 3)
    with half(), torch.no_grad():
        embeddings = network.norm(network.encoder(inputs()))
        found = network(inputs())
    assert {embeddings.dtype, found.dtype} == {torch.float32}
    torch.testing.assert_close(found, network.head(embeddings), rtol=0, atol=0)


# -- a query's own row ----------------------------------------------------------------------------


def slopes(network, *, is_half):
    """Return how much each query's log-probabilities change with each row, (queries, rows)."""
    queries = inputs()
    rows = queries.clone().requires_grad_()
    with half(enabled=is_half):
        logs = network.recursion(queries, RowSet(rows, CLASSES, 3), torch.arange(12))
    found = [torch.autograd.grad(one[0], rows, retain_graph=True)[0] for one in logs.double()]
    return torch.stack(found).norm(dim=2)


@pytest.mark.parametrize("reduction", ["prototypes", "rows", "neighbours"])
@NORMS
def test_a_query_does_not_read_its_own_row(reduction, norm):
    network = voting(reduction, norm)
    for is_half in (False, True):
        found = slopes(network, is_half=is_half)
        assert found.diagonal().max() < 1e-5 * found.max()


@REDUCTIONS
def test_its_slope_is_that_of_full_precision(reduction):
    vote = VoteFusion(DotProductFusion(4), get_reduction(reduction))
    network = SPMNetwork(Identity((4,)), nn.Identity(), vote)
    torch.testing.assert_close(slopes(network, is_half=True), slopes(network, is_half=False))


@pytest.mark.parametrize("reduction", ["prototypes", "rows", "neighbours"])
def test_a_row_far_away_moves_no_prediction_of_its_own(reduction):
    """It would outweigh all rounding, had it a vote of its own."""
    network = voting(reduction, nn.Identity)
    near, far = inputs(), inputs()
    far[0] *= 1000
    with half(), torch.no_grad():
        rows = [RowSet(one, CLASSES, 3) for one in (near, far)]
        found = [network.recursion(near, one, torch.arange(12))[0] for one in rows]
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-2)


# -- training -------------------------------------------------------------------------------------


class Noting(nn.Linear):
    """A layer that keeps in which precision it computed, and in which mode."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.seen = set()

    def forward(self, inputs):
        found = super().forward(inputs)
        self.seen.add((self.training, found.dtype))
        return found


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "auto": torch.float32}


@pytest.mark.parametrize(("precision", "dtype"), DTYPES.items())
@pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier, ParametricClassifier])
def test_precision_is_that_of_the_encoder_in_training(kind, precision, dtype):
    X, y = blobs(40)
    training = Training(precision=precision)
    model = kind(Noting(4, 6), epochs=1, random_state=0, device="cpu", training=training)
    model.fit(X, y).predict(X)
    seen = model.encoder_.module.seen
    assert {one for is_training, one in seen if is_training} == {dtype}
    assert {one for is_training, one in seen if not is_training} == {torch.float32}


@pytest.mark.parametrize(("precision", "dtype"), DTYPES.items())
def test_an_edit_computes_in_the_precision_of_the_training(precision, dtype):
    X, y = blobs(40)
    rows = Split(X, np.array(y), list(range(40)))
    training = Training(precision=precision)
    model = ParametricClassifier(Noting(4, 6), epochs=1, random_state=0, training=training)
    edited = unlearn(
        "ft", model.fit(X, y), forget=rows.take(range(10)), retain=rows.take(range(10, 40))
    )
    seen = edited.model.encoder_.module.seen - model.encoder_.module.seen
    assert seen <= {(True, dtype)}
    assert (True, dtype) in edited.model.encoder_.module.seen


def test_each_step_of_an_edit_sees_the_weights_of_the_last():
    """Losses written out: a cache of rounded weights would repeat that of the first step."""
    network, (X, y) = nn.Linear(4, 2), blobs(40)
    inputs, classes = torch.from_numpy(X), torch.tensor([label == "a" for label in y]).long()
    optimizer, losses = torch.optim.SGD(network.parameters(), lr=0.1), []
    with computing_in("bfloat16"):
        for _ in range(3):
            loss = nn.functional.cross_entropy(network(inputs), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    assert losses[0] > losses[1] > losses[2]


def test_inputs_are_not_rounded_before_they_are_on_a_scale_of_their_own():
    X, y = blobs(60, classes=("a", "b", "c"))
    training = Training(precision="bfloat16")
    model = SPMClassifier("mlp", epochs=5, random_state=0, training=training).fit(X + 4096, y)
    assert model.history_[-1]["accuracy"] > 0.9


def test_weights_and_gradients_are_in_full_precision():
    def look():
        tensors = [*network.parameters(), *(p.grad for p in network.parameters())]
        dtypes.update(tensor.dtype for tensor in tensors)

    dtypes = set()
    run = changed(images(), precision="bfloat16")
    network = run.build()
    run.go(network=network, objective=Acting(run.objective, 2, look))
    assert dtypes == {torch.float32}


@pytest.mark.parametrize("make", [vectors, images])
def test_training_in_half_precision_follows_that_in_full(make):
    full, short = (
        changed(make(), precision=precision, epochs=1).go()[1][0]["loss"]
        for precision in ("float32", "bfloat16")
    )
    assert full != short
    assert short == pytest.approx(full, rel=0.02)


@REDUCTIONS
def test_in_a_training_votes_are_in_full_precision(reduction):
    class Comparing(InBatchMemory):
        def __call__(self, network, batch):
            labels, index = torch.unique(batch.classes, return_inverse=True)
            with torch.no_grad(), half():
                seen = network.embedder(batch.inputs)
            alone = SPMNetwork(Identity((8,)), nn.Identity(), network.recursion.layers[-1].g)
            with torch.no_grad():
                found = network(batch.inputs, index, len(labels))
                expected = alone(seen, index, len(labels))
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
            compared.append(found.dtype)
            return super().__call__(network, batch)

    compared = []
    run = changed(vectors(), precision="bfloat16")
    run.go(network=memory_network(reduction=reduction), objective=Comparing())
    assert compared == [torch.float32] * 12


@pytest.mark.parametrize("precision", DTYPES)
def test_a_model_predicts_the_same_whatever_it_was_trained_in(precision):
    X, y = blobs(40)
    model = SPMClassifier(epochs=1, random_state=0).fit(X, y)
    before = model.predict_proba(X)
    model.set_params(training__precision=precision)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_choosing_a_precision_says_nothing(capfd, caplog):
    make_fabric("cpu", "bfloat16")
    assert capfd.readouterr() == ("", "")
    assert caplog.messages == []
