"""Training that counts steps: Adam, and a running mean of the weights."""

import copy
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from erasable.errors import Problems, StateError, listing
from erasable.files import require_writable
from erasable.training._augment import augment
from erasable.training._batches import epoch_batches, steps_per_epoch
from erasable.training._checkpoint import Checkpoint, Progress
from erasable.training._device import make_fabric
from erasable.training._display import Display
from erasable.training._inputs import Inputs
from erasable.training._loop import data_digest
from erasable.training._produced import noting_what_it_produces
from erasable.training._training import AUGMENTATIONS, Augmentation
from erasable.typing import Ints
from erasable.weights import weights_digest

_AUGMENTATIONS = AUGMENTATIONS[:4]
"""Those that leave an image its size and shape."""

_FIRST = 10
"""The mean forgets faster at first: step s, from 1, weighs at least 1 / (1 + s / this). So it spans
about a tenth of the steps until ``average`` allows for less."""


@dataclass(frozen=True)
class StepConfig:
    """Settings of a training by steps.

    Attributes:
        steps: Steps in all.
        batch_size: Rows per step.
        learning_rate: Adam's learning rate, after the warm-up.
        warmup: Steps with a rising learning rate.
        clip: Largest norm of a gradient.
        average: How much of the running mean of the weights a step keeps.
        augmentation: ``none``, ``crop``, ``flip`` or ``crop_flip``, see `Training`.
        seed: Everything random follows from it and the number of the step.
    """

    steps: int = 5000
    batch_size: int = 128
    learning_rate: float = 5e-4
    warmup: int = 100
    clip: float = 1.0
    average: float = 0.999
    augmentation: Augmentation = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        problems = Problems("fit()")
        for name, kind, low, high in _RANGES:
            value = getattr(self, name)
            if not isinstance(value, kind) or isinstance(value, bool) or not low <= value <= high:
                problems.note(f"Expected {name} in [{low}, {high}], but got {value!r}.")
        if self.augmentation not in _AUGMENTATIONS:
            known = listing(_AUGMENTATIONS)
            problems.note(f"Expected augmentation {known}, but got {self.augmentation!r}.")
        problems.raise_if_any()


_RANGES: tuple[tuple[str, Any, float, float], ...] = (
    ("steps", int, 0, 10**9),
    ("batch_size", int, 2, 10**6),
    ("learning_rate", (int, float), 0, 10),
    ("warmup", int, 0, 10**9),
    ("clip", (int, float), 0, 10**9),
    ("average", (int, float), 0, 1),
    ("seed", int, 0, 2**63 - 1),
)


@dataclass(frozen=True)
class Draw:
    """What a step learns from.

    Attributes:
        inputs: Inputs of some rows, (n, …).
        classes: Their class indices, (n,).
        generator: Source of everything else that is random.
        rng: The same, for what numpy draws.
        rows: Places of the rows among all, (n,).
        augmentation: How the inputs were changed; for what is drawn besides.
        notes: What the loss wants to have in the history, as a mean over steps.
    """

    inputs: Tensor
    classes: Tensor
    generator: torch.Generator
    rng: np.random.Generator
    rows: Ints
    augmentation: Augmentation = "none"
    notes: dict[str, float] = field(default_factory=dict)


class StepLoss(Protocol):
    """From a network and what was drawn to a loss."""

    @property
    def needs_partners(self) -> bool:
        """Whether a row needs others of its class in its batch."""
        ...

    def __call__(self, network: nn.Module, draw: Draw) -> Tensor:
        """Return the loss of a step."""
        ...

    def describe(self) -> str:
        """Name it and its settings, for telling runs apart."""
        ...


class Watcher(Protocol):
    """Looks at a network while it learns."""

    def __call__(self, network: nn.Module, step: int) -> dict[str, float]:
        """Return what to note in the history after some steps."""
        ...


