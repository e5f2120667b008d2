"""What classifiers with a memory share: learning and predicting."""

import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from erasable.encoders import prepare
from erasable.errors import ArgumentError, StateError
from erasable.fusion import Attention, Reduction
from erasable.memory import Grid, Marks, Memory, Readable, content_parts, plain
from erasable.models._adapt import Start, resolve_init
from erasable.models._base import NetworkClassifier, class_indices
from erasable.models._columns import in_order, named_rows
from erasable.models._embedding import (
    cached_embeddings,
    embed_unforgotten,
    embeddings,
    query_embeddings,
)
from erasable.models._inputs import as_ids, labels_array
from erasable.models._memory_model import MemoryModel
from erasable.models._networks import SPMNetwork, embedding_norm
from erasable.models._probe import examined, is_alone_as_in_batch, rest_of
from erasable.models._provenance import (
    UNKNOWN,
    Provenance,
    provenance_of,
    record_rows,
    recorded,
)
from erasable.models._reader import Reader, align, no_probabilities
from erasable.models._saving import describe_classifier
from erasable.models._views import require_views
from erasable.models._votes import Votes
from erasable.store import Level
from erasable.training import Inputs, TrainingConfig
from erasable.typing import Float64s, Ints, Label, RowId

_DIFFERENCING = (
    "somebody who asks the model before and after learns about these rows: answers and votes "
    "differ by them, and 'exact' does not hide that"
)
"""True of every readout: measured, see `differencing`."""


