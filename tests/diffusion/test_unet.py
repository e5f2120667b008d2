"""The networks: against diffusers' own, and what the memory does to them."""

import pytest
import torch
from diffusers import UNet2DModel
from torch.utils._python_dispatch import TorchDispatchMode

from erasable.diffusion import ClassUNet, MemoryUNet, PatchMemory
from erasable.errors import ArgumentError

SMALL = {"channels": (8, 16), "layers": 1}


def images(count, shape=(1, 8, 8), seed=0):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


def memory_unet(**options):
    torch.manual_seed(0)
    return MemoryUNet((1, 8, 8), **{**SMALL, **options}).eval()


@pytest.mark.parametrize("attention", [(), (1,)])
def test_the_twin_is_the_network_of_diffusers(attention):
    torch.manual_seed(0)
    ours = ClassUNet((3, 8, 8), 4, attention=attention, **SMALL).eval()
    kinds = ["AttnDownBlock2D" if level in attention else "DownBlock2D" for level in (0, 1)]
    theirs = UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        down_block_types=tuple(kinds),
        up_block_types=tuple(kind.replace("Down", "Up") for kind in reversed(kinds)),
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=2,
        norm_eps=1e-6,
        attention_head_dim=16,
        num_class_embeds=5,
    ).eval()
    theirs.load_state_dict(ours.state_dict())
    noisy, times = images(3, (3, 8, 8)), torch.tensor([1, 500, 999])
    found = ours(noisy, times, torch.tensor([0, 3, -1]))
    expected = theirs(noisy, times, class_labels=torch.tensor([0, 3, 4])).sample
    torch.testing.assert_close(found, expected)


def test_rows_read_once_are_read_as_if_given_with_the_queries():
    network = memory_unet()
    noisy, rows = images(5), images(6, seed=1)
    times, zeros = torch.tensor([3, 50, 400, 700, 999]), torch.zeros(6, dtype=torch.long)
    reads, classes = torch.tensor([0, 1, 2, 1, -1]), torch.tensor([2, 0, 1, 1, 0, 2])
    together = network(noisy, times, reads, rows=rows, row_times=zeros, row_classes=classes)
    memory = PatchMemory(network.fusion.project(network.encode(rows, zeros)), classes)
    torch.testing.assert_close(network.denoise(noisy, times, reads, memory), together)
    apart = network(
        noisy, times, reads, rows=rows, row_times=zeros, row_classes=classes, has_gradient=False
    )
    torch.testing.assert_close(apart, together)


def test_a_query_depends_on_the_rows_of_its_class_alone():
    network = memory_unet()
    noisy, rows = images(2), images(4, seed=1)
    times, zeros = torch.tensor([3, 400]), torch.zeros(4, dtype=torch.long)
    reads, classes = torch.tensor([0, 1]), torch.tensor([0, 0, 1, 1])
    options = {"row_times": zeros, "row_classes": classes}
    before = network(noisy, times, reads, rows=rows, **options)
    changed = rows.clone()
    changed[0] += 1
    after = network(noisy, times, reads, rows=changed, **options)
    torch.testing.assert_close(after[1], before[1])
    assert (after[0] - before[0]).abs().max() > 1e-4


def test_a_query_does_not_depend_on_its_own_row():
    network = memory_unet()
    noisy, rows = images(2), images(4, seed=1).requires_grad_()
    found = network(
        noisy,
        torch.tensor([3, 400]),
        torch.tensor([0, 0]),
        rows=rows,
        row_times=torch.zeros(4, dtype=torch.long),
        row_classes=torch.zeros(4, dtype=torch.long),
        own=torch.tensor([2, -1]),
    )
    found[0].square().sum().backward()
    assert rows.grad[2].abs().max() == 0
    assert rows.grad[[0, 1, 3]].abs().amax(dim=(1, 2, 3)).min() > 0


def test_without_gradients_through_rows_the_projection_still_learns():
    network = memory_unet().train()
    zeros = torch.zeros(3, dtype=torch.long)
    network(
        images(3),
        zeros,
        zeros,
        rows=images(3, seed=1),
        row_times=zeros,
        row_classes=zeros,
        has_gradient=False,
    ).square().sum().backward()
    assert network.fusion.to_key.weight.grad.abs().max() > 0


def test_the_asked_class_is_told_only_where_there_is_an_embedding():
    zeros, ones = torch.zeros(1, dtype=torch.long), torch.ones(1, dtype=torch.long)
    for classes, is_told in ((0, False), (3, True)):
        network = memory_unet(classes=classes)
        first, second = (network.embedding(zeros, labels) for labels in (zeros, ones))
        assert torch.equal(first, second) != is_told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_shape": (1, 10, 8)}, "can be halved 2 times.*10 × 8 pixels"),
        ({"image_shape": (8, 8)}, r"\(channels, height, width\)"),
        ({"channels": (8, 10)}, "multiples of 4"),
        ({"channels": ()}, "multiples of 4"),
        ({"layers": 0}, "layers"),
        ({"attention": (2,)}, "levels 0 to 1"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_a_network_that_cannot_be_is_refused(options, message):
    settings = {"image_shape": (1, 8, 8), **SMALL, **options}
    if "halved" in message:
        settings["channels"] = (8, 8, 8)
    with pytest.raises(ArgumentError, match=message):
        MemoryUNet(**settings)


# -- half precision --------------------------------------------------------------------------------


def read_by(network, noisy):
    """Return what a memory network sees when it reads two rows."""
    rows, classes = images(2, seed=1), torch.tensor([0, 1])
    zeros = torch.zeros(2, dtype=torch.long)
    times, reads = torch.full((len(noisy),), 300), torch.tensor([0, 1, -1])
    return network(noisy, times, reads, rows=rows, row_times=zeros, row_classes=classes)


def dtypes_of(operator, network, noisy):
    """Return the kinds of numbers that an operator is given."""
    seen = set()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function is operator:
                seen.add(args[0].dtype)
            return function(*args, **(kwargs or {}))

    with Watch():
        read_by(network, noisy)
    return seen


@pytest.mark.parametrize(
    ("precision", "is_training", "dtype"),
    [
        ("float32", True, torch.float32),
        ("bfloat16", True, torch.bfloat16),
        ("bfloat16", False, torch.float32),
    ],
)
def test_precision_is_that_of_convolutions_in_training(precision, is_training, dtype):
    network = memory_unet(precision=precision).train(is_training)
    aten = torch.ops.aten
    assert dtypes_of(aten.convolution.default, network, images(3)) == {dtype}
    assert dtypes_of(aten.native_group_norm.default, network, images(3)) == {torch.float32}


def test_training_in_half_precision_follows_that_in_full():
    full, half = memory_unet().train(), memory_unet(precision="bfloat16").train()
    noisy = images(3)
    expected, found = read_by(full, noisy), read_by(half, noisy)
    assert 0 < (found - expected).norm() < 0.05 * expected.norm()
    found.square().sum().backward()
    gradients = [p.grad for p in half.parameters() if p.grad is not None]
    tensors = [found, *half.parameters(), *gradients]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
    torch.testing.assert_close(read_by(half.eval(), noisy), read_by(full.eval(), noisy))


def test_networks_of_different_precision_are_told_apart():
    assert repr(memory_unet()) != repr(memory_unet(precision="bfloat16"))


def test_an_unknown_precision_is_told():
    with pytest.raises(ArgumentError, match="Expected precision 'float32', 'bfloat16', but got"):
        memory_unet(precision="half")
