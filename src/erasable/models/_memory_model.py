"""What models with a memory share: remembering, forgetting, saving."""

import contextlib
import threading
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, overload
from weakref import WeakKeyDictionary

import numpy.typing as npt
from torch import nn

from erasable._version import __version__
from erasable.errors import ArgumentError, RowIdError, StateError, listing
from erasable.memory import Grid, Marks, Match, Memory, Selection, Tombstone, utc_now
from erasable.models._base import NetworkModel
from erasable.models._columns import named_rows, selectors
from erasable.models._copies import KnownCopy, Purged, clear_caches, known_copies, purge
from erasable.models._input_kind import InputKind
from erasable.models._inputs import as_labels, at_places, labels_array, listed
from erasable.models._level import reach_of, told_for
from erasable.models._plan import ForgetPlan, plan_forget, require_distance
from erasable.models._provenance import Provenance, provenance_of, without_overlap
from erasable.models._saving import Place, save
from erasable.store import COPY_KINDS, Copy, CopyKind, Level, Outcome, Receipt
from erasable.training import Inputs
from erasable.typing import Label, RowId
from erasable.weights import weights_digest

_DIGESTS = ("_digest", "_contents")
"""How the names of digests end in the record of a data set."""
_NOTING = threading.Lock()

_BEGINNINGS: WeakKeyDictionary["MemoryModel", threading.RLock] = WeakKeyDictionary()
"""Locks of models that are being begun: they have no rows yet, whose lock would do."""


