"""Rows that hear their neighbours: derived rows follow the memory."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable import SPMClassifier, load
from erasable.encoders import GraphAttention, SetEncoder
from erasable.errors import ArgumentError, StateError
from erasable.memory import Grid, Memory, encode_key
from erasable.models import _relational
from erasable.models._relational import GraphRows, relational_rows
from erasable.training import Training
from models.toys import TINY, blobs, names, spm

QUERIES = blobs(7, seed=11)[0]
POINT = st.tuples(*[st.sampled_from([-1.0, -0.5, 0.25, 2.0])] * 4)


def graph_encoder(*, neighbours=2, seed=0):
    """Return an encoder with weights, so that rows hear something."""
    built = GraphAttention(4, heads=2, neighbours=neighbours)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in built.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return built


def memory_of(count=8, seed=0):
    memory = Memory(4)
    points = np.random.default_rng(seed).normal(size=(count, 4))
    memory.add(points, [*"xy"] * (count // 2), ids=list(range(count)))
    return memory


def following(memory, encoder):
    return memory.live.follower("graph", lambda live: GraphRows(live, encoder))


def state(rows):
    """Return embeddings by id, classes, counts and sums, as bytes where they are numbers."""
    infos = rows.table.infos
    embeddings = {
        encode_key(rows.record(place).id): (row.tobytes(), rows.record(place).label)
        for place, row in enumerate(rows.table.embeddings)
    }
    assert len(embeddings) == len(infos)
    return embeddings, rows.classes, rows.sums.counts.tolist(), rows.sums.sums.tolist()


@st.composite
def histories(draw):
    """Draw steps: rows to add (id, label, point), or ids to forget."""
    row = st.tuples(st.integers(0, 9), st.sampled_from("xy"), POINT)
    add = st.lists(row, min_size=1, max_size=5, unique_by=lambda row: row[0])
    forget = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)
    return draw(st.lists(add | forget, max_size=5))


def carry_out(memory, step):
    if isinstance(step[0], tuple):
        news = [row for row in step if row[0] not in memory]
        if news:
            ids, labels, points = zip(*news, strict=True)
            memory.add(np.array(points), list(labels), ids=list(ids), reinstate=True)
        return
    memory.forget(ids=[row_id for row_id in step if row_id in memory])


@pytest.mark.parametrize("chunk", [2, 1024])
@settings(max_examples=25)
@given(steps=histories())
def test_rows_that_followed_any_history_are_those_encoded_anew(chunk, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_relational, "_CHUNK", chunk)
        memory, encoder = Memory(4), graph_encoder()
        rows = following(memory, encoder).rows
        for step in steps:
            carry_out(memory, step)
            assert state(rows) == state(GraphRows(memory.live, encoder).rows)


def assert_encoded(memory, change, encoder=None):
    """Check that a change encodes exactly the rows that are new or that turn out otherwise."""
    encoder = encoder or graph_encoder()
    kept = following(memory, encoder)
    before = state(GraphRows(memory.live, encoder).rows)[0]
    change(memory)
    after = state(GraphRows(memory.live, encoder).rows)[0]
    changed = {row_id for row_id in after if after[row_id] != before.get(row_id)}
    assert sorted(map(encode_key, kept.encoded)) == sorted(changed)
    assert len(changed) < len(after)


@pytest.mark.parametrize("gone", range(10))
def test_a_forget_encodes_exactly_the_rows_that_heard_the_row(gone):
    assert_encoded(memory_of(30), lambda memory: memory.forget(ids=[gone]))


@pytest.mark.parametrize("seed", range(5))
def test_an_addition_encodes_exactly_the_new_rows_and_those_that_hear_them(seed):
    points = np.random.default_rng(100 + seed).normal(size=(2, 4))
    assert_encoded(memory_of(30), lambda memory: memory.add(points, ["x", "z"], ids=["p", "q"]))


def test_a_class_that_leaves_changes_no_other_row():
    memory = memory_of()
    kept = following(memory, graph_encoder())
    before = state(kept.rows)[0]
    memory.forget(classes=["x"])
    assert kept.encoded == ()
    assert state(kept.rows)[0] == {row_id: before[row_id] for row_id in state(kept.rows)[0]}


def test_the_users_encoder_is_copied():
    memory, encoder = memory_of(), graph_encoder()
    kept = following(memory, encoder)
    before = state(kept.rows)
    with torch.no_grad():
        encoder.output.weight.zero_()
    memory.add(np.ones((1, 4)), ["x"], ids=["new"])
    memory.forget(ids=["new"])
    assert encoder.output.weight.dtype == torch.float32
    assert state(kept.rows) == before


def test_encoded_rows_outside_the_grid_are_refused_with_the_remedy():
    memory = Memory(8, grid=Grid(19))
    memory.add(np.eye(8)[:1], ["x"])
    with pytest.raises(StateError, match=r"within ±2\.0, but 1 are not\. Use fewer grid_bits"):
        relational_rows(memory, GraphAttention(8))


class _Other(SetEncoder):
    name = "other"

    def forward(self, features, classes):
        return features


def test_another_set_encoder_is_refused():
    with pytest.raises(StateError, match="Expected a graph encoder, but got _Other"):
        relational_rows(memory_of(), _Other())


# -- the classifier --------------------------------------------------------------------------------

GRAPH = {**TINY, "set_encoder": "graph", "support_size": 12, "batch_size": 10, "epochs": 3}


def fitted(**options):
    return spm(**{**GRAPH, **options}).fit(*blobs(40), ids=names(40))


@pytest.fixture
def trained():
    return fitted()


def test_training_moves_the_set_encoder(trained):
    assert trained.network_.set_encoder.output.weight.abs().max() > 0


def test_a_trained_model_tells_its_classes_apart(trained):
    assert trained.score(*blobs(40, seed=1)) > 0.9


def test_predictions_read_encoded_rows():
    model = fitted()
    before = model.predict_proba(QUERIES)
    with torch.no_grad():
        model.network_.set_encoder.output.weight.mul_(5)
    model.memory_.live._followers.clear()
    assert not np.allclose(model.predict_proba(QUERIES), before, atol=1e-6)


@pytest.mark.parametrize("reduction", ["prototypes", "rows", "neighbours", "gaussian"])
def test_every_reduction_reads_encoded_rows(reduction):
    model = fitted(epochs=1).set_params(reduction=reduction, k=5)
    rows = relational_rows(model.memory_, model.network_.set_encoder)
    queries = torch.from_numpy(model.embed(QUERIES)).double()
    expected = model._reduction().log_probabilities(queries, rows, attention=model._attention())
    np.testing.assert_array_equal(model.predict_log_proba(QUERIES), expected.numpy())


def test_votes_name_the_rows_of_the_memory(trained):
    votes = trained.votes(QUERIES, top=40)
    labels = dict(zip(names(40), blobs(40)[1], strict=True))
    assert sorted(votes.ids[0]) == sorted(names(40))
    assert [labels[i] for i in votes.ids.ravel()] == votes.labels.ravel().tolist()


@pytest.mark.parametrize("call", ["predict_proba", "votes"])
def test_excluding_a_row_is_refused(call, trained):
    with pytest.raises(ArgumentError, match="Forget it in a copy instead"):
        getattr(trained, call)(QUERIES[:1], exclude_ids=names(1))


def test_training_in_batch_is_refused():
    with pytest.raises(ArgumentError, match="Expected support_size with set_encoder='graph'"):
        fitted(support_size=None)


def test_without_training_no_support_is_needed():
    model = SPMClassifier("identity", set_encoder="graph", epochs=0).fit(*blobs(8))
    assert model.predict(QUERIES).shape == (7,)


def test_an_embedding_that_heads_cannot_share_is_refused():
    with pytest.raises(ArgumentError, match="4 heads can share, but got 6"):
        fitted(encoder_options={"dim": 6})


def test_saving_and_loading_keeps_the_predictions(trained, tmp_path):
    trained.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.weights_digest == trained.weights_digest
    np.testing.assert_allclose(
        again.predict_proba(QUERIES), trained.predict_proba(QUERIES), rtol=0, atol=1e-9
    )


def test_the_set_encoder_is_saved_as_built(trained, tmp_path):
    trained.set_params(set_encoder="none").save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again.network_.set_encoder, GraphAttention)
    assert again.set_encoder == "none"


def test_settings_survive(tmp_path):
    settings = {
        "reduction": "neighbours", "k": 7, "search": "exact", "attention": "similarity",
        "temperature": 2.5, "set_encoder": "graph",
        "training": Training(support_size=9, support_sampling="balanced", sampler="classes"),
    }  # fmt: skip
    fitted(epochs=1).set_params(**settings).save(tmp_path / "model")
    found = load(tmp_path / "model").get_params()
    assert {name: found[name] for name in settings} == settings


def test_a_loaded_model_goes_on_following_its_rows(trained, tmp_path):
    trained.save(tmp_path / "model")
    again = load(tmp_path / "model")
    again.predict(QUERIES)
    for model in (trained, again):
        model.forget(ids=names(9))
    np.testing.assert_allclose(
        again.predict_proba(QUERIES), trained.predict_proba(QUERIES), rtol=0, atol=1e-9
    )


def test_a_row_that_cannot_be_encoded_leaves_memory_and_digest_in_step():
    flat, spike = np.tile([0.1, -0.1], (1, 4)) * np.ones((4, 1)), 1.9 * np.eye(8)[:1]
    flat[:, 0] += np.arange(4) / 64
    model = SPMClassifier("identity", set_encoder="graph", grid_bits=19).remember(flat, ["a"] * 4)
    model.predict(flat)
    model.remember(spike, ["b"], ids=["spike"])
    other = Memory(8, grid=Grid(19))
    other.add(np.concatenate([flat, spike]), [*"aaaab"], ids=[0, 1, 2, 3, "spike"])
    assert model.memory.digest == other.digest
    with pytest.raises(StateError, match="Use fewer grid_bits"):
        model.predict(flat)
    model.forget(ids=["spike"])
    assert model.predict(flat).tolist() == ["a"] * 4
