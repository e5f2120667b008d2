"""The loop that iterative methods share: a fresh SGD with a constant rate on all weights."""

import contextlib
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from erasable.baselines._base import DivergedError, Task, WeightMethod
from erasable.baselines._rows import Draw, Rows
from erasable.errors import Problems, listing
from erasable.training import Augmentation, Display, computing_in

BATCH_NORMS = ("train", "frozen")


@dataclass(frozen=True, kw_only=True)
class SGDMethod(WeightMethod):
    """Epochs of SGD steps on the forget set, the retain set, or both.

    Attributes:
        epochs: Passes.
        learning_rate: Constant learning rate; with 0 nothing is run.
        batch_size: Largest size of a batch.
        momentum: Momentum.
        weight_decay: L2 penalty on all weights.
        batch_norm: ``train``: running statistics follow the batches that are seen, as in published
            code, so that methods that only see the forget set drift by that alone. ``frozen``:
            they stay those of the original.
        augmentation: How images are varied; None: as when the original was trained.
    """

    reads: ClassVar[tuple[str, ...]]
    """What an epoch passes over: ``forget``, ``retain`` or both."""

    epochs: int = 10
    learning_rate: float = 0.01
    batch_size: int = 256
    momentum: float = 0.9
    weight_decay: float = 5e-4
    batch_norm: str = "train"
    augmentation: Augmentation | None = None

    def __post_init__(self) -> None:
        problems = Problems(self.name)
        for setting, least in (("epochs", 0), ("batch_size", 2)):
            value = getattr(self, setting)
            if type(value) is not int or value < least:
                problems.note(f"Expected {setting} to be an int ≥ {least}, but got {value!r}.")
        for setting in ("learning_rate", "momentum", "weight_decay"):
            value = getattr(self, setting)
            if not isinstance(value, (int, float)) or not 0 <= value < torch.inf:
                problems.note(f"Expected {setting} to be a number ≥ 0, but got {value!r}.")
        if self.batch_norm not in BATCH_NORMS:
            known = listing(BATCH_NORMS)
            problems.note(f"Expected batch_norm {known}, but got {self.batch_norm!r}.")
        problems.raise_if_any()

    def edit(self, task: Task) -> None:
        """Run the epochs."""
        parts = {"forget": len(task.forget), "retain": len(task.retain)}
        share = sum(parts[name] for name in self.reads) / sum(parts.values())
        epochs = task.budget.allowed(self.epochs, share)
        if not self.learning_rate or not epochs:
            return
        run = self.prepare(task)
        before = _statistics(task.network)
        steps = self.steps(task)
        run.deadline = _deadline(task)
        with (
            task.account.part("epochs"),
            Display(epochs, enabled=task.verbose) as display,
            computing_in(task.training.precision),
        ):
            run.show = lambda loss: display.step(1 / steps, loss)
            _set_mode(task.network, self.batch_norm)
            try:
                for epoch in range(epochs):
                    self.epoch(run, epoch, epochs)
            except _OutOfTime:
                task.is_complete = False
            finally:
                task.network.eval()
        task.figures["epochs"] = float(epochs)
        task.figures["batch_norm_drift"] = _drift(before, _statistics(task.network))

    def steps(self, task: Task) -> int:
        """Return how many steps an epoch makes."""
        return sum(getattr(task, name).steps(self.batch_size) for name in self.reads)

    def prepare(self, task: Task) -> "Run":
        """Return the run, after what has to be done before the first epoch."""
        return Run(self, task)

    @abstractmethod
    def epoch(self, run: "Run", epoch: int, epochs: int) -> None:
        """Do the steps of one epoch."""


