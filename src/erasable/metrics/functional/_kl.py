"""PG_S: Kullback-Leibler divergence between two models' predictions, in both directions."""

import numpy as np

from erasable.metrics.functional._check import Checker
from erasable.metrics.functional._convert import Array
from erasable.typing import Float64s


def normalise(log_probabilities: Float64s) -> Float64s:
    """Make each query of (n, classes) sum to 1 in float64, which float32 rounding does not."""
    sums = np.exp(log_probabilities).sum(axis=1, keepdims=True)
    return np.asarray(log_probabilities - np.log(sums))


def divergences(log_p: Float64s, log_q: Float64s) -> Float64s:
    """Return KL(p‖q) of each query (n,) in nats.

    Sums ``q − p − p·log(q/p)``, which equals ``p·log(p/q)`` since p and q both sum to 1. No term is
    negative, so nearly equal predictions keep their digits instead of cancelling.
    """
    p, q = np.exp(log_p), np.exp(log_q)
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = log_q - log_p
        near, far = p * (np.expm1(ratio) - ratio), (q - p) - p * ratio
    terms = np.where(np.abs(ratio) < 1, near, far)
    return np.asarray(np.where(p == 0, q, terms).sum(axis=1))


def check_logs(call: str, log_unlearned: Array, log_oracle: Array) -> tuple[Float64s, Float64s]:
    """Check the log-probabilities of two models and make each query sum to 1 in float64."""
    check = Checker(call)
    unlearned = check.log_probabilities("log_unlearned", log_unlearned)
    oracle = check.log_probabilities("log_oracle", log_oracle)
    check.done()
    return normalise(unlearned), normalise(oracle)


def kl_unlearned_oracle(log_unlearned: Array, log_oracle: Array) -> float:
    """Compute how surprising the unlearned model's predictions are to the oracle.

    The paper's PG_S as printed: the mean over queries of ``KL(unlearned‖oracle)``, in nats.

    Range 0 to ∞, lower is better, not symmetric, and the oracle's value is 0. It is infinite where
    the oracle gives zero probability to a class that the unlearned model does not; pass votes
    through `floored_log` to keep it finite. It does not show how many predictions change (see
    `prediction_gap`): one confident query can dominate the mean.

    Args:
        log_unlearned: Log-probabilities (n, classes) of the unlearned model; −inf stands for zero
            probability.
        log_oracle: Log-probabilities (n, classes) of the oracle, for the same queries and classes.

    Raises:
        ArgumentError: If an argument is malformed; one message names every problem.

    Examples:
        >>> import numpy as np
        >>> unlearned, oracle = np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])
        >>> with np.errstate(divide="ignore"):
        ...     print(f"{kl_unlearned_oracle(np.log(unlearned), np.log(oracle)):.4f}")
        0.6931
    """
    unlearned, oracle = check_logs("kl_unlearned_oracle()", log_unlearned, log_oracle)
    return float(divergences(unlearned, oracle).mean())


def kl_oracle_unlearned(log_unlearned: Array, log_oracle: Array) -> float:
    """Compute how surprising the oracle's predictions are to the unlearned model.

    The mean over queries of ``KL(oracle‖unlearned)``, in nats: what the code released with the
    paper computes as PG_S. The arguments have the same order as in `kl_unlearned_oracle`.

    Range 0 to ∞, lower is better, not symmetric, and the oracle's value is 0. It is infinite where
    the unlearned model gives zero probability to a class that the oracle does not; pass votes
    through `floored_log` to keep it finite. It does not show how many predictions change (see
    `prediction_gap`): a model that was made extreme on a few queries scores in the hundreds.

    Args:
        log_unlearned: Log-probabilities (n, classes) of the unlearned model; −inf stands for zero
            probability.
        log_oracle: Log-probabilities (n, classes) of the oracle, for the same queries and classes.

    Raises:
        ArgumentError: If an argument is malformed; one message names every problem.

    Examples:
        >>> import numpy as np
        >>> unlearned, oracle = np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])
        >>> with np.errstate(divide="ignore"):
        ...     kl_oracle_unlearned(np.log(unlearned), np.log(oracle))
        inf
    """
    unlearned, oracle = check_logs("kl_oracle_unlearned()", log_unlearned, log_oracle)
    return float(divergences(oracle, unlearned).mean())