class MemoryModel(NetworkModel):
    """A network that reads rows from a memory when it is used.

    Subclasses say what a row is encoded as, and what the network does with it.
    """

    grid_bits: int
    embedding_cache: str | Path | None = None
    memory_: Memory
    places_: dict[Path, Place]
    copies_: list[Copy]
    is_verified_: bool
    doubts_: tuple[str, ...]
    receipts_: tuple[Receipt, ...]
    history_: list[dict[str, float]]
    _data: dict[str, Any] | None

    # -- what subclasses say ---------------------------------------------------------------------

    @abstractmethod
    def _begin(self, seed: int) -> None:
        """Start with an empty memory and weights that no row of it has touched."""

    @abstractmethod
    def _embed(self, inputs: Inputs, *, ids: Sequence[RowId] | None = None) -> npt.NDArray[Any]:
        """Return what the memory stores of inputs, (n, dim)."""

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that no fit would take, before they are saved or used."""

    @abstractmethod
    def _description(self) -> dict[str, Any]:
        """Return what the saved configuration has of this kind of model."""

    def _input_description(self) -> dict[str, Any]:
        """Return what the saved configuration has of inputs."""
        kind = getattr(self, "input_kind_", None)
        return {"input_kind": None if kind is None else kind.value}

    def _view(self, digest: str) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        """Return files that other programs know a saved model by; none, unless a subclass has some.

        Args:
            digest: Digest of the weights.
        """
        return {}, {}

    def _what_exact_leaves_open(self, level: Level | None) -> tuple[str, ...]:
        """Return what a receipt of this level has to say besides, one sentence each."""
        return ()

    def _prune(self) -> None:
        """Drop what is left of classes that have no rows any more."""

    def _examine(self, inputs: Inputs | None) -> None:
        """Refuse a network that does not encode each row by itself, where users may bring one."""

    def _readmit(self, config: dict[str, Any]) -> None:
        """Examine a network that was given to `load`, by what was saved of the one before."""

    def _settle(self, inputs: Inputs, encoded: npt.NDArray[Any]) -> None:
        """Note for good if rows were not encoded by what the record is of, each by itself."""

    # -- remembering -----------------------------------------------------------------------------

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

        Rows are encoded while other threads may predict, forget and remember. What was forgotten
        meanwhile is refused as if it had been forgotten before.

        Args:
            X: Inputs, like those of `fit`.
            y: One label per input.
            ids: One new id per input. If not given, the index of a pandas object names the rows,
                unless it is the default one; otherwise ids are counted up.
            groups: Per input None, one group, or a list of groups.
            reinstate: Accept rows that were forgotten before.
            skip_forgotten: Leave out rows that were forgotten before.
        """
        with self._begun_if_new() as is_new:
            y, ids, groups = named_rows(X, y=y, ids=ids, groups=groups)
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
            self._require_ids(kept_ids)
            if kept:
                rows = inputs.take(kept)
                if is_new:
                    self._examine(rows)
                encoded = self._embed(rows, ids=kept_ids)  # takes long: nobody waits
                self._settle(rows, encoded)
                with self._uncached_if_refused(kept_ids), self.memory_.live.lock.writing():
                    self._prune()  # before a class that is gone may come back
                    self.memory_.add(
                        encoded,
                        at_places(kept, labels),
                        ids=kept_ids,
                        groups=at_places(kept, groups),
                        contents=at_places(kept, contents),
                        reinstate=reinstate,
                        skip_forgotten=skip_forgotten,
                    )
        return self

    @contextlib.contextmanager
    def _begun_if_new(self) -> Iterator[bool]:
        """Yield whether the model has yet to begin, alone if so; as it was, if that fails."""
        if self.__sklearn_is_fitted__():
            yield False  # rows are added all or none, and other threads may change the rest
            return
        with _NOTING:
            beginning = _BEGINNINGS.setdefault(self, threading.RLock())
        with beginning:
            is_new = not self.__sklearn_is_fitted__()
            with self._unchanged_on_error():
                yield is_new

    @contextlib.contextmanager
    def _uncached_if_refused(self, ids: Sequence[RowId] | None) -> Iterator[None]:
        """Take embeddings of rows that are not stored in the end out of the caches again.

        Another thread may have forgotten them while they were encoded.
        """
        try:
            yield
        except RowIdError:
            self._uncache(ids)
            raise
        self._uncache(ids)

    def _uncache(self, ids: Sequence[RowId] | None) -> None:
        refused = [row_id for row_id in ids or [] if row_id not in self.memory_]
        if refused:
            clear_caches(self, refused)

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
        near: float | None = ...,
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
        near: float | None = None,
        request_id: str | None = None,
    ) -> Receipt | ForgetPlan:
        """Forget from memory every row that has one of the ids, groups or classes; all or nothing.

        Args:
            ids: Row ids.
            groups: Groups; all their rows, and no row of theirs is accepted again.
            classes: Labels; all their rows.
            missing_ok: Skip what is not in the memory instead of raising.
            dry_run: Only tell what would happen.
            near: With ``dry_run``, list also the rows that would stay although their embedding is
                this near to that of a row of the request: copies under other ids. The distance is
                relative to the length of the embedding; see `find`.
            request_id: Your name for the request; generated if not given.

        Returns:
            A `Receipt`, or with ``dry_run`` a `ForgetPlan`. Both say the level: whether the weights
            saw the rows.
        """
        self._require_fitted()
        require_distance(near, is_dry=dry_run)
        with self.memory_.live.lock.changing():  # predictions go on until rows are taken out
            digest = self.weights_digest
            selection = self.memory_.select(
                **selectors(self.memory_, ids=ids, groups=groups, classes=classes),
                missing_ok=missing_ok,
            )
            known = self._known(digest)
            reach = reach_of(known, self.memory_, selection, digest=digest)
            if dry_run:
                return plan_forget(self.memory_, selection, reach, near=near)
            # First: if this is interrupted, what was removed is only encoded again.
            clear_caches(self, [*selection.ids, *selection.forgotten_ids, *selection.unknown_ids])
            tombstone = Tombstone(utc_now(), reach.level, told_for(known, digest))
            with self.memory_.live.lock.writing():
                done = self.memory_.drop(selection, tombstone)
                self._prune()
            receipt = Receipt(
                request_id=request_id or uuid.uuid4().hex,
                time=tombstone.time,
                outcome=_outcome(selection),
                rows=len(done.ids),
                already_forgotten=selection.already_forgotten,
                unknown=selection.unknown,
                level=reach.level,
                basis=reach.basis,
                digest_before=done.digest_before,
                digest_after=done.digest_after,
                weights_digest=digest,
                model=type(self).__name__,
                library_version=__version__,
                input_kind=_takes(self.input_shape_, getattr(self, "input_kind_", None)),
                notes=(*reach.reasons, *self._what_exact_leaves_open(reach.level)),
            )
            self.receipts_ = (*self.receipts_, receipt)
        return receipt

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
    def provenance_(self) -> Provenance:
        """What the weights were trained on, as far as is known."""
        self._require_fitted()
        return self._known(self.weights_digest)

    @property
    def weights_digest(self) -> str:
        """Hex SHA-256 of the weights."""
        self._require_fitted()
        return weights_digest(self.network_)

    def save(self, path: str | Path, *, overwrite: bool = False) -> tuple[Receipt, ...]:
        """Save the model as a directory; `erasable.load` reads it back.

        Saving again to the same directory brings it up to date. Keys of tombstones and training
        records are written to the user's key folder, not to the directory.

        Args:
            path: The directory.
            overwrite: Replace another model that is there. Rows that were forgotten from it stay
                forgotten: if this model holds one of them, nothing is saved.

        Returns:
            Receipts of what was forgotten since the last save, which says now that it is on disk.
        """
        self._require_fitted()
        self._check_parameters()
        with self.memory_.live.lock.changing():
            return self._saved_at(save(self, Path(path), overwrite=overwrite))

    def _saved_at(self, place: Place) -> tuple[Receipt, ...]:
        """Record where the model was saved, and return receipts of what was forgotten since."""
        self.places_ = {**self.places_, place.path: place}
        saved = tuple(replace(receipt, saved=True) for receipt in self.receipts_)
        self.receipts_ = ()
        return saved

    def find(self, X: Any, *, tolerance: float = 0.01) -> list[list[Match]]:
        """Find rows that look (nearly) like the inputs to the encoder: copies under other ids.

        Args:
            X: Inputs, (queries, …).
            tolerance: Largest distance of embeddings, relative to the length of the query's.
        """
        self._require_fitted()
        inputs = self._check_inputs(X, reset=False)
        return self.memory_.find(self._embed(inputs), tolerance=tolerance)

    @property
    def data_(self) -> dict[str, Any] | None:
        """Which data set the rows were read from, and how it was split, if that was recorded.

        No digest of rows is kept: whoever guesses the ids of forgotten rows could check the guess
        against a digest of all ids, without any key.
        """
        return self._data

    @data_.setter
    def data_(self, record: dict[str, Any] | None) -> None:
        kept = (record or {}).items()
        found = {name: value for name, value in kept if not name.endswith(_DIGESTS)}
        self._data = None if record is None else found

    # -- copies ----------------------------------------------------------------------------------

    def note_copy(self, kind: CopyKind, path: str | Path) -> None:
        """Record that something of the rows lies in a file or folder outside the model."""
        self._require_fitted()
        if kind not in COPY_KINDS:
            raise ArgumentError(f"Expected kind to be {listing(COPY_KINDS)}, but got {kind!r}.")
        copy = Copy(kind, str(Path(path).resolve()))
        with _NOTING:
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

    def _known(self, digest: str) -> Provenance:
        """Return the record; a declared source that is the data at hand counts as unknown."""
        return without_overlap(provenance_of(self.network_, digest=digest), self.data_)

    def _check_rows(
        self, X: Any, y: Any, *, reset: bool
    ) -> tuple[Inputs, list[Label], list[bytes]]:
        inputs = self._check_inputs(X, reset=reset)
        labels = as_labels(y)
        if len(labels) != len(inputs):
            raise ArgumentError(f"Expected {len(inputs)} labels, but got {len(labels)}.")
        return inputs, labels, inputs.contents

    def _require_ids(self, ids: Sequence[RowId] | None) -> None:
        if self.embedding_cache is not None and ids is None:
            raise ArgumentError(
                "Expected ids with embedding_cache, but got none: what is kept of a row is "
                "found, and removed, by its id."
            )

    def _adopt(self, network: nn.Module, tombstones: Marks, *, dim: int) -> None:
        self._laid_out(network)
        self.places_ = {}
        self.receipts_ = ()  # of what is not saved yet
        self.is_verified_, self.doubts_ = True, ()
        self.data_ = None  # whoever reads rows from a data set may record which, and how split
        self.copies_ = getattr(self, "copies_", [])  # what an earlier fit left is still there
        self.memory_ = Memory(dim, grid=Grid(self.grid_bits), tombstones=tombstones)
        self.network_ = network  # last: with it the model counts as fitted

    def _tombstones(self, source: NetworkModel | None = None) -> Marks:
        """Return the marks of what was forgotten from this model, and from the one it adapts."""
        marks = Marks()
        for model in (self, source):
            if isinstance(model, MemoryModel) and model.__sklearn_is_fitted__():
                marks.update(model.memory_.tombstones.marks)
        return marks

    def _require_rows(self) -> None:
        if not len(self.memory_):
            raise StateError("Expected rows in the memory, but it is empty: remember() some first.")


def _outcome(selection: Selection) -> Outcome:
    if selection.ids:
        return "done"
    return "already forgotten" if selection.already_forgotten else "nothing found"


def _takes(shape: tuple[int, ...], kind: InputKind | None) -> str:
    """Say what a model takes."""
    what = f"{shape[0]} features" if len(shape) == 1 else f"inputs {shape}"
    if len(shape) == 3:
        what = f"images {' × '.join(map(str, shape))}"
    return what if kind is None else f"{what}: {kind.value}"
