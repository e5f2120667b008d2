import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import ArgumentError
from erasable.training import Batch, CrossEntropy, InBatchMemory, SeparateSupport, Support
from erasable.training._objective import smoothed_loss
from fusion.references import REDUCTIONS, arrays, slow_probabilities


@st.composite
def batches(draw):
    """Draw embeddings, readers and class labels (with gaps) of a batch."""
    size, dim = draw(st.integers(2, 8)), draw(st.integers(1, 3))
    labels = draw(st.lists(st.sampled_from([0, 3, 7]), min_size=size, max_size=size))
    embeddings, readers = draw(arrays(size, dim)), draw(arrays(size, dim))
    return torch.from_numpy(embeddings), torch.from_numpy(readers), torch.tensor(labels)


def step(reduction, batch, smoothing=0.0):
    """Run the objective on a network that reads the drawn embeddings with the drawn readers."""
    embeddings, readers, labels = batch

    def network(inputs, classes, count):
        own = torch.arange(len(inputs))
        return reduction.fuse(readers, embeddings, classes, count, own=own)

    return InBatchMemory(label_smoothing=smoothing)(network, Batch(embeddings, labels))


def slow_losses(reduction, batch, smoothing):
    """Return the loss of each query that has a partner, and whether its class was the first."""
    embeddings, readers, labels = (part.tolist() for part in batch)
    present = sorted(set(labels))
    rows = [(row, present.index(lab)) for row, lab in zip(embeddings, labels, strict=True)]
    found = []
    for query, (reader, label) in enumerate(zip(readers, labels, strict=True)):
        if labels.count(label) < 2:
            continue
        others = rows[:query] + rows[query + 1 :]
        chances = slow_probabilities(reduction, reader, others, len(present))
        place = present.index(label)
        live = [math.log(p) for c, p in enumerate(chances) if c in {c for _, c in others}]
        loss = -(1 - smoothing) * math.log(chances[place]) - smoothing * sum(live) / len(live)
        found.append((loss, chances[place], max(chances)))
    return found


@REDUCTIONS
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@given(batch=batches())
def test_the_loss_is_the_mean_of_the_slow_losses(reduction, smoothing, batch):
    slow = [loss for loss, _, _ in slow_losses(reduction, batch, smoothing)]
    result = step(reduction, batch, smoothing)
    assert float(result.loss) == pytest.approx(sum(slow) / max(1, len(slow)), abs=1e-9)


@pytest.mark.parametrize(
    ("smoothing", "expected"), [(0.0, -1.0), (0.25, 0.75 * -1.0 + 0.25 * (-1.0 - 3.0) / 2)]
)
def test_a_target_is_not_spread_over_classes_without_rows(smoothing, expected):
    logs = torch.tensor([[-1.0, -math.inf, -3.0]])
    assert smoothed_loss(logs, logs[:, 0], smoothing).tolist() == [-expected]


@REDUCTIONS
@given(batch=batches())
def test_queries_with_a_partner_are_counted(reduction, batch):
    assert step(reduction, batch).counted == len(slow_losses(reduction, batch, 0))


@REDUCTIONS
@given(batch=batches())
def test_correct_queries_are_counted(reduction, batch):
    slow = slow_losses(reduction, batch, 0)
    least = sum(own > best - 1e-9 and own > 0.5 for _, own, best in slow)
    most = sum(own > best - 1e-9 for _, own, best in slow)
    assert least <= step(reduction, batch).correct <= most


@REDUCTIONS
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@given(batch=batches(), order=st.permutations(range(8)))
def test_renumbering_the_classes_leaves_the_loss(reduction, smoothing, batch, order):
    embeddings, readers, labels = batch
    renumbered = (embeddings, readers, torch.tensor(order)[labels])
    before = step(reduction, batch, smoothing).loss
    after = step(reduction, renumbered, smoothing).loss
    assert float(after) == pytest.approx(float(before), abs=1e-10)


@REDUCTIONS
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_queries_without_a_partner_leave_no_nan_in_the_gradient(reduction, smoothing):
    embeddings, readers = (torch.ones(4, 2, requires_grad=True) for _ in range(2))
    step(reduction, (embeddings, readers, torch.tensor([0, 0, 1, 2])), smoothing).loss.backward()
    assert embeddings.grad.isfinite().all()
    assert readers.grad.isfinite().all()


@REDUCTIONS
def test_a_query_without_a_partner_does_not_learn(reduction):
    embeddings = torch.eye(3)
    readers = torch.eye(3).requires_grad_(True)
    step(reduction, (embeddings, readers, torch.tensor([0, 0, 1]))).loss.backward()
    assert readers.grad[2].tolist() == [0, 0, 0]


@REDUCTIONS
def test_a_batch_without_any_partner_has_no_loss(reduction):
    embeddings = torch.eye(3).requires_grad_(True)
    result = step(reduction, (embeddings, embeddings, torch.tensor([0, 1, 2])))
    assert (result.loss.item(), result.counted, result.correct) == (0, 0, 0)


