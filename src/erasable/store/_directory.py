"""The directory of a saved model: ``rows.sqlite``, and weights named by their digest."""

import contextlib
import json
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as format_tensors
from torch import Tensor

from erasable.errors import StoreError
from erasable.files import parse_json, read_part, sync_folder, write_atomically, writing_to
from erasable.store import _format_1
from erasable.store._rows_file import RowsFile, sweep
from erasable.store._saved import Head, Saved, no_model
from erasable.store._sqlite import TIMEOUT, StoreBusyError, transaction
from erasable.weights import tensors_digest

log = logging.getLogger(__name__)

_WEIGHTS = re.compile(r"weights-[0-9a-f]{16}\.safetensors")
_TEMPORARY = re.compile(
    rf"\.({_WEIGHTS.pattern}|[a-z_]+\.json|diffusion_pytorch_model\.safetensors)\.\w+\.tmp"
)
_VIEW = (
    "scheduler/scheduler_config.json",
    "unet/config.json",
    "unet/diffusion_pytorch_model.safetensors",
    "model_index.json",
)
"""Everything that a generator is laid out as for other programs; the last says that it is one."""

_OURS = re.compile(rf"rows\.sqlite(-journal)?|{_WEIGHTS.pattern}|{_TEMPORARY.pattern}")
_LARGEST_INDEX = 2**20
_HEADER = 2**24
View = tuple[dict[str, dict[str, Any]], dict[str, str]]


