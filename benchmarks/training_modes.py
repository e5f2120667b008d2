"""The batch as the memory, against the paper's separate support, and how batches are drawn.

Digits: `small_cnn`, 5 epochs of batches of 128, prototypes. Many classes: 4,000 training and 2,000
test points of 200 Gaussian clusters in 64 dimensions, `mlp`, 20 epochs of batches of 128, so that a
random batch has less than one row per class. Three seeds: mean test accuracy ± standard deviation,
and seconds of `fit`; the modes take turns within a seed. Left out: queries of the last epoch that
found no row of their class, in percent.
"""

import time
from typing import Any

import numpy as np

from erasable import SPMClassifier
from erasable.data import load_digits
from erasable.models import parameters_of

SEEDS = (0, 1, 2)
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
MODES: dict[str, dict[str, Any]] = {
    "in batch, random batches": {"sampler": "uniform"},
    "in batch, P classes × K rows": {"sampler": "classes"},
    "support of 256, uniform": {"support_size": 256},
    "support of 1,024, uniform (the paper)": {"support_size": 1024},
    "support of 1,024, balanced (its code)": {"support_size": 1024, "support_sampling": "balanced"},
}


def clusters(seed: int = 0, classes: int = 200) -> Arrays:
    """Return train and test points of overlapping Gaussian clusters."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, 64))
    y = np.arange(6000) % classes
    X = (centres[y] + rng.normal(size=(6000, 64)) * 1.7).astype(np.float32)
    return X[:4000], y[:4000], X[4000:], y[4000:]


def digits() -> Arrays:
    """Return train and test images."""
    train, test = load_digits()
    return train.X, train.y, test.X, test.y


CASES = {
    "digits, 10 classes": (digits, {"encoder": "small_cnn", "epochs": 5}),
    "clusters, 200 classes": (clusters, {"encoder": "mlp", "epochs": 20}),
}


def run(data: Arrays, settings: dict[str, Any], seed: int) -> tuple[float, float, float]:
    """Return test accuracy, seconds and share left out."""
    model = SPMClassifier(random_state=seed, **parameters_of(settings))
    start = time.perf_counter()
    model.fit(data[0], data[1])
    seconds = time.perf_counter() - start
    left_out = model.history_[-1]["left_out"] / len(data[0])
    return float(model.score(data[2], data[3])), seconds, left_out


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| data | training | accuracy % | fit s | left out % |", "|---|---|---:|---:|---:|"]
    for case, (load, settings) in CASES.items():
        data = load()
        found: dict[str, list[tuple[float, float, float]]] = {mode: [] for mode in MODES}
        for seed in SEEDS:
            for mode, change in MODES.items():
                found[mode].append(run(data, {**settings, **change}, seed))
        for mode, results in found.items():
            accuracy, seconds, left_out = np.array(results).T
            lines.append(
                f"| {case} | {mode} | {100 * accuracy.mean():.1f} ± "
                f"{100 * accuracy.std(ddof=1):.1f} | {np.median(seconds):.1f} | "
                f"{100 * left_out.mean():.1f} |"
            )
    return lines


if __name__ == "__main__":
    print("\n".join(measure()))
