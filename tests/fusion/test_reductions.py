import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from erasable.errors import ArgumentError
from erasable.fusion import (
    PrototypesReduction,
    Reading,
    RowsReduction,
    get_reduction,
    register_reduction,
)
from erasable.fusion import _registry as registry
from erasable.memory import Memory
from fusion.references import (
    REDUCTIONS,
    SLOW_VOTES,
    Scene,
    arrays,
    chunked,
    dot,
    scenes,
    slow_probabilities,
)

CLOSE = 1e-12


def read(reduction, scene, **options):
    """Return class probabilities, (queries, classes)."""
    with chunked(scene.chunk):
        return reduction.log_probabilities(scene.readers, scene.memory, **options).exp().numpy()


def votes(reduction, scene, top, **options):
    with chunked(scene.chunk):
        return reduction.votes(scene.readers, scene.memory, top, **options)


def in_batch(reduction, readers, embeddings, classes, count):
    """Read a batch as its own memory, each query without its own row."""
    return reduction.fuse(readers, embeddings, classes, count, own=torch.arange(len(readers)))


# -- probabilities --------------------------------------------------------------------------------


@REDUCTIONS
@given(scene=scenes())
def test_probabilities_equal_the_slow_loop(reduction, scene):
    count = len(scene.memory.classes)
    expected = [slow_probabilities(reduction, r, scene.rows, count) for r in scene.readers.tolist()]
    np.testing.assert_allclose(read(reduction, scene), expected, rtol=1e-9, atol=CLOSE)


@REDUCTIONS
@given(scene=scenes())
def test_probabilities_sum_to_one(reduction, scene):
    np.testing.assert_allclose(read(reduction, scene).sum(1), 1, atol=CLOSE)


@REDUCTIONS
@given(scene=scenes(), data=st.data())
def test_probabilities_do_not_depend_on_the_order_of_rows(reduction, scene, data):
    order = data.draw(st.permutations(range(len(scene.memory))))
    with chunked(scene.chunk):
        shuffled = reduction.log_probabilities(scene.readers, scene.rebuilt(order)).exp()
    np.testing.assert_allclose(shuffled, read(reduction, scene), rtol=0, atol=CLOSE)


@REDUCTIONS
@given(scene=scenes())
def test_probabilities_do_not_depend_on_the_other_queries(reduction, scene):
    together = read(reduction, scene)
    with chunked(scene.chunk):
        alone = [
            reduction.log_probabilities(scene.readers[i : i + 1], scene.memory).exp().numpy()[0]
            for i in range(len(scene.readers))
        ]
    np.testing.assert_allclose(together, alone, rtol=0, atol=CLOSE)


@REDUCTIONS
def test_no_queries_have_no_probabilities(reduction):
    scene = Scene([[1.0, 2.0], [0.0, 1.0]], ["a", "b"], np.zeros((0, 2)), 1)
    assert read(reduction, scene).shape == (0, 2)


@REDUCTIONS
@pytest.mark.parametrize("chunk", [1, 2])
def test_huge_scores_do_not_overflow(reduction, chunk):
    scene = Scene([[60.0], [59.0], [-60.0]], ["a", "b", "c"], [[1000.0], [-1000.0]], chunk)
    assert read(reduction, scene).tolist() == [[1, 0, 0], [0, 0, 1]]


@REDUCTIONS
@pytest.mark.parametrize("chunk", [1, 2])
@pytest.mark.parametrize("labels", [["a", "b"], ["b", "a"]])
def test_a_class_far_below_the_others_keeps_its_log(reduction, chunk, labels):
    scene = Scene([[10.0], [-10.0]], labels, [[100.0]], chunk)
    with chunked(chunk):
        logs = reduction.log_probabilities(scene.readers, scene.memory)
    assert sorted(logs[0].tolist()) == [-2000, 0]


@REDUCTIONS
def test_swapping_two_classes_rows_swaps_the_predictions(reduction):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(12, 3)) + np.repeat([[3.0, 0, 0], [0, 3, 0], [0, 0, 3]], 4, axis=0)
    readers = rng.normal(size=(6, 3))
    before = Scene(rows, [*"aaaabbbbcccc"], readers, 5)
    after = Scene(rows, [*"bbbbaaaacccc"], readers, 5)
    expected = read(reduction, before)[:, [1, 0, 2]]
    np.testing.assert_allclose(read(reduction, after), expected, rtol=0, atol=CLOSE)


@REDUCTIONS
def test_a_query_is_predicted_as_the_class_it_resembles(reduction):
    scene = Scene(np.eye(3), ["a", "b", "c"], 5 * np.eye(3)[[2, 0, 1]], 2)
    assert read(reduction, scene).argmax(1).tolist() == [2, 0, 1]


