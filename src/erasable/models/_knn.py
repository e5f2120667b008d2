"""Nearest neighbours on a trained network's features, with deletion."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor, nn

from erasable.errors import ArgumentError
from erasable.fusion import PLAIN, Attention, Reduction, get_reduction
from erasable.memory import Memory, Readable, Record, Row
from erasable.models._adapt import Start
from erasable.models._columns import in_order
from erasable.models._inputs import as_labels, listed
from erasable.models._memory_classifier import MemoryClassifier
from erasable.models._networks import ParametricNetwork, SPMNetwork
from erasable.models._provenance import CHOICE, Provenance, Source, record_rows
from erasable.models._reading import reading
from erasable.training import CrossEntropy, Inputs, Training, TrainingConfig
from erasable.typing import Group, Ints, Label

_KS = (1, 2, 5, 10, 20, 50, 100, 200)


@final
class KNNClassifier(MemoryClassifier):
    """K nearest neighbours in the feature space of an ordinary network; one vote each.

    `fit` trains the encoder under a linear head, as `ParametricClassifier` does, throws the head
    away and stores every row. The paper's baseline: forgetting takes rows out of the index.

    Args:
        encoder: As for `SPMClassifier`.
        k: Number of neighbours that vote. Changeable at any time; see `tune`.
        candidates: Rows that the ``pq`` search retrieves before they are compared exactly, at
            least 256 in any case.
        search: ``exact`` or ``pq``. Changeable at any time.
        encoder_options: Keyword arguments for a named encoder.
        normalize: ``layer``, ``none`` or ``auto``, as for `SPMClassifier`.
        grid_bits: Embeddings are rounded to multiples of ``2**-grid_bits``.
        embedding_cache: Folder to keep embeddings of rows in: with a frozen encoder, each row is
            encoded once, also across models and interrupted runs. Rows then need ids. `forget`
            removes them there too.
        views: As for `SPMClassifier`.
        epochs: Passes over the rows; 0 trains nothing.
        batch_size: Rows per step.
        learning_rate: Largest learning rate of SGD.
        training: How the network is trained otherwise: a `Training`, or the name of one:
            ``standard``, ``fast`` or ``accurate``. A search reaches into it, as in
            ``training__momentum``.
        random_state: Seed of everything random.
        allow_memory_level: As for `SPMClassifier`.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = KNNClassifier(k=5, epochs=5, random_state=0).fit(X, y)
        >>> clf.forget(ids=[0]).rows, clf.score(X, y) > 0.9
        (1, True)
    """

    def __init__(
        self,
        encoder: str | nn.Module = "auto",
        *,
        k: int = 50,
        candidates: int = 256,
        search: str = "exact",
        encoder_options: dict[str, Any] | None = None,
        normalize: str = "auto",
        grid_bits: int = 14,
        embedding_cache: str | Path | None = None,
        views: str = "one",
        epochs: int = 30,
        batch_size: int = 128,
        learning_rate: float = 0.1,
        training: str | Training = "standard",
        random_state: Any = None,
        allow_memory_level: bool = False,
        device: str = "auto",
    ) -> None:
        self.encoder = encoder
        self.k = k
        self.candidates = candidates
        self.search = search
        self.encoder_options = encoder_options
        self.normalize = normalize
        self.grid_bits = grid_bits
        self.embedding_cache = embedding_cache
        self.views = views
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.training = training
        self.random_state = random_state
        self.allow_memory_level = allow_memory_level
        self.device = device

    def tune(
        self, X: Any, y: Any, *, ks: Sequence[int] = _KS, ids: Any = None, groups: Any = None
    ) -> Self:
        """Choose ``k`` by the accuracy on held-out rows; ``k_scores_`` keeps all of them.

        The neighbours are found once, for the largest ``k``. The smallest of the best ones wins.
        The choice depends on the held-out rows and on those in the memory, so all of them enter the
        training record: forgetting one of them is not ``exact`` from then on.

        Args:
            X: Inputs that are not in the memory.
            y: Their labels.
            ks: What to try.
            ids: One id per input, if they have any: they are recorded, too.
            groups: Per input None, one group, or a list of groups. If not given, or if a row of the
                memory has none, any group may be among them.
        """
        self._require_fitted()
        candidates = self.candidates if self.search == "pq" else None
        tried = sorted({reading(k, self.search, candidates=candidates).k for k in ks})
        if not tried:
            raise ArgumentError("Expected at least one k to try, but got none.")
        (y,) = in_order(X, y=y)
        labels = as_labels(y)
        inputs = self._check_inputs(X, reset=False)
        if len(inputs) != len(labels):
            raise ArgumentError(f"Expected {len(inputs)} labels, but got {len(labels)}.")
        batches = list(self._queries(inputs))
        # Forgets wait, predictions go on: before the choice is on record, no level is told of a row
        # that k is chosen by.
        with self.memory_.live.lock.changing():
            self._require_rows()
            ranks = self._nearest_ranks(batches, tried[-1])
            classes = self.memory_.classes
            chosen = self._choice(inputs, labels, ids=ids, groups=groups)
            self._record(self.provenance_.plus(chosen))
        place = {(type(label), label): rank for rank, label in enumerate(classes)}
        truth = np.array([place.get((type(label), label), -1) for label in labels])
        scores = {k: float(np.mean(_winners(ranks[:, :k], len(classes)) == truth)) for k in tried}
        self.k_scores_ = scores
        self.k = max(tried, key=lambda k: (scores[k], -k))
        return self

    def __sklearn_clone__(self) -> Self:
        """Return an estimator that was never fitted; ``k`` stays, and so does its record."""
        cloned: Self = super().__sklearn_clone__()
        if hasattr(self, "chosen_"):
            cloned.chosen_ = self.chosen_
        return cloned

    def _choice(self, inputs: Inputs, labels: list[Label], *, ids: Any, groups: Any) -> Source:
        """Return the record of held-out rows and of those in the memory."""
        trial = Memory(1)  # checks ids and groups, and names groups as the memory does
        blanks = np.zeros((len(inputs), 1), np.float32)
        own = trial.add(blanks, labels, ids=listed(ids), groups=listed(groups))
        held_out = trial.get(own)
        live = [self.memory_.record(place) for place in range(len(self.memory_))]
        # The memory does not tell a row of nobody from one of which nobody said whose it is.
        is_told = groups is not None and all(row.groups for row in live)
        return record_rows(
            CHOICE,
            [*(own if ids is not None else ()), *(row.id for row in live)],
            [*inputs.contents, *(row.content for row in live if row.content is not None)],
            groups=[*map(_groups, held_out), *map(_groups, live)] if is_told else None,
            labels=[*labels, *(row.label for row in live)],
        )

    def _record(self, provenance: Provenance) -> None:
        """Keep what ``k`` was chosen by, also where the weights begin anew: ``k`` stays."""
        known = (*getattr(self, "chosen_", ()), *provenance.sources)
        self.chosen_ = tuple({id(one): one for one in known if one.name == CHOICE}.values())
        super()._record(provenance.joined(Provenance(self.chosen_)))

    def _nearest_ranks(self, batches: list[Tensor], k: int) -> Ints:
        """Return the class of each query's neighbours, nearest first, (queries, ≤ k)."""
        live = self.memory_.live
        search = reading(k, self.search, candidates=max(k, self.candidates)).search
        ranks = live.sums.rank_of_slots()[live.table.slots]
        parts = [search.nearest(live, queries.double().numpy(), k).positions for queries in batches]
        places = np.concatenate(parts)
        return np.where(places < 0, -1, ranks[places])

    def _network(self, start: Start, seed: int) -> SPMNetwork:
        return SPMNetwork(start.encoder, self._norm(start))

    def _learn(
        self, inputs: Inputs, classes: Tensor, config: TrainingConfig
    ) -> list[dict[str, float]]:
        network = self.network_
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            twin = ParametricNetwork(network.encoder, network.norm, int(classes.max()) + 1)
        objective = CrossEntropy(label_smoothing=config.how.label_smoothing)
        return self._train(objective, inputs, classes, config, network=twin)

    def _reduction(self) -> Reduction:
        candidates = self.candidates if self.search == "pq" else None
        return get_reduction("knn", reading(self.k, self.search, candidates=candidates))

    def _attention(self) -> Attention:
        return PLAIN

    def _readable(self) -> Readable:
        return self.memory_


def _groups(row: Row | Record) -> tuple[Group, ...]:
    return row.groups


def _winners(ranks: Ints, count: int) -> Ints:
    """Return the commonest class of each query's neighbours, (queries,); the first of equals."""
    votes = np.zeros((len(ranks), count + 1), np.int64)
    np.add.at(votes, (np.arange(len(ranks))[:, None], ranks), 1)  # −1 falls into the last column
    winners: Ints = votes[:, :count].argmax(axis=1)
    return winners
