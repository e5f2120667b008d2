"""Fréchet distance: how far two sets of images lie apart, seen by a feature network."""

import numpy as np

from erasable.errors import Problems
from erasable.metrics.functional._convert import Array, as_numpy, type_of
from erasable.typing import Float64s


def frechet_distance(first: Array, second: Array) -> float:
    """Compute the squared Fréchet distance of two sets of features, each taken as a Gaussian.

    ``‖μ₁ − μ₂‖² + tr(Σ₁ + Σ₂ − 2 (Σ₁ Σ₂)^½)``, with covariances over n − 1: FID, if the features
    are those of the Inception network; the paper's FID_O, if one set is drawn by the unlearned
    model and the other by the oracle.

    Range 0 to infinity, lower is better, symmetric, and 0 for equal sets. Two sets of one
    distribution have a value above 0 that falls with their size: read it beside the value between
    two oracles, and compare values of equal sizes and equal features only. It does not show that
    single images agree, nor anything that the features do not see.

    Args:
        first: Features (n, dim), n ≥ 2.
        second: Features (m, dim), m ≥ 2, of the same network.

    Raises:
        ArgumentError: If an argument is malformed; one message names every problem.

    Examples:
        >>> import numpy as np
        >>> features = np.random.default_rng(0).normal(size=(1000, 4))
        >>> round(frechet_distance(features, features + 1), 6)
        4.0
    """
    problems = Problems("frechet_distance()")
    found = {name: _checked(problems, name, values) for name, values in _named(first, second)}
    if all(values.ndim == 2 for values in found.values()):
        dims = {name: values.shape[1] for name, values in found.items()}
        if len(set(dims.values())) > 1:
            problems.note(f"Expected features of one network, but got dims {dims}.")
    problems.raise_if_any()
    moments = [(v.mean(axis=0), np.atleast_2d(np.cov(v, rowvar=False))) for v in found.values()]
    return gaussian_distance(*moments[0], *moments[1])


def gaussian_distance(
    mean: Float64s, covariance: Float64s, other_mean: Float64s, other_covariance: Float64s
) -> float:
    """Return the squared Fréchet distance of two Gaussians.

    Args:
        mean: (dim,).
        covariance: Symmetric, (dim, dim).
        other_mean: (dim,).
        other_covariance: (dim, dim).
    """
    # tr (Σ₁ Σ₂)^½ by symmetric matrices only, which keeps it real: tr (Σ₁^½ Σ₂ Σ₁^½)^½.
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
    inner = np.linalg.eigvalsh(root @ other_covariance @ root)
    overlap = np.sqrt(inner.clip(min=0)).sum()
    apart = float(((mean - other_mean) ** 2).sum())
    spread = float(np.trace(covariance) + np.trace(other_covariance) - 2 * overlap)
    return max(0.0, apart + spread)


def _named(first: Array, second: Array) -> list[tuple[str, Array]]:
    return [("first", first), ("second", second)]


def _checked(problems: Problems, name: str, values: Array) -> Float64s:
    found = as_numpy(values)
    if found is None:
        problems.note(f"Expected '{name}' to be numbers, but got {type_of(values)}.")
        return np.zeros(0)
    if found.ndim != 2 or len(found) < 2 or not found.shape[1]:
        problems.note(
            f"Expected '{name}' to be features (n, dim) of at least two images, but got shape "
            f"{found.shape}."
        )
        return np.zeros(0)
    if not np.isfinite(found).all():
        problems.note(f"Expected '{name}' to be finite, but it contains NaN or infinity.")
    return found.astype(np.float64)
