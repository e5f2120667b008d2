"""What classifiers with a memory share: remembering, forgetting, predicting, saving."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from erasable.errors import ArgumentError, StateError, listing
from erasable.fusion import Attention, Reduction
from erasable.memory import Grid, Marks, Match, Memory, Readable, Selection, plain
from erasable.models._adapt import Start, resolve_init
from erasable.models._base import NetworkClassifier, class_indices
from erasable.models._copies import KnownCopy, Purged, clear_caches, known_copies, purge
from erasable.models._embedding import cached_embeddings, embed_unforgotten, embeddings
from erasable.models._inputs import as_ids, as_labels, at_places, labels_array, listed
from erasable.models._networks import SPMNetwork, embedding_norm
from erasable.models._plan import ForgetPlan, plan_forget
from erasable.models._provenance import Provenance, provenance_of, record_rows
from erasable.models._reader import Reader, align, no_probabilities
from erasable.models._saving import Place, save
from erasable.models._votes import Votes
from erasable.store import COPY_KINDS, Basis, Copy, CopyKind, Level, Receipt
from erasable.training import Inputs, TrainingConfig
from erasable.typing import Float64s, Ints, Label, RowId
from erasable.weights import weights_digest


class MemoryClassifier(NetworkClassifier):
    """A classifier whose predictions are votes of rows in a memory.

    Subclasses say how the weights are trained and how the memory is read, and are final.
    """

    normalize: str
    grid_bits: int
    embedding_cache: str | Path | None
    network_: SPMNetwork
    memory_: Memory
    places_: dict[Path, Place]
    copies_: list[Copy]
    data_: dict[str, Any] | None
    history_: list[dict[str, float]]
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
        before are refused before training begins.

        Args:
            X: Inputs: feature vectors (n, features) or images (n, height, width[, channels]).
            y: One label per input: str, int, float or bool.
            ids: One id per input, str or int; counted up from 0 if not given.
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
            inputs, labels, contents = self._check_rows(X, y, reset=True)
            config = replace(self._config(), encoder_lr_factor=plain(encoder_lr_factor))
            start = resolve_init(self, init, config.seed)
            tombstones = self._tombstones(start.source)
            trial = Memory(1, tombstones=tombstones.copy())
            blanks = np.zeros((len(inputs), 1), np.float32)
            row_ids = trial.add(blanks, labels, ids=ids, groups=groups, contents=contents)
            before = start.accuracy(X, labels, contents)
            self._adopt(self._network(start, config.seed).eval(), tombstones)
            provenance = start.provenance
            self.history_ = []
            for name in ("adaptation_", "k_scores_"):
                self.__dict__.pop(name, None)  # of an earlier fit
            if config.epochs and len(inputs) > 1:
                if self.checkpoint is not None:
                    self.note_copy("checkpoint", self.checkpoint)
                classes = class_indices(labels, trial.classes)
                self.history_ = self._learn(inputs, classes, config)
                provenance = provenance.plus(record_rows("rows of fit", row_ids, contents))
            self._record(provenance)
            is_frozen = not self.history_
            encoded = self._embed(inputs, ids=row_ids if is_frozen else None)
            self.memory_.add(
                encoded,
                labels,
                ids=row_ids,
                groups=[row.groups for row in trial.get(row_ids)],
                contents=contents,
            )
            if init is not None:
                after = self._reader().own_accuracy(encoded) if self.can_answer else None
                self.adaptation_ = {"before": before, "after": after}
        return self

    def remember(
        self,
        X: Any,
        y: Any,
        *,
        ids: Any = None,
        groups: Any = None,
        reinstate: bool = False,
        skip_forgotten: bool = False,
    ) -> Self:
        """Store rows, of new classes too, without training.

        An estimator that was never fitted starts with an untrained encoder and plain similarity.

        Args:
            X: Inputs, like those of `fit`.
            y: One label per input.
            ids: One new id per input; counted up if not given.
            groups: Per input None, one group, or a list of groups.
            reinstate: Accept rows that were forgotten before.
            skip_forgotten: Leave out rows that were forgotten before.
        """
        with self._unchanged_on_error():
            is_new = not self.__sklearn_is_fitted__()
            inputs, labels, contents = self._check_rows(X, y, reset=is_new)
            ids, groups = listed(ids), listed(groups)  # they are read more than once
            if is_new:
                self._begin(self._seed())
            # Checked before anything is encoded: what is refused must not end up in a cache.
            kept = self.memory_.admissible(
                labels,
                ids=ids,
                groups=groups,
                contents=contents,
                reinstate=reinstate,
                skip_forgotten=skip_forgotten,
            )
            kept_ids = at_places(kept, ids)
            if self.embedding_cache is not None and kept_ids is None:
                raise ArgumentError(
                    "Expected ids with embedding_cache, but got none: what is kept of a row is "
                    "found, and removed, by its id."
                )
            if kept:
                self.memory_.add(
                    self._embed(inputs.take(kept), ids=kept_ids),
                    at_places(kept, labels),
                    ids=kept_ids,
                    groups=at_places(kept, groups),
                    contents=at_places(kept, contents),
                    reinstate=reinstate,
                )
        return self

    # -- forgetting ------------------------------------------------------------------------------

    @overload
    def forget(
        self,
        *,
        ids: Any = ...,
        groups: Any = ...,
        classes: Any = ...,
        missing_ok: bool = ...,
        dry_run: Literal[False] = ...,
        request_id: str | None = ...,
    ) -> Receipt: ...

    @overload
    def forget(
        self,
        *,
        ids: Any = ...,
        groups: Any = ...,
        classes: Any = ...,
        missing_ok: bool = ...,
        dry_run: Literal[True],
        request_id: str | None = ...,
    ) -> ForgetPlan: ...

    def forget(
        self,
        *,
        ids: Any = None,
        groups: Any = None,
        classes: Any = None,
        missing_ok: bool = False,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Receipt | ForgetPlan:
        """Forget from memory every row that has one of the ids, groups or classes; all or nothing.

        Args:
            ids: Row ids.
            groups: Groups; all their rows, and no row of theirs is accepted again.
            classes: Labels; all their rows.
            missing_ok: Skip what is not in the memory instead of raising.
            dry_run: Only tell what would happen.
            request_id: Your name for the request; generated if not given.

        Returns:
            A `Receipt`, or with ``dry_run`` a `ForgetPlan`. Both say the level: whether the weights
            saw the rows.
        """
        self._require_fitted()
        selection = self.memory_.select(
            ids=ids, groups=groups, classes=classes, missing_ok=missing_ok
        )
        digest = self.weights_digest
        level, basis = self._level(selection, digest)
        if dry_run:
            return plan_forget(self.memory_, selection, level=level, basis=basis)
        # First: if this is interrupted, what was removed is only encoded again.
        clear_caches(self, [*selection.ids, *selection.missing])
        done = self.memory_.drop(selection)
        return Receipt.new(
            request_id=request_id,
            rows=len(done.ids),
            digest_before=done.digest_before,
            digest_after=done.digest_after,
            weights_digest=digest,
            level=level,
            basis=basis,
        )

    # -- predicting ------------------------------------------------------------------------------

    def predict_proba(
        self, X: Any, *, classes: Sequence[Label] | None = None, exclude_ids: Any = None
    ) -> Float64s:
        """Return class probabilities, (n, classes).

        Args:
            X: Inputs.
            classes: Labels of the columns; ``classes_`` if not given. A class without rows gets 0.
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
        self._require_rows()
        exclude = self._own_positions(exclude_ids, len(inputs))
        logs = self._reader().log_probabilities(self._embeddings(inputs), exclude)
        if np.isnan(logs).any():
            raise StateError(no_probabilities(has_exclusions=exclude is not None))
        return logs if classes is None else align(logs, self.memory_.classes, classes)

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
        self._require_rows()
        exclude = self._own_positions(exclude_ids, len(inputs))
        return self._reader().votes(self._embeddings(inputs), top, exclude)

    def find(self, X: Any, *, tolerance: float = 0.01) -> list[list[Match]]:
        """Find rows that look (nearly) like the inputs to the encoder: copies under other ids.

        Args:
            X: Inputs, (queries, …).
            tolerance: Largest distance of embeddings, relative to the length of the query's.
        """
        self._require_fitted()
        inputs = self._check_inputs(X, reset=False)
        return self.memory_.find(self._embed(inputs), tolerance=tolerance)

    def embed(self, X: Any, *, ids: Any = None) -> npt.NDArray[Any]:
        """Return embeddings of inputs, (n, dim), before they are rounded to the memory's grid.

        Args:
            X: Inputs, (n, …).
            ids: One id per input: with ``embedding_cache``, those not forgotten are encoded once.
        """
        self._require_fitted()
        inputs = self._check_inputs(X, reset=False)
        return embed_unforgotten(self, inputs, None if ids is None else as_ids(ids, len(inputs)))

    @property
    def can_answer(self) -> bool:
        """Whether there are rows to predict with, also without one of them."""
        is_instance_wise = self.__sklearn_is_fitted__() and self.network_.set_encoder is None
        return is_instance_wise and len(self.memory_) > 1

    def _predict_others(self, X: Any, contents: list[bytes]) -> npt.NDArray[Any]:
        held = {info.content: info.id for info in self.memory_.table.infos}
        own = [held.get(content) for content in contents]
        best = self.predict_log_proba(X, exclude_ids=own).argmax(axis=1)
        labels: npt.NDArray[Any] = self.classes_[best]
        return labels

    # -- state -----------------------------------------------------------------------------------

    @property
    def memory(self) -> Memory:
        """The rows this model reads."""
        self._require_fitted()
        memory: Memory = self.memory_
        return memory

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Labels of live rows, sorted; changed by `forget` and `remember`."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("classes_ is there after fit() or remember().")
        return labels_array(self.memory_.classes)

    @property
    def encoder_(self) -> nn.Module:
        """The trained encoder; it carries the record of what it was trained on."""
        self._require_fitted()
        encoder: nn.Module = self.network_.encoder
        return encoder

    @property
    def provenance_(self) -> Provenance:
        """What the weights were trained on, as far as is known."""
        self._require_fitted()
        return provenance_of(self.network_, digest=self.weights_digest)

    @property
    def weights_digest(self) -> str:
        """Hex SHA-256 of the weights."""
        self._require_fitted()
        return weights_digest(self.network_)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Save the model as a directory; `erasable.load` reads it back.

        Saving again to the same directory brings it up to date. Keys of tombstones and training
        records are written to the user's key folder, not to the directory.

        Args:
            path: The directory.
            overwrite: Replace another model that is there. Rows that were forgotten from it stay
                forgotten: if this model holds one of them, nothing is saved.
        """
        self._require_fitted()
        self._check_parameters()
        place = save(self, Path(path), overwrite=overwrite)
        self.places_ = {**self.places_, place.path: place}

    # -- copies ----------------------------------------------------------------------------------

    def note_copy(self, kind: CopyKind, path: str | Path) -> None:
        """Record that something of the rows lies in a file or folder outside the model."""
        self._require_fitted()
        if kind not in COPY_KINDS:
            raise ArgumentError(f"Expected kind to be {listing(COPY_KINDS)}, but got {kind!r}.")
        copy = Copy(kind, str(Path(path).resolve()))
        if copy not in self.copies_:
            self.copies_ = [*self.copies_, copy]

    def copies(self) -> list[KnownCopy]:
        """Return every place that holds something of the rows, as far as this model knows."""
        self._require_fitted()
        return known_copies(self)

    def purge(self) -> Purged:
        """Remove what is left of forgotten rows in every embedding cache this model has used.

        `forget` does so itself; this finds entries that came back, or that a crash left behind, by
        the marks of what was forgotten.
        """
        self._require_fitted()
        return purge(self)

    # -- inside ----------------------------------------------------------------------------------

    def _check_rows(
        self, X: Any, y: Any, *, reset: bool
    ) -> tuple[Inputs, list[Label], list[bytes]]:
        inputs = self._check_inputs(X, reset=reset)
        labels = as_labels(y)
        if len(labels) != len(inputs):
            raise ArgumentError(f"Expected {len(inputs)} labels, but got {len(labels)}.")
        return inputs, labels, inputs.digests

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit would take, before they are saved or used."""
        Grid(self.grid_bits)
        self._reduction()
        encoder = self.network_.encoder
        self._network(Start(encoder, Provenance()), seed=0)

    def _norm(self, start: Start) -> nn.Module:
        return embedding_norm(self.normalize, start.encoder)

    def _begin(self, seed: int) -> None:
        """Start with an empty memory and weights that no row of it has touched."""
        start = resolve_init(self, None, seed)
        self._adopt(self._network(start, seed).eval(), Marks())
        self._record(start.provenance)

    def _adopt(self, network: SPMNetwork, tombstones: Marks) -> None:
        self._laid_out(network)
        self.network_, self.places_ = network, {}
        self.data_ = None  # whoever reads rows from a data set may record which, and how split
        self.copies_ = getattr(self, "copies_", [])  # what an earlier fit left is still there
        self.memory_ = Memory(network.encoder.dim, grid=Grid(self.grid_bits), tombstones=tombstones)

    def _tombstones(self, source: NetworkClassifier | None = None) -> Marks:
        """Return the marks of what was forgotten from this model, and from the one it adapts."""
        marks = Marks()
        for model in (self, source):
            if isinstance(model, MemoryClassifier) and model.__sklearn_is_fitted__():
                marks.update(model.memory_.tombstones.marks)
        return marks

    def _embed(self, inputs: Inputs, *, ids: Sequence[RowId] | None = None) -> npt.NDArray[Any]:
        if self.embedding_cache is None or ids is None:
            return np.concatenate([batch.numpy() for batch in self._embeddings(inputs)])
        folder = Path(self.embedding_cache).resolve()
        self.note_copy("embeddings", folder)
        return cached_embeddings(self.network_, inputs, ids, folder, verbose=bool(self.verbose))

    def _embeddings(self, inputs: Inputs) -> Iterator[Tensor]:
        return embeddings(self.network_, inputs)

    def _reader(self) -> Reader:
        return Reader(self._reduction(), self._attention(), self._readable())

    def _require_rows(self) -> None:
        if not len(self.memory_):
            raise StateError("Expected rows in the memory, but it is empty: remember() some first.")

    def _own_positions(self, exclude_ids: Any, count: int) -> Ints | None:
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
        named = [i for i, row_id in enumerate(wanted) if row_id is not None]
        positions = np.full(count, -1, np.int64)
        positions[named] = self.memory_.positions([wanted[i] for i in named])
        return positions

    def _level(self, selection: Selection, digest: str) -> tuple[Level, Basis]:
        records = [self.memory_.record(int(p)) for p in self.memory_.positions(selection.ids)]
        rows: list[tuple[RowId, bytes | None]] = [(r.id, r.content) for r in records]
        rows += [(row_id, None) for row_id in selection.missing]
        known = provenance_of(self.network_, digest=digest)
        return known.level(rows, is_complete=selection.is_complete)
