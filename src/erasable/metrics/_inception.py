"""Inception as published FIDs have it, from a file of its weights.

The network of 2015 that was trained in TensorFlow: averages do not count the padding, the last
block takes a maximum instead, and images are enlarged as TensorFlow 1 did it. Names of parts are
those of the usual file of weights (``weights-inception-2015-12-05-6726825d.pth``).
"""

from pathlib import Path
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from erasable.errors import StoreError, listing

_SIDE = 299

Size = int | tuple[int, int]
Layer = tuple[str, int, Size]
"""Name, channels and kernel of a convolution."""


@final
class Inception(nn.Module):
    """From bytes (n, 3, height, width) to 2,048 features."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.ModuleDict(
            {
                "Conv2d_1a_3x3": _Convolution(3, 32, 3, stride=2),
                "Conv2d_2a_3x3": _Convolution(32, 32, 3),
                "Conv2d_2b_3x3": _Convolution(32, 64, 3, padding=1),
                "first_pool": nn.MaxPool2d(3, stride=2),
                "Conv2d_3b_1x1": _Convolution(64, 80, 1),
                "Conv2d_4a_3x3": _Convolution(80, 192, 3),
                "second_pool": nn.MaxPool2d(3, stride=2),
            }
        )
        mixed = {
            "Mixed_5b": _fives(192, 32),
            "Mixed_5c": _fives(256, 64),
            "Mixed_5d": _fives(288, 64),
            "Mixed_6a": _smaller_first(),
            "Mixed_6b": _sevens(128),
            "Mixed_6c": _sevens(160),
            "Mixed_6d": _sevens(160),
            "Mixed_6e": _sevens(192),
            "Mixed_7a": _smaller_second(),
            "Mixed_7b": _threes(1280, _mean_pool()),
            "Mixed_7c": _threes(2048, nn.MaxPool2d(3, stride=1, padding=1)),
        }
        self.mixed = nn.ModuleDict(mixed)

    def forward(self, images: Tensor) -> Tensor:
        """Return features, (n, 2048)."""
        features = (_enlarged(images.float()) - 128) / 128
        for part in (*self.stem.values(), *self.mixed.values()):
            features = part(features)
        return features.mean(dim=(2, 3))


def load_inception(file: Path) -> Inception:
    """Return the network with the weights of a file.

    Args:
        file: A ``.pth`` file of tensors, which are all that is read of it, or a ``.safetensors``.

    Raises:
        StoreError: If it has not the weights of this network.
    """
    network = Inception().eval()
    given = {name: tensor for name, tensor in _read(file).items() if not name.startswith("fc.")}
    own = {name.partition(".")[2]: tensor for name, tensor in network.state_dict().items()}
    own = {name: tensor for name, tensor in own.items() if not name.endswith("tracked")}
    wrong = sorted(
        name
        for name in own.keys() | {name for name in given if not name.endswith("tracked")}
        if name not in given or name not in own or given[name].shape != own[name].shape
    )
    if wrong:
        raise StoreError(f"Expected Inception's weights in {file}, but {listing(wrong)} differ.")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(given[name])
    return network.requires_grad_(False)


def _read(file: Path) -> dict[str, Tensor]:
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        found = torch.load(file, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # whatever a file that is none of these makes of its reader
        raise StoreError(f"Expected a file of Inception's weights, but got {file}.") from error
    if isinstance(found, dict):
        tensors = {name: value for name, value in found.items() if isinstance(value, Tensor)}
        if len(tensors) == len(found) and all(isinstance(name, str) for name in tensors):
            return tensors
    raise StoreError(f"Expected tensors by name in {file}, but it holds something else.")


def _enlarged(images: Tensor) -> Tensor:
    """Return images of 299 × 299 pixels, as TensorFlow 1 makes them: corners are not aligned."""
    for axis in (2, 3):
        size = images.shape[axis]
        places = torch.arange(_SIDE, device=images.device) * (size / _SIDE)
        low = places.floor().long().clamp(max=size - 1)
        high = (low + 1).clamp(max=size - 1)
        shape = (-1, 1) if axis == 2 else (-1,)
        share = (places - low).view(shape)
        first, second = images.index_select(axis, low), images.index_select(axis, high)
        images = first + (second - first) * share
    return images


class _Convolution(nn.Module):
    """A convolution, its normalisation, and a rectifier."""

    def __init__(self, before: int, after: int, kernel: Size, **options: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(before, after, kernel, bias=False, **options)
        self.bn = nn.BatchNorm2d(after, eps=1e-3)

    def forward(self, features: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(features)), inplace=True)


class _Branches(nn.Module):
    """Ways that all start from the same features and end side by side.

    Args:
        before: Channels that come in.
        ways: Per way its layers, one after the other. A layer that is a list of layers is several
            side by side.
        stride: Stride of the last layer of each way.
        pool: What the last way starts with.
    """

    def __init__(
        self,
        before: int,
        ways: list[list[Layer | list[Layer]]],
        *,
        stride: int = 1,
        pool: nn.Module,
    ) -> None:
        super().__init__()
        self._pool, self._ways = pool, [[_names(layer) for layer in way] for way in ways]
        for way in ways:
            channels = before
            for place, layer in enumerate(way):
                is_last = place == len(way) - 1
                side_by_side = layer if isinstance(layer, list) else [layer]
                for name, count, kernel in side_by_side:
                    own = stride if is_last else 1
                    padding = 0 if own > 1 else _same(kernel)
                    made = _Convolution(channels, count, kernel, stride=own, padding=padding)
                    self.add_module(name, made)
                channels = sum(count for _, count, _ in side_by_side)

    def forward(self, features: Tensor) -> Tensor:
        found = []
        for place, way in enumerate(self._ways):
            is_pooled = place == len(self._ways) - 1
            seen = self._pool(features) if is_pooled else features
            for names in way:
                seen = torch.cat([self.get_submodule(name)(seen) for name in names], dim=1)
            found.append(seen)
        return torch.cat(found, dim=1)


def _names(layer: Layer | list[Layer]) -> list[str]:
    return [name for name, _, _ in (layer if isinstance(layer, list) else [layer])]


def _same(kernel: Size) -> Size:
    """Return the padding that keeps the size."""
    return kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)


def _mean_pool() -> nn.Module:
    return nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)


def _fives(before: int, pooled: int) -> _Branches:
    return _Branches(
        before,
        [
            [("branch1x1", 64, 1)],
            [("branch5x5_1", 48, 1), ("branch5x5_2", 64, 5)],
            [("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)],
            [("branch_pool", pooled, 1)],
        ],
        pool=_mean_pool(),
    )


def _sevens(inner: int) -> _Branches:
    return _Branches(
        768,
        [
            [("branch1x1", 192, 1)],
            [
                ("branch7x7_1", inner, 1),
                ("branch7x7_2", inner, (1, 7)),
                ("branch7x7_3", 192, (7, 1)),
            ],
            [
                ("branch7x7dbl_1", inner, 1),
                ("branch7x7dbl_2", inner, (7, 1)),
                ("branch7x7dbl_3", inner, (1, 7)),
                ("branch7x7dbl_4", inner, (7, 1)),
                ("branch7x7dbl_5", 192, (1, 7)),
            ],
            [("branch_pool", 192, 1)],
        ],
        pool=_mean_pool(),
    )


def _threes(before: int, pool: nn.Module) -> _Branches:
    return _Branches(
        before,
        [
            [("branch1x1", 320, 1)],
            [
                ("branch3x3_1", 384, 1),
                [("branch3x3_2a", 384, (1, 3)), ("branch3x3_2b", 384, (3, 1))],
            ],
            [
                ("branch3x3dbl_1", 448, 1),
                ("branch3x3dbl_2", 384, 3),
                [("branch3x3dbl_3a", 384, (1, 3)), ("branch3x3dbl_3b", 384, (3, 1))],
            ],
            [("branch_pool", 192, 1)],
        ],
        pool=pool,
    )


def _smaller_first() -> _Branches:
    return _Branches(
        288,
        [
            [("branch3x3", 384, 3)],
            [("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)],
            [],
        ],
        stride=2,
        pool=nn.MaxPool2d(3, stride=2),
    )


def _smaller_second() -> _Branches:
    return _Branches(
        768,
        [
            [("branch3x3_1", 192, 1), ("branch3x3_2", 320, 3)],
            [
                ("branch7x7x3_1", 192, 1),
                ("branch7x7x3_2", 192, (1, 7)),
                ("branch7x7x3_3", 192, (7, 1)),
                ("branch7x7x3_4", 192, 3),
            ],
            [],
        ],
        stride=2,
        pool=nn.MaxPool2d(3, stride=2),
    )
