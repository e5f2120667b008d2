"""The generator that forgets: a diffusion model whose mid block reads training images."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from erasable.diffusion import (
    MemoryLoss,
    MemoryUNet,
    Sampling,
    denoise,
    draw_noise,
    make_scheduler,
    memory_predictor,
)
from erasable.errors import ArgumentError, StateError, listing
from erasable.fusion import Kernels, get_kernels
from erasable.memory import Grid, Marks, Memory, plain
from erasable.models._base import class_indices
from erasable.models._chosen_rows import requested_rows
from erasable.models._class_numbers import ClassNumbers, label_key, require_among
from erasable.models._columns import named_rows
from erasable.models._consistency import Consistency, Judge
from erasable.models._generator_parameters import (
    require_partners,
    require_reading_parameters,
    warn_if_alone,
    whole_numbers,
)
from erasable.models._generator_reading import ROWS_AT_ONCE, Reading, require_on_grid
from erasable.models._image_generator import (
    ImageGenerator,
    require_pictures,
    require_resumable,
    step_config,
)
from erasable.models._inputs import as_labels, distinct
from erasable.models._memory_model import MemoryModel
from erasable.models._patch_votes import PatchVotes, patch_votes
from erasable.models._provenance import Provenance, record_rows
from erasable.training import Inputs, StepConfig, make_fabric, train_steps
from erasable.typing import Label, RowId

OPTIONS = ("stand_in", "rows_per_class", "class_numbers")
"""What a request may say besides what all generators take."""

_EVERY = 100
_NOMINAL_STEPS = 3000


@final
class SPMGenerator(MemoryModel, ImageGenerator):
    """A semi-parametric diffusion model: what it draws of a class is read from rows of the class.

    `fit` trains the weights to draw what the rows they are shown are of, and stores every row;
    `remember` stores rows without training; `forget` takes rows out, and from then on no image is
    drawn from them. What the weights themselves learnt from a row stays in them: `forget` reports
    that as its level. They know how to draw the classes that they were trained on, forgotten or
    not, if they are shown rows of them; of a class that they never saw they draw what they know.

    Args:
        channels: Channels per level of the UNet; each level halves the image.
        layers: Residual blocks per level.
        attention: Levels with self-attention.
        dropout: Share of features that are dropped in training.
        branch: ``fixed``: rows are encoded once, at time step 0. ``follow``: they are encoded at
            the time step of the query, anew in each step; slower.
        labels: What the network is told of a class besides its rows. ``none``: nothing. ``plain``:
            an embedding that it can learn classes by. ``permuted``: an embedding whose numbering
            is drawn anew in each step, so that all numbers mean the same: none. Rows themselves are
            always encoded without. A class of the training keeps its number while it has rows;
            then its name is dropped, and if it is remembered again it is a new class. New classes,
            in their sorted order, take the numbers that are free if they are permuted. With a
            ``plain`` embedding, or if none is free, images are drawn from rows under no number,
            which no training has had.
        rows_per_class: Rows that an image reads at most; None for all of its class.
        steps: Training steps.
        batch_size: Images per step.
        support_size: Train as the paper does: draw this many further images per step to be its
            memory. 0: half of the batch is the memory of all of it, which costs less.
        support_gradient: Whether gradients reach the encoder through the rows.
        drop: Share of queries that are shown no rows; guidance needs some.
        learning_rate: Adam's learning rate.
        warmup: Steps with a rising learning rate.
        average: How much of the running mean of the weights a step keeps.
        augmentation: ``none``, ``crop``, ``flip`` or ``crop_flip``.
        precision: ``float32``; ``bfloat16``: convolve in half precision while training, for
            processors made for it. A GPU trains in mixed precision either way, if it can.
        kernel: How patches are compared: ``eager``, ``compiled``, or ``auto``: compiled where there
            is a compiler and enough to do.
        grid_bits: Features are rounded to multiples of ``2**-grid_bits``.
        random_state: Seed.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        checkpoint: Folder to keep the state of a training in; the same call then goes on.
        verbose: 1 shows progress.
    """

    network_: MemoryUNet
    numbers_: ClassNumbers
    built_: dict[str, Any]

    def __init__(
        self,
        *,
        channels: Sequence[int] = (32, 64, 64),
        layers: int = 2,
        attention: Sequence[int] = (),
        dropout: float = 0.0,
        branch: str = "fixed",
        labels: str = "none",
        rows_per_class: int | None = 1024,
        steps: int = 5000,
        batch_size: int = 128,
        support_size: int = 0,
        support_gradient: bool = True,
        drop: float = 0.1,
        learning_rate: float = 5e-4,
        warmup: int = 100,
        average: float = 0.999,
        augmentation: str = "none",
        precision: str = "float32",
        kernel: str = "auto",
        grid_bits: int = 14,
        random_state: Any = None,
        device: str = "auto",
        checkpoint: str | Path | None = None,
        verbose: int = 0,
    ) -> None:
        self.channels = channels
        self.layers = layers
        self.attention = attention
        self.dropout = dropout
        self.branch = branch
        self.labels = labels
        self.rows_per_class = rows_per_class
        self.steps = steps
        self.batch_size = batch_size
        self.support_size = support_size
        self.support_gradient = support_gradient
        self.drop = drop
        self.learning_rate = learning_rate
        self.warmup = warmup
        self.average = average
        self.augmentation = augmentation
        self.precision = precision
        self.kernel = kernel
        self.grid_bits = grid_bits
        self.random_state = random_state
        self.device = device
        self.checkpoint = checkpoint
        self.verbose = verbose

    # -- learning --------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        ids: Any = None,
        groups: Any = None,
        classes: Sequence[Label] | None = None,
        judge: Judge | None = None,
    ) -> Self:
        """Train the weights on images and store every one of them in a new memory.

        No other thread may use the object meanwhile.

        Args:
            X: Images (n, height, width[, channels]) of bytes, or of numbers from 0 to 1.
            y: One label per image: str, int, float or bool.
            ids: One id per image, str or int. If not given, the index of a pandas object names the
                images, unless it is the default one; otherwise ids are counted up from 0.
            groups: Per image None, one group, or a list of groups, such as data subjects.
            classes: With label embeddings: labels of all classes, also of those that have no
                images here; default: the classes of ``y``. They are numbered in their sorted order.
                An oracle of forgetting thus has as many embeddings; a ``plain`` one of the
                forgotten class stays untrained.
            judge: A fitted classifier of such images. A few samples are shown to it during the
                training, and ``history_`` tells the share that it takes for what was asked.
        """
        with self._unchanged_on_error():
            y, ids, groups = named_rows(X, y=y, ids=ids, groups=groups)
            inputs, labels, contents = self._check_rows(X, y, reset=True)
            config = step_config(self)
            require_resumable(self)
            tombstones = self._tombstones()
            trial = Memory(1, tombstones=tombstones.copy())
            blanks = np.zeros((len(inputs), 1), np.float32)
            row_ids = trial.add(blanks, labels, ids=ids, groups=groups, contents=contents)
            known = trial.classes if classes is None else distinct(as_labels(list(classes)))
            require_among(trial.classes, known)
            # A class without rows keeps its number free, not its name.
            names = ClassNumbers.of(known).left(trial.classes).names
            self._start(config.seed, tombstones, known=names)
            provenance, self.history_ = Provenance(), []
            if config.steps:
                if self.checkpoint is not None:
                    self.note_copy("checkpoint", self.checkpoint)
                places = class_indices(labels, known)
                self.history_ = self._learn(inputs, places, config, known, judge)
                seen = None if groups is None else [row.groups for row in trial.get(row_ids)]
                provenance = provenance.plus(
                    record_rows("rows of fit", row_ids, contents, groups=seen, labels=labels)
                )
            self._record(provenance)
            features = self._embed(inputs)
            require_on_grid(features, Grid(self.grid_bits))
            self.memory_.add(
                features,
                labels,
                ids=row_ids,
                groups=[row.groups for row in trial.get(row_ids)],
                contents=contents,
            )
        return self

    def _learn(
        self,
        inputs: Inputs,
        classes: Tensor,
        config: StepConfig,
        known: list[Label],
        judge: Judge | None,
    ) -> list[dict[str, float]]:
        size, support = config.batch_size, self.support_size
        require_partners(classes, batch_size=size, support_size=support)
        rows = support or size // 2
        device = make_fabric(self.device).device.type
        loss = MemoryLoss(
            make_scheduler(),
            support,
            inputs,
            classes,
            branch=self.branch,  # type: ignore[arg-type]  # checked
            labels=self.labels,  # type: ignore[arg-type]  # checked
            drop=self.drop,
            has_gradient=self.support_gradient,
            # By the work of a step, not of all: a training may go on for more of them.
            kernels=self._kernels(_NOMINAL_STEPS * size, rows / len(known), device),
            embeddings=self._class_count,
        )
        watcher = None
        if judge is not None:
            watcher = Consistency(
                judge, inputs, classes, known, last=config.steps, is_following=self.is_following
            )
        history = train_steps(
            self.network_,
            loss,
            inputs=inputs,
            classes=classes,
            config=config,
            device=self.device,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            every=_EVERY,
            watcher=watcher,
            verbose=bool(self.verbose),
        )
        warn_if_alone(history)
        return history

    # -- drawing ---------------------------------------------------------------------------------

    def votes(
        self,
        images: Any,
        class_labels: Any,
        top: int = 5,
        *,
        stand_in: Label | None = None,
        rows_per_class: int | None = None,
        seed: int = 0,
    ) -> PatchVotes:
        """Return the rows, and which patches of them, that images of some classes draw on.

        An image is made noisy at ten time steps, from no noise to nothing else, and what its
        patches then read is averaged.

        Args:
            images: What was drawn, or any images of the same size, (n, …).
            class_labels: The class that each was asked for, (n,).
            top: Rows per image; the rest is summed up.
            stand_in: Whose rows were read where a class had none.
            rows_per_class: Rows that were read at most; default: the parameter. Where it limits
                them and all were read, any number that is large enough.
            seed: Seed of the noise.
        """
        self._require_fitted()
        if type(top) is not int or top < 1:
            raise ArgumentError(f"Expected top to be a positive int, but got {top!r}.")
        inputs = self._check_inputs(images, reset=False)
        labels = as_labels([class_labels] if np.ndim(class_labels) == 0 else class_labels)
        if len(labels) != len(inputs):
            raise ArgumentError(f"Expected {len(inputs)} class labels, but got {len(labels)}.")
        limit = self.rows_per_class if rows_per_class is None else rows_per_class
        with self.memory_.live.lock.reading():
            reading = self.reading(labels, stand_in=stand_in, rows_per_class=limit)
            records = [self.memory_.record(place) for place in reading.rows.tolist()]
        return patch_votes(self, inputs, reading, records, top=top, seed=seed)

    def _draw(
        self,
        labels: list[Label],
        generator: torch.Generator,
        sampling: Sampling,
        *,
        tick: Callable[[], None],
        **options: Any,
    ) -> Tensor:
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            raise ArgumentError(
                f"Expected options among {listing(OPTIONS)}, but got {listing(unknown)}."
            )
        limit = options.get("rows_per_class", self.rows_per_class)
        reading = self.reading(labels, stand_in=options.get("stand_in"), rows_per_class=limit)
        if "class_numbers" in options:
            reading.tell(options["class_numbers"], self._class_count)
        # Images of one class lie together, so that its rows are read by as many as possible.
        order = torch.argsort(reading.reads, stable=True)
        noise = draw_noise(len(labels), self.input_shape_, generator).to(self.network_.device)
        # By what may be read, not by what is there: a deletion must not change the arithmetic.
        rows = reading.largest if limit is None else limit
        device = self.network_.device.type
        memory = reading.memory(self._kernels(len(labels) * sampling.steps, rows, device))
        predict = memory_predictor(
            self.network_,
            reading.reads[order],
            memory,
            sampling.guidance,
            None if reading.labels is None else reading.labels[order],
        )
        images = denoise(predict, make_scheduler(), noise[order], sampling, tick=tick)
        return images[torch.argsort(order)]

    def reading(
        self, labels: list[Label], *, stand_in: Label | None, rows_per_class: int | None
    ) -> Reading:
        """Return the rows that requests for some classes read.

        Args:
            labels: The class of each image.
            stand_in: Whose rows are read where a class has none; None to refuse that.
            rows_per_class: Rows at most per class; None for all.
        """
        stand_in, rows_per_class = plain(stand_in), plain(rows_per_class)
        if rows_per_class is not None and (type(rows_per_class) is not int or rows_per_class < 1):
            raise ArgumentError(
                f"Expected rows_per_class to be a positive int or None, but got {rows_per_class!r}."
            )
        self._require_as_built()
        with self.memory_.live.lock.reading():
            self._require_rows()
            found = requested_rows(self.memory_, labels, stand_in=stand_in, count=rows_per_class)
            return Reading(self, torch.tensor(found.reads), found.groups, self._told(found.told))

    # -- inside ----------------------------------------------------------------------------------

    @property
    def is_following(self) -> bool:
        """Whether rows are encoded at the time step of the query."""
        return self.branch == "follow"

    def _check_inputs(self, X: Any, *, reset: bool) -> Inputs:
        inputs = super()._check_inputs(X, reset=reset)
        require_pictures(inputs)
        return inputs

    def _check_parameters(self) -> None:
        self._check_values()
        self._require_as_built()

    def _check_values(self) -> None:
        Grid(self.grid_bits)
        step_config(self, seed=0)
        require_reading_parameters(self)

    def _require_as_built(self) -> None:
        """Refuse to go on with parameters that the network was not made with."""
        now = self._architecture()
        other = sorted(name for name, value in now.items() if value != self.built_[name])
        if other:
            raise StateError(
                f"Expected the network as it was made, but {listing(other)} were changed since. "
                "Set them back, or fit again."
            )

    def _architecture(self) -> dict[str, Any]:
        """Return the parameters that make the network and what is stored of rows."""
        return {
            "channels": list(whole_numbers("channels", self.channels)),
            "layers": plain(self.layers),
            "attention": list(whole_numbers("attention", self.attention)),
            "dropout": plain(self.dropout),
            "precision": self.precision,
            "branch": self.branch,
            "labels": self.labels,
            "grid_bits": plain(self.grid_bits),
        }

    def _description(self) -> dict[str, Any]:
        left = self.numbers_.left(self.memory_.classes)  # rows may have gone behind its back
        known = {"known": list(left.names), "class_count": self._class_count}
        return {**known, **self._input_description()}

    @property
    def _class_count(self) -> int:
        embedding = self.network_.class_embedding
        return 0 if embedding is None else int(embedding.num_embeddings) - 1

    def _prune(self) -> None:
        """Drop names of classes that have no rows any more."""
        self.numbers_ = self.numbers_.left(self.memory_.classes)

    def _view(self, digest: str) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        parts = {
            "unet/config.json": json.loads(self.network_.to_json_string()),
            "scheduler/scheduler_config.json": json.loads(make_scheduler().to_json_string()),
            "model_index.json": {
                "_class_name": type(self).__name__,
                "unet": ["erasable.diffusion", MemoryUNet.__name__],
                "scheduler": ["diffusers", "DDIMScheduler"],
            },
        }
        return parts, {"unet/diffusion_pytorch_model.safetensors": digest}

    def _network(self, seed: int, classes: int) -> MemoryUNet:
        require_reading_parameters(self)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network: MemoryUNet = MemoryUNet(
                image_shape=self.input_shape_,
                classes=classes,
                channels=whole_numbers("channels", self.channels),
                layers=self.layers,
                attention=whole_numbers("attention", self.attention),
                dropout=self.dropout,
                precision=self.precision,
            )
        return network

    def _begin(self, seed: int) -> None:
        self._start(seed, Marks(), known=[])
        self._record(Provenance())

    def _start(
        self,
        seed: int,
        tombstones: Marks,
        *,
        known: Sequence[Label | None],
        classes: int | None = None,
    ) -> None:
        # Names of classes stay with the weights only where the weights know classes by number.
        self.numbers_ = ClassNumbers.of(known if self.labels != "none" else ())
        count = len(self.numbers_.names) if classes is None else classes
        network = self._network(seed, count).eval()
        self.built_ = self._architecture()
        self._adopt(network, tombstones, dim=self._dim())

    @property
    def patch_grid(self) -> tuple[int, int]:
        """Rows and columns of patches of an image."""
        halvings = 2 ** (len(self.channels) - 1)
        return self.input_shape_[1] // halvings, self.input_shape_[2] // halvings

    def _dim(self) -> int:
        """Return the size of what is stored of a row."""
        if self.is_following:
            return math.prod(self.input_shape_)
        return math.prod(self.patch_grid) * int(self.channels[-1])

    @torch.no_grad()
    def _embed(self, inputs: Inputs, *, ids: Sequence[RowId] | None = None) -> npt.NDArray[Any]:
        """Return patches of images, one after the other; pixels where rows follow the query."""
        self._require_as_built()
        if self.is_following:
            return (2 * inputs[:] - 1).flatten(1).numpy()
        device, parts = self.network_.device, []
        for start in range(0, len(inputs), ROWS_AT_ONCE):
            images = 2 * inputs[start : start + ROWS_AT_ONCE].to(device) - 1
            images = images.contiguous(memory_format=torch.channels_last)
            times = torch.zeros(len(images), dtype=torch.long, device=device)
            parts.append(self.network_.encode(images, times).flatten(1).cpu().numpy())
        return np.concatenate(parts)

    def _told(self, labels: Sequence[Label | None]) -> Tensor | None:
        """Return the number that the weights know each label by; −1 for one they do not."""
        if self.labels == "none":
            return None
        is_filled = self.labels == "permuted"  # where a number says nothing
        numbers = self.numbers_.told(self.memory_.classes, is_filled=is_filled)
        return torch.tensor([numbers.get(label_key(label), -1) for label in labels])

    def _kernels(self, images: float, rows: float, device: str) -> Kernels:
        """Return kernels for so many passes of an image over so many rows."""
        pairs = images * rows * math.prod(self.patch_grid) ** 2
        return get_kernels(self.kernel, work=pairs * self.channels[-1], device=device)
