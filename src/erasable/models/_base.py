"""What the classifiers share: scikit-learn's conventions, inputs, and the training run."""

import contextlib
import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from erasable.data import NamedFeatures
from erasable.encoders import DRAWN_ENCODERS, Encoder, build_encoder
from erasable.errors import ArgumentError
from erasable.memory import plain
from erasable.models._input_kind import InputKind, as_kind, as_recorded, kind_of
from erasable.models._inputs import as_float32, is_lazy
from erasable.models._provenance import Provenance, attach, declared, provenance_of, recorded
from erasable.training import (
    Inputs,
    Objective,
    Training,
    TrainingConfig,
    as_images,
    as_training,
    train,
)
from erasable.typing import Label

log = logging.getLogger(__name__)

_KEPT = [np.dtype(code) for code in "fdBbhHiIlLqQ"]  # other types become the first of these


class NetworkModel(BaseEstimator, ABC):  # type: ignore[misc]  # sklearn is untyped
    """A scikit-learn estimator around a network: its inputs, and what a call may change."""

    random_state: Any
    device: str
    network_: Any
    input_shape_: tuple[int, ...]
    input_kind_: InputKind | None

    # -- inputs ----------------------------------------------------------------------------------

    def _check_inputs(self, X: Any, *, reset: bool) -> Inputs:
        """Return inputs in the form of the first rows; with ``reset`` these are the first."""
        is_array = isinstance(X, (np.ndarray, Tensor))
        if is_lazy(X) or (is_array and len(np.shape(X)) > 2):
            found = self._images(X if is_lazy(X) else np.asarray(X))
        else:
            found = self._vectors(X, reset=reset)
        source = found if found.dtype == np.uint8 else as_float32(as_images(found))
        inputs = Inputs(source)
        self._require_shape(inputs, reset=reset)
        if reset:
            of_weights = getattr(getattr(self, "encoder", None), "input_kind", None)
            self.input_kind_ = as_kind(of_weights) or kind_of(source)
        kind = getattr(self, "input_kind_", None)
        if kind is None:  # saved before forms were recorded
            return inputs
        is_integer = found.dtype.kind in "iu"
        known = as_recorded(source, kind, is_integer=is_integer, is_image=inputs.ndim > 2)
        return inputs if known is source else Inputs(known)

    def _images(self, images: Any) -> Any:
        if images.dtype.kind not in "fiub":
            raise ArgumentError(f"Expected images to be numbers, but got dtype {images.dtype}.")
        if not len(images):
            raise ArgumentError("Expected at least one image, but got none.")
        return images

    def _vectors(self, X: Any, *, reset: bool) -> npt.NDArray[Any]:
        try:
            if isinstance(X, NamedFeatures):
                return self._by_name(X, reset=reset)
            checked: npt.NDArray[Any] = validate_data(self, X, reset=reset, dtype=_KEPT)
        except ValueError as error:
            raise ArgumentError(str(error)) from error
        return checked

    def _by_name(self, X: NamedFeatures, *, reset: bool) -> npt.NDArray[Any]:
        """Return the columns in the order of the first rows, whose names are kept."""
        known = getattr(self, "feature_names_in_", None)
        if reset:
            validate_data(self, X.values, reset=True)
            self.feature_names_in_ = np.array(X.names, dtype=object)
        elif known is None:
            log.warning("Columns are taken in their order: this model knows no names of columns.")
        values = X.values if reset or known is None else X.ordered(list(known))
        return np.asarray(check_array(values, dtype=_KEPT))

    def _require_shape(self, inputs: Inputs, *, reset: bool) -> None:
        if reset:
            self.input_shape_ = inputs.shape[1:]
        elif inputs.shape[1:] != self.input_shape_:
            raise ArgumentError(
                f"Expected inputs of shape (n, {', '.join(map(str, self.input_shape_))}), but got "
                f"{inputs.shape}."
            )

    # -- parameters ------------------------------------------------------------------------------

    def set_params(self, **params: Any) -> Self:
        """Change parameters; all of them, or none if one has no such name or value.

        Values are checked if the model is fitted; otherwise `fit` checks them.

        Args:
            **params: New values by the parameters' names.
        """
        with self._unchanged_on_error():
            try:
                super().set_params(**params)
            except (ValueError, TypeError, AttributeError) as error:
                raise ArgumentError(str(error)) from error
            if self.__sklearn_is_fitted__():
                self._check_values()
        return self

    def _check_values(self) -> None:
        """Refuse values of parameters that no fit would take."""

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
    views: str
    epochs: int
    batch_size: int
    learning_rate: float
    training: str | Training

    def set_params(self, **params: Any) -> Self:
        """Change parameters; all of them, or none if one has no such name or value.

        Values are checked if the model is fitted; otherwise `fit` checks them.

        Args:
            **params: New values by the parameters' names; ``training__momentum`` and the like are
                those of the training.
        """
        prefix = "training__"
        inner = {
            k.removeprefix(prefix): params.pop(k) for k in list(params) if k.startswith(prefix)
        }
        if inner:
            given = as_training(params.get("training", self.training))
            params["training"] = given.changed(**inner)
        return super().set_params(**params)

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

    @property
    def _how(self) -> Training:
        return as_training(self.training)

    def _config(self) -> TrainingConfig:
        return self._run(self._seed())

    def _run(self, seed: int) -> TrainingConfig:
        return TrainingConfig(
            epochs=plain(self.epochs),
            batch_size=plain(self.batch_size),
            learning_rate=plain(self.learning_rate),
            how=self._how,
            seed=seed,
        )

    def _check_values(self) -> None:
        self._run(seed=0)  # not drawn: a generator of random numbers would move on

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
        # Before it is tried for the size of its embeddings: encoding must not have changed it.
        known = provenance_of(given) if isinstance(given, nn.Module) else None
        encoder = build_encoder(
            given, self.input_shape_, options=self.encoder_options, seed=seed, is_blank=is_blank
        )
        if known is not None:
            return encoder, known
        if is_blank:
            return encoder, Provenance()
        if encoder.public_source is not None:
            return encoder, declared(encoder.public_source)
        is_drawn = given in DRAWN_ENCODERS and recorded(encoder) is None
        return encoder, Provenance() if is_drawn else provenance_of(encoder)

    def _train(
        self,
        objective: Objective,
        inputs: Inputs,
        classes: Tensor,
        config: TrainingConfig,
        *,
        network: nn.Module | None = None,
    ) -> list[dict[str, float]]:
        checkpoint = config.how.checkpoint
        if checkpoint is not None and self.random_state is None:
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
            checkpoint=None if checkpoint is None else Path(checkpoint),
            verbose=config.how.verbose,
        )


def class_indices(labels: list[Label], classes: list[Label]) -> Tensor:
    """Return each label's place among the sorted classes, (rows,)."""
    place = {(type(label), label): index for index, label in enumerate(classes)}
    return torch.tensor([place[type(label), label] for label in labels])
