"""scikit-learn's own conformance checks."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from erasable import KNNClassifier, ParametricClassifier, SPMClassifier

_TINY = {"encoder_options": {"hidden": [16], "dim": 8}, "epochs": 20, "random_state": 0}
_MODELS = [
    SPMClassifier(**_TINY),
    SPMClassifier(reduction="rows", **_TINY),
    SPMClassifier(reduction="neighbours", k=5, **_TINY),
    SPMClassifier(reduction="gaussian", **_TINY),
    KNNClassifier(k=5, **_TINY),
    ParametricClassifier(**_TINY),
]


@parametrize_with_checks(_MODELS)
def test_the_estimator_keeps_to_scikit_learns_conventions(estimator, check):
    check(estimator)
