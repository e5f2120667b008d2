"""Rows drawn for a batch to read, and training that reads them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from erasable import SPMClassifier
from erasable.encoders import build_encoder, build_set_encoder
from erasable.errors import ArgumentError
from erasable.fusion import DotProductFusion, VoteFusion, get_reduction
from erasable.models import parameters_of
from erasable.models._networks import EmbeddingNorm, SPMNetwork
from erasable.training import SeparateSupport, Support, Training
from erasable.weights import weights_digest
from training.toy import Acting, Run, Watching, blobs, config_of, memory_network

SAMPLINGS = pytest.mark.parametrize("sampling", ["uniform", "balanced"])


@st.composite
def draws(draw):
    """Draw class indices, the rows of a batch, a size of the support and a seed."""
    classes = np.array(draw(st.lists(st.integers(0, 4), min_size=2, max_size=30)))
    batch = draw(st.lists(st.integers(0, len(classes) - 1), min_size=1, max_size=12, unique=True))
    return classes, np.array(batch), draw(st.integers(2, 20)), draw(st.integers(0, 99))


def drawn_rows(sampling, classes, batch, size, seed):
    return Support(size, sampling).draw(classes, batch, np.random.default_rng(seed))


# -- which rows ------------------------------------------------------------------------------------


@SAMPLINGS
@given(drawn=draws())
def test_support_is_disjoint_from_the_batch(sampling, drawn):
    assert not set(drawn_rows(sampling, *drawn).tolist()) & set(drawn[1].tolist())


@SAMPLINGS
@given(drawn=draws())
def test_no_row_is_drawn_twice(sampling, drawn):
    rows = drawn_rows(sampling, *drawn).tolist()
    assert len(set(rows)) == len(rows)


@given(draws())
def test_uniform_support_has_its_size_or_all_rows_that_are_left(drawn):
    classes, batch, size, _ = drawn
    rows = drawn_rows("uniform", *drawn)
    assert len(rows) == min(size, len(classes) - len(batch))


@given(draws())
def test_balanced_support_has_equal_shares_of_the_classes_of_the_batch(drawn):
    classes, batch, size, _ = drawn
    present = set(classes[batch].tolist())
    found = Counter(classes[drawn_rows("balanced", *drawn)].tolist())
    left = Counter(np.delete(classes, batch).tolist())
    share = max(1, size // len(present))
    expected = {c: min(share, left[c]) for c in present if left[c]}
    if len(present) <= size and expected:
        assert found == expected
    else:  # some of the classes; or, rather than none, any rows
        is_any = found.total() == min(size, left.total())
        assert is_any or found.items() <= expected.items()


@SAMPLINGS
@given(drawn=draws())
def test_the_same_source_gives_the_same_rows(sampling, drawn):
    assert drawn_rows(sampling, *drawn).tolist() == drawn_rows(sampling, *drawn).tolist()


@SAMPLINGS
def test_another_source_gives_other_rows(sampling):
    classes, batch = np.arange(60) % 3, np.arange(6)
    found = [drawn_rows(sampling, classes, batch, 9, seed).tolist() for seed in (0, 1)]
    assert found[0] != found[1]


@SAMPLINGS
def test_every_row_outside_the_batch_is_drawn_sooner_or_later(sampling):
    classes, batch, rng = np.arange(20) % 2, np.arange(4), np.random.default_rng(0)
    support = Support(6, sampling)
    seen = {row for _ in range(60) for row in support.draw(classes, batch, rng).tolist()}
    assert seen == set(range(4, 20))


@pytest.mark.parametrize("size", [1, 0, -3, 2.0, "8", True, None])
def test_a_size_that_is_no_count_of_two_or_more_is_refused(size):
    with pytest.raises(ArgumentError, match=f"support_size to be an int ≥ 2, but got {size!r}"):
        Support(size)


def test_an_unknown_sampling_is_refused():
    with pytest.raises(ArgumentError, match="'uniform', 'balanced', but got 'even'"):
        Support(4, "even")


# -- training --------------------------------------------------------------------------------------


def graph_network(seed=0):
    encoder = build_encoder("mlp", (4,), options={"dim": 8}, seed=seed)
    vote = VoteFusion(DotProductFusion(8), get_reduction("rows"))
    mixing = build_set_encoder("graph", 8, seed=seed)
    return SPMNetwork(encoder, EmbeddingNorm(), vote, set_encoder=mixing)


BUILD = {
    "prototypes": memory_network,
    "rows": lambda: memory_network(reduction="rows"),
    "graph": graph_network,
}


def supported(name="rows", *, sampling="uniform", **settings):
    """Return a run of 4 epochs of 3 steps that reads 10 further rows at each."""
    config = config_of(**{"epochs": 4, "batch_size": 12, "seed": 5, **settings})
    return Run(*blobs(), SeparateSupport(Support(10, sampling)), config, BUILD[name])


@SAMPLINGS
@pytest.mark.parametrize("name", BUILD)
def test_a_network_with_support_overfits_a_toy_set(name, sampling):
    _, history = supported(name, sampling=sampling, epochs=20).go()
    assert history[-1]["accuracy"] == 1


def row_numbers(run, inputs):
    return [(run.inputs == row).all(1).nonzero().item() for row in inputs]


@SAMPLINGS
def test_no_query_reads_its_own_row(sampling):
    run = supported(sampling=sampling)
    watching = Watching(run.objective)
    run.go(objective=watching)
    for batch in watching.seen:
        queries, rows = row_numbers(run, batch.inputs), row_numbers(run, batch.support)
        assert not set(queries) & set(rows)


def test_support_comes_with_its_own_labels():
    run = supported()
    watching = Watching(run.objective)
    run.go(objective=watching)
    for batch in watching.seen:
        rows = row_numbers(run, batch.support)
        assert batch.support_classes.tolist() == run.classes[rows].tolist()


def test_queries_and_support_are_renumbered_alike():
    run = supported(label_permutation=True)
    watching = Watching(run.objective)
    run.go(objective=watching)
    renumbered = 0
    for batch in watching.seen:
        rows = row_numbers(run, torch.cat([batch.inputs, batch.support]))
        given_ = torch.cat([batch.classes, batch.support_classes]).tolist()
        pairs = set(zip(run.classes[rows].tolist(), given_, strict=True))
        assert len(pairs) == 3
        renumbered += any(before != after for before, after in pairs)
    assert renumbered


@pytest.mark.parametrize("name", BUILD)
@pytest.mark.parametrize("at", [1, 5, 12])
def test_a_resumed_run_ends_in_the_bits_of_an_uninterrupted_one(name, at, tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    run = supported(name)
    with pytest.raises(KeyboardInterrupt):
        run.go(tmp_path, objective=Acting(run.objective, at, interrupt))
    (one, first), (other, second) = run.go(tmp_path), run.go()
    assert weights_digest(one) == weights_digest(other)
    assert first == second


def test_batches_leave_rows_to_draw():
    run = supported(batch_size=99)
    watching = Watching(run.objective)
    run.go(objective=watching)
    assert [(len(b.inputs), len(b.support)) for b in watching.seen] == [(18, 10)] * 8


def test_too_few_rows_for_a_batch_and_a_support_are_refused():
    run = supported()
    run = replace(run, inputs=run.inputs[:2], classes=run.classes[:2])
    with pytest.raises(ArgumentError, match="Expected a batch with support rows, but it has none"):
        run.go()


def test_queries_whose_class_was_not_drawn_are_counted():
    run = supported()
    run = replace(run, classes=torch.arange(36) // 2)
    _, history = run.go()
    assert history[0]["left_out"] > 0


# -- the encoder's own rate ------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILD)
def test_a_factor_of_zero_leaves_the_encoders_parameters(name):
    run = supported(name, encoder_lr_factor=0.0)
    before = {key: value.clone() for key, value in run.build().encoder.named_parameters()}
    network, _ = run.go()
    after = dict(network.encoder.named_parameters())
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize("name", BUILD)
def test_a_factor_of_zero_lets_the_fusion_learn(name):
    network, _ = supported(name, encoder_lr_factor=0.0).go()
    assert not torch.equal(network.fusion.W_q, torch.eye(8))
    assert not torch.equal(network.fusion.W_k, torch.eye(8))


def test_a_factor_scales_the_first_step_of_the_encoder_alone():
    def steps(factor):
        run = supported(
            encoder_lr_factor=factor, epochs=1, batch_size=18, momentum=0.0, learning_rate=0.01
        )
        network = run.build()
        before = {key: value.clone() for key, value in network.named_parameters()}

        def stop():
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run.go(objective=Acting(run.objective, 2, stop), network=network)
        return {key: value - before[key] for key, value in network.named_parameters()}

    whole, half = steps(1.0), steps(0.5)
    inside = {key for key in whole if key.startswith("encoder.")}
    assert inside
    for key, step in whole.items():
        expected = 0.5 * step if key in inside else step
        torch.testing.assert_close(half[key], expected, rtol=1e-3, atol=1e-7)


# -- the classifier --------------------------------------------------------------------------------


def classifier(**options):
    inputs, places = blobs(60)
    own = {"encoder_options": {"dim": 8}, "epochs": 5, "batch_size": 15, "random_state": 0}
    model = SPMClassifier("mlp", **own, **parameters_of(options))
    return model.fit(inputs.numpy(), places.tolist())


@SAMPLINGS
@pytest.mark.parametrize("reduction", ["prototypes", "rows", "neighbours", "gaussian"])
def test_a_classifier_trained_with_support_tells_its_classes_apart(reduction, sampling):
    model = classifier(support_size=12, support_sampling=sampling, reduction=reduction, k=9)
    inputs, places = blobs(60, seed=1)
    assert model.score(inputs.numpy(), places.tolist()) > 0.9


def test_support_gives_other_weights_than_the_batch():
    assert classifier(support_size=12).weights_digest != classifier().weights_digest


def test_more_rows_per_batch_than_there_are_leave_half_for_the_support():
    inputs, places = blobs(20)
    model = SPMClassifier("mlp", training=Training(support_size=8), epochs=2, random_state=0)
    assert model.fit(inputs.numpy(), places.tolist()).history_[-1]["left_out"] < 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"support_size": 1}, "Expected support_size to be an int in "),
        ({"support_size": 8, "support_sampling": "even"}, "but got 'even'"),
        ({"sampler": "random"}, "Expected sampler to be 'auto', 'uniform', 'classes'"),
    ],
)
def test_support_that_there_is_not_is_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        classifier(**options)


def test_a_balanced_draw_is_never_larger_than_asked_for():
    classes = np.arange(40) % 10
    drawn = Support(4, "balanced").draw(classes, np.arange(10), np.random.default_rng(0))
    assert len(drawn) == 4
