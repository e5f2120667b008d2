"""The tables of the unlearning benchmark: which scenarios, which methods, tuned or as published."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from erasable.baselines import Method, get_method
from erasable.bench._grid import Found, Plan, run_plan
from erasable.bench._harness import Harness
from erasable.bench._paper import (
    FIVE_CLASSES,
    IMAGENET,
    ONE_CLASS,
    RANDOM_10,
    RANDOM_50,
    PaperRow,
)
from erasable.bench._sheet import Sheet
from erasable.bench._tune import tune
from erasable.bench._unlearning_sheets import unlearning_sheet
from erasable.errors import ArgumentError

EDITS = ("ga", "ft", "iu", "be", "bs", "l1_sparse", "salun", "munba")
"""Methods that edit weights, in the order of the tables."""

DELETIONS = ("knn", "spm", "sisa")
"""Kinds of models that forget by deletion."""

_UNSEEN = 99
"""Seed of what is tuned on, where a rule alone does not set it apart; tables count from 0."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Group:
    """Scenarios that are averaged in one table.

    Attributes:
        title: Title of the table.
        rules: What is forgotten, one after the other.
        tuning_rule: A scenario of the same sort to tune on.
        tuning_seed: Seed of the original to tune on; another one where the rule is in the table.
        paper: The paper's figures, if it has such a table.
    """

    title: str
    rules: list[str]
    tuning_rule: str
    tuning_seed: int = 0
    paper: dict[tuple[str, str], PaperRow] | None = None


def class_groups(classes: list[Any], *, single: int | None, is_cifar: bool) -> list[Group]:
    """Return the tables of class-wise forgetting: one class at a time, and half of the classes.

    Args:
        classes: All classes. The last one, and the last half, are kept for tuning.
        single: How many single classes to forget, spread over all but the last; None for all.
        is_cifar: Whether the paper's figures are for this data set.
    """
    half = len(classes) // 2
    if half < 1 or len(classes) - half < 1:
        raise ArgumentError(f"Expected at least two classes, but got {len(classes)}.")
    others = classes[:-1]
    count = len(others) if single is None else min(single, len(others))
    chosen = [others[i * len(others) // count] for i in range(count)]
    chosen = chosen if single is not None else list(classes)
    one = Group(
        "One class forgotten",
        [f"class:{label}" for label in chosen],
        f"class:{classes[-1]}",
        _UNSEEN if single is None else 0,
        ONE_CLASS if is_cifar else None,
    )
    many = Group(
        f"{half} classes forgotten",
        [_classes(classes[:half])],
        _classes(classes[-half:]),
        paper=FIVE_CLASSES if is_cifar else None,
    )
    return [one, many]


def random_groups(shares: list[int], *, is_cifar: bool) -> list[Group]:
    """Return the tables of forgetting random rows.

    Args:
        shares: Percentages.
        is_cifar: Whether the paper's figures are for this data set.
    """
    paper = {10: RANDOM_10, 50: RANDOM_50} if is_cifar else {}
    return [
        Group(
            f"Random {share} % forgotten",
            [f"random:{share}%"],
            f"random:{share}%@{_UNSEEN}",
            paper=paper.get(share),
        )
        for share in shares
    ]


def imagenet_groups(classes: list[Any], *, single: int) -> list[Group]:
    """Return the table of single classes with the paper's figures for ImageNet."""
    (one, _) = class_groups(classes, single=single, is_cifar=False)
    return [replace(one, paper=IMAGENET)]


def run_unlearning(
    harness: Harness,
    groups: list[Group],
    *,
    seeds: list[int],
    edits: tuple[str, ...] = EDITS,
    kinds: tuple[str, ...] = DELETIONS,
    is_tuned: bool = True,
    say: Say = lambda _: None,
) -> tuple[list[Sheet], dict[str, Found], list[dict[str, Any]]]:
    """Tune, unlearn and compare; return tables, runs, and what was searched.

    Args:
        harness: Makes and keeps models.
        groups: The tables.
        seeds: Seeds of originals.
        edits: Methods that edit weights.
        kinds: Kinds of models that forget by deletion.
        is_tuned: Choose settings by the documented grids, each on a scenario that no table shows;
            otherwise settings are as published.
        say: Where remarks on the progress go.
    """
    sheets: list[Sheet] = []
    found: dict[str, Found] = {}
    searched: list[dict[str, Any]] = []
    for group in groups:
        methods: list[tuple[str, Method]] = []
        for name in edits:
            settings: dict[str, Any] = {}
            if is_tuned:
                rule, seed = group.tuning_rule, group.tuning_seed
                searched.append(tune(harness, name, rule=rule, seed=seed, say=say))
                settings = searched[-1]["chosen"]
            methods.append(("parametric", get_method(name, **settings)))
        methods += [(kind, get_method("deletion")) for kind in kinds]
        plan = Plan({group.title: group.rules}, methods, seeds)
        found |= run_plan(harness, plan, say=say)
        sheets.append(unlearning_sheet(group.title, found[group.title], group.paper))
    return sheets, found, searched


def _classes(labels: list[Any]) -> str:
    return "classes:" + ",".join(map(str, labels))