# -- leaving a row out ----------------------------------------------------------------------------


@st.composite
def excluded(draw):
    """Draw a scene and per query the position of a row to leave out, or −1."""
    scene = draw(scenes(min_rows=2))
    size = len(scene.readers)
    places = st.integers(-1, len(scene.memory) - 1)
    return scene, np.array(draw(st.lists(places, min_size=size, max_size=size)), np.int64)


@REDUCTIONS
@given(drawn=excluded())
def test_leaving_a_row_out_equals_a_memory_without_it(reduction, drawn):
    scene, exclude = drawn
    got = read(reduction, scene, exclude=exclude)
    for query, gone in enumerate(exclude):
        kept = scene.rebuilt([p for p in range(len(scene.memory)) if p != gone])
        logs = reduction.log_probabilities(scene.readers[query : query + 1], kept)
        left = dict(zip(kept.classes, logs.exp()[0].tolist(), strict=True))
        expected = [left.get(label, 0.0) for label in scene.memory.classes]
        np.testing.assert_allclose(got[query], expected, rtol=0, atol=CLOSE)


@REDUCTIONS
@pytest.mark.parametrize("chunk", [1, 3])
def test_a_class_whose_only_row_is_left_out_gets_minus_infinity(reduction, chunk):
    scene = Scene([[1.0], [2.0], [3.0]], ["a", "b", "b"], [[1.0], [1.0]], chunk)
    with chunked(chunk):
        exclude = np.array([0, -1])
        logs = reduction.log_probabilities(scene.readers, scene.memory, exclude=exclude)
    assert (logs == -math.inf).tolist() == [[True, False], [False, False]]


@REDUCTIONS
def test_a_query_without_any_row_left_gets_nan_not_a_class(reduction):
    scene = Scene([[1.0]], ["a"], [[1.0], [1.0]], 1)
    got = read(reduction, scene, exclude=np.array([0, -1]))
    np.testing.assert_array_equal(got, [[math.nan], [1.0]])


@REDUCTIONS
def test_leaving_rows_out_leaves_them_in_the_memory(reduction):
    scene = Scene([[1.0], [2.0], [3.0]], ["a", "b", "b"], [[1.0]], 2)
    before = read(reduction, scene)
    read(reduction, scene, exclude=np.array([2]))
    assert read(reduction, scene).tolist() == before.tolist()


# -- votes ----------------------------------------------------------------------------------------


@REDUCTIONS
@given(scene=scenes())
def test_every_rows_vote_equals_the_slow_loop(reduction, scene):
    found = votes(reduction, scene, len(scene.memory))
    for places, weights, reader in zip(
        found.positions, found.weights, scene.readers.tolist(), strict=True
    ):
        slow = SLOW_VOTES[reduction.name](reader, scene.rows)
        np.testing.assert_allclose(weights, [slow[p] for p in places], rtol=1e-9, atol=CLOSE)


@REDUCTIONS
@given(scene=scenes(), top=st.integers(1, 9))
def test_the_top_votes_are_the_largest_in_descending_order(reduction, scene, top):
    found = votes(reduction, scene, top)
    slow = [SLOW_VOTES[reduction.name](reader, scene.rows) for reader in scene.readers.tolist()]
    expected = [sorted(row, reverse=True)[:top] for row in slow]
    np.testing.assert_allclose(found.weights, expected, rtol=1e-9, atol=CLOSE)


@REDUCTIONS
@given(scene=scenes(), top=st.integers(1, 9))
def test_the_rest_is_the_sum_of_all_other_votes(reduction, scene, top):
    found = votes(reduction, scene, top)
    slow = [SLOW_VOTES[reduction.name](reader, scene.rows) for reader in scene.readers.tolist()]
    expected = [math.fsum(sorted(row, reverse=True)[top:]) for row in slow]
    np.testing.assert_allclose(found.rest, expected, rtol=0, atol=1e-10)


@given(scene=scenes(), top=st.integers(1, 9))
def test_probability_votes_and_the_rest_sum_to_one(scene, top):
    found = votes(RowsReduction(), scene, top)
    np.testing.assert_allclose(found.weights.sum(1) + found.rest, 1, atol=CLOSE)


def class_sums(reduction, scene):
    """Add up all votes per class, (queries, classes)."""
    found = votes(reduction, scene, len(scene.memory))
    sums = np.zeros((len(scene.readers), len(scene.memory.classes)))
    for query, places in enumerate(found.positions):
        for place, weight in zip(places, found.weights[query], strict=True):
            sums[query, scene.rows[place][1]] += weight
    return sums


