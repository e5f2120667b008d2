"""One mixture of Gaussians per class: a generator without a network."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.mixture import GaussianMixture
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from erasable.errors import ArgumentError, Problems, RowIdError, listing
from erasable.models._columns import in_order
from erasable.models._image_generator import ImageGenerator, require_pictures
from erasable.models._inputs import as_labels, distinct
from erasable.training import Inputs, as_images
from erasable.typing import Label

if TYPE_CHECKING:
    from erasable.diffusion import Sampling

WEIGHTS = ("uniform", "learnt")


@final
class GMM(ImageGenerator, BaseEstimator):  # type: ignore[misc]  # sklearn is untyped
    """Per class a mixture of Gaussians over pixels, each with a variance per pixel.

    Args:
        components: Gaussians per class; at most as many as the class has images.
        weights: ``uniform``: every Gaussian is as likely, in fitting and in drawing, as the paper
            writes it. ``learnt``: as likely as EM finds.
        variance_floor: Added to the variance of every pixel (pixels range from 0 to 1); a Gaussian
            of a single image would have none.
        iterations: Rounds of EM at most.
        random_state: Seed of where EM starts.
        verbose: 1 shows progress.
    """

    labels_: list[Label]
    mixtures_: list[GaussianMixture]
    input_shape_: tuple[int, ...]

    def __init__(
        self,
        *,
        components: int = 1000,
        weights: str = "uniform",
        variance_floor: float = 1e-3,
        iterations: int = 20,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.components = components
        self.weights = weights
        self.variance_floor = variance_floor
        self.iterations = iterations
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a mixture to the images of each class.

        Args:
            X: Images (n, height, width[, channels]) of bytes, or of numbers from 0 to 1.
            y: One label per image.
        """
        self._check()
        images = np.asarray(X)
        if images.ndim not in (3, 4) or not len(images):
            raise ArgumentError(
                f"Expected images (n, height, width[, channels]), but got shape {images.shape}."
            )
        (y,) = in_order(X, y=y)
        labels = as_labels(y)
        if len(labels) != len(images):
            raise ArgumentError(f"Expected {len(images)} labels, but got {len(labels)}.")
        source = images if images.dtype == np.uint8 else as_images(images)
        inputs = Inputs(source)
        require_pictures(inputs)
        pixels = inputs[:].flatten(1).double().numpy()
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        known = distinct(labels)
        mixtures = []
        kind = _UniformMixture if self.weights == "uniform" else GaussianMixture
        for label in known:
            mine = pixels[[type(one) is type(label) and one == label for one in labels]]
            mixture = kind(
                min(self.components, len(mine)),
                covariance_type="diag",
                reg_covar=self.variance_floor,
                max_iter=self.iterations,
                init_params="random_from_data",
                random_state=seed,
            )
            mixtures.append(_fitted(mixture, mine))
        self.labels_, self.mixtures_, self.input_shape_ = known, mixtures, inputs.shape[1:]
        return self

    def forget(self, *, classes: Sequence[Label]) -> None:
        """Drop the mixtures of classes; what is left was never fitted to their images."""
        self._require_fitted()
        gone = {self._place(label) for label in as_labels(classes)}
        left = [index for index in range(len(self.labels_)) if index not in gone]
        self.labels_ = [self.labels_[index] for index in left]
        self.mixtures_ = [self.mixtures_[index] for index in left]

    def _draw(
        self,
        labels: list[Label],
        generator: torch.Generator,
        sampling: "Sampling",
        *,
        tick: Callable[[], None],
        **options: Any,
    ) -> Tensor:
        if options:
            raise ArgumentError(f"Expected no further options, but got {listing(sorted(options))}.")
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        images = np.empty((len(labels), int(np.prod(self.input_shape_))), np.float32)
        places = np.array([self._place(label) for label in labels])
        for place in np.unique(places):
            mixture = self.mixtures_[place]
            mine = np.flatnonzero(places == place)
            chosen = rng.choice(mixture.n_components, len(mine), p=mixture.weights_)
            spread = np.sqrt(mixture.covariances_[chosen])
            images[mine] = mixture.means_[chosen] + spread * rng.normal(size=spread.shape)
        return torch.from_numpy(images.clip(0, 1).reshape(-1, *self.input_shape_))

    def _require_fitted(self) -> None:
        check_is_fitted(self)

    def _place(self, label: Label) -> int:
        for index, known in enumerate(self.labels_):
            if type(known) is type(label) and known == label:
                return index
        raise RowIdError(
            f"Expected classes that were fitted ({listing(self.labels_)}), but got {label!r}."
        )

    def _check(self) -> None:
        problems = Problems("GMM")
        for name in ("components", "iterations"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                problems.note(f"Expected {name} to be a positive int, but got {value!r}.")
        if self.weights not in WEIGHTS:
            problems.note(f"Expected weights to be {listing(WEIGHTS)}, but got {self.weights!r}.")
        if not 0 < self.variance_floor < 1:
            problems.note(
                f"Expected variance_floor between 0 and 1, but got {self.variance_floor!r}."
            )
        problems.raise_if_any()


class _UniformMixture(GaussianMixture):  # type: ignore[misc]  # sklearn is untyped
    """A mixture whose Gaussians stay as likely as each other."""

    def _m_step(self, *parts: Any, **options: Any) -> None:
        super()._m_step(*parts, **options)
        self.weights_ = np.full(self.n_components, 1 / self.n_components)


def _fitted(mixture: GaussianMixture, rows: Any) -> GaussianMixture:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounds are limited on purpose
        return mixture.fit(rows)
