"""Time to solve the gaussian view again after a change, at 1,280 dimensions.

20,000 random rows of 100 classes. A round forgets one row, then asks for the discriminants; the
first also counts the rows' second moments. Medians over 15 rounds after 2 to warm up.
"""

import time

import numpy as np

from erasable.memory import GaussianView, Memory

ROUNDS, WARM_UP, ROWS, DIM = 15, 2, 20_000, 1280


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    rng = np.random.default_rng(0)
    memory = Memory(DIM)
    memory.add(rng.normal(size=(ROWS, DIM)), (np.arange(ROWS) % 100).tolist())
    view, queries = GaussianView(memory), rng.normal(size=(256, DIM))
    start = time.perf_counter()
    view.logits(queries)
    first = time.perf_counter() - start
    times = []
    for number in range(ROUNDS + WARM_UP):
        before = time.perf_counter()
        memory.forget(ids=[number])
        between = time.perf_counter()
        view.logits(queries)
        solved = time.perf_counter()
        view.logits(queries)
        times.append([between - before, solved - between, time.perf_counter() - solved])
    forget, refit, predict = 1000 * np.median(times[WARM_UP:], axis=0)
    return [
        "| what | ms |",
        "|---|---:|",
        f"| first reading: second moments of {ROWS:,} rows, and solving | {1000 * first:.0f} |",
        f"| forget one row, second moments included | {forget:.1f} |",
        f"| first reading of 256 queries after it: solving again | {refit:.0f} |",
        f"| second reading of 256 queries | {predict:.1f} |",
    ]


if __name__ == "__main__":
    print("\n".join(measure()))
