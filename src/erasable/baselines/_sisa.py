"""SISA: one network per shard of the rows, so that forgetting retrains only shards it touches."""

import copy
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from erasable.baselines._rows import as_rows
from erasable.data import Split
from erasable.encoders import prepare
from erasable.errors import ArgumentError, RowIdError, StateError, listing
from erasable.memory import plain
from erasable.training import CrossEntropy, TrainingConfig, train
from erasable.typing import Float64s, Ints

_BATCH = 512


@dataclass(frozen=True)
class Retrained:
    """What forgetting took.

    Attributes:
        rows: Rows that were forgotten.
        shards: Shards of which a part was trained again.
        passes: Row passes of that training, over those of training everything.
    """

    rows: int
    shards: int
    passes: float


@final
class SISAClassifier:
    """Networks on disjoint shards, each trained slice by slice; their probabilities are averaged.

    A row's shard and slice follow from its id alone. So the model after `forget` is, to the bit,
    the one that `fit` makes of the remaining rows: exact, at the price of smaller training sets.

    Args:
        make: From a seed to a fresh network that returns logits.
        config: How a shard is trained; its epochs are spread over the slices so that a shard is
            passed over as often as an ordinary network.
        shards: Number of networks.
        slices: Stages per shard; before each, the weights are kept to go back to.
        seed: Everything random follows from it.
        verbose: Show progress.
    """

    def __init__(
        self,
        make: Callable[[int], nn.Module],
        config: TrainingConfig,
        *,
        shards: int = 5,
        slices: int = 2,
        seed: int = 0,
        verbose: bool = False,
    ) -> None:
        for name, value in (("shards", shards), ("slices", slices)):
            if type(value) is not int or value < 1:
                raise ArgumentError(f"Expected {name} to be an int ≥ 1, but got {value!r}.")
        self.shards, self.slices, self.seed, self.verbose = shards, slices, seed, verbose
        self._make, self._config = make, config
        self._stages: list[list[dict[str, Tensor]]] = []
        self._networks: list[nn.Module] = []

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        ids: Sequence[Any],
        classes: Sequence[Any] = (),
        checkpoint: Path | None = None,
    ) -> Self:
        """Train all shards.

        Args:
            X: Inputs, (rows, …).
            y: One label per input.
            ids: One permanent id per row.
            classes: Labels that have an output besides those of the rows.
            checkpoint: Folder for the state of each stage after each epoch; if it has one, the
                training goes on from there.
        """
        labels = np.asarray(y)
        self._classes = sorted({*labels.tolist(), *classes})
        self._rows = Split(X, labels, [plain(i) for i in ids])
        if len(set(self._rows.ids)) != len(labels):
            raise RowIdError(f"Expected {len(labels)} distinct ids, but got others.")
        self._networks = [self._make(self._seed(shard, -1)) for shard in range(self.shards)]
        self._stages = [[] for _ in range(self.shards)]
        for shard in range(self.shards):
            self._train(shard, 0, checkpoint)
        return self

    def forget(self, *, ids: Sequence[Any]) -> Retrained:
        """Drop rows and train again what they touched.

        Args:
            ids: Rows to forget.
        """
        self._require_fitted()
        wanted = {plain(i) for i in ids}
        unknown = wanted - set(self._rows.ids)
        if unknown:
            raise RowIdError(
                f"Expected ids of stored rows, but not: {listing(sorted(unknown, key=str))}."
            )
        is_gone = np.array([row_id in wanted for row_id in self._rows.ids], bool)
        places = self._places(self._rows.ids)[is_gone]
        everything = self._passes(self._rows.ids)
        self._rows = self._rows.where(~is_gone)
        touched = {int(s): int(places[places[:, 0] == s, 1].min()) for s in set(places[:, 0])}
        again = self._passes(self._rows.ids, touched)
        for shard, first in sorted(touched.items()):
            self._train(shard, first)
        return Retrained(len(wanted), len(touched), again / max(1, everything))

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Labels the model can answer with, sorted."""
        self._require_fitted()
        return np.array(self._classes)

    def predict_proba(self, X: Any) -> Float64s:
        """Return the mean of the shards' probabilities, (n, classes)."""
        self._require_fitted()
        queries = as_rows(
            Split(X, np.array([self._classes[0]] * len(X)), [0] * len(X)), self._classes
        )
        total = np.zeros((len(X), len(self._classes)))
        for start in range(0, len(X), _BATCH):
            inputs = queries.take(np.arange(start, min(start + _BATCH, len(X))))[0]
            for network in self._networks:
                with torch.no_grad():
                    logits: Tensor = network(inputs)
                total[start : start + len(inputs)] += logits.double().softmax(1).numpy()
        return total / self.shards

    def predict_log_proba(self, X: Any) -> Float64s:
        """Return natural logs of the probabilities, (n, classes)."""
        logs: Float64s = np.log(self.predict_proba(X))
        return logs

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable label of each input, (n,)."""
        found: npt.NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found

    @property
    def networks(self) -> list[nn.Module]:
        """The network of each shard."""
        return list(self._networks)

    def __deepcopy__(self, memo: dict[int, Any]) -> "SISAClassifier":
        """Copy weights; rows, which never change in place, and kept stages are shared."""
        other = copy.copy(self)
        other._networks = copy.deepcopy(self._networks, memo)
        other._stages = [list(stages) for stages in self._stages]
        return other

    def _train(self, shard: int, first: int, checkpoint: Path | None = None) -> None:
        """Go back to before a slice and train from there."""
        network, stages = self._networks[shard], self._stages[shard]
        if first < len(stages):
            network.load_state_dict(stages[first])
        del stages[first:]
        places = self._places(self._rows.ids)
        for slice_ in range(first, self.slices):
            state = {name: value.clone() for name, value in network.state_dict().items()}
            stages.append(state)
            is_in = (places[:, 0] == shard) & (places[:, 1] <= slice_)
            if is_in.sum() < 2:
                continue  # too few to train on: batch normalisation needs two
            part = as_rows(self._rows.where(is_in), self._classes)
            if (is_in & (places[:, 1] < slice_)).sum() < 2:  # nothing was trained before
                prepare(network, part.inputs)
            seed = self._seed(shard, slice_)
            train(
                network,
                CrossEntropy(label_smoothing=self._config.how.label_smoothing),
                inputs=part.inputs,
                classes=part.classes,
                config=replace(self._config, epochs=self._epochs, seed=seed),
                device="cpu",
                checkpoint=checkpoint and checkpoint / f"{shard}-{slice_}",
                verbose=self.verbose,
            )
        network.eval()

    @property
    def _epochs(self) -> int:
        """Epochs per slice: the later slices hold the earlier ones' rows as well."""
        return max(1, round(2 * self._config.epochs / (self.slices + 1)))

    def _places(self, ids: Sequence[Any]) -> Ints:
        """Return the shard and slice of each row, (rows, 2)."""
        count = self.shards * self.slices
        drawn = np.array([self._number(["row", row_id]) % count for row_id in ids], np.int64)
        return np.stack([drawn // self.slices, drawn % self.slices], axis=1)

    def _passes(self, ids: Sequence[Any], touched: dict[int, int] | None = None) -> int:
        """Return how many rows are passed over per epoch of all stages, or of those touched."""
        wanted = dict.fromkeys(range(self.shards), 0) if touched is None else touched
        places = self._places(ids)
        return sum(
            int(((places[:, 0] == shard) & (places[:, 1] <= slice_)).sum())
            for shard, first in wanted.items()
            for slice_ in range(first, self.slices)
        )

    def _seed(self, shard: int, slice_: int) -> int:
        return self._number(["seed", shard, slice_]) % 2**31

    def _number(self, what: list[Any]) -> int:
        text = json.dumps([self.seed, *what])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def _require_fitted(self) -> None:
        if not self._networks:
            raise StateError("Expected a fitted model, but it is not: call fit() first.")