@REDUCTIONS
def test_a_batch_without_any_partner_teaches_nothing(reduction):
    embeddings = torch.eye(3).requires_grad_(True)
    batch = (embeddings, embeddings, torch.tensor([0, 1, 2]))
    step(reduction, batch).loss.backward()
    assert embeddings.grad.abs().sum() == 0


@REDUCTIONS
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_nan_is_not_taken_for_a_missing_partner(reduction, smoothing):
    embeddings = torch.eye(4)
    embeddings[1, 1] = math.nan
    result = step(reduction, (embeddings, torch.eye(4), torch.tensor([0, 0, 1, 1])), smoothing)
    assert result.counted == 4


@REDUCTIONS
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("part", ["embeddings", "readers"])
def test_a_nan_reaches_the_loss(reduction, smoothing, part):
    batch = {"embeddings": torch.eye(4), "readers": torch.eye(4)}
    batch[part][1, 1] = math.nan
    result = step(reduction, (*batch.values(), torch.tensor([0, 0, 1, 1])), smoothing)
    assert result.loss.isnan()


@st.composite
def logits_and_classes(draw):
    size, count = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    places = draw(st.lists(st.integers(0, count - 1), min_size=size, max_size=size))
    return torch.from_numpy(draw(arrays(size, count))), torch.tensor(places)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@given(drawn=logits_and_classes())
def test_cross_entropy_equals_the_slow_loop(smoothing, drawn):
    logits, places = drawn
    total = 0.0
    for row, place in zip(logits.tolist(), places.tolist(), strict=True):
        norm = math.log(math.fsum(math.exp(value) for value in row))
        logs = [value - norm for value in row]
        total -= (1 - smoothing) * logs[place] + smoothing * sum(logs) / len(logs)
    objective = CrossEntropy(label_smoothing=smoothing)
    got = float(objective(lambda inputs: logits, Batch(logits, places)).loss)
    assert got == pytest.approx(total / len(logits), abs=1e-10)


def test_cross_entropy_counts_every_query_and_the_correct_ones():
    logits = torch.tensor([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]])
    result = CrossEntropy()(lambda inputs: logits, Batch(logits, torch.tensor([1, 0, 0])))
    assert (result.correct, result.counted) == (2, 3)


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        (InBatchMemory(), True),
        (SeparateSupport(Support(4)), False),
        (CrossEntropy(), False),
    ],
)
def test_only_a_batch_that_is_its_own_memory_needs_partners(objective, expected):
    assert objective.needs_partners is expected


def test_objectives_with_other_settings_describe_themselves_otherwise():
    objectives = [
        InBatchMemory(),
        InBatchMemory(label_smoothing=0.1),
        SeparateSupport(Support(4)),
        SeparateSupport(Support(5)),
        SeparateSupport(Support(4, "balanced")),
        SeparateSupport(Support(4), label_smoothing=0.1),
        CrossEntropy(),
        CrossEntropy(label_smoothing=0.1),
    ]
    assert len({objective.describe() for objective in objectives}) == 8


# -- a separate support ---------------------------------------------------------------------------


@st.composite
def supported(draw):
    """Draw readers and labels of queries, and embeddings and labels of rows."""
    queries, rows = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    dim, labels = draw(st.integers(1, 3)), st.sampled_from([0, 3, 7])
    return (
        torch.from_numpy(draw(arrays(queries, dim))),
        torch.tensor(draw(st.lists(labels, min_size=queries, max_size=queries))),
        torch.from_numpy(draw(arrays(rows, dim))),
        torch.tensor(draw(st.lists(labels, min_size=rows, max_size=rows))),
    )


@REDUCTIONS
@given(drawn=supported())
def test_a_separate_support_is_read_whole(reduction, drawn):
    readers, wanted, rows, labels = drawn
    present = sorted(set(labels.tolist()))
    pairs = [
        (row, present.index(label))
        for row, label in zip(rows.tolist(), labels.tolist(), strict=True)
    ]
    losses = [
        -math.log(slow_probabilities(reduction, reader, pairs, len(present))[present.index(label)])
        for reader, label in zip(readers.tolist(), wanted.tolist(), strict=True)
        if label in present
    ]

    def network(inputs, classes, count, support):
        return reduction.fuse(inputs, support, classes, count)

    objective = SeparateSupport(Support(4))
    result = objective(network, Batch(readers, wanted, rows, labels))
    assert result.counted == len(losses)
    assert float(result.loss) == pytest.approx(sum(losses) / max(1, len(losses)), abs=1e-9)


def test_a_separate_support_needs_rows():
    with pytest.raises(ArgumentError, match="Expected a batch with support rows"):
        SeparateSupport(Support(4))(None, Batch(torch.ones(2, 2), torch.tensor([0, 1])))
