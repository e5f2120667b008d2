"""Denoising networks from diffusers' blocks: with an ordinary mid block, or one that reads rows."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast, final

import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from diffusers.models.embeddings import TimestepEmbedding, Timesteps
from diffusers.models.resnet import ResnetBlock2D
from diffusers.models.unets.unet_2d_blocks import UNetMidBlock2D, get_down_block, get_up_block
from torch import Tensor, nn

from erasable.diffusion._precision import PRECISIONS, train_in_half
from erasable.errors import ArgumentError, Problems, StoreError, listing
from erasable.fusion import AdditiveFusion, Kernels

_EPS = 1e-6
_INCOMPLETE = ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")
_HEAD = 64
"""Size of an attention head, where a level has self-attention."""


@dataclass(frozen=True)
class Coarse:
    """What the way down leaves for the way up.

    Attributes:
        features: The coarsest features, (n, channels, height, width).
        skips: Features of each layer on the way down, fine to coarse.
        embedding: Embedding of the time steps, and of classes, (n, size).
    """

    features: Tensor
    skips: tuple[Tensor, ...]
    embedding: Tensor

    def first(self, count: int) -> "Coarse":
        """Return the part of the first few images."""
        skips = tuple(skip[:count] for skip in self.skips)
        return Coarse(self.features[:count], skips, self.embedding[:count])

    def repeated(self, times: int) -> "Coarse":
        """Return the same again and again, one block after the other."""

        def again(values: Tensor) -> Tensor:
            return values.repeat(times, *[1] * (values.ndim - 1))

        skips = tuple(again(skip) for skip in self.skips)
        return Coarse(again(self.features), skips, again(self.embedding))


@dataclass(frozen=True)
class PatchMemory:
    """Rows of a memory as a network reads them.

    Attributes:
        keys: Projected patches of the rows, (rows, patches, hidden).
        classes: Class of each row, (rows,).
        own: Per query the place of its own row, which it does not read, or −1, (queries,); None
            if no query is among the rows.
        kernels: How sums over pairs of patches are made; default: eager.
    """

    keys: Tensor
    classes: Tensor
    own: Tensor | None = None
    kernels: Kernels | None = None


class DenoisingUNet(ModelMixin, ConfigMixin, ABC):  # type: ignore[misc]  # diffusers is untyped
    """Down, mid and up blocks; subclasses say what the mid block is, and are final."""

    config_name = "config.json"
    mid_block: Any
    up_blocks: Any

    @classmethod
    def from_pretrained(cls, folder: str | Path, **options: Any) -> Self:
        """Read a network from a folder, with no part missing and none left over.

        Args:
            folder: Where `save_pretrained` wrote it, or ``unet`` of a saved generator.
            **options: As diffusers takes them.
        """
        options |= {"output_loading_info": True, "use_safetensors": True}  # never a pickle
        network, told = super().from_pretrained(folder, **options)
        found = {name: told[name] for name in _INCOMPLETE if told.get(name)}
        if found:
            listed = "; ".join(
                f"{name}: {listing(sorted(map(str, keys)))}" for name, keys in found.items()
            )
            raise StoreError(f"Expected the weights of a {cls.__name__} in {folder}, but {listed}.")
        return cast(Self, network)

    def _build(
        self,
        image_shape: tuple[int, ...],
        channels: tuple[int, ...],
        layers: int,
        attention: tuple[int, ...],
        dropout: float,
        classes: int,
        precision: str,
    ) -> None:
        _check(image_shape, channels, layers, attention, dropout, precision)
        groups, size = _groups(channels), 4 * channels[0]
        self.time_proj = Timesteps(channels[0], flip_sin_to_cos=True, downscale_freq_shift=0)
        self.time_embedding = TimestepEmbedding(channels[0], size)
        # The last embedding stands for "no class".
        self.class_embedding = nn.Embedding(classes + 1, size) if classes else None
        self.conv_in = nn.Conv2d(image_shape[0], channels[0], 3, padding=1)
        shared: dict[str, Any] = {
            "temb_channels": size,
            "resnet_eps": _EPS,
            "resnet_act_fn": "silu",
            "resnet_groups": groups,
            "dropout": dropout,
        }
        last = len(channels) - 1
        self.down_blocks = nn.ModuleList(
            get_down_block(
                "AttnDownBlock2D" if level in attention else "DownBlock2D",
                num_layers=layers,
                in_channels=channels[max(0, level - 1)],
                out_channels=channels[level],
                add_downsample=level < last,
                downsample_padding=1,
                attention_head_dim=min(_HEAD, channels[level]),
                **shared,
            )
            for level in range(len(channels))
        )
        self.mid_block = self._mid_block(channels[-1], size, groups, dropout)
        self.up_blocks = nn.ModuleList(
            get_up_block(
                "AttnUpBlock2D" if level in attention else "UpBlock2D",
                num_layers=layers + 1,
                in_channels=channels[max(0, level - 1)],
                out_channels=channels[level],
                prev_output_channel=channels[min(level + 1, last)],
                add_upsample=level > 0,
                attention_head_dim=min(_HEAD, channels[level]),
                **shared,
            )
            for level in reversed(range(len(channels)))
        )
        self.conv_norm_out = nn.GroupNorm(groups, channels[0], eps=_EPS)
        self.conv_act = nn.SiLU()
        self.conv_out = nn.Conv2d(channels[0], image_shape[0], 3, padding=1)
        if precision == "bfloat16":
            train_in_half(self)

    @abstractmethod
    def _mid_block(self, channels: int, size: int, groups: int, dropout: float) -> nn.Module:
        """Return the mid block."""

    def embedding(self, timesteps: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the embedding of time steps (n,), and of class indices (n,) if there are any.

        Args:
            timesteps: Time steps.
            labels: Class indices; −1 for "no class".
        """
        found: Tensor = self.time_embedding(self.time_proj(timesteps).to(self.dtype))
        if self.class_embedding is None or labels is None:
            return found
        none = self.class_embedding.num_embeddings - 1
        of_classes: Tensor = self.class_embedding(torch.where(labels < 0, none, labels))
        return found + of_classes

    def down(self, images: Tensor, embedding: Tensor) -> Coarse:
        """Go down from images (n, channels, height, width)."""
        features = self.conv_in(images)
        skips: tuple[Tensor, ...] = (features,)
        for block in self.down_blocks:
            features, more = block(hidden_states=features, temb=embedding)
            skips += more
        return Coarse(features, skips, embedding)

    def up(self, middle: Tensor, coarse: Coarse) -> Tensor:
        """Go up from the mid block's features, and return the noise that is seen in the images."""
        skips = coarse.skips
        for block in self.up_blocks:
            count = len(block.resnets)
            middle = block(middle, skips[-count:], coarse.embedding)
            skips = skips[:-count]
        noise: Tensor = self.conv_out(self.conv_act(self.conv_norm_out(middle)))
        return noise


