"""Time to read the neighbours of 4,096 queries at once, relative to batches of the encoder.

50,000 random rows of 128 dimensions, 10 classes, 256 neighbours; queries are embeddings, so that no
encoder is timed. Both ways give the same bits, which is checked. Each round reads once in batches
of 256 queries and once in one block, in alternating order; the ratio is the median of the per-round
ratios, over 5 rounds after 1 to warm up.
"""

import time
from unittest import mock

import numpy as np

from erasable import SPMClassifier
from erasable.fusion import NeighboursReduction
from erasable.models import read_embedded

ROUNDS, WARM_UP, ROWS, QUERIES, DIM = 5, 1, 50_000, 4096, 128
BLOCKS = (256, NeighboursReduction.queries_at_once)


def model() -> SPMClassifier:
    """Return a model with a memory of random rows."""
    rng = np.random.default_rng(0)
    X, y = rng.random((20, DIM), dtype=np.float32), np.arange(20) % 10
    spm = SPMClassifier("identity", epochs=0, random_state=0, k=256, reduction="neighbours")
    spm.fit(X, y)
    spm.memory.add(rng.normal(size=(ROWS, DIM)), (np.arange(ROWS) % 10).tolist())
    return spm


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    spm = model()
    queries = np.random.default_rng(1).normal(size=(QUERIES, DIM))
    table = []
    for number in range(ROUNDS + WARM_UP):
        found, answers = {}, []
        for size in BLOCKS if number % 2 else BLOCKS[::-1]:
            with mock.patch.object(NeighboursReduction, "queries_at_once", size):
                start = time.perf_counter()
                answers.append(read_embedded(spm, queries))
                found[size] = time.perf_counter() - start
        np.testing.assert_array_equal(*answers)
        table.append([found[size] for size in BLOCKS])
    times = np.array(table[WARM_UP:])
    lines = ["| queries at once | seconds | ratio |", "|---:|---:|---:|"]
    for column, size in enumerate(BLOCKS):
        ratio = np.median(times[:, column] / times[:, 0])
        lines.append(f"| {size:,} | {np.median(times[:, column]):.2f} | {ratio:.2f} |")
    return lines


if __name__ == "__main__":
    print("\n".join(measure()))
