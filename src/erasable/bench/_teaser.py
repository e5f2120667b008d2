"""The method in one picture: a two-dimensional toy, before, retrained, and deleted."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.models import SPMClassifier
from erasable.typing import Float32s, Float64s

_BLOBS = (  # centre, class
    ((-1.5, 0.9), 0),
    ((1.5, 1.0), 0),
    ((0.0, -1.2), 0),
    ((-1.6, -1.1), 1),
    ((1.6, -1.0), 1),
    ((0.0, 1.0), 1),
)
_FORGOTTEN = 2
_MODEL: dict[str, Any] = {
    "encoder": "mlp",
    "encoder_options": {"hidden": [64], "dim": 16},
    "reduction": "rows",
    "epochs": 60,
    "learning_rate": 0.05,
}


@dataclass(frozen=True)
class Teaser:
    """Points, which of them are forgotten, and the probability of class 1 on a square grid.

    ``before``, ``retrained``, ``again`` (retrained with another seed) and ``deleted`` are (side,
    side).
    """

    points: Float32s
    labels: npt.NDArray[np.int64]
    is_forgotten: npt.NDArray[np.bool_]
    axis: Float32s
    before: Float64s
    retrained: Float64s
    again: Float64s
    deleted: Float64s

    def figures(self) -> dict[str, float]:
        """Return the share of the plane on which two panels disagree."""

        def differ(a: Float64s, b: Float64s) -> float:
            return float(np.mean((a > 0.5) != (b > 0.5)))

        return {
            "before_to_retrained": differ(self.before, self.retrained),
            "deleted_to_retrained": differ(self.deleted, self.retrained),
            "retrained_to_retrained": differ(self.retrained, self.again),
        }


def run_teaser(seed: int = 0, *, side: int = 100) -> Teaser:
    """Train on six blobs, forget one, and retrain without it."""
    rng = np.random.default_rng(seed)
    points = np.concatenate([rng.normal(centre, 0.38, (60, 2)) for centre, _ in _BLOBS])
    points = points.astype(np.float32)
    labels = np.repeat([label for _, label in _BLOBS], 60)
    gone = np.repeat(np.arange(len(_BLOBS)) == _FORGOTTEN, 60)
    axis = np.linspace(-3, 3, side, dtype=np.float32)
    plane = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)

    def ask(model: SPMClassifier) -> Float64s:
        return model.predict_proba(plane)[:, 1].reshape(side, side)

    def fit(which: npt.NDArray[np.bool_], seed: int) -> SPMClassifier:
        model = SPMClassifier(**_MODEL, random_state=seed)
        return model.fit(points[which], labels[which], ids=np.flatnonzero(which).tolist())

    model = fit(np.ones(len(gone), bool), seed)
    before = ask(model)
    model.forget(ids=np.flatnonzero(gone).tolist())
    retrained, again = ask(fit(~gone, seed + 1)), ask(fit(~gone, seed + 2))
    return Teaser(points, labels, gone, axis, before, retrained, again, ask(model))