@final
class ClassUNet(DenoisingUNet):
    """The ordinary network: it knows classes by an embedding that it learns.

    Args:
        image_shape: (channels, height, width).
        classes: Number of classes.
        channels: Channels per level; each level halves the image.
        layers: Residual blocks per level.
        attention: Levels with self-attention besides the mid block.
        dropout: Share of features that are dropped in training.
        precision: ``float32``; ``bfloat16``: convolve in half precision while training, which is
            faster where the processor has instructions for it.
    """

    @register_to_config  # type: ignore[untyped-decorator]  # diffusers is untyped
    def __init__(
        self,
        image_shape: tuple[int, ...],
        classes: int,
        channels: tuple[int, ...] = (32, 64, 64),
        layers: int = 2,
        attention: tuple[int, ...] = (),
        dropout: float = 0.0,
        precision: str = "float32",
    ) -> None:
        super().__init__()
        shape, levels = tuple(image_shape), tuple(attention)
        self._build(shape, tuple(channels), layers, levels, dropout, classes, precision)

    def forward(self, images: Tensor, timesteps: Tensor, labels: Tensor) -> Tensor:
        """Return the noise that is seen in noisy images.

        Args:
            images: (n, channels, height, width).
            timesteps: (n,).
            labels: Class indices, −1 for "no class", (n,).
        """
        coarse = self.down(images, self.embedding(timesteps, labels))
        return self.up(self.mid_block(coarse.features, coarse.embedding), coarse)

    def _mid_block(self, channels: int, size: int, groups: int, dropout: float) -> nn.Module:
        block: nn.Module = UNetMidBlock2D(
            in_channels=channels,
            temb_channels=size,
            dropout=dropout,
            resnet_eps=_EPS,
            resnet_act_fn="silu",
            resnet_groups=groups,
            attention_head_dim=min(_HEAD, channels),
        )
        return block


