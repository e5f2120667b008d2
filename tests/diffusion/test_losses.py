"""What denoising networks learn from: rows, own rows left out, classes dropped and renumbered."""

import numpy as np
import pytest
import torch

from erasable.diffusion import NULL, ClassLoss, MemoryLoss, MemoryUNet, dropped, make_scheduler
from erasable.training import Draw, Inputs

COUNT = 40


class Spy(torch.nn.Module):
    """Notes what it is called with, and sees no noise."""

    def forward(self, images, timesteps, reads, **options):
        self.seen = {"images": images, "timesteps": timesteps, "reads": reads, **options}
        return torch.zeros_like(images)


def inputs():
    return Inputs(np.random.default_rng(0).integers(0, 255, (COUNT, 8, 8)).astype(np.uint8))


CLASSES = torch.arange(COUNT) % 4


def draw(rows, seed=0):
    rows = np.asarray(rows)
    rng = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    return Draw(inputs()[rows], CLASSES[rows], generator, rng, rows)


def asked(*, rows=range(8), seed=0, **options):
    """Return what a network is called with."""
    spy = Spy()
    settings = {"support": 0, "drop": 0.0, **options}
    MemoryLoss(make_scheduler(), inputs=inputs(), classes=CLASSES, **settings)(
        spy, draw(rows, seed)
    )
    return spy.seen


def test_half_of_the_batch_is_its_memory_and_knows_its_own():
    seen = asked()
    torch.testing.assert_close(seen["rows"], 2 * inputs()[np.arange(0, 8, 2)] - 1)
    assert seen["row_classes"].tolist() == [0, 2, 0, 2]
    assert seen["own"].tolist() == [0, -1, 1, -1, 2, -1, 3, -1]
    assert seen["row_times"].tolist() == [0] * 4


def test_an_own_row_leaves_no_trace_in_the_gradient():
    torch.manual_seed(0)
    network = MemoryUNet((1, 8, 8), channels=(8, 8), layers=1).double()
    batch = draw([0, 1])  # one row of memory, of another class than the second query
    only = Draw(batch.inputs.double(), torch.tensor([0, 0]), batch.generator, batch.rng, batch.rows)
    seen = []
    keep = network.fusion.to_key.register_forward_hook(lambda m, i, o: seen.append(o))
    loss = MemoryLoss(make_scheduler(), 0, inputs(), CLASSES, drop=0.0)
    noisy = loss(network, only)
    keep.remove()
    grads = torch.autograd.grad(noisy, seen[0])[0]
    assert grads.abs().max() > 0  # by the second query; the first one reads the null token
    null = torch.autograd.grad(loss(network, only), network.fusion.null)[0]
    assert null.abs().max() > 0


def test_support_is_disjoint_from_the_batch():
    for seed in range(5):
        seen = asked(support=20, seed=seed)
        batch = {row.numpy().tobytes() for row in 2 * inputs()[np.arange(8)] - 1}
        support = {row.contiguous().numpy().tobytes() for row in seen["rows"]}
        assert len(support) == 20
        assert not batch & support
        assert seen["own"] is None


def test_rows_follow_the_one_time_step_of_the_queries():
    seen = asked(branch="follow")
    assert len(set(seen["timesteps"].tolist())) == 1
    assert set(seen["row_times"].tolist()) == set(seen["timesteps"].tolist())
    assert len(set(asked(branch="fixed")["timesteps"].tolist())) > 1


def test_a_share_of_the_queries_reads_nothing():
    classes = torch.zeros(10_000, dtype=torch.long)
    found = dropped(classes, 0.1, torch.Generator().manual_seed(0))
    assert 0.08 < (found == NULL).float().mean() < 0.12


def test_classes_are_told_as_asked():
    assert asked(labels="none")["labels"] is None
    assert asked(labels="plain")["labels"].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    orders = {tuple(asked(labels="permuted", seed=s)["labels"].tolist()[:4]) for s in range(9)}
    assert len(orders) > 3
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)


def test_a_query_that_reads_nothing_is_not_told_its_class_either():
    seen = asked(labels="plain", drop=0.9, rows=range(30))
    is_dropped = seen["reads"] == NULL
    assert is_dropped.any()
    assert (seen["labels"][is_dropped] == NULL).all()


@pytest.mark.parametrize("classes", [0, 4])
def test_rows_are_encoded_in_training_as_they_are_stored(classes):
    torch.manual_seed(0)
    network = MemoryUNet((1, 8, 8), classes, channels=(8, 8), layers=1).eval()
    seen = []
    keep = network.fusion.to_key.register_forward_hook(lambda m, i, o: seen.append(i[0]))
    labels = "plain" if classes else "none"
    MemoryLoss(make_scheduler(), 0, inputs(), CLASSES, labels=labels)(network, draw(range(8)))
    keep.remove()
    rows = 2 * inputs()[np.arange(0, 8, 2)] - 1
    stored = network.encode(rows, torch.zeros(4, dtype=torch.long))
    torch.testing.assert_close(seen[0], stored)


def test_the_ordinary_loss_is_the_mean_squared_error():
    loss = ClassLoss(make_scheduler(), drop=0.0)

    class Nothing(torch.nn.Module):
        def forward(self, images, timesteps, labels):
            return torch.zeros_like(images)

    noise = torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(loss(Nothing(), draw(range(8))), noise.square().mean())