@given(scene=scenes())
def test_probability_votes_of_a_class_sum_to_its_probability(scene):
    expected = read(RowsReduction(), scene)
    np.testing.assert_allclose(class_sums(RowsReduction(), scene), expected, atol=CLOSE)


@given(scene=scenes())
def test_logit_votes_of_a_class_sum_to_its_logit(scene):
    means = scene.memory.sums.means
    expected = [[dot(reader, mean) for mean in means] for reader in scene.readers.tolist()]
    np.testing.assert_allclose(class_sums(PrototypesReduction(), scene), expected, atol=1e-11)


@given(scene=scenes())
def test_logit_votes_explain_the_probabilities(scene):
    logits = torch.from_numpy(class_sums(PrototypesReduction(), scene))
    expected = read(PrototypesReduction(), scene)
    np.testing.assert_allclose(logits.softmax(1), expected, atol=1e-11)


@REDUCTIONS
@given(scene=scenes())
def test_more_votes_than_rows_are_all_rows(reduction, scene):
    places = votes(reduction, scene, len(scene.memory) + 3).positions
    everyone = list(range(len(scene.memory)))
    assert np.sort(places, axis=1).tolist() == [everyone] * len(scene.readers)


@REDUCTIONS
@given(scene=scenes())
def test_nothing_is_left_besides_all_rows(reduction, scene):
    np.testing.assert_allclose(votes(reduction, scene, 99).rest, 0, atol=1e-10)


@REDUCTIONS
@pytest.mark.parametrize("chunk", [1, 2, 9])
def test_equal_rows_each_vote_once(reduction, chunk):
    scene = Scene(np.ones((5, 2)), [*"aabbb"], [[1.0, 1.0]], chunk)
    places = votes(reduction, scene, 4).positions[0]
    assert len(set(places.tolist())) == 4


@pytest.mark.parametrize("chunk", [1, 2, 9])
def test_equal_rows_have_equal_votes(chunk):
    scene = Scene(np.ones((5, 2)), [*"aabbb"], [[1.0, 1.0]], chunk)
    assert votes(RowsReduction(), scene, 3).weights[0].tolist() == pytest.approx([0.2] * 3)


# -- the batch as the memory ----------------------------------------------------------------------


