"""From an original model and a forget set to an unlearned model."""

import copy
from typing import Any

import torch
from torch import nn

from erasable.baselines._base import (
    Budget,
    Method,
    ModelMethod,
    Task,
    TimeAccount,
    Unlearned,
    WeightMethod,
)
from erasable.baselines._registry import get_method
from erasable.baselines._rows import as_rows
from erasable.baselines._sgd import require_finite
from erasable.data import Split
from erasable.errors import ArgumentError, RowIdError, listing
from erasable.training import Training, as_training

_CHECKED = 64
"""Rows that an edited network is asked for, to see whether its answers are numbers."""


def unlearn(
    method: str | Method,
    original: Any,
    *,
    forget: Split,
    retain: Split,
    classes: list[Any] | None = None,
    budget: Budget | None = None,
    verbose: bool = False,
) -> Unlearned:
    """Return a model that has unlearned some rows; the original stays as it is.

    With nothing to forget the model is a copy of the original.

    Args:
        method: A method, or its name for the published settings.
        original: One of this library's classifiers, or any torch network that returns logits.
        forget: Rows to forget.
        retain: All other rows of the training set.
        classes: The label of each output of a network; default: 0, 1, … as many as it has.
        budget: What may be spent.
        verbose: Show progress.

    Raises:
        DivergedError: If the edit ended in weights or losses that are no numbers.
    """
    chosen = get_method(method) if isinstance(method, str) else method
    both = set(forget.ids) & set(retain.ids)
    if both:
        raise RowIdError(
            "Expected rows to be forgotten or retained, but some are both: "
            f"{listing(sorted(both, key=str))}."
        )
    account = TimeAccount()
    if not len(forget):
        return Unlearned(copy.deepcopy(original), chosen.name, chosen.settings, account, {})
    if isinstance(chosen, ModelMethod):
        model, figures = chosen.remake(original, forget, retain, account, verbose=verbose)
        return Unlearned(model, chosen.name, chosen.settings, account, figures)
    if not isinstance(chosen, WeightMethod):
        raise ArgumentError(f"Expected a method of one of both kinds, but got {chosen!r}.")
    with account.part("copy"):
        network = copy.deepcopy(network_of(original)).eval()
        device = next((p.device for p in network.parameters()), torch.device("cpu"))
        network.cpu()  # where the rows are
    labels = _labels(original, network, forget, classes)
    task = Task(
        network,
        as_rows(forget, labels),
        as_rows(retain, labels),
        len(labels),
        budget=budget or Budget(),
        training=training_of(original),
        account=account,
        verbose=verbose,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(chosen.seed)
        chosen.edit(task)
    require_finite(network.eval(), task.forget.inputs[:_CHECKED], chosen.name)
    return Unlearned(
        _like(original, network.to(device)),
        chosen.name,
        chosen.settings,
        account,
        task.figures,
        task.is_complete,
    )


def training_of(original: Any) -> Training:
    """Return how a model was trained; the usual way for a network that does not say."""
    given = getattr(original, "training", None)
    return as_training(given) if isinstance(given, (str, Training)) else Training()


def network_of(original: Any) -> nn.Module:
    """Return the network whose logits are a model's answers."""
    if isinstance(original, nn.Module):
        return original
    network = getattr(original, "network_", None)
    if not isinstance(network, nn.Module) or hasattr(original, "forget"):
        raise ArgumentError(
            "Expected a fitted ParametricClassifier or a torch network that returns logits, but "
            f"got {type(original).__name__}. A model that reads its rows forgets by 'deletion'."
        )
    return network


def _labels(original: Any, network: nn.Module, rows: Split, classes: list[Any] | None) -> list[Any]:
    if classes is not None:
        return list(classes)
    if not isinstance(original, nn.Module):
        found: list[Any] = original.classes_.tolist()
        return found
    one = as_rows(rows.take([0]), rows.y[:1].tolist())
    with torch.no_grad():
        return list(range(network(one.inputs[:1]).shape[1]))


def _like(original: Any, network: nn.Module) -> Any:
    """Return the edited network as what the original was."""
    if isinstance(original, nn.Module):
        return network
    model = copy.copy(original)
    model.network_ = network
    return model
