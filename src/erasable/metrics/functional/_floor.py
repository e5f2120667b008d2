"""Making votes comparable by divergence."""

import numpy as np

from erasable.metrics.functional._check import Checker
from erasable.metrics.functional._convert import Array
from erasable.typing import Float64s


def floored_log(probabilities: Array, floor: float = 1e-8) -> Float64s:
    """Turn class probabilities made of votes into finite log-probabilities.

    Raises every probability to at least ``floor``, makes each query sum to 1 again, and takes the
    natural logarithm. A class without a live row has probability 0, which would make a divergence
    infinite. Parametric models do not need it: pass their log-softmax as it is.

    Args:
        probabilities: (n, classes), each query summing to 1.
        floor: Smallest probability before the sum is made 1 again, between 0 and 1.

    Returns:
        Log-probabilities (n, classes).

    Raises:
        ArgumentError: If an argument is malformed; one message names every problem.

    Examples:
        >>> import numpy as np
        >>> np.round(floored_log(np.array([[1.0, 0.0]])), 4).tolist()
        [[-0.0, -18.4207]]
    """
    check = Checker("floored_log()")
    values = check.probabilities("probabilities", probabilities)
    check.require(
        0 < floor < 1,
        f"Expected 'floor' to be between 0 and 1, but got {floor!r}. Pass a value like 1e-8.",
    )
    check.done()
    raised = np.maximum(values, floor)
    return np.asarray(np.log(raised / raised.sum(axis=1, keepdims=True)))
