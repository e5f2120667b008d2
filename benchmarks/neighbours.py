"""Time to predict with 256 exact neighbours of 50,000 rows, relative to the parametric twin.

resnet18 (CIFAR stem, 512 dimensions), 256 images 32×32×3, 10 classes. The memory holds 50,000
random rows: a search compares with all of them whatever they are. Each round predicts once with
either model, in alternating order; the ratio is the median of the per-round ratios, over 5 rounds
after 1 to warm up.
"""

import time

import numpy as np

from erasable import ParametricClassifier, SPMClassifier

ROUNDS, WARM_UP, ROWS = 5, 1, 50_000
REDUCTIONS = ("prototypes", "neighbours", "gaussian")


def models() -> tuple[ParametricClassifier, SPMClassifier]:
    """Return the twin, and a model with the same encoder and a memory of random rows."""
    rng = np.random.default_rng(0)
    X, y = rng.random((20, 32, 32, 3), dtype=np.float32), np.arange(20) % 10
    twin = ParametricClassifier("resnet18", epochs=0, random_state=0).fit(X, y)
    spm = SPMClassifier("resnet18", epochs=0, random_state=0, k=256).fit(X, y)
    rows = rng.normal(size=(ROWS, spm.memory.dim))
    spm.memory.add(rows, (np.arange(ROWS) % 10).tolist())
    return twin, spm


def seconds(model: ParametricClassifier | SPMClassifier, queries: np.ndarray) -> float:
    """Return the time of one prediction."""
    start = time.perf_counter()
    model.predict_proba(queries)
    return time.perf_counter() - start


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    twin, spm = models()
    queries = np.random.default_rng(1).random((256, 32, 32, 3), dtype=np.float32)
    names = ["twin", *REDUCTIONS]
    table = []
    for number in range(ROUNDS + WARM_UP):
        found = {}
        for name in names if number % 2 else names[::-1]:
            model = twin if name == "twin" else spm.set_params(reduction=name)
            found[name] = seconds(model, queries)
        table.append([found[name] for name in names])
    times = np.array(table[WARM_UP:])
    lines = ["| model | seconds | ratio to the twin |", "|---|---:|---:|"]
    for column, name in enumerate(names):
        ratio = np.median(times[:, column] / times[:, 0])
        lines.append(f"| {name} | {np.median(times[:, column]):.2f} | {ratio:.3f} |")
    return lines


if __name__ == "__main__":
    print("\n".join(measure()))
