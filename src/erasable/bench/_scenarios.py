"""What is forgotten, and from what."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.data import Split


@dataclass(frozen=True)
class Scenario:
    """A forget request against a training split.

    Attributes:
        name: What to call it.
        request: Arguments of ``forget``.
        is_forgotten: Whether each training row is in the forget set, (rows,).
        is_class: Whether whole classes are forgotten; test accuracy is then taken on the remaining
            classes.
    """

    name: str
    request: dict[str, Any]
    is_forgotten: npt.NDArray[np.bool_]
    is_class: bool


def class_scenario(train: Split, label: Any) -> Scenario:
    """Forget one class."""
    return Scenario(f"class {label}", {"classes": [label]}, train.y == label, is_class=True)


def random_scenario(train: Split, share: float, seed: int) -> Scenario:
    """Forget a random share of the rows."""
    rng = np.random.default_rng(seed)
    is_forgotten = np.zeros(len(train), bool)
    is_forgotten[rng.permutation(len(train))[: round(share * len(train))]] = True
    ids = [train.ids[i] for i in np.flatnonzero(is_forgotten)]
    return Scenario(f"random {share:.0%}", {"ids": ids}, is_forgotten, is_class=False)


def group_scenario(train: Split, group: str) -> Scenario:
    """Forget one data subject."""
    return Scenario(group, {"groups": [group]}, np.array(train.groups) == group, is_class=False)
