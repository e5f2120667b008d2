"""The directory of a saved model: ``config.json``, weights named by digest, ``rows.sqlite``."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as format_tensors
from torch import Tensor

from erasable.errors import StoreError
from erasable.files import sync_folder, write_atomically
from erasable.store._copies import Copy, read_copies, write_copies
from erasable.store._rows_file import RowsFile
from erasable.weights import tensors_digest

FORMAT = "erasable.model.1"
_HEX = re.compile(r"[0-9a-f]{64}")
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

_OURS = re.compile(rf"rows\.sqlite(-journal)?|copies\.json|{_WEIGHTS.pattern}|{_TEMPORARY.pattern}")


class ModelDirectory:
    """A saved model on disk.

    ``config.json`` is the commit point: it names the weights by digest and the generation of rows,
    and is replaced atomically after both are on disk. Whatever it does not name is not part of the
    model.

    Args:
        path: The directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = RowsFile(path / "rows.sqlite")

    @property
    def exists(self) -> bool:
        """Whether a model was committed here."""
        return (self.path / "config.json").is_file()

    @property
    def is_free(self) -> bool:
        """Whether a new model can be written here: nothing there yet, or an unfinished save."""
        if not self.path.exists():
            return True
        return self.path.is_dir() and all(_OURS.fullmatch(p.name) for p in self.path.iterdir())

    def read_config(self) -> dict[str, Any]:
        """Return the configuration.

        Raises:
            StoreError: If this is not a saved model, or one of another format.
        """
        path = self.path / "config.json"
        if not path.is_file():
            raise StoreError(
                f"Expected a saved model in {self.path}, but there is no config.json. "
                "Give the directory that save() or 'erasable train' wrote."
            )
        try:
            config = json.loads(path.read_bytes())
        except (ValueError, OSError) as error:
            raise StoreError(f"Expected JSON in {path}, but it is damaged: {error}.") from error
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            found = config.get("format") if isinstance(config, dict) else config
            raise StoreError(f"Expected the format {FORMAT!r} in {path}, but got {found!r}.")
        return config

    def write_config(self, config: dict[str, Any]) -> None:
        """Commit: from here on the directory is the model that the configuration describes."""
        text = json.dumps({"format": FORMAT, **config}, indent=2, sort_keys=True)
        write_atomically(self.path / "config.json", text.encode() + b"\n")

    def copies(self) -> list[Copy]:
        """Return the places outside this directory that hold something of its rows."""
        return read_copies(self.path / "copies.json")

    def note_copies(self, copies: list[Copy]) -> None:
        """Add places to those that are known; what is gone is dropped from the list."""
        known = self.copies()
        if any(copy not in known for copy in copies):
            write_copies(self.path / "copies.json", [*known, *copies])

    def write_view(self, parts: dict[str, dict[str, Any]], weights: dict[str, str]) -> None:
        """Lay the model out for other programs, too; what is read back is not this.

        What a model that was here before was laid out as goes: it has its weights, too.

        Args:
            parts: JSON files, ``file`` or ``folder/file``, by name.
            weights: Names under which weights are found there, and their digests.
        """
        for name, content in parts.items():
            path = self.path / name
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, json.dumps(content, indent=2, sort_keys=True).encode() + b"\n")
        for name, digest in weights.items():
            path = self.path / name
            path.parent.mkdir(exist_ok=True)
            fresh = path.with_name(f".{path.name}.view.tmp")
            fresh.unlink(missing_ok=True)
            try:
                os.link(self._weights(digest), fresh)
            except OSError:  # a disk without links
                shutil.copyfile(self._weights(digest), fresh)
            fresh.replace(path)
            sync_folder(path.parent)
        if not parts and self._has_view:
            for name in _VIEW:
                path, folder = self.path / name, (self.path / name).parent
                if not folder.is_dir():  # gone before an interruption
                    continue
                path.unlink(missing_ok=True)
                sync_folder(folder)
                if folder != self.path and not any(folder.iterdir()):
                    folder.rmdir()

    @property
    def _has_view(self) -> bool:
        """Whether a generator of ours is laid out here, not somebody's pipeline."""
        try:
            index = json.loads((self.path / "model_index.json").read_bytes())
            return bool(index["unet"][0] == "erasable.diffusion")
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return False

    def write_weights(self, tensors: dict[str, Tensor]) -> str:
        """Write weights under the name of their digest and return it."""
        digest = tensors_digest(tensors)
        plain = {
            name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()
        }
        write_atomically(self._weights(digest), format_tensors(plain))
        return digest

    def read_weights(self, digest: object) -> dict[str, Tensor]:
        """Read weights back and check them against their digest."""
        if not isinstance(digest, str) or not _HEX.fullmatch(digest):
            raise StoreError(f"Expected a digest of weights in the config, but got {digest!r}.")
        path = self._weights(digest)
        if not path.is_file():
            raise StoreError(f"Expected weights in {path}, but the file is not there.")
        try:
            tensors: dict[str, Tensor] = parse_tensors(path.read_bytes())
        except safetensors.SafetensorError as error:
            raise StoreError(f"Expected weights in {path}, but it is damaged: {error}.") from error
        if tensors_digest(tensors) != digest:
            raise StoreError(
                f"Expected the weights in {path} to match their name, but they do not."
            )
        return tensors

    def clean(self, *, digest: str) -> None:
        """Remove weights and temporary files that an earlier or unfinished save left behind."""
        kept = self._weights(digest).name
        for folder in (path for path in self.path.iterdir() if path.is_dir()):
            for path in folder.iterdir():
                if _TEMPORARY.fullmatch(path.name):
                    path.unlink()
        for path in self.path.iterdir():
            is_weights = _WEIGHTS.fullmatch(path.name) and path.name != kept
            if is_weights or _TEMPORARY.fullmatch(path.name):
                path.unlink()
        sync_folder(self.path)

    def _weights(self, digest: str) -> Path:
        return self.path / f"weights-{digest[:16]}.safetensors"
