"""What images are compared by: feature networks for Fréchet distances."""

import hashlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from erasable.errors import ArgumentError, MissingExtraError
from erasable.metrics._inception import load_inception

_BATCH = 256


class FeatureNetwork(ABC):
    """A network that turns images into features; distances are named after it.

    Attributes:
        name: Short name: ``FID[name]``.
    """

    name: str

    @property
    def key(self) -> str:
        """What tells it from another network of the same name."""
        return self.name

    @abstractmethod
    def __call__(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return features (n, dim) of images (n, channels, height, width) from 0 to 1."""


@final
class ClassifierFeatures(FeatureNetwork):
    """The embeddings of a classifier of this library that was trained on such images.

    Args:
        classifier: A fitted classifier with an encoder.
        name: Short name.
    """

    def __init__(self, classifier: Any, *, name: str = "classifier") -> None:
        self.name = name
        self._classifier = classifier

    def __call__(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return embeddings, before they are normalised."""
        encoder = self._classifier.network_.encoder
        device = next(encoder.parameters()).device
        parts = []
        with torch.no_grad():
            for start in range(0, len(images), _BATCH):
                batch = torch.from_numpy(np.ascontiguousarray(images[start : start + _BATCH]))
                parts.append(encoder(batch.float().to(device)).cpu().double().numpy())
        return np.concatenate(parts)


@final
class InceptionFeatures(FeatureNetwork):
    """The network of the published FID: Inception, 2,048 features.

    Args:
        weights: File of the weights; default: torch-fidelity has the network, and downloads them.
    """

    name = "inception"

    def __init__(self, weights: str | Path | None = None) -> None:
        self._file = None if weights is None else Path(weights)
        self._network = _by_torch_fidelity() if self._file is None else _by_file(self._file)

    @property
    def key(self) -> str:
        """The name, and a digest of the file of weights, if one was given."""
        if self._file is None:
            return self.name
        with self._file.open("rb") as stream:
            return f"{self.name}:{hashlib.file_digest(stream, 'sha256').hexdigest()[:16]}"

    @torch.no_grad()
    def __call__(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return features of images as bytes; grey ones are taken as colours."""
        parts = []
        for start in range(0, len(images), _BATCH):
            batch = images[start : start + _BATCH]
            colours = np.repeat(batch, 3, axis=1) if batch.shape[1] == 1 else batch
            as_bytes = torch.from_numpy(np.round(colours * 255).astype(np.uint8))
            parts.append(self._network(as_bytes).double().numpy())
        return np.concatenate(parts)


def _by_file(file: Path) -> Any:
    if not file.is_file():
        raise ArgumentError(f"Expected a file of Inception's weights, but got {file}.")
    return load_inception(file)


def _by_torch_fidelity() -> Any:
    try:
        import torch_fidelity  # noqa: F401 - asked whether it is there
    except ImportError as error:
        raise MissingExtraError(
            "Inception features need a file of its weights, or torch-fidelity, which downloads "
            "them: pip install 'erasable[fid]'."
        ) from error
    from torchmetrics.image.fid import NoTrainInceptionV3

    return NoTrainInceptionV3(name="inception-v3-compat", features_list=["2048"])
