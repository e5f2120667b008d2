"""What methods that unlearn a class of a diffusion model take, and the loop that they share."""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from erasable.baselines._base import Budget, DivergedError, Method, TimeAccount
from erasable.diffusion import NULL, ClassUNet, add_noise, dropped, guided, make_scheduler
from erasable.errors import Problems
from erasable.training import Augmentation, Display, Inputs, augment, mean_weight

PIXELS = 3072.0
"""Numbers of an image of 32 × 32 pixels in colour: published losses are sums over them."""


@dataclass
class DiffusionTask:
    """One edit of a diffusion model: a copy of the network to work on, and what to work with.

    Attributes:
        network: The copy; a method changes it in place.
        forget: Images of the class to forget, from 0 to 1.
        retain: All other images.
        retain_classes: Their class indices, (rows,).
        target: Index of the class to forget.
        count: Number of classes.
        draw: From class indices (n,), a seed and a number of denoising steps to images that the
            original draws, from −1 to 1.
        average: How much of the running mean of the weights a step keeps.
        augmentation: How the original varied the images it was trained on.
        budget: What may be spent.
        account: Where the time goes.
        figures: What the method measures of itself.
        verbose: Whether to show progress.
        is_complete: Set to False by a method that ran out of its budget.
    """

    network: ClassUNet
    forget: Inputs
    retain: Inputs
    retain_classes: Tensor
    target: int
    count: int
    draw: Callable[[Tensor, int, int], Tensor]
    average: float = 0.999
    augmentation: Augmentation = "none"
    budget: Budget = field(default_factory=Budget)
    account: TimeAccount = field(default_factory=TimeAccount)
    figures: dict[str, float] = field(default_factory=dict)
    verbose: bool = False
    is_complete: bool = True


@dataclass(frozen=True, kw_only=True)
class DiffusionMethod(Method):
    """Steps of Adam that make a diffusion model forget a class.

    An edit starts from the weights that are drawn with, a running mean, and ends in one: that of
    its own steps, by the rule that the original was trained with.

    Attributes:
        steps: Steps; 0 changes nothing.
        learning_rate: Adam's learning rate; with 0 nothing is run.
        batch_size: Images per batch.
        clip: Largest norm of a gradient.
        scale: Losses are this times the mean squared error of a pixel. Published weights of losses
            are for sums over the 3,072 numbers of a CIFAR image.
        drop: Share of images whose class is not told, where a method trains so.
    """

    version: ClassVar[int] = 2

    steps: int = 1000
    learning_rate: float = 1e-4
    batch_size: int = 128
    clip: float = 1.0
    scale: float = PIXELS
    drop: float = 0.1

    def __post_init__(self) -> None:
        problems = Problems(self.name)
        for setting in ("learning_rate", "clip", "scale"):
            value = getattr(self, setting)
            if not isinstance(value, (int, float)) or not 0 <= value < torch.inf:
                problems.note(f"Expected {setting} to be a number ≥ 0, but got {value!r}.")
        for setting in ("drop", "share"):
            value = getattr(self, setting, 0.0)
            if not isinstance(value, (int, float)) or not 0 <= value <= 1:
                problems.note(f"Expected {setting} from 0 to 1, but got {value!r}.")
        problems.raise_if_any()
        self._require(("steps", 0), ("batch_size", 1))

    def _require(self, *settings: tuple[str, int]) -> None:
        """Refuse settings that are no ints, or too small."""
        problems = Problems(self.name)
        for setting, least in settings:
            value = getattr(self, setting)
            if type(value) is not int or value < least:
                problems.note(f"Expected {setting} to be an int ≥ {least}, but got {value!r}.")
        problems.raise_if_any()

    def edit(self, task: DiffusionTask) -> None:
        """Change the copy of the network in place.

        Raises:
            DivergedError: If weights or losses are no numbers any more.
        """
        if not self.steps or not self.learning_rate or not len(task.forget):
            return
        run = DiffusionRun(self, task)
        self.prepare(run)
        limit = task.budget.seconds
        deadline = None if limit is None else time.perf_counter() + limit
        steps = self.steps if task.budget.epochs is None else min(self.steps, task.budget.epochs)
        task.network.train()
        with (
            task.account.part("steps"),
            Display(steps, enabled=task.verbose, unit="step") as display,
        ):
            for step in range(steps):
                if deadline is not None and time.perf_counter() > deadline:
                    task.is_complete = False
                    break
                display.step(1.0, self.step(run, step, steps))
                run.note_mean(step)
            run.take_mean()
        task.network.eval()
        if not all(p.isfinite().all() for p in task.network.parameters()):
            raise DivergedError(f"{self.name} has diverged: its weights are no numbers any more.")

    def prepare(self, run: "DiffusionRun") -> None:
        """Do what has to be done before the first step."""

    @abstractmethod
    def step(self, run: "DiffusionRun", step: int, steps: int) -> float:
        """Do one step and return its loss."""