class Run:
    """The optimizer and the batches of one edit.

    Args:
        method: Settings.
        task: What is edited.

    Attributes:
        network: The network that is edited.
        count: Number of classes.
        draw: Source of everything random.
        original: A copy of the network as it was, for methods that need one.
        masks: Per parameter, which of its weights may change; None if all may.
        deadline: Clock time after which no step begins.
    """

    def __init__(self, method: SGDMethod, task: Task) -> None:
        self.network, self.count = task.network, task.count
        self.draw = Draw(method.seed)
        self.original: nn.Module | None = None
        self.masks: list[Tensor] | None = None
        self.deadline: float | None = None
        self.show: Callable[[float], None] = lambda _: None
        self.figures = task.figures
        self._method, self._task = method, task
        self.parameters = [p for p in self.network.parameters() if p.requires_grad]
        self._kept = [p.detach().clone() for p in self.parameters]
        self._optimizer = torch.optim.SGD(
            self.parameters,
            lr=method.learning_rate,
            momentum=method.momentum,
            weight_decay=method.weight_decay,
        )

    def forget(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches of the rows to forget."""
        return self._batches(self._task.forget)

    def retain(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches of all other rows."""
        return self._batches(self._task.retain)

    def loss(self, inputs: Tensor, classes: Tensor) -> Tensor:
        """Return the loss of a batch, as in the original's training."""
        if len(inputs) > 1:
            return self._task.loss(self.network(inputs), classes)
        with _statistics_kept(self.network):  # of a single row there are none
            return self._task.loss(self.network(inputs), classes)

    def step(self, loss: Tensor) -> None:
        """Go down a loss."""
        self._check(loss)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch
        self._update()

    def step_along(self, gradients: Sequence[Tensor], loss: Tensor, *, clip: float) -> None:
        """Go down given gradients, one per parameter, cut to a norm.

        Args:
            gradients: What to go down.
            loss: The loss to show.
            clip: Largest norm of all gradients together.
        """
        self._check(loss)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(self.parameters, clip)
        self._update()

    def _batches(self, rows: Rows) -> Iterator[tuple[Tensor, Tensor]]:
        own = self._method.augmentation
        return rows.batches(
            self._method.batch_size, self.draw, self._task.training if own is None else own
        )

    def _check(self, loss: Tensor) -> None:
        if self.deadline is not None and time.perf_counter() > self.deadline:
            raise _OutOfTime
        value = float(loss.detach())
        if not -torch.inf < value < torch.inf:
            raise DivergedError(
                f"Expected a finite loss, but {self._method.name} has diverged: {value}. Use a "
                "smaller learning rate."
            )
        self.show(value)

    def _update(self) -> None:
        if self.masks is None:
            self._optimizer.step()
            return
        for parameter, mask in zip(self.parameters, self.masks, strict=True):
            if parameter.grad is not None:
                parameter.grad *= mask
        self._optimizer.step()
        with torch.no_grad():  # weight decay and momentum have moved what the mask keeps
            for parameter, mask, kept in zip(self.parameters, self.masks, self._kept, strict=True):
                parameter.copy_(torch.where(mask, parameter, kept))
                momentum = self._optimizer.state[parameter].get("momentum_buffer")
                if momentum is not None:
                    momentum *= mask


class _OutOfTime(Exception):  # noqa: N818 - no error: it ends the loop
    """The budget is spent."""


def require_finite(network: nn.Module, inputs: Tensor, name: str) -> None:
    """Refuse a network whose weights, statistics or answers are no numbers.

    Raises:
        DivergedError: If there are any.
    """
    tensors = [*network.parameters(), *(b for b in network.buffers() if b.is_floating_point())]
    with torch.no_grad():
        tensors.append(network(inputs))
    if not all(tensor.isfinite().all() for tensor in tensors):
        raise DivergedError(
            f"Expected finite weights and answers, but {name} has diverged. Use a smaller step."
        )


def _set_mode(network: nn.Module, batch_norm: str) -> None:
    network.train()
    if batch_norm == "frozen":
        for module in _normalised(network):
            module.eval()


@contextlib.contextmanager
def _statistics_kept(network: nn.Module) -> Iterator[None]:
    """Let batch normalisation use its running statistics."""
    training = [module for module in _normalised(network) if module.training]
    for module in training:
        module.eval()
    try:
        yield
    finally:
        for module in training:
            module.train()


def _normalised(network: nn.Module) -> list[nn.Module]:
    kind = nn.modules.batchnorm._BatchNorm
    return [m for m in network.modules() if isinstance(m, kind) and m.running_mean is not None]


def _statistics(network: nn.Module) -> list[tuple[Tensor, Tensor]]:
    found = []
    for module in _normalised(network):
        mean, variance = (module.get_buffer(name) for name in ("running_mean", "running_var"))
        found.append((mean.clone(), variance.clone()))
    return found


def _drift(before: list[tuple[Tensor, Tensor]], after: list[tuple[Tensor, Tensor]]) -> float:
    """Return how far running means moved, in standard deviations of the original, on average."""
    if not before:
        return 0.0
    moved = [
        ((new[0] - old[0]).abs() / old[1].clamp(min=1e-12).sqrt()).mean()
        for old, new in zip(before, after, strict=True)
    ]
    return float(torch.stack(moved).mean())


def _deadline(task: Task) -> float | None:
    seconds = task.budget.seconds
    if seconds is None:
        return None
    return time.perf_counter() + seconds - task.account.seconds
