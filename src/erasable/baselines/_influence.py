"""IU: one step to where the optimum would be without the forget set."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from erasable.baselines._base import Task, WeightMethod
from erasable.baselines._rows import Draw, Rows
from erasable.errors import ArgumentError, listing
from erasable.training import Display

_BATCH = 256


@final
@dataclass(frozen=True, kw_only=True)
class InfluenceUnlearning(WeightMethod):
    """Move along ``F⁻¹ v`` with ``v = (n_f/N)(g_f − g_r)`` and the empirical Fisher matrix F.

    ``F = I + (1/M) Σ g_i g_iᵀ`` over gradients g_i of single retained rows. The network stays in
    eval mode; one step is all there is.

    Attributes:
        alpha: Length of the step; with 0 nothing is run.
        variant: ``exact``: ``F⁻¹ v`` itself. ``released``: the published recursion, which keeps one
            vector where the formula needs all of them; its result is v less a multiple of the first
            row's gradient.
        samples: Retained rows in the Fisher matrix. ``exact`` holds a gradient of each in memory.
        damping: The constant M.
    """

    name: ClassVar[str] = "iu"

    alpha: float = 2.0
    variant: str = "exact"
    samples: int = 200
    damping: float = 1000.0

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            known = listing(VARIANTS)
            raise ArgumentError(f"Expected variant {known}, but got {self.variant!r}.")
        if type(self.samples) is not int or self.samples < 1 or not self.damping > 0:
            raise ArgumentError(
                "Expected at least one sample and a positive damping, but got "
                f"{self.samples!r} and {self.damping!r}."
            )

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """Return the step lengths that are tried."""
        return {"alpha": (0.1, 0.3, 1.0, 3.0, 10.0)}

    def edit(self, task: Task) -> None:
        """Take the step."""
        if not self.alpha:
            return
        network, draw = task.network.eval(), Draw(self.seed)
        parameters = [p for p in network.parameters() if p.requires_grad]
        count = len(task.forget) + len(task.retain)
        with Display(1, enabled=task.verbose, unit="pass") as display:
            with task.account.part("gradients"):
                forget, retain = (
                    mean_gradient(task, rows, parameters, draw, lambda n: display.step(n / count))
                    for rows in (task.forget, task.retain)
                )
            with task.account.part("samples"):
                chosen = draw.rng.permutation(len(task.retain))[: self.samples]
                rows = torch.empty(len(chosen), sum(p.numel() for p in parameters))
                for number, place in enumerate(chosen[:, None]):
                    rows[number] = gradient(task, *task.retain.take(place), parameters)
        with task.account.part("step"):
            v = len(task.forget) / count * (forget - retain)
            step = VARIANTS[self.variant](rows, v, self.damping)
            start = 0
            with torch.no_grad():
                for parameter in parameters:
                    part = step[start : start + parameter.numel()]
                    parameter.add_(self.alpha * part.view_as(parameter))
                    start += parameter.numel()
        task.figures["step_norm"] = float(self.alpha * step.norm())


def gradient(task: Task, inputs: Tensor, classes: Tensor, parameters: list[nn.Parameter]) -> Tensor:
    """Return the gradient of the training's mean loss, flat."""
    loss = task.loss(task.network(inputs), classes)
    return torch.cat([slope.flatten() for slope in torch.autograd.grad(loss, parameters)])


def mean_gradient(
    task: Task,
    rows: Rows,
    parameters: list[nn.Parameter],
    draw: Draw,
    tick: Callable[[int], None],
) -> Tensor:
    """Return the gradient of the training's mean loss over all rows, flat.

    Args:
        task: The network and its loss.
        rows: The rows.
        parameters: What the gradient is by.
        draw: Source of augmentation.
        tick: Told how many rows were read, batch by batch.
    """
    total = torch.zeros(sum(p.numel() for p in parameters))
    for inputs, classes in rows.batches(_BATCH, draw, task.training):
        total += gradient(task, inputs, classes, parameters) * (len(classes) / len(rows))
        tick(len(classes))
    return total


def exact_step(rows: Tensor, v: Tensor, damping: float) -> Tensor:
    """Return ``(I + RᵀR/M)⁻¹ v`` for gradients R (samples, weights).

    By Woodbury's identity this is ``v − Rᵀ (M I + R Rᵀ)⁻¹ R v``, what the recursion of Sherman and
    Morrison ends in, with one small system instead.
    """
    gram = (rows @ rows.T).double()
    gram.diagonal().add_(damping)
    solved = torch.linalg.solve(gram, (rows @ v).double())
    step: Tensor = v - rows.T @ solved.to(v.dtype)
    return step


def released_step(rows: Tensor, v: Tensor, damping: float) -> Tensor:
    """Return what the published recursion gives."""
    o, k = rows[0].clone(), v.clone()
    for row in rows[1:]:
        tau = float(o @ row)
        k = k - float(k @ row) / (damping + tau) * o
        o = o - tau / (damping + tau) * o
    return k


VARIANTS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "exact": exact_step,
    "released": released_step,
}
