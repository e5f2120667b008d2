"""Shadow models at level exact: a frozen encoder, so that a model is only sums of its rows."""

import hashlib
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from erasable.bench._row_sums import RowSums, States
from erasable.bench._shadow_sets import Bools, Margins, ShadowMaker, ShadowSets, Unlearned
from erasable.errors import ArgumentError, StateError
from erasable.fusion import Attention
from erasable.memory import GaussianFit, Grid
from erasable.metrics import margins
from erasable.models import SPMClassifier
from erasable.typing import Float64s, Ints

_BATCH = 256
"""Queries at a time, as a model takes them: another number could round differently."""

_REDUCTIONS = ("prototypes", "gaussian")


@final
class ExactShadows(ShadowMaker):
    """Shadow models whose encoder saw none of the rows, so that forgetting is level ``exact``.

    What such a memory answers from is its rows' exact integer sums. They are taken for many models
    at once, as matrix products. All rows added, less the forget set; and the other rows added: both
    are summed by themselves, and compared number by number. The first models that an object of this
    class builds are built by the library as well (`remember`, `forget`, `predict_log_proba`):
    digests and margins must agree with it to the last bit, and its canonical state after forgetting
    with that of a model built without the rows to the last byte.

    Args:
        model: An unfitted classifier with reduction ``prototypes`` or ``gaussian``; for embeddings
            as inputs, with encoder ``identity``. It is copied, never changed.
        sets: The rows; inputs are arrays, and may be memory-mapped.
        checked: How many models, and how many oracles, the library builds as well; seconds each for
            tens of thousands of rows.
    """

    level = "exact"

    def __init__(self, model: SPMClassifier, sets: ShadowSets, *, checked: int = 3) -> None:
        if model.reduction not in _REDUCTIONS or model.set_encoder != "none":
            raise ArgumentError(
                f"Expected a model that reads sums, with reduction {' or '.join(_REDUCTIONS)} and "
                f"no set encoder, but got {model.reduction!r} and {model.set_encoder!r}."
            )
        if type(checked) is not int or checked < 1:
            raise ArgumentError(f"Expected checked to be a positive int, but got {checked!r}.")
        self.model = model
        self.sets = sets
        self._unchecked = {"unlearn": checked, "build": checked}

    def identity(self) -> dict[str, Any]:
        """Return the model's parameters, and digests of rows, queries and sets."""
        everything = self._rows.states(np.ones((1, len(self.sets.train)), bool))
        arrays = {
            "is_forgotten": self.sets.is_forgotten,
            "is_watched": self.sets.is_watched,
            "queries": torch.cat(self._queries).numpy(),
            "query_labels": self._labels,
        }
        digests = {name: hashlib.sha256(a.tobytes()).hexdigest() for name, a in arrays.items()}
        return {"model": repr(self.model), "rows": everything.digest(0), **digests}

    def unlearn(self, holds: Bools) -> Unlearned:
        """Add all rows, take the forget set out, and compare with models that never held it."""
        gone = self.sets.is_forgotten
        full, without = self._rows.states(holds | gone), self._rows.states(holds)
        left = full.minus(self._rows.states(gone[None]))
        before, after = (np.empty((len(holds), len(self._labels))) for _ in range(2))
        gone_moments = self._moments(gone)
        is_checked = np.zeros(len(holds), bool)
        for place, own in enumerate(holds):
            moments = self._moments(own | gone)
            before[place] = self._ask(full, place, moments)
            after[place] = self._ask(left, place, moments - gone_moments)
            if self._is_to_check("unlearn"):
                built = self._built(own | gone)
                self._require_same(built, full.digest(place), before[place])
                self._forget(built)
                self._require_same(built, left.digest(place), after[place])
                _require_same_bytes(built, self._built(own))
                is_checked[place] = True
        was, now = (Margins.of(self.sets, found) for found in (before, after))
        return Unlearned(was, now, left.equals(without), is_checked)

    def build(self, holds: Bools) -> Margins:
        """Build oracles from their rows alone."""
        states = self._rows.states(holds)
        found = np.empty((len(holds), len(self._labels)))
        for place, own in enumerate(holds):
            found[place] = self._ask(states, place, self._moments(own))
            if self._is_to_check("build"):
                self._require_same(self._built(own), states.digest(place), found[place])
        return Margins.of(self.sets, found)

    # -- by sums ---------------------------------------------------------------------------------

    def _moments(self, holds: Bools) -> Ints:
        """Return the second moments of the rows held, if the model reads them."""
        is_needed = self.model.reduction == "gaussian"
        return self._rows.moments(holds) if is_needed else np.zeros((0, 0), np.int64)

    def _ask(self, states: States, place: int, moments: Ints) -> Float64s:
        """Return the margins of all queries under one of the states, (queries,)."""
        is_live = states.counts[place] > 0
        counts, sums = states.counts[place][is_live], states.sums[place][is_live]
        logs = np.full((len(self._labels), len(is_live)), -np.inf)
        logs[:, is_live] = self._log_probabilities(counts, sums, moments)
        return margins(logs, labels=self._labels)

    def _log_probabilities(self, counts: Ints, sums: Ints, moments: Ints) -> Float64s:
        grid, attention = self._grid, self._attention
        if self.model.reduction == "gaussian":
            fit = GaussianFit(grid, moments, counts, sums)
            logits = [
                torch.from_numpy(fit.logits(batch.numpy()) / attention.temperature)
                for batch in self._queries
            ]
        else:
            means = torch.from_numpy(sums * grid.step / counts[:, None])
            logits = [attention.scores(batch, means) for batch in self._queries]
        logs: Float64s = torch.cat([part.log_softmax(dim=1) for part in logits]).numpy()
        return logs

    # -- by the library --------------------------------------------------------------------------

    def _is_to_check(self, what: str) -> bool:
        self._unchecked[what] -= 1
        return self._unchecked[what] >= 0

    def _built(self, holds: Bools) -> SPMClassifier:
        part = self.sets.train.where(holds)
        built: SPMClassifier = clone(self.model)
        return built.remember(part.X, part.y, ids=part.ids)

    def _forget(self, built: SPMClassifier) -> None:
        receipt = built.forget(ids=self.sets.train.where(self.sets.is_forgotten).ids)
        if receipt.level != self.level:
            raise StateError(
                f"Expected forgetting at level {self.level}, but it is {receipt.level!r}: the "
                "encoder saw the rows, or nobody knows. Freeze it, or declare what it saw."
            )

    def _require_same(self, built: SPMClassifier, digest: str, asked: Float64s) -> None:
        logs = built.predict_log_proba(self.sets.queries.X, classes=self.sets.classes)
        is_same = {
            "digest": built.memory.digest == digest,
            "margins": np.array_equal(margins(logs, labels=self._labels), asked),
        }
        differing = [name for name, same in is_same.items() if not same]
        if differing:
            raise StateError(
                "Expected sums over rows to give what the library gives to the last bit, but not "
                f"so: {', '.join(differing)}. Pass embeddings as inputs and encoder='identity'; an "
                "encoder that rounds by batch, or is drawn anew each time, cannot be summed."
            )

    # -- prepared once ---------------------------------------------------------------------------

    @cached_property
    def _probe(self) -> SPMClassifier:
        """A model of one row, to encode with."""
        return self._built(np.arange(len(self.sets.train)) == 0)

    @cached_property
    def _grid(self) -> Grid:
        return self._probe.memory.grid

    @cached_property
    def _rows(self) -> RowSums:
        return RowSums(self.sets.train, self._probe.embed, self._grid)

    @cached_property
    def _queries(self) -> tuple[Tensor, ...]:
        embeddings = torch.from_numpy(self._probe.embed(self.sets.queries.X)).double()
        return torch.split(embeddings, _BATCH)

    @cached_property
    def _labels(self) -> Ints:
        return np.searchsorted(np.array(self.sets.classes), self.sets.queries.y)

    @cached_property
    def _attention(self) -> Attention:
        fusion = self._probe.network_.fusion
        assert fusion is not None  # noqa: S101 - this classifier always has one
        kind, temperature = self.model.attention, self.model.temperature
        return fusion.attention(kind, temperature=temperature).evaluation()


def _require_same_bytes(first: SPMClassifier, second: SPMClassifier) -> None:
    hashes = []
    for model in (first, second):
        state = hashlib.sha256()
        for part in model.memory.canonical_state():
            state.update(len(part).to_bytes(8, "little") + part)
        hashes.append(state.digest())
    if hashes[0] != hashes[1]:
        raise StateError(
            "Expected the state after forgetting to be that of a model built without the rows, "
            "byte for byte, but it is not. This is an error of the library: please report it."
        )
