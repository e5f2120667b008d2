"""Time to forget one row, and one class of 1,000 rows, from memories of 10⁴ to 10⁶ rows.

Rows have 512 dimensions and 1,000 classes. Each forget updates the class sum, the prototype and the
digest, leaves tombstones and reports both digests. Distribution over 2,000 single rows per size and
20 whole classes at the largest size, in one process.
"""

import time

import numpy as np

from erasable import Memory

DIM, CLASSES, SINGLES, WHOLE = 512, 1000, 2000, 20
SIZES = (10_000, 100_000, 1_000_000)
_CHUNK = 50_000


def build(rows: int) -> Memory:
    """Return a memory of random rows, classes in turn."""
    rng = np.random.default_rng(0)
    memory = Memory(DIM)
    for start in range(0, rows, _CHUNK):
        count = min(_CHUNK, rows - start)
        embeddings = rng.standard_normal((count, DIM), dtype=np.float32)
        labels = ((start + np.arange(count)) % CLASSES).tolist()
        memory.add(embeddings, labels, ids=list(range(start, start + count)))
    return memory


def milliseconds(memory: Memory, request: dict[str, list[int]]) -> float:
    """Return the time of a request."""
    start = time.perf_counter()
    memory.forget(**request)
    return 1000 * (time.perf_counter() - start)


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    memories = {rows: build(rows) for rows in SIZES}
    rng = np.random.default_rng(1)
    chosen = {rows: rng.choice(rows, SINGLES, replace=False).tolist() for rows in SIZES}
    # In turn, so that a slow moment of the machine meets all sizes alike.
    times = np.array(
        [
            [milliseconds(memories[n], {"ids": [chosen[n][i]]}) for n in SIZES]
            for i in range(SINGLES)
        ]
    )
    medians = np.median(times, axis=0)
    lines = ["| rows | forget | median ms | p99 ms |", "|---:|---|---:|---:|"]
    for rows, median, slow in zip(SIZES, medians, np.percentile(times, 99, axis=0), strict=True):
        lines.append(f"| {rows:,} | one row | {median:.3f} | {slow:.3f} |")
    largest = memories[SIZES[-1]]
    whole = [milliseconds(largest, {"classes": [label]}) for label in range(WHOLE)]
    lines.append(
        f"| {SIZES[-1]:,} | a class of about {SIZES[-1] // CLASSES:,} rows "
        f"| {np.median(whole):.1f} | {np.percentile(whole, 99):.1f} |"
    )
    ratio = medians[-1] / medians[0]
    return [*lines, "", f"Median at {SIZES[-1]:,} rows over median at {SIZES[0]:,}: {ratio:.2f}."]


if __name__ == "__main__":
    print("\n".join(measure()))
