"""The training loop, on Lightning Fabric."""

import contextlib
import hashlib
import logging
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from erasable.errors import StateError
from erasable.files import require_writable
from erasable.training._augment import Turn, augment
from erasable.training._batches import epoch_batches, steps_per_epoch
from erasable.training._checkpoint import Checkpoint, Progress
from erasable.training._config import TrainingConfig
from erasable.training._device import make_fabric
from erasable.training._display import Display
from erasable.training._inputs import Inputs, read_ahead
from erasable.training._lookahead import Lookahead
from erasable.training._objective import Batch, Objective, StepResult
from erasable.training._optimizer import make_optimizer
from erasable.training._produced import noting_what_it_produces
from erasable.typing import Ints
from erasable.weights import tensors_digest, weights_digest

log = logging.getLogger(__name__)

_FACTOR = 10
"""How often the loss of the beginning, or of guessing, an epoch's loss may be."""


@noting_what_it_produces
def train(
    network: nn.Module,
    objective: Objective,
    *,
    inputs: Tensor | Inputs,
    classes: Tensor,
    config: TrainingConfig,
    device: str = "auto",
    checkpoint: Path | None = None,
    verbose: bool = False,
) -> list[dict[str, float]]:
    """Train a network in place and return what each epoch measured.

    Everything random follows from ``config.seed`` and the number of the epoch, and the caller's own
    random state is left as it was; so a run resumed from its checkpoint ends in the same bits as
    one that was never interrupted.

    Args:
        network: The network; its forward pass is what ``objective`` expects.
        objective: From network and batch to loss.
        inputs: Inputs, (rows, …).
        classes: Class index per row, (rows,).
        config: Settings of the run.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        checkpoint: Folder for the state after each epoch; if it has one, the run goes on from
            there.
        verbose: Show a progress bar.
    """
    if isinstance(inputs, Tensor):
        inputs = Inputs(inputs.numpy())
    if checkpoint and config.epochs:
        require_writable(checkpoint)  # now, not after the first epoch
    fabric = make_fabric(device, config.how.precision)
    identity = _identity(network, objective, inputs, classes, config) if checkpoint else {}
    if inputs.ndim == 4:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
    module, optimizer = fabric.setup(network, make_optimizer(network, config))
    lookahead = Lookahead(network) if config.how.average == "lookahead" else None
    slow = None if lookahead is None else lookahead.slow
    saved = Checkpoint(checkpoint, identity) if checkpoint else None
    found = saved.restore(network, optimizer, average=slow) if saved else None
    progress = found or Progress(0, [])
    history, seconds = list(progress.history), progress.seconds
    with Display(config.epochs, enabled=verbose, done=progress.epochs_done) as display:
        for epoch in range(progress.epochs_done, config.epochs):
            start = time.perf_counter()
            with _seeded(config.seed, epoch):
                run = _Epoch(fabric, module, optimizer, objective, config, display, lookahead)
                history.append(run(inputs, classes, epoch, history))
            seconds += time.perf_counter() - start
            if saved:
                done = Progress(epoch + 1, history, seconds)
                saved.save(network, optimizer, done, average=slow)
    if not all(parameter.isfinite().all() for parameter in network.parameters()):
        raise StateError("Expected finite weights, but training has diverged. Use a smaller rate.")
    network.zero_grad()  # a gradient tells of the rows of the last batch
    network.eval()
    return history