@final
class MemoryUNet(DenoisingUNet):
    """The semi-parametric network: its mid block reads rows of the asked class (paper sec. 4).

    Residual block → additive fusion of patches → residual block. Rows take the same way down as
    queries; nothing of the query but the skips and the weights of the mixture goes further.

    Args:
        image_shape: (channels, height, width).
        classes: Number of class embeddings; 0, the default, for none: the network then cannot know
            a class but by its rows.
        channels: Channels per level; each level halves the image.
        layers: Residual blocks per level.
        attention: Levels with self-attention.
        dropout: Share of features that are dropped in training.
        precision: ``float32``; ``bfloat16``: convolve in half precision while training, which is
            faster where the processor has instructions for it.
    """

    @register_to_config  # type: ignore[untyped-decorator]  # diffusers is untyped
    def __init__(
        self,
        image_shape: tuple[int, ...],
        classes: int = 0,
        channels: tuple[int, ...] = (32, 64, 64),
        layers: int = 2,
        attention: tuple[int, ...] = (),
        dropout: float = 0.0,
        precision: str = "float32",
    ) -> None:
        super().__init__()
        shape, levels = tuple(image_shape), tuple(attention)
        self._build(shape, tuple(channels), layers, levels, dropout, classes, precision)

    @property
    def fusion(self) -> AdditiveFusion:
        """How patches read rows."""
        found: AdditiveFusion = self.mid_block.fusion
        return found

    def forward(
        self,
        images: Tensor,
        timesteps: Tensor,
        reads: Tensor,
        *,
        rows: Tensor,
        row_times: Tensor,
        row_classes: Tensor,
        own: Tensor | None = None,
        labels: Tensor | None = None,
        has_gradient: bool = True,
        kernels: Kernels | None = None,
    ) -> Tensor:
        """Return the noise that is seen in noisy images, reading rows that are given as images.

        Queries and rows go down together. To read the same rows many times, `encode` and `project`
        them once and use `denoise`.

        Args:
            images: (n, channels, height, width).
            timesteps: (n,).
            reads: The class whose rows each query reads, −1 for none, (n,).
            rows: Images of the rows, without noise, (rows, channels, height, width).
            row_times: The time step that each row is encoded at, (rows,).
            row_classes: (rows,).
            own: Per query the place of its own row, or −1, (n,); None if no query is among them.
            labels: Class indices for the embedding, if there is one; −1 for "no class", (n,).
                Rows are encoded without: what is stored of a row does not depend on a number.
            has_gradient: Whether gradients go down through the rows.
            kernels: How sums over pairs of patches are made.
        """
        count = len(images)
        if has_gradient:
            embedding = torch.cat([self.embedding(timesteps, labels), self.embedding(row_times)])
            both = self.down(torch.cat([images, rows]), embedding)
            patches, coarse = self.patches(both), both.first(count)
            of_rows = patches[count:]
        else:
            with torch.no_grad():
                of_rows = self.encode(rows, row_times)
            coarse = self.down(images, self.embedding(timesteps, labels))
            patches = self.patches(coarse)
        memory = PatchMemory(self.fusion.project(of_rows), row_classes, own, kernels)
        return self.up(self.middle(patches[:count], reads, memory, coarse), coarse)

    def denoise(
        self,
        images: Tensor,
        timesteps: Tensor,
        reads: Tensor,
        memory: PatchMemory,
        labels: Tensor | None = None,
    ) -> Tensor:
        """Return the noise that is seen in noisy images, reading rows that are projected already.

        Args:
            images: (n, channels, height, width).
            timesteps: (n,).
            reads: The class whose rows each query reads, −1 for none, (n,).
            memory: The rows.
            labels: Class indices for the embedding, if there is one; −1 for "no class", (n,).
        """
        coarse = self.down(images, self.embedding(timesteps, labels))
        return self.up(self.middle(self.patches(coarse), reads, memory, coarse), coarse)

    def encode(self, images: Tensor, timesteps: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the patches of rows, (n, patches, channels); project them to read them."""
        return self.patches(self.down(images, self.embedding(timesteps, labels)))

    def patches(self, coarse: Coarse) -> Tensor:
        """Return the patches of the first residual block's output, (n, patches, channels)."""
        features: Tensor = self.mid_block.before(coarse.features, coarse.embedding)
        return features.flatten(2).transpose(1, 2)

    def middle(self, patches: Tensor, reads: Tensor, memory: PatchMemory, coarse: Coarse) -> Tensor:
        """Read rows and return what goes up, (n, channels, height, width)."""
        mixed = self.fusion(
            patches, reads, memory.keys, memory.classes, own=memory.own, kernels=memory.kernels
        )
        like = coarse.features
        grid = mixed.transpose(1, 2).reshape(like.shape)
        grid = grid.contiguous(memory_format=torch.channels_last)
        features: Tensor = self.mid_block.after(grid, coarse.embedding)
        return features

    def _mid_block(self, channels: int, size: int, groups: int, dropout: float) -> nn.Module:
        return _FusionBlock(channels, size, groups, dropout)


class _FusionBlock(nn.Module):
    def __init__(self, channels: int, size: int, groups: int, dropout: float) -> None:
        super().__init__()
        shared: dict[str, Any] = {
            "in_channels": channels,
            "temb_channels": size,
            "groups": groups,
            "eps": _EPS,
            "dropout": dropout,
            "non_linearity": "silu",
        }
        self.before = ResnetBlock2D(**shared)
        self.fusion = AdditiveFusion(channels)
        self.after = ResnetBlock2D(**shared)


def _groups(channels: tuple[int, ...]) -> int:
    """Return a number of groups, at most 32, that every level can be split into."""
    return next(g for g in (32, 16, 8, 4, 2, 1) if all(c % g == 0 and c >= 4 * g for c in channels))


def _check(
    image_shape: tuple[int, ...],
    channels: tuple[int, ...],
    layers: int,
    attention: tuple[int, ...],
    dropout: float,
    precision: str,
) -> None:
    problems = Problems("the network")
    if len(image_shape) != 3:
        raise ArgumentError(
            f"Expected images of shape (channels, height, width), but got {image_shape}."
        )
    if not channels or any(type(c) is not int or c < 4 or c % 4 for c in channels):
        problems.note(f"Expected channels to be multiples of 4, one per level, but got {channels}.")
    halvings = 2 ** (len(channels) - 1)
    if any(side % halvings or side < halvings for side in image_shape[1:]):
        problems.note(
            f"Expected sides that can be halved {len(channels) - 1} times, but got images of "
            f"{image_shape[1]} × {image_shape[2]} pixels. Pad or resize them, or pass fewer "
            "channels."
        )
    if type(layers) is not int or layers < 1:
        problems.note(f"Expected layers to be a positive int, but got {layers!r}.")
    if any(level not in range(len(channels)) for level in attention):
        levels = f"0 to {len(channels) - 1}"
        problems.note(f"Expected attention at levels {levels}, but got {attention}.")
    if not isinstance(dropout, (int, float)) or not 0 <= dropout < 1:
        problems.note(f"Expected dropout from 0 to below 1, but got {dropout!r}.")
    if precision not in PRECISIONS:
        problems.note(f"Expected precision {listing(PRECISIONS)}, but got {precision!r}.")
    problems.raise_if_any()
