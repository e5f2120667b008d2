"""Time to predict with prototypes, relative to the parametric twin, side by side in one run.

Same encoder, 10 classes. Each round predicts once with either model, in alternating order; the
ratio is the median of the per-round ratios, over 60 rounds after 5 to warm up.
"""

import time

import numpy as np

from erasable import ParametricClassifier, SPMClassifier

ROUNDS, WARM_UP = 60, 5
CASES = {
    "small_cnn, 256 images 32×32×3": ("small_cnn", (256, 32, 32, 3)),
    "small_cnn, 1 image 32×32×3": ("small_cnn", (1, 32, 32, 3)),
    "mlp, 256 vectors of 512": ("mlp", (256, 512)),
}


def ratio(encoder: str, shape: tuple[int, ...]) -> tuple[float, float, float]:
    """Return median ratio, and median seconds of twin and semi-parametric model."""
    rng = np.random.default_rng(0)
    X = rng.random((500, *shape[1:]), dtype=np.float32)
    y = np.arange(500) % 10
    spm = SPMClassifier(encoder, epochs=0, random_state=0).fit(X, y)
    twin = ParametricClassifier(encoder, epochs=0, random_state=0).fit(X, y)
    queries = rng.random(shape, dtype=np.float32)
    times = np.array([_round(twin, spm, queries, number) for number in range(ROUNDS + WARM_UP)])
    times = times[WARM_UP:]
    return (
        float(np.median(times[:, 1] / times[:, 0])),
        float(np.median(times[:, 0])),
        float(np.median(times[:, 1])),
    )


def _round(
    twin: ParametricClassifier, spm: SPMClassifier, queries: np.ndarray, number: int
) -> list[float]:
    seconds = [0.0, 0.0]
    for place in (0, 1) if number % 2 else (1, 0):
        start = time.perf_counter()
        (twin, spm)[place].predict_proba(queries)
        seconds[place] = time.perf_counter() - start
    return seconds


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| case | twin ms | prototypes ms | ratio |", "|---|---:|---:|---:|"]
    for name, (encoder, shape) in CASES.items():
        found, twin, spm = ratio(encoder, shape)
        lines.append(f"| {name} | {1000 * twin:.2f} | {1000 * spm:.2f} | {found:.3f} |")
    return lines


if __name__ == "__main__":
    print("\n".join(measure()))
