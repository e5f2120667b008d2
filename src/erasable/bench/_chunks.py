"""Results of a long run in chunks on disk: one file each, written atomically, never pickled."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from erasable.errors import StateError, StoreError, listing
from erasable.files import open_regular, parse_json, write_atomically

_FORMAT = "erasable.chunk.1"


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some results of a run.

    Attributes:
        first: Number of the first result.
        arrays: The results by name, each (results, …).
        seconds: Time they took.
        machine: What they were computed on.
    """

    first: int
    arrays: dict[str, npt.NDArray[Any]]
    seconds: float
    machine: str


class ChunkFolder:
    """The chunks of one run, identified by everything the results depend on.

    Args:
        folder: Where the files lie; created with the first one.
        identity: Plain values that must be equal for a run to go on.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self._folder = folder
        self._identity = dict(identity)

    def has(self, first: int, size: int) -> bool:
        """Tell whether the chunk that begins with result ``first`` has at least ``size`` results.

        Raises:
            StateError: If it belongs to another run.
            StoreError: If it is damaged.
        """
        if not self._path(first).exists():
            return False
        return all(len(array) >= size for array in self.read(first).arrays.values())

    def write(self, chunk: Chunk) -> None:
        """Write a chunk, or replace it by a longer one."""
        meta = {
            "format": _FORMAT,
            "identity": json.dumps(self._identity, sort_keys=True),
            "seconds": repr(chunk.seconds),
            "machine": chunk.machine,
        }
        arrays = {name: np.ascontiguousarray(array) for name, array in chunk.arrays.items()}
        write_atomically(self._path(chunk.first), safetensors.numpy.save(arrays, meta))

    def read(self, first: int) -> Chunk:
        """Read a chunk.

        Raises:
            StateError: If it belongs to another run.
            StoreError: If it is missing or damaged.
        """
        path = self._path(first)
        try:
            open_regular(path).close()
            with safetensors.safe_open(path, "np") as file:
                meta = file.metadata() or {}
                self._require_same(path, meta)
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            return Chunk(first, arrays, float(meta["seconds"]), meta["machine"])
        except (safetensors.SafetensorError, OSError, ValueError, KeyError) as error:
            raise StoreError(
                f"Expected results in {path}, but they are damaged ({error}). Delete the file to "
                "compute them again."
            ) from error

    def _path(self, first: int) -> Path:
        return self._folder / f"chunk-{first:06d}.safetensors"

    def _require_same(self, path: Path, meta: Mapping[str, str]) -> None:
        if meta.get("format") != _FORMAT:
            raise StateError(f"Expected results of format {_FORMAT}, but {path} holds others.")
        theirs = parse_json(meta["identity"])
        names = sorted(theirs.keys() | self._identity.keys())
        differing = [n for n in names if theirs.get(n) != self._identity.get(n)]
        if differing:
            raise StateError(
                f"Expected results of this run in {path}, but they differ in {listing(differing)}. "
                "Choose another folder."
            )