class MemoryClassifier(MemoryModel, NetworkClassifier):
    """A classifier whose predictions are votes of rows in a memory.

    Subclasses say how the weights are trained and how the memory is read, and are final.
    """

    normalize: str
    allow_memory_level: bool
    network_: SPMNetwork
    adaptation_: dict[str, float | None]

    # -- what subclasses say ---------------------------------------------------------------------

    @abstractmethod
    def _network(self, start: Start, seed: int) -> SPMNetwork:
        """Build the network around an encoder."""

    @abstractmethod
    def _learn(
        self, inputs: Inputs, classes: Tensor, config: TrainingConfig
    ) -> list[dict[str, float]]:
        """Train ``self.network_`` in place."""

    @abstractmethod
    def _reduction(self) -> Reduction:
        """Return how the memory is read."""

    @abstractmethod
    def _attention(self) -> Attention:
        """Return how queries score rows, for evaluation."""

    @abstractmethod
    def _readable(self) -> Readable:
        """Return the rows that a prediction reads."""

    # -- learning --------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        ids: Any = None,
        groups: Any = None,
        init: Any = None,
        encoder_lr_factor: float = 1.0,
    ) -> Self:
        """Train the weights on rows and store every one of them in a new memory.

        Rows are stored as they are, not augmented, encoded in eval mode. Rows that were forgotten
        before are refused before training begins. No other thread may use the object meanwhile.

        Args:
            X: Inputs: feature vectors (n, features) or images (n, height, width[, channels]).
            y: One label per input: str, int, float or bool.
            ids: One id per input, str or int. If not given, the index of a pandas object names
                the rows, unless it is the default one; otherwise ids are counted up from 0.
            groups: Per input None, one group, or a list of groups, such as data subjects.
            init: Where the encoder's weights come from, instead of being drawn: a fitted classifier
                of this library, an encoder as a module, the directory of a saved model, or a
                ``.safetensors`` file. ``adaptation_`` then tells the accuracy on these rows before
                and after.
            encoder_lr_factor: Factor on the encoder's learning rate; small values keep a pretrained
                encoder nearly as it is while the fusion learns.
        """
        with self._unchanged_on_error():
            self._reduction()
            y, ids, groups = named_rows(X, y=y, ids=ids, groups=groups)
            inputs, labels, contents = self._check_rows(X, y, reset=True)
            require_views(self.views, self.input_shape_)
            config = replace(self._config(), encoder_lr_factor=plain(encoder_lr_factor))
            start = resolve_init(self, init, config.seed)
            tombstones = self._tombstones(start.source)
            trial = Memory(1, tombstones=tombstones.copy())
            blanks = np.zeros((len(inputs), 1), np.float32)
            row_ids = trial.add(blanks, labels, ids=ids, groups=groups, contents=contents)
            before = start.accuracy(X, labels, contents)
            network = self._network(start, config.seed).eval()
            self._adopt(network, tombstones, dim=network.encoder.dim)
            provenance = examined(self, start.provenance, inputs)
            self.history_ = []
            if init is None:
                self._require_rows_to_begin_from(start, is_trained=bool(config.epochs))
            for name in ("adaptation_", "k_scores_"):
                self.__dict__.pop(name, None)  # of an earlier fit
            if config.epochs and len(inputs) > 1:
                if config.how.checkpoint is not None:
                    self.note_copy("checkpoint", config.how.checkpoint)
                classes = class_indices(labels, trial.classes)
                if init is None and isinstance(self.encoder, str):
                    prepare(network, inputs)
                self.history_ = self._learn(inputs, classes, config)
                seen = None if groups is None else [row.groups for row in trial.get(row_ids)]
                provenance = provenance.plus(
                    record_rows("rows of fit", row_ids, contents, groups=seen, labels=labels)
                )
                provenance = examined(self, provenance, inputs)  # training may have changed more
            self._record(provenance)
            is_frozen = not self.history_
            encoded = self._embed(inputs, ids=row_ids if is_frozen else None)
            self._settle(inputs, encoded)
            self.memory_.add(
                encoded,
                labels,
                ids=row_ids,
                groups=[row.groups for row in trial.get(row_ids)],
                contents=contents,
            )
            if init is not None:
                asked = encoded if self.views == "one" else self.embed(X, as_queries=True)
                after = self._reader().own_accuracy(asked) if self.can_answer else None
                self.adaptation_ = {"before": before, "after": after}
        return self

    # -- predicting ------------------------------------------------------------------------------

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable label of each input, (n,).

        Args:
            X: Inputs: feature vectors (n, features) or images (n, height, width[, channels]).
        """
        self._require_fitted()
        logs, classes = self._answer(self._check_inputs(X, reset=False), None)
        labels: npt.NDArray[Any] = labels_array(classes)[np.exp(logs).argmax(axis=1)]
        return labels

    def predict_proba(
        self, X: Any, *, classes: Sequence[Label] | None = None, exclude_ids: Any = None
    ) -> Float64s:
        """Return class probabilities, (n, classes).

        Args:
            X: Inputs.
            classes: Labels of the columns; ``classes_`` if not given. A class without rows gets 0.
                Give them where other threads forget or remember: they may change ``classes_``.
            exclude_ids: Per input the id of one row to leave out, or None: ask "what would be
                predicted without this input's own row?".
        """
        return np.exp(self.predict_log_proba(X, classes=classes, exclude_ids=exclude_ids))

    def predict_log_proba(
        self, X: Any, *, classes: Sequence[Label] | None = None, exclude_ids: Any = None
    ) -> Float64s:
        """Return natural logs of class probabilities, (n, classes); −inf where a class is empty."""
        self._require_fitted()
        inputs = self._check_inputs(X, reset=False)
        (exclude_ids,) = in_order(X, exclude_ids=exclude_ids)
        logs, live = self._answer(inputs, self._own_ids(exclude_ids, len(inputs)))
        return logs if classes is None else align(logs, live, classes)

    def votes(self, X: Any, top: int = 10, *, exclude_ids: Any = None) -> Votes:
        """Return the rows that decided predictions, and by how much.

        Args:
            X: Inputs, (queries, …).
            top: Rows per query; the rest is summed up.
            exclude_ids: Per input the id of one row to leave out, or None.
        """
        self._require_fitted()
        if type(top) is not int or top < 1:
            raise ArgumentError(f"Expected top to be a positive int, but got {top!r}.")
        inputs = self._check_inputs(X, reset=False)
        (exclude_ids,) = in_order(X, exclude_ids=exclude_ids)
        own = self._own_ids(exclude_ids, len(inputs))
        batches = list(self._queries(inputs))
        with self._reading() as reader:
            return reader.votes(batches, top, self._own_positions(own))

    def embed(self, X: Any, *, ids: Any = None, as_queries: bool = False) -> npt.NDArray[Any]:
        """Return embeddings of inputs, (n, dim), before they are rounded to the memory's grid.

        Args:
            X: Inputs, (n, …).
            ids: One id per input: with ``embedding_cache``, those not forgotten are encoded once.
            as_queries: As a prediction sees them: the mean over ``views``. Rows have one view.
        """
        self._require_fitted()
        (ids,) = in_order(X, ids=ids)
        inputs = self._check_inputs(X, reset=False)
        if as_queries and self.views != "one":
            return np.concatenate([batch.numpy() for batch in self._queries(inputs)])
        return embed_unforgotten(self, inputs, None if ids is None else as_ids(ids, len(inputs)))

    @property
    def can_answer(self) -> bool:
        """Whether there are rows to predict with, also without one of them."""
        is_instance_wise = self.__sklearn_is_fitted__() and self.network_.set_encoder is None
        return is_instance_wise and len(self.memory_) > 1

    def _predict_others(self, X: Any, contents: list[bytes]) -> npt.NDArray[Any]:
        batches = list(self._queries(self._check_inputs(X, reset=False)))
        with self._reading() as reader:
            infos = self.memory_.table.infos
            held = {part: i.id for i in infos if i.content for part in content_parts(i.content)}
            own = [
                next((held[part] for part in content_parts(content) if part in held), None)
                for content in contents
            ]
            logs = self._logs(reader, batches, own)
            labels: npt.NDArray[Any] = labels_array(self.memory_.classes)[logs.argmax(axis=1)]
        return labels

    # -- state -----------------------------------------------------------------------------------

    @property
    def encoder_(self) -> nn.Module:
        """The trained encoder; it carries the record of what it was trained on."""
        self._require_fitted()
        encoder: nn.Module = self.network_.encoder
        return encoder

    # -- inside ----------------------------------------------------------------------------------

    def _description(self) -> dict[str, Any]:
        return {**describe_classifier(self), **self._input_description()}

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit would take, before they are saved or used."""
        self._check_reading()

    def _check_values(self) -> None:
        super()._check_values()
        self._check_reading()

    def _check_reading(self) -> None:
        Grid(self.grid_bits)
        if not isinstance(self.allow_memory_level, (bool, np.bool_)):
            raise ArgumentError(
                "Expected allow_memory_level to be True or False, but got "
                f"{self.allow_memory_level!r}."
            )
        self._reduction()
        require_views(self.views, self.input_shape_)
        encoder = self.network_.encoder
        self._network(Start(encoder, Provenance()), seed=0)

    def _what_exact_leaves_open(self, level: Level | None) -> tuple[str, ...]:
        return (_DIFFERENCING,) if level == "exact" else ()

    def _norm(self, start: Start) -> nn.Module:
        return embedding_norm(self.normalize, start.encoder)

    def _begin(self, seed: int) -> None:
        """Start with an empty memory and weights that no row of it has touched."""
        require_views(self.views, self.input_shape_)
        start = resolve_init(self, None, seed)
        self._require_rows_to_begin_from(start, is_trained=False)
        network = self._network(start, seed).eval()
        self._adopt(network, Marks(), dim=network.encoder.dim)
        self._record(start.provenance)

    def _require_rows_to_begin_from(self, start: Start, *, is_trained: bool) -> None:
        """Refuse a drawn encoder that is computed from rows in part, and never will be."""
        if isinstance(self.encoder, str) and start.encoder.rows_needed and not is_trained:
            raise ArgumentError(
                f"Expected a training: {start.encoder.name!r} with these options begins from the "
                "rows that it is trained on. Call fit() with epochs, or leave out stem='whitened'."
            )

    def _examine(self, inputs: Inputs | None) -> None:
        self._record(examined(self, self.provenance_, inputs))

    def _readmit(self, config: dict[str, Any]) -> None:
        known = self.provenance_
        if rest_of(self.network_.encoder) != config["encoder"].get("holds"):
            known = known.joined(UNKNOWN)  # nobody vouched for this network
        self._record(examined(self, known))

    def _settle(self, inputs: Inputs, encoded: npt.NDArray[Any]) -> None:
        known = provenance_of(self.network_)
        if not is_alone_as_in_batch(self.network_, inputs, encoded):
            known = known.joined(UNKNOWN)
        if known != recorded(self.network_):
            self._record(known)

    def _embed(self, inputs: Inputs, *, ids: Sequence[RowId] | None = None) -> npt.NDArray[Any]:
        if self.embedding_cache is None or ids is None:
            return np.concatenate([batch.numpy() for batch in self._embeddings(inputs)])
        folder = Path(self.embedding_cache).resolve()
        self.note_copy("embeddings", folder)
        return cached_embeddings(self.network_, inputs, ids, folder, verbose=self._how.verbose)

    def _embeddings(self, inputs: Inputs) -> Iterator[Tensor]:
        return embeddings(self.network_, inputs)

    def _queries(self, inputs: Inputs) -> Iterator[Tensor]:
        return query_embeddings(self.network_, inputs, self.views)

    def _reader(self) -> Reader:
        return Reader(self._reduction(), self._attention(), self._readable())

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Reader]:
        """Hold the rows still, and yield a reader of them: an answer is of one state of them."""
        with self.memory_.live.lock.reading():
            self._require_rows()
            yield self._reader()

    def _answer(
        self, inputs: Inputs, own: list[RowId | None] | None
    ) -> tuple[Float64s, list[Label]]:
        """Return log class probabilities and the classes of their columns, from one state."""
        batches = list(self._queries(inputs))  # takes long, and needs no row
        with self._reading() as reader:
            return self._logs(reader, batches, own), self.memory_.classes

    def _logs(
        self, reader: Reader, batches: Iterable[Tensor], own: list[RowId | None] | None
    ) -> Float64s:
        logs = reader.log_probabilities(batches, self._own_positions(own))
        if np.isnan(logs).any():
            raise StateError(no_probabilities(has_exclusions=own is not None))
        return logs

    def _own_ids(self, exclude_ids: Any, count: int) -> list[RowId | None] | None:
        if exclude_ids is None:
            return None
        if self.network_.set_encoder is not None:
            raise ArgumentError(
                "Expected exclude_ids only with rows that are encoded each by itself: with a set "
                "encoder, a row also speaks through its neighbours. Forget it in a copy instead."
            )
        wanted = list(exclude_ids)
        if len(wanted) != count:
            raise ArgumentError(f"Expected {count} exclude_ids, but got {len(wanted)}.")
        return wanted

    def _own_positions(self, wanted: list[RowId | None] | None) -> Ints | None:
        if wanted is None:
            return None
        named = {place: row_id for place, row_id in enumerate(wanted) if row_id is not None}
        positions = np.full(len(wanted), -1, np.int64)
        positions[list(named)] = self.memory_.positions(list(named.values()))
        return positions
