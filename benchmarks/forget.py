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


def milliseconds(memory: Memory, requests: list[dict[str, list[int]]]) -> np.ndarray:
    """Return the time of each request."""
    times = []
    for request in requests:
        start = time.perf_counter()
        memory.forget(**request)
        times.append(1000 * (time.perf_counter() - start))
    return np.array(times)


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| rows | forget | median ms | p99 ms |", "|---:|---|---:|---:|"]
    medians = {}
    for rows in SIZES:
        memory = build(rows)
        rng = np.random.default_rng(1)
        singles = rng.choice(rows, SINGLES, replace=False).tolist()
        times = milliseconds(memory, [{"ids": [row]} for row in singles])
        medians[rows] = np.median(times)
        lines.append(
            f"| {rows:,} | one row | {medians[rows]:.3f} | {np.percentile(times, 99):.3f} |"
        )
        if rows == SIZES[-1]:
            times = milliseconds(memory, [{"classes": [label]} for label in range(WHOLE)])
            size = rows // CLASSES
            lines.append(
                f"| {rows:,} | a class of about {size:,} rows | {np.median(times):.1f} "
                f"| {np.percentile(times, 99):.1f} |"
            )
    ratio = medians[SIZES[-1]] / medians[SIZES[0]]
    return [*lines, "", f"Median at {SIZES[-1]:,} rows over median at {SIZES[0]:,}: {ratio:.2f}."]


if __name__ == "__main__":
    print("\n".join(measure()))