class ModelDirectory:
    """A saved model on disk.

    ``rows.sqlite`` is the model, but for its weights; it names them by their digest. Weights are
    written before a transaction that names them is committed, and removed after one that does not.

    Args:
        path: The directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "rows.sqlite"

    @property
    def exists(self) -> bool:
        """Whether a model was committed here; also one that cannot be read any more."""
        if not self.file.is_file():
            return False
        try:
            with self.reading() as file:
                return _format_1.is_in(file) or file.head() is not None
        except StoreError:
            return True

    @property
    def is_free(self) -> bool:
        """Whether a new model can be written here: nothing there yet, or an unfinished save."""
        if not self.path.exists():
            return True
        return self.path.is_dir() and all(_OURS.fullmatch(p.name) for p in self.path.iterdir())

    # -- the model -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self) -> Iterator[RowsFile]:
        """Open the model as it is now; no save is finished, nor weights removed, meanwhile.

        Raises:
            StoreError: If there is none.
        """
        if not self.file.is_file():
            raise no_model(self.file)
        with transaction(self.file, "read") as db:
            yield RowsFile(db, self.file)

    @contextlib.contextmanager
    def writing(self, *, timeout: float = TIMEOUT) -> Iterator[RowsFile]:
        """Open the model to change it; everybody else can only read meanwhile.

        What the block writes is committed at its end; if it raises, nothing of it is left.
        """
        has_file = self.file.exists()
        with writing_to(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        try:
            with transaction(self.file, "write", timeout=timeout) as db:
                yield RowsFile(db, self.file)
        except BaseException:
            if not has_file:
                with contextlib.suppress(OSError):
                    if not self.file.stat().st_size:
                        self.file.unlink()
            raise

    def read(self, file: RowsFile) -> Saved:
        """Return the model in an open file, of this format or of the one before."""
        if _format_1.is_in(file):
            return _format_1.read(self.path, file)
        return file.read()

    def head_of(self, file: RowsFile) -> Head | None:
        """Return what an open file says of its model; None if there is none of this format."""
        return None if _format_1.is_in(file) else file.head()

    def has_weights(self, digest: str) -> bool:
        """Tell whether weights of this digest lie here."""
        return self._weights(digest).is_file()

    # -- weights ---------------------------------------------------------------------------------

    def write_weights(self, tensors: dict[str, Tensor], digest: str) -> None:
        """Write weights under the name of their digest.

        Raises:
            StoreError: If they cannot be written.
        """
        path = self._weights(digest)
        plain = {
            name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()
        }
        with writing_to(path):
            write_atomically(path, format_tensors(plain))

    def discard_weights(self, digest: str) -> None:
        """Remove weights that were written for a save that failed.

        They stay if another process is writing, or has saved a model with the same weights since:
        then `tidy` removes them if nothing names them.
        """
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            if self.file.is_file():
                db = stack.enter_context(transaction(self.file, "write", timeout=0))
                head = self.head_of(RowsFile(db, self.file))
                if head is not None and head.weights == digest:
                    return
            self._weights(digest).unlink(missing_ok=True)

    def size_of_weights(self, digest: str) -> int:
        """Return the size of a file of weights in bytes; 0 if there is none."""
        path = self._weights(digest)
        return path.stat().st_size if path.is_file() else 0

    def read_weights(self, digest: str, network: dict[str, Tensor]) -> dict[str, Tensor]:
        """Read weights back and check them against their digest.

        Args:
            digest: Their digest.
            network: Tensors of the network that they are for: what is larger is not read.
        """
        path = self._weights(digest)
        most = sum(tensor.nbytes for tensor in network.values()) + _HEADER
        data = read_part(path, limit=most, noun="weights")
        try:
            tensors: dict[str, Tensor] = parse_tensors(data)
        except (safetensors.SafetensorError, ValueError, KeyError, RuntimeError) as error:
            raise StoreError(
                f"Expected weights in {path}, but it is damaged: {error}. {_RESTORE}"
            ) from error
        if tensors_digest(tensors) != digest:
            raise StoreError(
                f"Expected the weights in {path} to match their digest, but they do not: the file "
                f"is damaged. {_RESTORE}"
            )
        return tensors

    # -- the layout for other programs -----------------------------------------------------------

    def write_view(self, view: View) -> None:
        """Lay the model out for other programs, too; what is read back is not this.

        What a model that was here before was laid out as goes: it has its weights, too.

        Args:
            view: JSON files, ``file`` or ``folder/file``, by name; and names under which weights
                are found there, with their digests.
        """
        parts, weights = view
        for name, content in parts.items():
            path, text = self.path / name, _json(content)
            if not _holds(path, text):
                _own_folder(self.path, path.parent)
                write_atomically(path, text)
        for name, digest in weights.items():
            path, source = self.path / name, self._weights(digest)
            if not _is_same(path, source):
                _own_folder(self.path, path.parent)
                _link(source, path)
        if not parts and self._has_view:
            self._remove_view()

    def _remove_view(self) -> None:
        for name in _VIEW:
            path, folder = self.path / name, (self.path / name).parent
            if not folder.is_dir() or folder.is_symlink():  # gone before an interruption, or theirs
                continue
            path.unlink(missing_ok=True)
            sync_folder(folder)
            if folder != self.path and not any(folder.iterdir()):
                folder.rmdir()

    @property
    def _has_view(self) -> bool:
        """Whether a generator of ours is laid out here, not somebody's pipeline."""
        try:
            data = read_part(self.path / "model_index.json", limit=_LARGEST_INDEX, noun="an index")
            return bool(parse_json(data)["unet"][0] == "erasable.diffusion")
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return False

    # -- tidying ---------------------------------------------------------------------------------

    def tidy(self, view: View | None = None, *, timeout: float = TIMEOUT) -> None:
        """Finish or undo what a save that was interrupted has left here.

        Whatever the committed model does not name is removed: weights, temporary files, files of
        the format before, and deleted rows in pages that are not written over yet. What cannot be
        tidied now, because the folder is read-only or somebody else is writing, stays for the next
        load or save.

        Args:
            view: How the model is laid out for other programs; None leaves that as it is.
            timeout: Seconds to wait for somebody else who is writing.
        """
        try:
            if self._is_untidy(view):
                with transaction(self.file, "write", timeout=timeout) as db:
                    self._clean(self.head_of(RowsFile(db, self.file)), view)
            sweep(self.file)
        except StoreBusyError:
            pass  # whoever is writing tidies
        except (OSError, sqlite3.Error) as error:
            log.warning(
                "%s could not be tidied; the next load or save will try again: %s", self.path, error
            )

    def _is_untidy(self, view: View | None) -> bool:
        with self.reading() as file:
            head = self.head_of(file)
        if head is None:
            return False
        if any(True for _ in self._leftovers(head.weights)):
            return True
        return view is not None and not self._shows(view)

    def _shows(self, view: View) -> bool:
        parts, weights = view
        if not parts:
            return not self._has_view
        is_there = all(_holds(self.path / name, _json(part)) for name, part in parts.items())
        linked = weights.items()
        return is_there and all(_is_same(self.path / n, self._weights(d)) for n, d in linked)

    def _leftovers(self, digest: str) -> Iterator[Path]:
        """Yield files that an earlier or unfinished save left behind."""
        kept = self._weights(digest).name
        folders = [self.path, *(self.path / name for name in ("unet", "scheduler"))]
        for folder in folders:
            if not folder.is_dir() or (folder.is_symlink() and folder != self.path):
                continue
            for path in folder.iterdir():
                is_weights = folder == self.path and _WEIGHTS.fullmatch(path.name)
                if _TEMPORARY.fullmatch(path.name) or (is_weights and path.name != kept):
                    yield path
        yield from _format_1.files(self.path)

    def _clean(self, head: Head | None, view: View | None) -> None:
        if head is None:
            return
        if view is not None and all(digest == head.weights for digest in view[1].values()):
            self.write_view(view)
        for path in list(self._leftovers(head.weights)):
            path.unlink(missing_ok=True)
        sync_folder(self.path)

    def _weights(self, digest: str) -> Path:
        return self.path / f"weights-{digest[:16]}.safetensors"


_RESTORE = "Restore the last copy of the whole directory."


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=2, sort_keys=True).encode() + b"\n"


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.is_file() and read_part(path, limit=len(data), noun="a description") == data
    except StoreError:
        return False


def _is_same(path: Path, source: Path) -> bool:
    try:
        return path.samefile(source) or _is_equal(path, source)
    except OSError:
        return False


def _is_equal(path: Path, source: Path) -> bool:
    """Compare files on a disk without links."""
    if path.stat().st_size != source.stat().st_size:
        return False
    with path.open("rb") as one, source.open("rb") as other:
        while block := one.read(2**20):
            if block != other.read(2**20):
                return False
    return True


def _own_folder(model: Path, folder: Path) -> None:
    """Make a folder within a model's directory; a link that leads out of it is refused."""
    if folder.is_symlink() and folder != model:
        raise StoreError(f"Expected a folder of the model in {folder}, but it is a link.")
    folder.mkdir(exist_ok=True)


def _link(source: Path, path: Path) -> None:
    fresh = path.with_name(f".{path.name}.view.tmp")
    fresh.unlink(missing_ok=True)
    try:
        os.link(source, fresh)
    except OSError:  # a disk without links
        shutil.copyfile(source, fresh)
    fresh.replace(path)
    sync_folder(path.parent)