@st.composite
def batches(draw):
    """Draw float64 readers, embeddings and classes of a batch, and the number of classes."""
    size, dim, count = draw(st.integers(2, 7)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    places = draw(st.lists(st.integers(0, count - 1), min_size=size, max_size=size))
    readers, embeddings = draw(arrays(size, dim)), draw(arrays(size, dim))
    return torch.from_numpy(readers), torch.from_numpy(embeddings), torch.tensor(places), count


@REDUCTIONS
@given(batch=batches())
def test_each_query_reads_a_memory_of_the_other_rows(reduction, batch):
    readers, embeddings, places, count = batch
    got = in_batch(reduction, *batch).exp()
    rows = list(zip(embeddings.tolist(), places.tolist(), strict=True))
    for query, reader in enumerate(readers.tolist()):
        others = rows[:query] + rows[query + 1 :]
        expected = slow_probabilities(reduction, reader, others, count)
        np.testing.assert_allclose(got[query], expected, rtol=0, atol=CLOSE)


@REDUCTIONS
@given(batch=batches())
def test_training_reads_a_batch_as_prediction_reads_a_memory(reduction, batch):
    readers, embeddings, places, count = batch
    memory = Memory(embeddings.shape[1])
    memory.add(embeddings.numpy(), places.tolist())
    rounded = torch.from_numpy(memory.table.embeddings.astype(np.float64))
    trained = in_batch(reduction, readers, rounded, places, count)[:, memory.classes]
    read = reduction.log_probabilities(readers, memory, exclude=np.arange(len(memory)))
    np.testing.assert_allclose(trained.exp(), read.exp(), rtol=0, atol=CLOSE)


@REDUCTIONS
@given(batch=batches(), data=st.data())
def test_the_own_row_has_no_gradient(reduction, batch, data):
    readers, embeddings, places, count = batch
    query = data.draw(st.integers(0, len(readers) - 1))
    embeddings.requires_grad_(True)
    logs = in_batch(reduction, readers, embeddings, places, count)[query]
    finite = logs[logs != -math.inf]
    (gradient,) = torch.autograd.grad((finite * torch.arange(1, len(finite) + 1)).sum(), embeddings)
    assert gradient[query].abs().max() <= CLOSE


@REDUCTIONS
def test_the_other_rows_have_a_gradient(reduction):
    embeddings = torch.eye(4, dtype=torch.float64).requires_grad_(True)
    readers = torch.ones(4, 4, dtype=torch.float64)
    logs = in_batch(reduction, readers, embeddings, torch.tensor([0, 0, 1, 1]), 2)
    (gradient,) = torch.autograd.grad(logs[0, 0], embeddings)
    assert (gradient.abs().sum(1) > 0.01).tolist() == [False, True, True, True]


@REDUCTIONS
@given(batch=batches(), data=st.data())
def test_the_own_row_has_no_weight(reduction, batch, data):
    readers, embeddings, places, count = batch
    query = data.draw(st.integers(0, len(readers) - 1))
    changed = embeddings.clone()
    changed[query] += torch.from_numpy(data.draw(arrays(embeddings.shape[1])))
    before = in_batch(reduction, readers, embeddings, places, count)[query]
    after = in_batch(reduction, readers, changed, places, count)[query]
    np.testing.assert_allclose(after.exp(), before.exp(), rtol=0, atol=CLOSE)


@REDUCTIONS
def test_gradients_in_a_batch_are_those_of_finite_differences(reduction):
    rng = np.random.default_rng(0)
    readers, embeddings = (
        torch.from_numpy(rng.normal(size=(5, 3))).requires_grad_(True) for _ in range(2)
    )

    def finite_part(readers, embeddings):
        logs = in_batch(reduction, readers, embeddings, torch.tensor([0, 0, 1, 1, 2]), 4)
        return logs[logs != -math.inf]

    assert torch.autograd.gradcheck(finite_part, (readers, embeddings))


@REDUCTIONS
def test_the_only_row_of_a_class_finds_no_class_of_its_own(reduction):
    logs = in_batch(reduction, torch.ones(3, 2), torch.ones(3, 2), torch.tensor([0, 1, 1]), 2)
    assert (logs == -math.inf).tolist() == [[True, False], [False, False], [False, False]]


@REDUCTIONS
def test_a_class_that_is_not_in_the_batch_gets_minus_infinity(reduction):
    logs = in_batch(reduction, torch.ones(2, 2), torch.ones(2, 2), torch.tensor([0, 2]), 4)
    assert (logs[:, [1, 3]] == -math.inf).all()


@REDUCTIONS
@given(batch=batches())
def test_a_batch_of_one_class_is_sure_of_it(reduction, batch):
    readers, embeddings, places, _ = batch
    logs = in_batch(reduction, readers, embeddings, torch.zeros_like(places), 1)
    np.testing.assert_allclose(logs, 0, atol=CLOSE)


@REDUCTIONS
@given(batch=batches(), data=st.data())
def test_renumbering_the_classes_permutes_the_columns(reduction, batch, data):
    readers, embeddings, places, count = batch
    assume(count > 1)
    order = torch.tensor(data.draw(st.permutations(range(count))))
    before = in_batch(reduction, readers, embeddings, places, count).exp()
    after = in_batch(reduction, readers, embeddings, order[places], count).exp()
    np.testing.assert_allclose(after[:, order], before, rtol=0, atol=CLOSE)


# -- by name --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"), [("rows", RowsReduction), ("prototypes", PrototypesReduction)]
)
def test_a_reduction_is_found_by_its_name(name, kind):
    assert isinstance(get_reduction(name), kind)


@pytest.mark.parametrize(("name", "kind"), [("rows", "probability"), ("prototypes", "logit")])
def test_votes_are_of_a_kind(name, kind):
    assert get_reduction(name).vote_kind == kind


def test_an_unknown_reduction_is_refused_with_the_known_names():
    with pytest.raises(ArgumentError) as caught:
        get_reduction("neighbors")
    known = "'prototypes', 'rows', 'neighbours', 'gaussian', 'knn'"
    expected = f"Expected reduction to be {known}, but got 'neighbors'."
    assert str(caught.value) == expected


def test_a_name_is_not_given_twice(monkeypatch):
    monkeypatch.setattr(registry, "REDUCTIONS", dict(registry.REDUCTIONS))
    with pytest.raises(ArgumentError, match="Expected a new name, but 'rows' is already"):
        register_reduction("rows", lambda _: RowsReduction())


def test_a_refused_registration_changes_nothing(monkeypatch):
    before = dict(registry.REDUCTIONS)
    monkeypatch.setattr(registry, "REDUCTIONS", dict(before))
    with pytest.raises(ArgumentError):
        register_reduction("rows", lambda _: RowsReduction())
    assert before == registry.REDUCTIONS


def test_a_new_reduction_is_found_by_its_name(monkeypatch):
    monkeypatch.setattr(registry, "REDUCTIONS", {})
    reduction = RowsReduction()
    register_reduction("mine", lambda reading: reduction if reading.k == 3 else None)
    assert get_reduction("mine", Reading(k=3)) is reduction
