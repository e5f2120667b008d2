"""The classifier that forgets."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self, final, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from erasable.errors import ArgumentError, StateError
from erasable.fusion import DotProductFusion, get_reduction
from erasable.memory import Grid, Marks, Match, Memory, Selection
from erasable.models._base import NetworkClassifier, class_indices
from erasable.models._inputs import as_labels, as_tensor, content_digests, labels_array
from erasable.models._networks import SPMNetwork, embedding_norm, evaluate
from erasable.models._plan import ForgetPlan, plan_forget
from erasable.models._provenance import Provenance, provenance_of, record_rows
from erasable.models._saving import Place, save
from erasable.models._votes import Votes
from erasable.store import FORMAT, Basis, Level, Receipt
from erasable.training import InBatchMemory
from erasable.typing import Float32s, Float64s, Ints, Label, RowId
from erasable.weights import weights_digest


@final
class SPMClassifier(NetworkClassifier):
    """A deep semi-parametric classifier: predictions are votes of the rows in its memory.

    `fit` trains the weights to *compare* and stores every row; `remember` stores rows without
    training; `forget` takes rows out, and from then on no prediction uses them. What the weights
    themselves learnt from a row stays in them: `forget` reports that as its level.

    Args:
        encoder: ``auto`` (``mlp`` for feature vectors, ``small_cnn`` for images), ``identity``,
            ``random_features``, ``mlp``, ``small_cnn``, or any ``torch.nn.Module`` that returns
            (n, dim). A module is copied, never changed.
        reduction: How the memory is read. ``prototypes``: one mean per class. ``rows``: attention
            over every row. It can be changed with `set_params` at any time.
        encoder_options: Keyword arguments for a named encoder.
        normalize: ``layer``: give every embedding mean square one; ``none``; ``auto``: ``layer``
            unless the encoder is ``identity`` or ``random_features``.
        scale: Factor on attention scores: ``sqrt`` for 1/√dim, ``none`` for 1 as in the paper, or a
            number.
        grid_bits: Embeddings are rounded to multiples of ``2**-grid_bits``, so that sums of them
            are exact. Magnitudes must stay below ``2**(20 - grid_bits)``.
        epochs: Passes over the rows; 0 trains nothing.
        batch_size: Rows per step; the batch is queries and memory at once.
        learning_rate: Largest learning rate of SGD.
        momentum: Nesterov momentum.
        weight_decay: L2 penalty on matrices and kernels.
        label_smoothing: Share of the target spread over the classes of the batch.
        label_permutation: Renumber the classes at random in each step. Changes nothing here, where
            only equality of labels matters; it is a switch so that this can be checked.
        augmentation: ``none``, ``crop`` or ``crop_flip``, for images.
        random_state: Seed of everything random.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        checkpoint: Folder for the state after each epoch; a run that was interrupted goes on there.
        verbose: Show a progress bar.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = SPMClassifier(epochs=5, random_state=0).fit(X, y)
        >>> receipt = clf.forget(classes=[2])
        >>> receipt.rows, receipt.level, clf.classes_.tolist()
        (50, 'memory', [0, 1])
    """

    places_: dict[Path, Place]

    def __init__(
        self,
        encoder: str | nn.Module = "auto",
        reduction: str = "prototypes",
        *,
        encoder_options: dict[str, Any] | None = None,
        normalize: str = "auto",
        scale: str | float = "sqrt",
        grid_bits: int = 14,
        epochs: int = 30,
        batch_size: int = 128,
        learning_rate: float = 0.1,
        momentum: float = 0.9,
        weight_decay: float = 5e-4,
        label_smoothing: float = 0.0,
        label_permutation: bool = False,
        augmentation: str = "none",
        random_state: Any = None,
        device: str = "auto",
        checkpoint: str | Path | None = None,
        verbose: int = 0,
    ) -> None:
        self.encoder = encoder
        self.reduction = reduction
        self.encoder_options = encoder_options
        self.normalize = normalize
        self.scale = scale
        self.grid_bits = grid_bits
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.label_smoothing = label_smoothing
        self.label_permutation = label_permutation
        self.augmentation = augmentation
        self.random_state = random_state
        self.device = device
        self.checkpoint = checkpoint
        self.verbose = verbose

    # -- learning --------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, *, ids: Any = None, groups: Any = None) -> Self:
        """Train the weights on rows and store every one of them in a new memory.

        Rows are stored as they are, not augmented, encoded in eval mode. Rows that were forgotten
        before are refused before training begins.

        Args:
            X: Inputs: feature vectors (n, features) or images (n, height, width[, channels]).
            y: One label per input: str, int, float or bool.
            ids: One id per input, str or int; counted up from 0 if not given.
            groups: Per input None, one group, or a list of groups, such as data subjects.
        """
        with self._unchanged_on_error():
            reduction = get_reduction(self.reduction)
            inputs, labels, contents = self._check_rows(X, y, reset=True)
            tombstones = self._tombstones()
            trial = Memory(1, tombstones=tombstones.copy())
            blanks = np.zeros((len(inputs), 1), np.float32)
            row_ids = trial.add(blanks, labels, ids=ids, groups=groups, contents=contents)
            config = self._config()
            provenance = self._start(config.seed, tombstones)
            self.history_ = []
            if config.epochs and len(inputs) > 1:
                objective = InBatchMemory(reduction, label_smoothing=self.label_smoothing)
                classes = class_indices(labels, trial.classes)
                self.history_ = self._train(objective, inputs, classes, config)
                provenance = provenance.plus(record_rows("rows of fit", row_ids, contents))
            self._record(provenance)
            self.memory_.add(
                self._embed(inputs),
                labels,
                ids=row_ids,
                groups=[row.groups for row in trial.get(row_ids)],
                contents=contents,
            )
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
            if is_new:
                self._record(self._start(self._seed(), Marks()))
            self.memory_.add(
                self._embed(inputs),
                labels,
                ids=ids,
                groups=groups,
                contents=contents,
                reinstate=reinstate,
                skip_forgotten=skip_forgotten,
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
        done = self.memory_.drop(selection)
        return Receipt(
            format=FORMAT,
            request_id=request_id or uuid.uuid4().hex,
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
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
        reduction, attention = get_reduction(self.reduction), self.network_.fusion.evaluation()
        parts, start = [], 0
        for queries in self._embeddings(inputs):
            own = None if exclude is None else exclude[start : start + len(queries)]
            parts.append(
                reduction.log_probabilities(
                    queries.double(), self.memory_, attention=attention, exclude=own
                )
            )
            start += len(queries)
        logs: Float64s = torch.cat(parts).numpy()
        if np.isnan(logs).any():
            raise StateError(_no_probabilities(has_exclusions=exclude is not None))
        return logs if classes is None else self._align(logs, classes)

    def votes(self, X: Any, top: int = 10) -> Votes:
        """Return the rows that decided predictions, and by how much.

        Args:
            X: Inputs, (queries, …).
            top: Rows per query; the rest is summed up.
        """
        self._require_fitted()
        if type(top) is not int or top < 1:
            raise ArgumentError(f"Expected top to be a positive int, but got {top!r}.")
        inputs = self._check_inputs(X, reset=False)
        self._require_rows()
        reduction, attention = get_reduction(self.reduction), self.network_.fusion.evaluation()
        parts = [
            reduction.votes(queries.double(), self.memory_, top, attention=attention)
            for queries in self._embeddings(inputs)
        ]
        places = np.concatenate([part.positions for part in parts])
        records = {p: self.memory_.record(p) for p in np.unique(places).tolist()}
        ids = [[records[p].id for p in query] for query in places.tolist()]
        labels = [[records[p].label for p in query] for query in places.tolist()]
        return Votes(
            ids=_object_array(ids),
            labels=_object_array(labels),
            weights=np.concatenate([part.weights for part in parts]),
            rest=np.concatenate([part.rest for part in parts]),
            kind=reduction.vote_kind,
        )

    def find(self, X: Any, *, tolerance: float = 0.01) -> list[list[Match]]:
        """Find rows that look (nearly) like the inputs to the encoder: copies under other ids.

        Args:
            X: Inputs, (queries, …).
            tolerance: Largest distance of embeddings, relative to the length of the query's.
        """
        self._require_fitted()
        inputs = self._check_inputs(X, reset=False)
        return self.memory_.find(self._embed(inputs), tolerance=tolerance)

    def embed(self, X: Any) -> npt.NDArray[Any]:
        """Return embeddings of inputs, (n, dim), before they are rounded to the memory's grid."""
        self._require_fitted()
        return self._embed(self._check_inputs(X, reset=False))

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
        place = save(self, Path(path), overwrite=overwrite)
        self.places_ = {**self.places_, place.path: place}

    # -- inside ----------------------------------------------------------------------------------

    def _check_rows(
        self, X: Any, y: Any, *, reset: bool
    ) -> tuple[Float32s, list[Label], list[bytes]]:
        inputs = self._check_inputs(X, reset=reset)
        labels = as_labels(y)
        if len(labels) != len(inputs):
            raise ArgumentError(f"Expected {len(inputs)} labels, but got {len(labels)}.")
        return inputs, labels, content_digests(inputs)

    def _start(self, seed: int, tombstones: Marks) -> Provenance:
        """Set up new weights and an empty memory; return what the weights have seen."""
        encoder, provenance = self._build_encoder(seed)
        norm = embedding_norm(self.normalize, encoder)
        fusion = DotProductFusion(encoder.dim, scale=self.scale)
        self._adopt(SPMNetwork(encoder, norm, fusion).eval(), tombstones)
        return provenance

    def _adopt(self, network: SPMNetwork, tombstones: Marks) -> None:
        self.network_ = self._laid_out(network)
        self.places_ = {}
        grid = Grid(self.grid_bits)
        self.memory_ = Memory(network.encoder.dim, grid=grid, tombstones=tombstones)

    def _tombstones(self) -> Marks:
        is_fitted = self.__sklearn_is_fitted__()
        return self.memory_.tombstones.marks.copy() if is_fitted else Marks()

    def _embed(self, inputs: Float32s) -> npt.NDArray[Any]:
        return np.concatenate([batch.numpy() for batch in self._embeddings(inputs)])

    def _embeddings(self, inputs: Float32s) -> Iterator[Tensor]:
        network = self.network_
        is_precise = network.encoder.is_precise
        return evaluate(network.embedder, as_tensor(inputs), is_precise=is_precise)

    def _require_rows(self) -> None:
        if not len(self.memory_):
            raise StateError("Expected rows in the memory, but it is empty: remember() some first.")

    def _own_positions(self, exclude_ids: Any, count: int) -> Ints | None:
        if exclude_ids is None:
            return None
        wanted = list(exclude_ids)
        if len(wanted) != count:
            raise ArgumentError(f"Expected {count} exclude_ids, but got {len(wanted)}.")
        named = [i for i, row_id in enumerate(wanted) if row_id is not None]
        positions = np.full(count, -1, np.int64)
        positions[named] = self.memory_.positions([wanted[i] for i in named])
        return positions

    def _align(self, logs: Float64s, classes: Sequence[Label]) -> Float64s:
        live = self.memory_.classes
        wanted = as_labels(list(classes))
        place = {(type(label), label): column for column, label in enumerate(live)}
        aligned = np.full((len(logs), len(wanted)), -np.inf)
        for column, label in enumerate(wanted):
            if (type(label), label) in place:
                aligned[:, column] = logs[:, place[type(label), label]]
        return aligned

    def _level(self, selection: Selection, digest: str) -> tuple[Level, Basis]:
        records = [self.memory_.record(int(p)) for p in self.memory_.positions(selection.ids)]
        rows: list[tuple[RowId, bytes | None]] = [(r.id, r.content) for r in records]
        rows += [(row_id, None) for row_id in selection.missing]
        known = provenance_of(self.network_, digest=digest)
        return known.level(rows, is_complete=selection.is_complete)


def _no_probabilities(*, has_exclusions: bool) -> str:
    if has_exclusions:
        return "Expected a row to vote, but the excluded row was the only one left."
    return "Expected finite embeddings of the queries, but the encoder returned NaN or infinity."


def _object_array(rows: list[list[Any]]) -> npt.NDArray[Any]:
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    for index, row in enumerate(rows):
        array[index] = row
    return array
