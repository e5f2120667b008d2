"""The classifier that forgets."""

from pathlib import Path
from typing import Any, Self, final

import numpy as np
from torch import Tensor, nn

from erasable.encoders import Identity, SetEncoder, build_set_encoder
from erasable.errors import ArgumentError, StateError
from erasable.fusion import Attention, DotProductFusion, Reduction, VoteFusion, get_reduction
from erasable.memory import Readable
from erasable.models._adapt import Start
from erasable.models._base import class_indices
from erasable.models._columns import named_rows
from erasable.models._inputs import as_ids, distinct
from erasable.models._memory_classifier import MemoryClassifier
from erasable.models._networks import SPMNetwork
from erasable.models._provenance import PRETRAINING, Provenance, record_rows
from erasable.models._reading import reading
from erasable.models._relational import relational_rows
from erasable.training import (
    InBatchMemory,
    Inputs,
    Objective,
    SeparateSupport,
    Support,
    Training,
    TrainingConfig,
)
from erasable.weights import load_weights, weights_of

_FEWEST = 4


@final
class SPMClassifier(MemoryClassifier):
    """A deep semi-parametric classifier: predictions are votes of the rows in its memory.

    `fit` trains the weights to *compare* and stores every row; `remember` stores rows without
    training; `forget` takes rows out, and from then on no prediction uses them. What the weights
    themselves learnt from a row stays in them: `forget` reports that as its level.

    Args:
        encoder: ``auto`` (``mlp`` for feature vectors, ``small_cnn`` for images), ``identity``,
            ``random_features``, ``mlp``, ``small_cnn``, ``fast_cnn``, ``resnet18``;
            ``efficientnet_lite0``, ``1`` or ``2``, which come pretrained on ImageNet; or any
            ``torch.nn.Module`` that returns (n, dim), such as `cut` makes of a trained network. A
            module is copied, never changed.
        reduction: How the memory is read. ``prototypes``: one mean per class (the paper's SPM-C).
            ``neighbours``: attention over the ``k`` nearest rows (its SPM-R). ``rows``: attention
            over every row. ``gaussian``: class means in the metric of the rows' covariance. It can
            be changed with `set_params` at any time.
        k: Number of neighbours.
        search: How neighbours are found: ``exact``, or ``pq``: by product-quantised codes, compared
            exactly afterwards; for hundreds of thousands of rows. Changeable at any time.
        attention: ``learnt``: scores by W_q and W_k. ``similarity``: plain dot products. Changeable
            at any time.
        temperature: What scores are divided by; larger is softer. Changeable at any time.
        set_encoder: ``none``: every row is encoded by itself. ``graph``: rows also attend to their
            nearest rows of the same class; needs a training with ``support_size``.
        encoder_options: Keyword arguments for a named encoder.
        normalize: ``layer``: give every embedding mean square one; ``none``; ``auto``: ``layer``
            unless the encoder is ``identity`` or ``random_features``.
        scale: Factor on attention scores: ``sqrt`` for 1/√dim, a number, or ``none`` as in the
            paper: W_q and W_k then start smaller instead.
        grid_bits: Embeddings are rounded to multiples of ``2**-grid_bits``, so that sums of them
            are exact. Magnitudes must stay below ``2**(20 - grid_bits)``.
        embedding_cache: Folder to keep embeddings of rows in: with a frozen encoder, each row is
            encoded once, also across models and interrupted runs. Rows then need ids. `forget`
            removes them there too.
        views: What a prediction is a mean of. ``one``: the image as it is; ``mirror``: and its
            mirror image; ``six``: both, and both shifted by a pixel in two directions. Changeable
            at any time.
        epochs: Passes over the rows; 0 trains nothing.
        batch_size: Rows per step; the batch is queries and memory at once.
        learning_rate: Largest learning rate of SGD.
        training: How the network is trained otherwise: a `Training`, or the name of one:
            ``standard``, ``fast`` or ``accurate``. A search reaches into it, as in
            ``training__momentum``.
        random_state: Seed of everything random.
        allow_memory_level: Accept an encoder that does not encode each row by itself, or that
            learns by encoding. No row is exact then. By default such an encoder is refused.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = SPMClassifier(epochs=5, random_state=0).fit(X, y)
        >>> receipt = clf.forget(classes=[2])
        >>> receipt.rows, receipt.level, clf.classes_.tolist()
        (50, 'memory', [0, 1])
    """

    def __init__(
        self,
        encoder: str | nn.Module = "auto",
        reduction: str = "prototypes",
        *,
        k: int = 256,
        search: str = "exact",
        attention: str = "learnt",
        temperature: float = 1.0,
        set_encoder: str = "none",
        encoder_options: dict[str, Any] | None = None,
        normalize: str = "auto",
        scale: str | float = "sqrt",
        grid_bits: int = 14,
        embedding_cache: str | Path | None = None,
        views: str = "one",
        epochs: int = 30,
        batch_size: int = 128,
        learning_rate: float = 0.1,
        training: str | Training = "standard",
        random_state: Any = None,
        allow_memory_level: bool = False,
        device: str = "auto",
    ) -> None:
        self.encoder = encoder
        self.reduction = reduction
        self.k = k
        self.search = search
        self.attention = attention
        self.temperature = temperature
        self.set_encoder = set_encoder
        self.encoder_options = encoder_options
        self.normalize = normalize
        self.scale = scale
        self.grid_bits = grid_bits
        self.embedding_cache = embedding_cache
        self.views = views
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.training = training
        self.random_state = random_state
        self.allow_memory_level = allow_memory_level
        self.device = device

    def pretrain(self, X: Any, y: Any, *, ids: Any = None) -> Self:
        """Train how queries and rows are compared on *public* rows; none of them is stored.

        The encoder stays as it is: only W_q, W_k and a set encoder are trained, by the episodes of
        `fit` with the classes renumbered in each step, so that they learn to compare and not what
        these classes look like. Any rows can be remembered afterwards; forgetting them is exact
        unless they were among the public ones.

        Args:
            X: Inputs that will never have to be forgotten.
            y: One label per input; other classes than those to be remembered will do.
            ids: One id per input; with ``embedding_cache``, each is encoded only once.

        Raises:
            StateError: If there are rows in the memory already: pretrain, then remember.
        """
        with self._unchanged_on_error():
            is_new = not self.__sklearn_is_fitted__()
            y, ids, _ = named_rows(X, y=y, ids=ids, groups=None)
            inputs, labels, contents = self._check_rows(X, y, reset=is_new)
            row_ids = None if ids is None else as_ids(ids, len(inputs))
            config = self._config().trained(label_permutation=True)
            if is_new:
                self._begin(config.seed)
            if len(self.memory_):
                raise StateError("Expected an empty memory: call pretrain() before remember().")
            self._require_enough(len(inputs))
            self.memory_.admissible(labels, ids=row_ids, contents=contents)  # none was forgotten
            if is_new:
                self._examine(inputs)
            encoded = np.asarray(self._embed(inputs, ids=row_ids), np.float32)
            self._settle(inputs, encoded)
            known = self.provenance_
            trained = self._on_embeddings(config.seed)
            self.history_ = self._train(
                self._objective(),
                Inputs(encoded),
                class_indices(labels, distinct(labels)),
                config,
                network=trained,
            )
            public = record_rows(PRETRAINING, row_ids, contents, groups=(), labels=labels)
            for part in ("fusion", "set_encoder"):
                mine, theirs = getattr(self.network_, part), getattr(trained, part)
                if mine is not None:
                    load_weights(mine, weights_of(theirs))
            self._record(known.plus(public))
        return self

    def _on_embeddings(self, seed: int) -> SPMNetwork:
        """Return what follows the encoder, with the present weights, as a network by itself."""
        whole = self.network_
        bare = Start(Identity((whole.encoder.dim,)), Provenance())
        part = SPMNetwork(
            bare.encoder, nn.Identity(), self._vote(bare), set_encoder=self._set_encoder(bare, seed)
        )
        present = {k: v for k, v in weights_of(whole).items() if k in weights_of(part)}
        load_weights(part, present)
        return part

    def _network(self, start: Start, seed: int) -> SPMNetwork:
        set_encoder = self._set_encoder(start, seed)
        return SPMNetwork(
            start.encoder, self._norm(start), self._vote(start), set_encoder=set_encoder
        )

    def _vote(self, start: Start) -> VoteFusion:
        return VoteFusion(
            DotProductFusion(start.encoder.dim, scale=self.scale),
            self._reduction(),
            attention=self.attention,
            temperature=self.temperature,
        )

    def _set_encoder(self, start: Start, seed: int) -> SetEncoder | None:
        return build_set_encoder(self.set_encoder, start.encoder.dim, seed=seed)

    def _learn(
        self, inputs: Inputs, classes: Tensor, config: TrainingConfig
    ) -> list[dict[str, float]]:
        if config.how.support_size is not None:
            self._require_enough(len(inputs))
        return self._train(self._objective(), inputs, classes, config)

    def _require_enough(self, count: int) -> None:
        if count < _FEWEST:
            with_support = "" if self._how.support_size is None else " with support_size"
            raise ArgumentError(
                f"Expected at least {_FEWEST} rows{with_support}, but got {count}: some are "
                "queries, others their memory."
            )

    def _objective(self) -> Objective:
        how = self._how
        smoothing = how.label_smoothing
        if how.support_size is not None:
            support = Support(how.support_size, how.support_sampling)
            return SeparateSupport(support, label_smoothing=smoothing)
        if self.set_encoder != "none":
            raise ArgumentError(
                f"Expected support_size with set_encoder={self.set_encoder!r}, but it is None: in "
                "a batch that is its own memory, a query would hear of itself through others."
            )
        return InBatchMemory(label_smoothing=smoothing)

    def _reduction(self) -> Reduction:
        if self.reduction == "knn":
            raise ArgumentError("Expected KNNClassifier for the reduction 'knn'.")
        return get_reduction(self.reduction, reading(self.k, self.search))

    def _attention(self) -> Attention:
        fusion = self.network_.fusion
        assert fusion is not None  # noqa: S101 - as built by _network
        return fusion.attention(self.attention, temperature=self.temperature).evaluation()

    def _readable(self) -> Readable:
        set_encoder = self.network_.set_encoder
        return self.memory_ if set_encoder is None else relational_rows(self.memory_, set_encoder)