class _Epoch:
    """One pass over the rows."""

    def __init__(
        self,
        fabric: Any,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        objective: Objective,
        config: TrainingConfig,
        display: Display,
        lookahead: Lookahead | None,
    ) -> None:
        self._fabric = fabric
        self._module = module
        self._optimizer = optimizer
        self._objective = objective
        self._config = config
        self._display = display
        self._lookahead = lookahead

    def __call__(
        self, inputs: Inputs, classes: Tensor, epoch: int, history: list[dict[str, float]]
    ) -> dict[str, float]:
        config = self._config
        rng = np.random.default_rng([config.seed, epoch])
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        batch_size = self._batch_size(len(inputs))
        steps = steps_per_epoch(len(inputs), batch_size)
        loss, correct, counted = 0.0, 0, 0
        first = 0.0
        self._module.train()
        batches = epoch_batches(
            classes.numpy(),
            batch_size,
            rng,
            needs_partners=self._objective.needs_partners,
            sampler=config.how.sampler,
        )
        for step, (rows, images) in enumerate(read_ahead(inputs, batches), epoch * steps):
            batch = self._batch(inputs, images, classes, rows, rng, generator, epoch)
            rate = config.learning_rate_at(step, steps * config.epochs)
            result = self._step(batch, rate)
            first = first or float(result.loss.detach())
            if self._lookahead is not None:
                self._lookahead.step(step, steps * config.epochs)
            loss += float(result.loss.detach()) * result.counted
            correct, counted = correct + result.correct, counted + result.counted
            self._display.step(1 / steps, loss / max(1, counted), correct / max(1, counted))
        if not np.isfinite(loss):
            raise StateError(
                f"Expected a finite loss, but it was {loss} in epoch {epoch + 1}: training has "
                "diverged. Use a smaller learning rate."
            )
        begun = history[0]["loss"] if history else first
        _require_reason(loss / max(1, counted), begun, int(classes.max()) + 1, epoch)
        left_out = len(inputs) - counted
        if left_out:
            log.info("epoch %d: %d queries had no partner of their class", epoch + 1, left_out)
        return {
            "loss": loss / max(1, counted),
            "accuracy": correct / max(1, counted),
            "left_out": float(left_out),
        }

    def _batch_size(self, count: int) -> int:
        """Return the largest size of a batch; support is drawn from the rows that it leaves."""
        size = self._config.batch_size
        return size if self._objective.support is None else min(size, max(2, count // 2))

    def _batch(
        self,
        inputs: Inputs,
        queries: Tensor,
        classes: Tensor,
        rows: Ints,
        rng: np.random.Generator,
        generator: torch.Generator,
        epoch: int,
    ) -> Batch:
        how, seed = self._config.how, self._config.seed
        turn = Turn(torch.from_numpy(rows), epoch, seed)
        images = self._laid_out(augment(queries, how, generator, turn=turn))
        labels = self._renumber(classes, generator)
        if self._objective.support is None:
            return Batch(images, self._placed(labels[rows]))
        others = self._objective.support.draw(classes.numpy(), rows, rng)
        turn = Turn(torch.from_numpy(others), epoch, seed)
        support = self._laid_out(augment(inputs[others], how, generator, turn=turn))
        return Batch(images, self._placed(labels[rows]), support, self._placed(labels[others]))

    def _renumber(self, classes: Tensor, generator: torch.Generator) -> Tensor:
        if not self._config.how.label_permutation:
            return classes
        return torch.randperm(int(classes.max()) + 1, generator=generator)[classes]

    def _laid_out(self, inputs: Tensor) -> Tensor:
        if inputs.ndim == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return self._placed(inputs)

    def _placed(self, tensor: Tensor) -> Tensor:
        placed: Tensor = tensor.to(self._fabric.device)
        return placed

    def _step(self, batch: Batch, rate: float) -> StepResult:
        for group in self._optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        result = self._objective(self._module, batch)
        self._optimizer.zero_grad()
        self._fabric.backward(result.loss)
        if self._config.how.clip is not None:
            nn.utils.clip_grad_norm_(self._module.parameters(), self._config.how.clip)
        self._optimizer.step()
        return result


def _require_reason(loss: float, begun: float, count: int, epoch: int) -> None:
    """Refuse a loss far above that of guessing among some classes, and of the beginning."""
    most = _FACTOR * max(math.log(count) + 1, begun)
    if loss > most:
        raise StateError(
            f"Expected a loss below {most:.0f}, {_FACTOR} times that of the beginning, but it was "
            f"{loss:.4g} in epoch {epoch + 1}: training has diverged. Use a smaller learning rate."
        )


@contextlib.contextmanager
def _seeded(seed: int, epoch: int) -> Iterator[None]:
    """Seed what a network draws from torch's global state (dropout), and put that state back."""
    with torch.random.fork_rng():
        torch.manual_seed(int(np.random.default_rng([seed, epoch, 1]).integers(2**62)))
        yield


def _identity(
    network: nn.Module,
    objective: Objective,
    inputs: Inputs,
    classes: Tensor,
    config: TrainingConfig,
) -> dict[str, Any]:
    return {
        **config.as_dict(),
        "objective": objective.describe(),
        "data": data_digest(inputs, classes),
        "first weights": weights_digest(network),
        "network": repr(network),
    }


def data_digest(inputs: Inputs, classes: Tensor) -> str:
    """Return hex SHA-256 over shape and contents of the inputs, and their classes."""
    digest = hashlib.sha256(f"{inputs.shape}{tensors_digest({'classes': classes})}".encode())
    digest.update(b"".join(inputs.digests))
    return digest.hexdigest()
