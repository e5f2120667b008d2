"""One change of a saved model, carried through: ledger, commit, ledger."""

import contextlib
import logging
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from erasable.errors import StoreError
from erasable.memory import Marks
from erasable.store import _format_1
from erasable.store._directory import ModelDirectory
from erasable.store._ledger import Ledger, Remembered, without
from erasable.store._rows_file import RowsFile
from erasable.store._saved import State, changed
from erasable.store._sqlite import TIMEOUT

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Present:
    """The model that a directory holds before a change.

    Attributes:
        identity: Its random name.
        revision: Its revision.
        weights: Digest of its weights.
        marks: Its tombstones.
        is_sealed: Whether its seal was there, and the key to check it.
    """

    identity: str
    revision: int
    weights: str
    marks: Marks
    is_sealed: bool


class Change:
    """A change of a saved model, while nobody else can write to it.

    Args:
        directory: The model's directory.
        file: The open file.
    """

    def __init__(self, directory: ModelDirectory, file: RowsFile) -> None:
        self.directory = directory
        self.file = file
        self.present = _present(directory, file)
        self.identity = self.present.identity if self.present else secrets.token_hex(16)
        self.revision = 0
        self._ledger = Ledger(self.identity)
        self.known: Remembered | None = self._ledger.read() if self.present else None
        self._state: State | None = None
        self._new_weights: str | None = None
        self._is_intended = False

    def _catch_up_ledger(self) -> None:
        """Write to the ledger what was committed but not settled, before its intent is replaced.

        The intent may be all that knows what the present revision has forgotten.
        """
        known, present = self.known, self.present
        if known is None or present is None or known.revision >= present.revision:
            return
        marks = present.marks if present.is_sealed else self.past_marks
        self._ledger.settle(present.revision, marks)
        self.known = self._ledger.read()

    @property
    def past_marks(self) -> Marks:
        """Every tombstone of the model that is there, as far as file and ledger know."""
        marks = Marks() if self.present is None else self.present.marks.copy()
        if self.known is not None:
            marks.update(self.known.all_marks)
        return marks

    def write(
        self, state: State, weights: dict[str, Tensor], *, keeps_rows: bool, is_caught_up: bool
    ) -> None:
        """Write a state, to be committed at the end of the block.

        Args:
            state: The state.
            weights: The weights.
            keeps_rows: Whether this is the very model that is there, with some rows changed.
            is_caught_up: Whether what was forgotten since an older copy, or in a save that was
                interrupted, has been forgotten in the state, too.

        Raises:
            ModelChangedError: If the model that is there is not the last one.
        """
        revision = self.present.revision if self.present else 0
        if keeps_rows and not is_caught_up and self.known and not self.known.allows(revision):
            raise changed(self.directory.path)
        self._catch_up_ledger()
        self.revision = max(revision, self.known.newest if self.known else 0) + 1
        is_there = self.present is not None and self.present.weights == state.weights
        if not is_there or not self.directory.has_weights(state.weights):
            self._new_weights = None if is_there else state.weights
            self.directory.write_weights(weights, state.weights)
        if _format_1.is_in(self.file):
            _format_1.take_out(self.file)
        self.file.write(
            state, identity=self.identity, revision=self.revision, keeps_rows=keeps_rows
        )
        self._state = state
        news = without(state.marks, self.past_marks)
        self._is_intended = self._ledger.intend(
            self.known, self.revision, news, is_replacement=not keeps_rows
        )
        if not self._is_intended:
            raise changed(self.directory.path)

    def settle(self) -> None:
        """Write to the ledger that the change was committed."""
        if self._state is not None:
            settle(self._ledger, self.revision, self._state.marks)

    def undo(self) -> None:
        """Take back what lies outside the transaction.

        Raises:
            StoreError: If the ledger cannot be written to: then the next load forgets what was to
                be forgotten.
        """
        if self._new_weights is not None:
            self.directory.discard_weights(self._new_weights)
        if self._is_intended:
            try:
                self._ledger.withdraw(self.revision)
            except StoreError as error:
                raise StoreError(
                    f"Saving to {self.directory.path} failed, and so did taking back what was "
                    f"noted of it in {self._ledger.path}: {error} The next load of the model "
                    "forgets again what was forgotten before this save; all else is as it was."
                ) from error

    @property
    def is_committed(self) -> bool:
        """Whether the file holds the new state, whatever SQLite said."""
        if not self._is_intended:
            return False
        try:
            with self.directory.reading() as file:
                head = self.directory.head_of(file)
        except StoreError:
            return False
        return head is not None and (head.identity, head.revision) == (self.identity, self.revision)


@contextlib.contextmanager
def changing(directory: ModelDirectory, *, timeout: float = TIMEOUT) -> Iterator[Change]:
    """Open a saved model, or the place for one, to change it.

    What the block writes is committed at its end: first the intent to the ledger, then the model,
    then the ledger again. If anything raises, model and ledger are as they were.

    Raises:
        StoreError: If that cannot be done.
    """
    change, is_new = None, not directory.path.exists()
    try:
        with directory.writing(timeout=timeout) as file:
            change = Change(directory, file)
            yield change
    except BaseException:
        if change is None or not change.is_committed:
            if change is not None:
                change.undo()
            if is_new:
                with contextlib.suppress(OSError):  # it is not empty
                    directory.path.rmdir()
            raise
    change.settle()


def settle(ledger: Ledger, revision: int, marks: Marks) -> None:
    """Write to a ledger that a revision was committed; if that fails, the next load does it."""
    try:
        ledger.settle(revision, marks)
    except StoreError as error:
        log.warning("%s is behind its model until the next load: %s", ledger.path, error)


def _present(directory: ModelDirectory, file: RowsFile) -> Present | None:
    if _format_1.is_in(file):
        saved = _format_1.read(directory.path, file)
        marks = saved.memory.tombstones.marks
        return Present(saved.identity, saved.revision, saved.weights, marks, is_sealed=False)
    head = file.head()
    if head is None:
        return None
    is_sealed = file.check_seal(head)
    marks = file.marks()
    return Present(head.identity, head.revision, head.weights, marks, is_sealed=is_sealed)
