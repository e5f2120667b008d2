"""The ordinary diffusion model: the generator's twin, which knows classes by its weights."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, final

import torch
from torch import Tensor

from erasable.diffusion import (
    ClassLoss,
    ClassUNet,
    Sampling,
    class_predictor,
    denoise,
    draw_noise,
    make_scheduler,
)
from erasable.errors import ArgumentError, RowIdError, listing
from erasable.models._base import NetworkModel, class_indices
from erasable.models._class_numbers import require_among
from erasable.models._columns import in_order
from erasable.models._generator_parameters import is_share, whole_numbers
from erasable.models._image_generator import (
    ImageGenerator,
    require_pictures,
    require_resumable,
    step_config,
)
from erasable.models._inputs import as_labels, distinct
from erasable.training import train_steps
from erasable.typing import Label

_EVERY = 100


@final
class DDPM(NetworkModel, ImageGenerator):
    """A class-conditional diffusion model with an ordinary mid block: `SPMGenerator`'s twin.

    It has no memory: nothing can be forgotten from it but by training.

    Args:
        channels: Channels per level of the UNet; each level halves the image.
        layers: Residual blocks per level.
        attention: Levels with self-attention, besides the mid block.
        dropout: Share of features that are dropped in training.
        steps: Training steps.
        batch_size: Images per step.
        drop: Share of images whose class is not told; guidance needs some.
        learning_rate: Adam's learning rate.
        warmup: Steps with a rising learning rate.
        average: How much of the running mean of the weights a step keeps.
        augmentation: ``none``, ``crop``, ``flip`` or ``crop_flip``.
        precision: ``float32``; ``bfloat16``: convolve in half precision while training, which is
            faster where the processor has instructions for it. A GPU trains in mixed precision
            either way, if it can.
        random_state: Seed.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        checkpoint: Folder to keep the state of a training in; the same call then goes on.
        verbose: 1 shows progress.
    """

    network_: ClassUNet
    labels_: list[Label]
    history_: list[dict[str, float]]

    def __init__(
        self,
        *,
        channels: Sequence[int] = (32, 64, 64),
        layers: int = 2,
        attention: Sequence[int] = (),
        dropout: float = 0.0,
        steps: int = 5000,
        batch_size: int = 128,
        drop: float = 0.1,
        learning_rate: float = 5e-4,
        warmup: int = 100,
        average: float = 0.999,
        augmentation: str = "none",
        precision: str = "float32",
        random_state: Any = None,
        device: str = "auto",
        checkpoint: str | Path | None = None,
        verbose: int = 0,
    ) -> None:
        self.channels = channels
        self.layers = layers
        self.attention = attention
        self.dropout = dropout
        self.steps = steps
        self.batch_size = batch_size
        self.drop = drop
        self.learning_rate = learning_rate
        self.warmup = warmup
        self.average = average
        self.augmentation = augmentation
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.checkpoint = checkpoint
        self.verbose = verbose

    def fit(self, X: Any, y: Any, *, classes: Sequence[Label] | None = None) -> Self:
        """Train the weights on images.

        Args:
            X: Images (n, height, width[, channels]) of bytes, or of numbers from 0 to 1.
            y: One label per image.
            classes: Labels of all classes, also of those that have no images here; an oracle of
                forgetting keeps the embedding of the forgotten class, untrained.
        """
        with self._unchanged_on_error():
            inputs = self._check_inputs(X, reset=True)
            require_pictures(inputs)
            (y,) = in_order(X, y=y)
            labels = as_labels(y)
            if len(labels) != len(inputs):
                raise ArgumentError(f"Expected {len(inputs)} labels, but got {len(labels)}.")
            if not is_share(self.drop):
                raise ArgumentError(f"Expected drop from 0 to below 1, but got {self.drop!r}.")
            known = distinct(labels if classes is None else as_labels(list(classes)))
            require_among(distinct(labels), known)
            require_resumable(self)
            config = step_config(self)
            self.labels_ = known
            self.network_ = self._network(config.seed)
            self._laid_out(self.network_)
            self.history_ = train_steps(
                self.network_,
                ClassLoss(make_scheduler(), self.drop),
                inputs=inputs,
                classes=class_indices(labels, known),
                config=config,
                device=self.device,
                checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
                every=_EVERY,
                verbose=bool(self.verbose),
            )
        return self

    def _draw(
        self,
        labels: list[Label],
        generator: torch.Generator,
        sampling: Sampling,
        *,
        tick: Callable[[], None],
        **options: Any,
    ) -> Tensor:
        if options:
            raise ArgumentError(f"Expected no further options, but got {listing(sorted(options))}.")
        device = self.network_.device
        told = self.places(labels).to(device)
        noise = draw_noise(len(labels), self.input_shape_, generator).to(device)
        predict = class_predictor(self.network_, told, sampling.guidance)
        return denoise(predict, make_scheduler(), noise, sampling, tick=tick)

    def places(self, labels: list[Label]) -> Tensor:
        """Return the number that the network knows each label by, (n,)."""
        place = {(type(label), label): index for index, label in enumerate(self.labels_)}
        unknown = [label for label in distinct(labels) if (type(label), label) not in place]
        if unknown:
            raise RowIdError(
                f"Expected classes that were trained ({listing(self.labels_)}), but got "
                f"{listing(unknown)}."
            )
        return torch.tensor([place[type(label), label] for label in labels])

    def _network(self, seed: int) -> ClassUNet:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network: ClassUNet = ClassUNet(
                image_shape=self.input_shape_,
                classes=len(self.labels_),
                channels=whole_numbers("channels", self.channels),
                layers=self.layers,
                attention=whole_numbers("attention", self.attention),
                dropout=self.dropout,
                precision=self.precision,
            )
        return network
