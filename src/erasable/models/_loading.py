"""Opening a saved model: as it was last left, or else not at all."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from torch import nn

from erasable.errors import StateError, StoreError, StoreRefusedError, listing
from erasable.memory import ID, Grid, Marks, Tombstones, forms_of, keys_folder
from erasable.models._saving import Given, Place, read_model, save, write_state
from erasable.store import (
    Ledger,
    ModelChangedError,
    ModelDirectory,
    Receipt,
    Remembered,
    Saved,
    StoreBusyError,
    changing,
    settle,
    without,
)
from erasable.typing import RowId

if TYPE_CHECKING:
    from erasable.models._memory_model import MemoryModel

log = logging.getLogger(__name__)
T = TypeVar("T")

_TRIES = 100
_MOMENT = 5.0  # seconds to wait for a process that is saving right now


def load(
    path: str | Path,
    *,
    encoder: nn.Module | None = None,
    allow_memory_level: bool = False,
    replay: bool = False,
) -> Any:
    """Read a saved model.

    A model is only opened in its last state: what that is, is kept beside the keys. If the last
    save was interrupted after it had begun to forget, it is finished first.

    Args:
        path: The directory that `save` wrote.
        encoder: The network, if the model was made with one of your own modules; its weights are
            replaced by the saved ones. Models with a named encoder need none.
        allow_memory_level: Accept a network that does not encode each row by itself, as the
            classifiers' parameter of this name does.
        replay: Accept an older copy, and first forget again in it what was forgotten since.

    Raises:
        StoreError: If the directory is missing, damaged, not a model, or an older copy of it.
    """
    directory, given = ModelDirectory(Path(path).resolve()), Given(encoder, allow_memory_level)
    for _ in range(_TRIES):
        found = _load(directory, given, replay=replay)
        if found is not None:
            _leave_tidy(directory, found, timeout=0)
            return found
    raise StoreError(
        f"Expected to read the model in {directory.path}, but other processes change it all the "
        "time. Try again."
    )


@dataclass(frozen=True)
class ForgottenSince:
    """What an older copy of a model still has that was forgotten since.

    Attributes:
        revisions: How many revisions it is older than the last state.
        named: Ids of its rows of which the id, or a group, was forgotten.
        alike: Ids of its other rows that have the very input of a row that was forgotten.
        has_gap: Whether tombstones were taken out, so that there may be more.
    """

    revisions: int
    named: tuple[RowId, ...]
    alike: tuple[RowId, ...]
    has_gap: bool

    @property
    def ids(self) -> tuple[RowId, ...]:
        """Ids of all of them."""
        return (*self.named, *self.alike)


@dataclass(frozen=True)
class Done(Generic[T]):
    """What `change` did.

    Attributes:
        result: What the function returned.
        model: The model as it was saved.
        receipts: Receipts of what was forgotten, which is on disk now.
    """

    result: T
    model: Any
    receipts: tuple[Receipt, ...]


def change(
    path: str | Path,
    do: Callable[[Any], T],
    *,
    encoder: nn.Module | None = None,
    allow_memory_level: bool = False,
    hold: bool = True,
) -> Done[T]:
    """Load a model, do something to it, and save it, whoever else is saving meanwhile.

    Args:
        path: The directory that `save` wrote.
        do: What to do with the model; it may be called again with a model loaded anew. It must not
            save the model itself.
        encoder: As for `load`.
        allow_memory_level: As for `load`.
        hold: Let nobody else save until it is done. Pass False for what takes long: it is then
            done again if another process was faster.

    Raises:
        StoreError: If the model cannot be loaded or saved; nothing was changed then.

    Examples:
        >>> import tempfile
        >>> from erasable import SPMClassifier
        >>> folder = tempfile.mkdtemp() + "/model"
        >>> _ = SPMClassifier("identity").remember([[0.0], [1.0]], ["a", "b"]).save(folder)
        >>> change(folder, lambda model: model.forget(ids=[0])).receipts[0].saved
        True
    """
    directory = ModelDirectory(Path(path).resolve())
    for _ in range(_TRIES):
        try:
            if hold:
                return _held(directory, do, Given(encoder, allow_memory_level))
            model = load(path, encoder=encoder, allow_memory_level=allow_memory_level)
            return Done(do(model), model, model.save(path))
        except ModelChangedError:
            # This finishes what was interrupted, and refuses older copies.
            load(path, encoder=encoder, allow_memory_level=allow_memory_level)
    raise StoreError(
        f"Expected to change the model in {directory.path}, but in {_TRIES} attempts other "
        "processes were faster. Try again."
    )


def forgotten_since(
    path: str | Path, *, encoder: nn.Module | None = None, allow_memory_level: bool = False
) -> ForgottenSince | None:
    """Tell what an older copy, put in the place of its model, would have to forget again.

    Args:
        path: The directory.
        encoder: As for `load`.
        allow_memory_level: As for `load`.

    Returns:
        What `catch_up` would forget; None if nothing is known to be newer than these files.

    Raises:
        StoreError: If it is missing, damaged or not a model.
    """
    directory = ModelDirectory(Path(path).resolve())
    with directory.reading() as file:
        model, saved = read_model(directory, file, Given(encoder, allow_memory_level))
    known = Ledger(saved.identity).read()
    if known is None or known.allows(saved.revision):
        return None
    return _forgotten_since(model, saved, known)


def catch_up(
    path: str | Path, *, encoder: nn.Module | None = None, allow_memory_level: bool = False
) -> Done[ForgottenSince | None]:
    """Forget again, in an older copy put in the place of its model, what was forgotten since.

    Args:
        path: The directory.
        encoder: As for `load`.
        allow_memory_level: As for `load`.

    Returns:
        What was forgotten again, None if nothing is known to be newer than these files; the model;
        and a receipt if rows were forgotten.

    Raises:
        StoreError: If the model cannot be loaded or saved; nothing was changed then.
    """
    directory, given = ModelDirectory(Path(path).resolve()), Given(encoder, allow_memory_level)
    done = _caught_up(directory, given, replay=True)
    if done is None:
        model = load(path, encoder=encoder, allow_memory_level=allow_memory_level)
        return Done(None, model, ())
    _leave_tidy(directory, done.model)
    return Done(done.result, done.model, done.receipts)


def copy_model(
    path: str | Path,
    new: str | Path,
    *,
    encoder: nn.Module | None = None,
    allow_memory_level: bool = False,
) -> Place:
    """Make a branch of a saved model: a copy with an identity, and an age, of its own.

    Each is then forgotten from by itself: a row that is to be forgotten must be forgotten from
    both. A copy of the files, made by other means, is the same model, and is refused once it is
    older than that.

    Args:
        path: The directory that `save` wrote.
        new: A new directory.
        encoder: As for `load`.
        allow_memory_level: As for `load`.

    Raises:
        StoreError: If the model cannot be loaded, or ``new`` is not free.
    """
    model = load(path, encoder=encoder, allow_memory_level=allow_memory_level)
    return save(model, Path(new), overwrite=False)


def _held(directory: ModelDirectory, do: Callable[[Any], T], given: Given) -> Done[T]:
    with changing(directory) as opened:
        model, saved = read_model(directory, opened.file, given)
        if opened.known is not None and not opened.known.allows(saved.revision):
            raise ModelChangedError(
                "Another process was interrupted meanwhile. Load the model again."
            )
        _note_age(model, opened.known, saved.revision)
        result = do(model)
        model._check_parameters()
        write_state(model, opened, keeps_rows=True)
    receipts = model._saved_at(Place(directory.path, opened.identity, opened.revision))
    _leave_tidy(directory, model)
    return Done(result, model, receipts)


def _leave_tidy(
    directory: ModelDirectory, model: "MemoryModel", *, timeout: float = _MOMENT
) -> None:
    """Say what is in doubt about a model, and remove what others left in its directory."""
    for doubt in model.doubts_:
        log.warning("%s: %s", directory.path, doubt)
    directory.tidy(model._view(model.weights_digest), timeout=timeout)


def _load(directory: ModelDirectory, given: Given, *, replay: bool) -> "MemoryModel | None":
    """Return the model, or None if it was changed while it was read."""
    with directory.reading() as file:
        model, saved = read_model(directory, file, given)
    known = Ledger(saved.identity).read()
    if known is None or known.allows(saved.revision):
        _note_age(model, known, saved.revision)
        if known is not None and saved.is_verified and known.revision < saved.revision:
            settle(Ledger(saved.identity), saved.revision, model.memory.tombstones.marks)
        return model
    if known.is_behind(saved.revision) and not replay:
        if _is_current(directory, saved):
            raise _too_old(directory, model, saved, known)
        return None
    try:
        done = _caught_up(directory, given, replay=replay)
        return None if done is None else done.model
    except StoreBusyError:
        raise
    except StoreError as error:
        if not known.is_behind(saved.revision) or replay:
            return _caught_up_in_memory(model, saved, known, error)
        raise


def _caught_up(
    directory: ModelDirectory, given: Given, *, replay: bool
) -> Done[ForgottenSince] | None:
    """Forget again what the ledger says was forgotten, and save; None if there is no need."""
    with changing(directory, timeout=_MOMENT) as opened:
        model, saved = read_model(directory, opened.file, given)
        known = opened.known
        if known is None or known.allows(saved.revision):
            return None  # another process has finished it
        if known.is_behind(saved.revision) and not replay:
            return None
        since = _forget_again(model, saved, known)
        write_state(model, opened, keeps_rows=True, is_caught_up=True)
    receipts = model._saved_at(Place(directory.path, opened.identity, opened.revision))
    log.info("%s: what was forgotten since is forgotten here, too", directory.path)
    return Done(since, model, receipts)


def _caught_up_in_memory(
    model: "MemoryModel", saved: Saved, known: Remembered, error: StoreError
) -> "MemoryModel":
    _forget_again(model, saved, known)
    model.doubts_ = (
        *model.doubts_,
        f"Rows that were forgotten are still in its files, which cannot be written to: {error}",
    )
    return model


def _forget_again(model: "MemoryModel", saved: Saved, known: Remembered) -> ForgottenSince:
    since = _forgotten_since(model, saved, known)
    if since.ids:
        model.forget(ids=list(since.ids))
    pending = known.pending(saved.revision)
    if pending is not None and pending.is_replacement:
        model.doubts_ = (
            *model.doubts_,
            "A save began to put another model in the place of this one, and nobody noted that it "
            "was done. If it was, these are the files of the model that was replaced.",
        )
    if since.has_gap:
        model.doubts_ = (
            *model.doubts_,
            "Tombstones were taken out since this copy was made, so rows that were forgotten since "
            "may be in it again.",
        )
    model.memory.tombstones.marks.update(known.all_marks)
    return since


def _forgotten_since(model: "MemoryModel", saved: Saved, known: Remembered) -> ForgottenSince:
    """Return the live rows that were forgotten since a copy was made.

    A save that was interrupted began from this very state, so ids tell all of its rows. Of an older
    copy contents and groups count, too: its rows may have had other ids since.
    """
    news = without(known.all_marks, model.memory.tombstones.marks)
    if news.missing_keys:
        raise StateError(
            f"Expected the keys of what was forgotten since in {keys_folder()}, but "
            f"{listing(news.missing_keys)} are not there. Put the key files back."
        )
    is_behind = known.is_behind(saved.revision)
    if is_behind:
        found = model.memory.recognised(news)
    else:
        found = {info.id: True for info in model.memory.table.infos if _is_marked(info.id, news)}
    return ForgottenSince(
        known.newest - saved.revision,
        tuple(row_id for row_id, is_named in found.items() if is_named),
        tuple(row_id for row_id, is_named in found.items() if not is_named),
        is_behind and Tombstones(Grid(), known.all_marks).has_gap,
    )


def _is_marked(row_id: Any, marks: Marks) -> bool:
    return any(marks.has(ID, form) for form in forms_of(row_id))


def _is_current(directory: ModelDirectory, saved: Saved) -> bool:
    """Tell whether nobody has saved since a model was read."""
    with directory.reading() as file:
        head = directory.head_of(file)
    return head is None or (head.identity, head.revision) == (saved.identity, saved.revision)


def _too_old(
    directory: ModelDirectory, model: "MemoryModel", saved: Saved, known: Remembered
) -> StoreError:
    """Return the error of an older copy, with what was forgotten since."""
    behind = known.newest - saved.revision
    try:
        since = _forgotten_since(model, saved, known)
    except StateError:
        rows = "rows may have been forgotten since"
    else:
        count = len(since.ids)
        rows = f"{count} row{'s were' if count != 1 else ' was'} forgotten since"
        if since.has_gap:
            rows = (
                "tombstones were taken out, so nobody can tell how many rows were forgotten since, "
                f"except {count}"
            )
        if since.alike:
            rows += (
                f" ({len(since.alike)} of them under another id: rows with the very input of one "
                "that was forgotten)"
            )
    return StoreRefusedError(
        f"Expected the last state of the model in {directory.path}, but this copy is {behind} "
        f"revision{'s' if behind != 1 else ''} old; {rows}. Pass replay=True to load(), or run "
        "'erasable catch-up', to forget the same rows here, too ('erasable catch-up --dry-run' "
        "lists them); or put the last files back. To have a second model, use 'erasable copy'."
    )


def _note_age(model: "MemoryModel", known: Remembered | None, revision: int) -> None:
    if known is None:
        found = "There is no ledger of this model beside the keys"
    elif known.newest < revision:  # a save writes to the ledger first
        found = "The ledger of this model beside the keys is older than the model"
    else:
        return
    model.doubts_ = (
        *model.doubts_,
        f"{found}, so nobody can tell whether this is its last state: rows that were forgotten "
        f"since may be in it.{' The next save begins one.' if known is None else ''}",
    )
