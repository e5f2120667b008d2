"""Retrain: the oracle that every gap is measured against."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

from sklearn.base import clone

from erasable.baselines._base import ModelMethod, TimeAccount
from erasable.data import Split
from erasable.errors import ArgumentError


@final
@dataclass(frozen=True, kw_only=True)
class Retrain(ModelMethod):
    """Train the same kind of model from fresh weights on the retained rows alone.

    The outputs of forgotten classes stay, and are never a target.
    """

    name: ClassVar[str] = "retrain"

    def remake(
        self, original: Any, forget: Split, retain: Split, account: TimeAccount, *, verbose: bool
    ) -> tuple[Any, dict[str, float]]:
        """Return a model that never saw the forget set."""
        if not hasattr(original, "get_params"):
            raise ArgumentError(
                f"Expected one of this library's classifiers, but got {type(original).__name__}. A "
                "network alone does not say how it was trained: train an oracle of it yourself."
            )
        if hasattr(original, "adaptation_"):
            raise ArgumentError(
                "Expected a model that was trained from drawn weights, but this one started from "
                "others (init). Train an oracle of it yourself, from the same start."
            )
        model = clone(original)
        model.set_params(
            random_state=self.seed, training__verbose=verbose, training__checkpoint=None
        )
        with account.part("training"):
            if hasattr(original, "forget"):
                model.fit(retain.X, retain.y, ids=list(retain.ids), groups=retain.groups)
            else:
                model.fit(retain.X, retain.y, classes=original.classes_.tolist())
        return model, {}