@noting_what_it_produces
def train_steps(
    network: nn.Module,
    loss: StepLoss,
    *,
    inputs: Inputs,
    classes: Tensor,
    config: StepConfig,
    device: str = "auto",
    checkpoint: Path | None = None,
    every: int = 100,
    watcher: Watcher | None = None,
    verbose: bool = False,
) -> list[dict[str, float]]:
    """Train a network in place; it ends as the running mean of its weights.

    A run resumed from its checkpoint ends in the same bits as one that was never interrupted: all
    that is random follows from the seed and the number of the step.

    Args:
        network: The network.
        loss: What is minimised.
        inputs: Inputs, (rows, …).
        classes: Class index per row, (rows,).
        config: Settings of the run.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        checkpoint: Folder for the state after every few steps.
        every: How many steps that is; the history has one entry for each.
        watcher: Asked for more figures then; it sees the running mean.
        verbose: Show a progress bar.
    """
    if checkpoint and config.steps:
        require_writable(checkpoint)
    fabric = make_fabric(device)
    identity = _identity(network, loss, inputs, classes, config, every) if checkpoint else {}
    mean = copy.deepcopy(network).requires_grad_(False)
    module, optimizer = fabric.setup(
        network, torch.optim.Adam(network.parameters(), lr=config.learning_rate)
    )
    mean.to(fabric.device)
    saved = Checkpoint(checkpoint, identity) if checkpoint else None
    found = saved.restore(network, optimizer, average=mean) if saved else None
    progress = found or Progress(0, [])
    history, seconds, first = list(progress.history), progress.seconds, progress.epochs_done
    if first > config.steps:
        raise StateError(
            f"Expected a training of at least {first} steps, which are done in {checkpoint}, but "
            f"steps is {config.steps}. Use another folder to train fewer."
        )
    run = _Run(fabric, module, network, mean, optimizer, loss, config)
    with Display(config.steps, enabled=verbose, done=first, unit="step") as display:
        start = first
        while start < config.steps:
            stop = min(start - start % every + every, config.steps)
            began = time.perf_counter()
            noted = [run.step(step, inputs, classes, display) for step in range(start, stop)]
            seconds += time.perf_counter() - began
            means = {name: float(np.mean([notes[name] for notes in noted])) for name in noted[0]}
            history.append({"step": float(stop), **means})
            if watcher is not None:
                history[-1] |= watcher(mean.eval(), stop)
            if saved:
                done = Progress(stop, history, seconds)
                saved.save(network, optimizer, done, average=mean)
            start = stop
    network.load_state_dict(mean.state_dict())
    network.zero_grad()  # a gradient tells of the rows of the last batch
    network.eval()
    return history


def mean_weight(step: int, average: float) -> float:
    """Return how much the weights after a step, counted from 0, add to their running mean.

    Args:
        step: The step that was done.
        average: How much of the mean a step keeps; early ones keep less.
    """
    return max(1 - average, 1 / (1 + (step + 1) / _FIRST))


class _Run:
    def __init__(
        self,
        fabric: Any,
        module: nn.Module,
        network: nn.Module,
        mean: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: StepLoss,
        config: StepConfig,
    ) -> None:
        self._fabric, self._module, self._optimizer = fabric, module, optimizer
        self._loss, self._config = loss, config
        self._weights = [p for p in network.parameters() if p.requires_grad]
        kept = dict(mean.named_parameters())
        self._means: list[Tensor] = [
            kept[n] for n, p in network.named_parameters() if p.requires_grad
        ]
        self._batches: tuple[int, list[Ints]] | None = None

    def step(
        self, step: int, inputs: Inputs, classes: Tensor, display: Display
    ) -> dict[str, float]:
        config = self._config
        rng = np.random.default_rng([config.seed, step])
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        rows = self._rows(step, classes)
        images = augment(inputs[rows], config.augmentation, generator)
        if images.ndim == 4:
            images = images.contiguous(memory_format=torch.channels_last)
        device = self._fabric.device
        own = classes[rows].to(device)
        draw = Draw(images.to(device), own, generator, rng, rows, config.augmentation)
        with torch.random.fork_rng():
            torch.manual_seed(int(rng.integers(2**62)))  # for dropout
            self._module.train()
            loss = self._loss(self._module, draw)
            self._optimizer.zero_grad()
            self._fabric.backward(loss)
        value = float(loss.detach())
        if not np.isfinite(value):
            raise StateError(
                f"Expected a finite loss, but it was {value} in step {step + 1}: training has "
                "diverged. Use a smaller learning rate."
            )
        nn.utils.clip_grad_norm_(self._weights, config.clip)
        rate = config.learning_rate * min(1.0, (step + 1) / max(1, config.warmup))
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        weight = mean_weight(step, config.average)
        torch._foreach_lerp_(self._means, [p.detach() for p in self._weights], weight)
        display.step(1.0, value)
        return {"loss": value, **draw.notes}

    def _rows(self, step: int, classes: Tensor) -> Ints:
        """Return the rows of a step: every row about once, then all again in another order."""
        epoch, place = divmod(step, steps_per_epoch(len(classes), self._config.batch_size))
        if self._batches is None or self._batches[0] != epoch:
            rng = np.random.default_rng([self._config.seed, epoch, 7])
            drawn = epoch_batches(
                classes.numpy(),
                self._config.batch_size,
                rng,
                needs_partners=self._loss.needs_partners,
            )
            self._batches = epoch, list(drawn)
        return self._batches[1][place]


def _identity(
    network: nn.Module,
    loss: StepLoss,
    inputs: Inputs,
    classes: Tensor,
    config: StepConfig,
    every: int,
) -> dict[str, Any]:
    return {
        # Not how many steps in all: the running mean goes on where it was.
        **{name: value for name, value in asdict(config).items() if name != "steps"},
        "objective": loss.describe(),
        "data": data_digest(inputs, classes),
        "first weights": weights_digest(network),
        "network": repr(network),
        "every": every,
    }
