"""Deletion: take the rows out of a memory; no weight changes."""

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, final

from erasable.baselines._base import ModelMethod, TimeAccount
from erasable.data import Split
from erasable.errors import ArgumentError


@final
@dataclass(frozen=True, kw_only=True)
class Deletion(ModelMethod):
    """Forget rows of a model that reads them: semi-parametric, nearest neighbours, or sharded."""

    name: ClassVar[str] = "deletion"

    def remake(
        self, original: Any, forget: Split, retain: Split, account: TimeAccount, *, verbose: bool
    ) -> tuple[Any, dict[str, float]]:
        """Return a copy that has forgotten the rows."""
        if not hasattr(original, "forget"):
            raise ArgumentError(
                f"Expected a model with forget(), but got {type(original).__name__}. Deletion is "
                "for models that read rows; for others choose a method that edits weights."
            )
        model = copy.deepcopy(original)  # for the comparison's sake: deletion itself copies nothing
        if _is_derived(model):
            model.predict(retain.X[:2])
        with account.part("edit"):
            model.forget(ids=list(forget.ids))
            if _is_derived(model):
                model.predict(retain.X[:2])  # what depends on other rows is made again
        return model, {}


def _is_derived(model: Any) -> bool:
    """Return whether answers read more than rows: encodings among neighbours, or a covariance."""
    is_relational = getattr(getattr(model, "network_", None), "set_encoder", None) is not None
    return is_relational or getattr(model, "reduction", None) == "gaussian"
