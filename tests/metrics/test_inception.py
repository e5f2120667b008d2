"""Inception from a file of its weights: as torch-fidelity computes it, or refused."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from erasable.errors import ArgumentError, StoreError
from erasable.metrics import InceptionFeatures
from erasable.metrics._inception import Inception

EXPECTED = [
    [0.497544, 0.494062, 0.479897, 0.478203, 0.477012, 0.427463, 0.471807, 0.47522],
    [0.498801, 0.49557, 0.480522, 0.479926, 0.474893, 0.4258, 0.47015, 0.474637],
]
"""Means of eighths of the features, by torch-fidelity 0.4.0 from `made_up` weights and `IMAGES`."""

IMAGES = np.random.default_rng(0).random((2, 3, 12, 20))


def made_up():
    """Return weights by the names that files have, the same each time."""
    source = torch.Generator().manual_seed(0)
    found = {name.partition(".")[2]: value for name, value in Inception().state_dict().items()}
    for name in sorted(found):
        value = found[name]
        noise = torch.randn(value.shape, generator=source)
        if name.endswith("running_var"):
            found[name] = noise.abs() + 0.5
        elif value.ndim == 4:
            found[name] = noise * (2 / value[0].numel()) ** 0.5
        elif not name.endswith("tracked"):
            found[name] = 0.2 * noise + (1 if name.endswith("bn.weight") else 0)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, weights = tmp_path_factory.mktemp("inception"), made_up()
    save_file(weights, folder / "weights.safetensors")
    torch.save({**weights, "fc.weight": torch.zeros(1008, 2048)}, folder / "weights.pth")
    return folder


@pytest.mark.parametrize("name", ["weights.pth", "weights.safetensors"])
def test_features_are_those_of_torch_fidelity(files, name):
    features = InceptionFeatures(files / name)
    found = features(IMAGES)
    assert found.shape == (2, 2048)
    np.testing.assert_allclose(found.reshape(2, 8, 256).mean(axis=2), EXPECTED, rtol=1e-4)
    assert features.key.startswith("inception:")


def test_grey_images_are_taken_as_colours(files):
    features, grey = InceptionFeatures(files / "weights.pth"), IMAGES[:, :1]
    np.testing.assert_array_equal(features(grey), features(np.repeat(grey, 3, axis=1)))


@pytest.mark.parametrize(
    "change", [{"Mixed_7c.branch1x1.bn.bias": None}, {"more": 1}, {"Conv2d_1a_3x3.bn.bias": 3}]
)
def test_weights_of_another_network_are_refused(tmp_path, change):
    weights = made_up()
    for name, size in change.items():
        weights.pop(name, None)
        if size is not None:
            weights[name] = torch.zeros(size)
    torch.save(weights, tmp_path / "weights.pth")
    with pytest.raises(StoreError, match=f"{next(iter(change))}' differ"):
        InceptionFeatures(tmp_path / "weights.pth")


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "weights.pth").write_bytes(b"nothing")
    with pytest.raises(StoreError, match="file of Inception's weights"):
        InceptionFeatures(tmp_path / "weights.pth")
    for number, other in enumerate(([1], {1: torch.zeros(1)}, {"fc.bias": 1})):
        torch.save(other, tmp_path / f"{number}.pth")
        with pytest.raises(StoreError, match=rf"tensors by name in .*{number}\.pth"):
            InceptionFeatures(tmp_path / f"{number}.pth")
    with pytest.raises(ArgumentError, match="file of Inception's weights"):
        InceptionFeatures(tmp_path / "missing.pth")
