"""Unlearn a class of a diffusion model by a method of choice."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from erasable.baselines._base import Budget, Unlearned
from erasable.baselines.generation._base import DiffusionMethod, DiffusionTask
from erasable.baselines.generation._erasediff import EraseDiff
from erasable.baselines.generation._finetune import DiffusionFineTune
from erasable.baselines.generation._salun import DiffusionSalUn
from erasable.baselines.generation._selective_amnesia import SelectiveAmnesia
from erasable.baselines.generation._sfron import SFRon
from erasable.data import Split
from erasable.errors import ArgumentError, listing
from erasable.models import DDPM
from erasable.training import Inputs
from erasable.typing import Label

DIFFUSION_METHODS: dict[str, type[DiffusionMethod]] = {
    method.name: method
    for method in (DiffusionFineTune, SelectiveAmnesia, DiffusionSalUn, SFRon, EraseDiff)
}
"""Methods by name, in the order of the paper's table."""


def get_diffusion_method(name: str, **settings: Any) -> DiffusionMethod:
    """Return a method by name, with settings."""
    if name not in DIFFUSION_METHODS:
        raise ArgumentError(
            f"Expected a method among {listing(DIFFUSION_METHODS)}, but got {name!r}."
        )
    return DIFFUSION_METHODS[name](**settings)


def unlearn_class(
    original: DDPM,
    rows: Split,
    label: Label,
    method: DiffusionMethod,
    *,
    budget: Budget | None = None,
    verbose: bool = False,
) -> Unlearned:
    """Make a copy of a diffusion model forget a class; the original stays as it is.

    Args:
        original: A fitted diffusion model.
        rows: What it was trained on.
        label: The class to forget.
        method: How.
        budget: What may be spent: ``epochs`` is taken as a number of steps, after each of which
            ``seconds`` is looked at; ``passes`` is not for these methods.
        verbose: Show progress.
    """
    if budget is not None and budget.passes is not None:
        raise ArgumentError("Expected a budget of epochs or seconds, but got one of passes.")
    target = int(original.places([label])[0])
    is_forgotten = np.array([type(y) is type(label) and y == label for y in rows.y.tolist()])
    forget, retain = rows.where(is_forgotten), rows.where(~is_forgotten)
    if not len(retain):
        raise ArgumentError("Expected rows of other classes to keep, but got none.")
    model = copy.deepcopy(original)

    def draw(classes: Tensor, seed: int, steps: int) -> Tensor:
        labels = [original.labels_[int(place)] for place in classes]
        generator = torch.Generator().manual_seed(seed)
        images = original.sample(labels, generator=generator, num_inference_steps=steps)
        return 2 * torch.from_numpy(images) - 1

    task = DiffusionTask(
        network=model.network_,
        forget=_inputs(original, forget),
        retain=_inputs(original, retain),
        retain_classes=original.places(retain.y.tolist()),
        target=target,
        count=len(original.labels_),
        draw=draw,
        average=float(original.average),
        augmentation=original.augmentation,  # type: ignore[arg-type]  # checked when it was fitted
        budget=budget or Budget(),
        verbose=verbose,
    )
    method.edit(task)
    return Unlearned(
        model=model,
        method=method.name,
        settings=method.settings,
        account=task.account,
        figures=task.figures,
        is_complete=task.is_complete,
    )


def _inputs(original: DDPM, rows: Split) -> Inputs:
    """Return images as the model takes them; none if there are none."""
    if not len(rows):
        return Inputs(np.zeros((0, *original.input_shape_), np.float32))
    return original._check_inputs(rows.X, reset=False)
