import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from erasable.errors import ArgumentError
from erasable.weights import load_weights, tensors_digest, weights_digest, weights_of

DTYPES = [
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8,
    torch.int32, torch.int64, torch.bool,
]  # fmt: skip


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def test_equal_weights_have_equal_digests():
    assert weights_digest(network()) == weights_digest(network())


def test_a_digest_is_a_sha256():
    assert len(bytes.fromhex(weights_digest(network()))) == 32


def test_the_digest_stays_the_same_from_release_to_release():
    tensors = {"a": torch.tensor([1.0, -2.0]), "b": torch.tensor(7, dtype=torch.int64)}
    expected = "110c4b0a23b89d7da23822541074f13bcbd7d87a61906082c3fb99feb6f3d66c"
    assert tensors_digest(tensors) == expected


@given(st.integers(0, 6 * 4 * 8 - 1))
def test_any_bit_changes_the_digest(place):
    before = torch.arange(6, dtype=torch.float32)
    after = before.clone()
    after.view(torch.uint8)[place // 8] ^= 1 << place % 8
    assert tensors_digest({"a": after}) != tensors_digest({"a": before})


def test_minus_zero_is_not_zero():
    assert tensors_digest({"a": torch.tensor(-0.0)}) != tensors_digest({"a": torch.tensor(0.0)})


def test_the_name_is_part_of_the_digest():
    assert tensors_digest({"a": torch.ones(2)}) != tensors_digest({"b": torch.ones(2)})


def test_the_shape_is_part_of_the_digest():
    shapes = [(6,), (2, 3), (3, 2), (1, 6), (6, 1)]
    assert len({tensors_digest({"a": torch.ones(shape)}) for shape in shapes}) == 5


def test_the_dtype_is_part_of_the_digest():
    digests = {tensors_digest({"a": torch.zeros(8).view(dtype)}) for dtype in DTYPES[:-1]}
    assert len(digests) == len(DTYPES) - 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3,)])
def test_tensors_of_any_kind_have_a_digest(dtype, shape):
    assert len(tensors_digest({"a": torch.ones(shape, dtype=dtype)})) == 64


def test_a_value_moved_to_the_next_tensor_changes_the_digest():
    first = {"a": torch.ones(2), "b": torch.ones(1)}
    second = {"a": torch.ones(1), "b": torch.ones(2)}
    assert tensors_digest(first) != tensors_digest(second)


def test_a_missing_tensor_changes_the_digest():
    both = {"a": torch.ones(1), "b": torch.zeros(0)}
    assert tensors_digest(both) != tensors_digest({"a": torch.ones(1)})


def test_the_order_of_tensors_does_not_matter():
    tensors = {"a": torch.ones(2), "b": torch.zeros(1)}
    assert tensors_digest(dict(reversed(tensors.items()))) == tensors_digest(tensors)


def test_the_layout_in_memory_does_not_matter():
    matrix = torch.arange(6.0).reshape(2, 3)
    assert tensors_digest({"a": matrix.T.contiguous().T}) == tensors_digest({"a": matrix})


def test_buffers_are_part_of_the_digest():
    changed = network()
    changed[1].running_mean += 1
    assert weights_digest(changed) != weights_digest(network())


# -- every change is seen ------------------------------------------------------------------------


def optimiser_step(module):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    module.eval()(torch.ones(2, 3)).sum().backward()
    optimizer.step()


def replace_parameter(module):
    other = nn.Parameter(torch.ones(4, 3))
    with torch.no_grad():
        while other._version < module[0].weight._version:  # written to as often as the first
            other += 1
    module[0].weight = other


def write_in_place(module):
    with torch.no_grad():
        module[2].bias[1] = 5


CHANGES = {
    "an optimiser step": optimiser_step,
    "a forward pass in training mode": lambda module: module.train()(torch.ones(2, 3)),
    "loading weights": lambda module: module.load_state_dict(
        {name: tensor + 1 for name, tensor in module.state_dict().items()}
    ),
    "another parameter": replace_parameter,
    "an entry": write_in_place,
    "another dtype": lambda module: module.double(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen(change):
    module = network()
    before = weights_digest(module)
    change(module)
    assert weights_digest(module) != before


def test_a_write_behind_torchs_back_is_seen():
    network = nn.Linear(2, 2)
    before = weights_digest(network)
    network.weight.data += 1
    assert weights_digest(network) != before


def test_a_buffer_that_is_not_saved_is_part_of_the_digest():
    network = nn.Linear(2, 2)
    network.register_buffer("mask", torch.zeros(2), persistent=False)
    before = weights_digest(network)
    network.mask[0] = 1
    assert weights_digest(network) != before


def test_weights_are_loaded_into_every_place():
    source, target = network(), network()
    optimiser_step(source)
    load_weights(target, weights_of(source))
    assert weights_digest(target) == weights_digest(source)


def test_weights_of_another_network_are_refused_and_nothing_is_loaded():
    target = network()
    before = weights_digest(target)
    tensors = {name: tensor + 1 for name, tensor in weights_of(network()).items()}
    tensors["0.bias"], tensors["odd"] = torch.zeros(7), torch.zeros(1)
    with pytest.raises(ArgumentError, match=r"'odd', '0\.bias'"):
        load_weights(target, tensors)
    assert weights_digest(target) == before
