"""The twin without a memory: the same encoder with an ordinary linear head."""

from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from erasable.encoders import prepare
from erasable.errors import ArgumentError
from erasable.models._base import NetworkClassifier, class_indices
from erasable.models._columns import in_order
from erasable.models._inputs import as_labels, distinct, labels_array
from erasable.models._networks import ParametricNetwork, embedding_norm, evaluate
from erasable.models._provenance import record_rows
from erasable.models._views import require_views, viewed
from erasable.training import CrossEntropy, Training
from erasable.typing import Float64s, Label


@final
class ParametricClassifier(NetworkClassifier):
    """An ordinary network: all it knows is in its weights, so it cannot forget without training.

    Takes the same parameters as `SPMClassifier` as far as they apply, and trains by the same loop,
    so that the two can be compared.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> ParametricClassifier(epochs=20, random_state=0).fit(X, y).score(X, y) > 0.9
        True
    """

    def __init__(
        self,
        encoder: str | nn.Module = "auto",
        *,
        encoder_options: dict[str, Any] | None = None,
        normalize: str = "auto",
        views: str = "one",
        epochs: int = 30,
        batch_size: int = 128,
        learning_rate: float = 0.1,
        training: str | Training = "standard",
        random_state: Any = None,
        device: str = "auto",
    ) -> None:
        self.encoder = encoder
        self.encoder_options = encoder_options
        self.normalize = normalize
        self.views = views
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.training = training
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, *, classes: Sequence[Label] | None = None) -> Self:
        """Train on rows.

        Args:
            X: Inputs: feature vectors (n, features) or images (n, height, width[, channels]).
            y: One label per input.
            classes: Labels of the head, if it is to have more than ``y`` shows: an oracle keeps the
                outputs of classes it never sees.
        """
        with self._unchanged_on_error():
            inputs = self._check_inputs(X, reset=True)
            (y,) = in_order(X, y=y)
            labels = as_labels(y)
            if len(labels) != len(inputs):
                raise ArgumentError(f"Expected {len(inputs)} labels, but got {len(labels)}.")
            heads = labels + as_labels([] if classes is None else list(classes))
            self._labels = distinct(heads)
            require_views(self.views, self.input_shape_)
            config = self._config()
            encoder, provenance = self._build_encoder(config.seed)
            norm = embedding_norm(self.normalize, encoder)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(config.seed)
                network = ParametricNetwork(encoder, norm, len(self._labels)).eval()
            self.network_ = self._laid_out(network)
            self.history_ = []
            if config.epochs and len(inputs) > 1:
                objective = CrossEntropy(label_smoothing=config.how.label_smoothing)
                places = class_indices(labels, self._labels)
                if isinstance(self.encoder, str):
                    prepare(self.network_, inputs)
                self.history_ = self._train(objective, inputs, places, config)
                ids, contents = list(range(len(inputs))), inputs.contents
                seen = record_rows("rows of fit", ids, contents, groups=None, labels=labels)
                provenance = provenance.plus(seen)
            self._record(provenance)
        return self

    def predict_proba(self, X: Any) -> Float64s:
        """Return class probabilities, (n, classes), in the order of ``classes_``."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> Float64s:
        """Return natural logs of class probabilities by log-softmax, (n, classes)."""
        self._require_fitted()
        inputs = self._check_inputs(X, reset=False)
        is_precise = self.network_.encoder.is_precise
        network = viewed(self.network_, self.views)
        batches = evaluate(network, inputs, is_precise=is_precise)
        logs: Float64s = torch.cat([b.double().log_softmax(1) for b in batches]).numpy()
        return logs

    def _check_values(self) -> None:
        super()._check_values()
        require_views(self.views, self.input_shape_)
        embedding_norm(self.normalize, self.network_.encoder)

    @property
    def encoder_(self) -> nn.Module:
        """The trained encoder; it carries the record of what it was trained on."""
        self._require_fitted()
        encoder: nn.Module = self.network_.encoder
        return encoder

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Labels seen in `fit`, sorted."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("classes_ is there after fit().")
        return labels_array(self._labels)
