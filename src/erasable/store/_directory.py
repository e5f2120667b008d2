"""The directory of a saved model: ``config.json``, weights, ``rows.sqlite``."""

import json
import re
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
_TEMPORARY = re.compile(rf"\.({_WEIGHTS.pattern}|config\.json|copies\.json)\.\w+\.tmp")
_PIPELINE = ("model_index.json", "scheduler", "unet")
_OURS = re.compile(rf"rows\.sqlite(-journal)?|copies\.json|{_WEIGHTS.pattern}|{_TEMPORARY.pattern}")


class ModelDirectory:
    """A saved model on disk.

    ``config.json`` is the commit point: it names the weights by digest and the generation of rows,
    and is replaced atomically after both are on disk. Whatever it does not name is not part of the
    model.

    Weights are named by their digest, so that another model can take the place of one atomically.
    In a pipeline directory, as diffusers lays it out, they have a fixed name: a model there is
    never replaced, only brought up to date.

    Args:
        path: The directory.
        is_pipeline: Whether to lay it out as diffusers does.
    """

    def __init__(self, path: Path, *, is_pipeline: bool = False) -> None:
        self.path = path
        self.is_pipeline = is_pipeline
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
        if not self.path.is_dir():
            return False
        names = [path.name for path in self.path.iterdir()]
        own = set(_PIPELINE) if self.is_pipeline else set()
        return all(name in own or _OURS.fullmatch(name) for name in names)

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

    def write_part(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file of a pipeline, ``folder/file`` or ``file``."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, json.dumps(content, indent=2, sort_keys=True).encode() + b"\n")

    def write_weights(self, tensors: dict[str, Tensor]) -> str:
        """Write weights under the name of their digest and return it."""
        digest = tensors_digest(tensors)
        plain = {
            name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()
        }
        path = self._weights(digest)
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, format_tensors(plain))
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
        for path in self.path.iterdir():
            is_weights = _WEIGHTS.fullmatch(path.name) and path.name != kept
            if is_weights or _TEMPORARY.fullmatch(path.name):
                path.unlink()
        sync_folder(self.path)

    def _weights(self, digest: str) -> Path:
        if self.is_pipeline:
            return self.path / "unet" / "diffusion_pytorch_model.safetensors"
        return self.path / f"weights-{digest[:16]}.safetensors"
