"""What denoising networks learn from: rows, own rows left out, classes dropped and renumbered."""

import numpy as np
import pytest
import torch

from erasable.diffusion import (
    NULL,
    ClassLoss,
    MemoryLoss,
    MemoryUNet,
    PatchMemory,
    add_noise,
    dropped,
    make_scheduler,
)
from erasable.diffusion._losses import alone
from erasable.training import Draw, Inputs

COUNT = 40
NAMES = ("inputs", "classes", "generator", "rng", "rows")


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
    images = 2 * inputs()[np.arange(2)].double() - 1
    keys = network.fusion.project(network.encode(images, torch.zeros(2, dtype=torch.long)))
    keys = keys.detach().requires_grad_()
    classes, own = torch.tensor([0, 0]), torch.tensor([0, 1])
    memory = PatchMemory(keys, classes, own)
    seen = network.denoise(images, torch.tensor([5, 5]), classes, memory)
    of_keys = torch.autograd.grad(seen[0].square().sum(), keys)[0]
    assert of_keys[0].abs().max() == 0
    assert of_keys[1].abs().max() > 0


def test_queries_that_have_only_themselves_to_read_are_left_out_and_counted():
    batch = draw([0, 1, 4, 3])  # rows are the first and the third, both of class 0
    loss = MemoryLoss(make_scheduler(), 0, inputs(), CLASSES, drop=0.0)
    value = loss(Spy(), batch)
    assert batch.notes == {"alone": 0.5}
    again = draw([0, 1, 4, 3])
    _, noise, _ = add_noise(make_scheduler(), again.inputs, again.generator)
    torch.testing.assert_close(value, noise[[0, 2]].square().mean())


def test_who_is_alone():
    reads, classes = torch.tensor([0, 1, 2, NULL, 0]), torch.tensor([0, 1, 1])
    assert alone(reads, classes, None).tolist() == [False, False, True, False, False]
    own = torch.tensor([0, 1, -1, -1, -1])
    assert alone(reads, classes, own).tolist() == [True, False, True, False, False]


def test_the_support_is_changed_as_the_queries_are():
    rows = {}
    for how in ("none", "flip"):
        spy, batch = Spy(), draw(range(8))
        batch = Draw(*(getattr(batch, name) for name in NAMES), augmentation=how)
        MemoryLoss(make_scheduler(), 20, inputs(), CLASSES, drop=0.0)(spy, batch)
        rows[how] = spy.seen["rows"]
    is_same = (rows["flip"] == rows["none"]).flatten(1).all(dim=1)
    is_turned = (rows["flip"].flip(3) == rows["none"]).flatten(1).all(dim=1)
    assert (is_same ^ is_turned).all()
    assert is_turned.any()


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


def test_numberings_use_every_number_also_those_of_classes_without_rows():
    told = [asked(labels="permuted", seed=s, embeddings=5)["labels"].tolist() for s in range(20)]
    assert {number for numbers in told for number in numbers} == {0, 1, 2, 3, 4}
    assert all(len(set(numbers)) == 4 for numbers in told)


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