class DiffusionRun:
    """Batches, losses and the optimizer of one edit.

    Attributes:
        network: The network that is edited.
        task: What it is edited with.
        generator: Source of noise and time steps.
        rng: Source of choices among images.
        masks: Per parameter, which weights may change; None if all may.
        kept: What a method keeps between steps.
    """

    def __init__(self, method: DiffusionMethod, task: DiffusionTask) -> None:
        self.network, self.task = task.network, task
        self.generator = torch.Generator().manual_seed(method.seed)
        self.masks: list[Tensor] | None = None
        self.kept: dict[str, Any] = {}
        self._method = method
        self.rng = np.random.default_rng([method.seed, 1])
        self._scheduler = make_scheduler()
        self.parameters = [p for p in self.network.parameters() if p.requires_grad]
        self._means = [p.detach().clone() for p in self.parameters]
        self._optimizer = torch.optim.Adam(self.parameters, lr=method.learning_rate)

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        found: torch.device = self.parameters[0].device
        return found

    def forget_batch(self) -> tuple[Tensor, Tensor]:
        """Return images to forget, from −1 to 1, and their class."""
        images = self._varied(self.task.forget, self._places(len(self.task.forget)))
        return images, torch.full((len(images),), self.task.target, device=self.device)

    def retain_batch(self) -> tuple[Tensor, Tensor]:
        """Return other images and their classes."""
        places = self._places(len(self.task.retain))
        classes = self.task.retain_classes[torch.from_numpy(places)]
        return self._varied(self.task.retain, places), classes.to(self.device)

    def noisy(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return noisy images, the noise, and time steps."""
        return add_noise(self._scheduler, images, self.generator)

    def noisy_at(self, images: Tensor, timesteps: Tensor) -> tuple[Tensor, Tensor]:
        """Return images made noisy at given time steps, and the noise."""
        noise = torch.randn(images.shape, generator=self.generator).to(images.device)
        found: Tensor = self._scheduler.add_noise(images, noise, timesteps)
        return found, noise

    def dropped(self, classes: Tensor) -> Tensor:
        """Return classes of which a share is not told."""
        return dropped(classes, self._method.drop, self.generator)

    def losses(self, seen: Tensor, noise: Tensor) -> Tensor:
        """Return the loss of each image, (n,)."""
        return self._method.scale * (seen - noise).square().flatten(1).mean(dim=1)

    def denoising_loss(self, images: Tensor, classes: Tensor) -> Tensor:
        """Return the loss of the original's training, classes dropped now and then."""
        noisy, noise, timesteps = self.noisy(images)
        return self.losses(self.network(noisy, timesteps, self.dropped(classes)), noise).mean()

    def guided_loss(self, images: Tensor, classes: Tensor, guidance: float) -> Tensor:
        """Return the loss of what is seen with guidance, as saliency is measured."""
        noisy, noise, timesteps = self.noisy(images)
        both = self.network(
            noisy.repeat(2, 1, 1, 1),
            timesteps.repeat(2),
            torch.cat([classes, torch.full_like(classes, NULL)]),
        )
        return self.losses(guided(both, guidance), noise).mean()

    def gradients(self, loss: Tensor, *, clip: float | None = None) -> list[Tensor]:
        """Return the gradient of a loss per parameter, cut to a norm."""
        found = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        slopes = [
            torch.zeros_like(p) if slope is None else slope
            for p, slope in zip(self.parameters, found, strict=True)
        ]
        if clip is not None:
            norm = torch.stack([slope.norm() for slope in slopes]).norm()
            slopes = [slope * min(1.0, clip / (float(norm) + 1e-6)) for slope in slopes]
        return slopes

    def descend(self, loss: Tensor, *, is_mask_first: bool = False) -> float:
        """Go down a loss by one step; weights outside the mask stay as they are.

        Args:
            loss: The loss.
            is_mask_first: Whether gradients are masked before they are cut to a norm.
        """
        value = float(loss.detach())
        if not np.isfinite(value):
            raise DivergedError(f"{self._method.name} has diverged: its loss is {value}.")
        slopes = self.gradients(loss)
        if is_mask_first:
            slopes = self._masked(slopes)
        for parameter, slope in zip(self.parameters, slopes, strict=True):
            parameter.grad = slope
        nn.utils.clip_grad_norm_(self.parameters, self._method.clip)
        if not is_mask_first:
            cut = [p.grad for p in self.parameters if p.grad is not None]
            for parameter, slope in zip(self.parameters, self._masked(cut), strict=True):
                parameter.grad = slope
        self._optimizer.step()
        return value

    def note_mean(self, step: int) -> None:
        """Add the weights after a step to their running mean."""
        weight = mean_weight(step, self.task.average)
        torch._foreach_lerp_(self._means, [p.detach() for p in self.parameters], weight)

    @torch.no_grad()
    def take_mean(self) -> None:
        """Let the network have the running mean of its weights."""
        for parameter, mean in zip(self.parameters, self._means, strict=True):
            parameter.copy_(mean)

    def _masked(self, slopes: Sequence[Tensor]) -> list[Tensor]:
        if self.masks is None:
            return list(slopes)
        return [slope * mask for slope, mask in zip(slopes, self.masks, strict=True)]

    def _places(self, count: int) -> Any:
        return self.rng.integers(0, count, min(self._method.batch_size, count))

    def _varied(self, inputs: Inputs, places: Any) -> Tensor:
        """Return images as the original was trained on them."""
        return self._scaled(augment(inputs[places], self.task.augmentation, self.generator))

    def images(self, inputs: Inputs, places: Any) -> Tensor:
        """Return images as they are, from −1 to 1."""
        return self._scaled(inputs[places])

    def _scaled(self, images: Tensor) -> Tensor:
        scaled = (2 * images - 1).to(self.device)
        return scaled.contiguous(memory_format=torch.channels_last)


def batches(
    run: DiffusionRun, inputs: Inputs, size: int, *, most: int | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield images, from −1 to 1, with their places: all once, or as many as are drawn."""
    order = np.arange(len(inputs))
    if most is not None and most < len(inputs):
        order = np.sort(run.rng.choice(order, most, replace=False))
    for start in range(0, len(order), size):
        places = order[start : start + size]
        yield run.images(inputs, places), torch.from_numpy(places)
