"""What the classifiers share: scikit-learn's conventions, inputs, and the training run."""

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from erasable.encoders import DRAWN_ENCODERS, Encoder, build_encoder
from erasable.errors import ArgumentError
from erasable.memory import plain
from erasable.models._inputs import as_float32, is_lazy
from erasable.models._provenance import Provenance, attach, declared, provenance_of
from erasable.training import Inputs, Objective, TrainingConfig, as_images, train
from erasable.typing import Label


class NetworkModel(BaseEstimator, ABC):  # type: ignore[misc]  # sklearn is untyped
    """A scikit-learn estimator around a network: its inputs, and what a call may change."""

    random_state: Any
    device: str
    checkpoint: str | Path | None
    verbose: int
    network_: Any
    input_shape_: tuple[int, ...]

    # -- inputs ----------------------------------------------------------------------------------

    def _check_inputs(self, X: Any, *, reset: bool) -> Inputs:
        if is_lazy(X):
            return self._check_images(X, reset=reset)
        shape = np.shape(X) if isinstance(X, (np.ndarray, Tensor)) else None
        if shape is not None and len(shape) > 2:
            return self._check_images(np.asarray(X), reset=reset)
        try:
            checked = validate_data(self, X, reset=reset, dtype=[np.float32, np.float64, np.uint8])
        except ValueError as error:
            raise ArgumentError(str(error)) from error
        inputs = Inputs(checked if checked.dtype == np.uint8 else as_float32(checked))
        self._require_shape(inputs, reset=reset)
        return inputs

    def _check_images(self, images: Any, *, reset: bool) -> Inputs:
        if images.dtype.kind not in "fiub":
            raise ArgumentError(f"Expected images to be numbers, but got dtype {images.dtype}.")
        if not len(images):
            raise ArgumentError("Expected at least one image, but got none.")
        inputs = Inputs(images if images.dtype == np.uint8 else as_float32(as_images(images)))
        self._require_shape(inputs, reset=reset)
        return inputs

    def _require_shape(self, inputs: Inputs, *, reset: bool) -> None:
        if reset:
            self.input_shape_ = inputs.shape[1:]
        elif inputs.shape[1:] != self.input_shape_:
            raise ArgumentError(
                f"Expected inputs of shape (n, {', '.join(map(str, self.input_shape_))}), but got "
                f"{inputs.shape}."
            )

    # -- inside ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """Put every attribute back as it was if the block raises."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            # Old values first, then new names away: other threads find every attribute throughout.
            self.__dict__.update(before)
            for name in vars(self).keys() - before.keys():
                del self.__dict__[name]
            raise

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _laid_out(self, network: nn.Module) -> nn.Module:
        """Lay out the kernels of a network for images as evaluation and training take images."""
        if len(self.input_shape_) == 3:
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # no stub
        return network

    def _record(self, provenance: Provenance) -> None:
        """Tie the record to the weights, also where a user may pick up the encoder alone."""
        encoder = getattr(self.network_, "encoder", None)
        inner = getattr(encoder, "module", None)
        for network in (self.network_, encoder, inner):
            if isinstance(network, nn.Module):
                attach(network, provenance)

    def _require_fitted(self) -> None:
        check_is_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")


class NetworkClassifier(ClassifierMixin, NetworkModel):  # type: ignore[misc]  # sklearn is untyped
    """A scikit-learn classifier around an encoder. Subclasses add the head and are final."""

    encoder: str | nn.Module
    encoder_options: dict[str, Any] | None

    # -- prediction ------------------------------------------------------------------------------

    @abstractmethod
    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return class probabilities, (n, classes), in the order of ``classes_``."""

    @property
    @abstractmethod
    def classes_(self) -> npt.NDArray[Any]:
        """Labels the model can answer with, sorted."""

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable label of each input, (n,).

        Args:
            X: Inputs: feature vectors (n, features) or images (n, height, width[, channels]).
        """
        probabilities = self.predict_proba(X)
        labels: npt.NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return labels

    @property
    def can_answer(self) -> bool:
        """Whether the model can predict at all."""
        return bool(self.__sklearn_is_fitted__())

    def _predict_others(self, X: Any, contents: list[bytes]) -> npt.NDArray[Any]:
        """Return predictions of inputs whose contents are given."""
        return self.predict(X)

    # -- building and training -------------------------------------------------------------------

    def _config(self) -> TrainingConfig:
        names = {field.name for field in fields(TrainingConfig)} & set(self.get_params(deep=False))
        settings = {name: plain(getattr(self, name)) for name in names}
        return TrainingConfig(**settings, seed=self._seed())

    def _own_encoder(self) -> str | nn.Module:
        """Return the encoder parameter; a module as a copy, so that the user's stays as it is."""
        is_module = isinstance(self.encoder, nn.Module)
        return copy.deepcopy(self.encoder) if is_module else self.encoder

    def _build_encoder(self, seed: int, *, is_blank: bool = False) -> tuple[Encoder, Provenance]:
        """Return an encoder to train or freeze, and what its weights have seen.

        Args:
            seed: Seed of weights that are drawn.
            is_blank: Leave out published weights, because others are loaded anyway.
        """
        given = self._own_encoder()
        encoder = build_encoder(
            given, self.input_shape_, options=self.encoder_options, seed=seed, is_blank=is_blank
        )
        if isinstance(given, nn.Module):
            return encoder, provenance_of(given)
        if is_blank:
            return encoder, Provenance()
        if encoder.public_source is not None:
            return encoder, declared(encoder.public_source)
        return encoder, Provenance() if given in DRAWN_ENCODERS else provenance_of(encoder)

    def _train(
        self,
        objective: Objective,
        inputs: Inputs,
        classes: Tensor,
        config: TrainingConfig,
        *,
        network: nn.Module | None = None,
    ) -> list[dict[str, float]]:
        if self.checkpoint is not None and self.random_state is None:
            raise ArgumentError(
                "Expected random_state with checkpoint, but it is None: a run that draws a new "
                "seed each time cannot be resumed."
            )
        return train(
            self.network_ if network is None else network,
            objective,
            inputs=inputs,
            classes=classes,
            config=config,
            device=self.device,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            verbose=bool(self.verbose),
        )


def class_indices(labels: list[Label], classes: list[Label]) -> Tensor:
    """Return each label's place among the sorted classes, (rows,)."""
    place = {(type(label), label): index for index, label in enumerate(classes)}
    return torch.tensor([place[type(label), label] for label in labels])
