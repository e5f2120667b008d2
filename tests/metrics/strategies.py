"""Random categorical models for the tests of metrics."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

unhurried = settings(deadline=None)
"""Let examples take their time on a busy machine."""


@st.composite
def models(draw, count=2, min_classes=1, has_zeros=True):
    """Draw ``count`` models as probabilities (n, classes) for the same queries."""
    shape = (draw(st.integers(1, 12)), draw(st.integers(min_classes, 6)))
    weights = hnp.arrays(np.int64, shape, elements=st.integers(0 if has_zeros else 1, 30))
    return tuple(_normalised(draw(weights)) for _ in range(count))


@st.composite
def labelled_models(draw):
    """Draw two models and a label for each query."""
    unlearned, oracle = draw(models())
    labels = hnp.arrays(np.int64, len(oracle), elements=st.integers(0, oracle.shape[1] - 1))
    return unlearned, oracle, draw(labels)


@st.composite
def models_with_margin(draw):
    """Draw a model, an oracle that leads by at least a known margin, labels, and that margin.

    The first model is mixed with the oracle, so that some pairs are close and some are not.
    """
    other, oracle, labels = draw(labelled_models())
    margin = draw(st.floats(0.01, 0.9))
    top = np.eye(oracle.shape[1])[oracle.argmax(axis=1)]
    oracle = (1 - margin) * oracle + margin * top
    share = draw(st.floats(0, 1))
    return (1 - share) * other + share * oracle, oracle, labels, margin


def logs(probabilities):
    """Return log-probabilities with −inf for zero."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def _normalised(weights):
    weights = weights.astype(np.float64)
    weights[weights.sum(axis=1) == 0] = 1
    return weights / weights.sum(axis=1, keepdims=True)
