"""Time to predict with a lock that lets threads read side by side, and without any.

Rows are 3,000 of 64 dimensions in 10 classes; queries are 1 or 256 vectors, and the encoder is the
identity, so the lock weighs as much as it can. Each round predicts once with the lock and once with
one that does nothing, in alternating order, in one thread; the ratio is the median of the per-round
ratios, over 400 rounds after 20 to warm up. Below, 1, 2 and 4 threads ask one query at a time for
2 seconds, alone and beside a thread that forgets one row after the other.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from unittest import mock

import numpy as np
import torch

from erasable import KNNClassifier, SPMClassifier

ROUNDS, WARM_UP, ROWS, DIM, SECONDS = 400, 20, 3000, 64, 2.0


class NoLock:
    """Keeps nobody out, and costs next to nothing."""

    reading = changing = writing = staticmethod(contextlib.nullcontext)


READOUTS: dict[str, Callable[[], SPMClassifier | KNNClassifier]] = {
    "prototypes": lambda: SPMClassifier("identity", "prototypes"),
    "gaussian": lambda: SPMClassifier("identity", "gaussian"),
    "rows": lambda: SPMClassifier("identity", "rows"),
    "neighbours, k = 16": lambda: SPMClassifier("identity", "neighbours", k=16),
    "knn, k = 5": lambda: KNNClassifier("identity", k=5),
}


def model(name: str) -> SPMClassifier | KNNClassifier:
    """Return a model with random rows."""
    X = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
    return READOUTS[name]().remember(X, (np.arange(ROWS) % 10).tolist(), ids=list(range(ROWS)))


def ratio(name: str, count: int) -> tuple[float, float]:
    """Return the milliseconds of a prediction with the lock, and its ratio to one without."""
    read = model(name)
    queries = np.random.default_rng(1).normal(size=(count, DIM)).astype(np.float32)
    locks = [read.memory.live.lock, NoLock()]
    table = []
    for number in range(ROUNDS + WARM_UP):
        found = [0.0, 0.0]
        for place in (0, 1) if number % 2 else (1, 0):
            with mock.patch.object(read.memory.live, "lock", locks[place]):
                start = time.perf_counter()
                read.predict(queries)
                found[place] = time.perf_counter() - start
        table.append(found)
    times = np.array(table[WARM_UP:])
    return 1000 * float(np.median(times[:, 0])), float(np.median(times[:, 0] / times[:, 1]))


def throughput(name: str, threads: int, *, forgets: bool) -> tuple[float, float]:
    """Return the predictions and forgets per second of some threads and one that forgets."""
    read, is_over = model(name), threading.Event()
    queries = np.random.default_rng(1).normal(size=(1, DIM)).astype(np.float32)
    answers = [0] * threads

    def ask(number: int) -> None:
        while not is_over.is_set():
            read.predict(queries)
            answers[number] += 1

    readers = [threading.Thread(target=ask, args=(number,)) for number in range(threads)]
    start, gone = time.perf_counter(), 0
    for reader in readers:
        reader.start()
    while forgets and gone < ROWS - 50 and time.perf_counter() < start + SECONDS:
        read.forget(ids=[gone])
        gone += 1
    if not forgets:
        is_over.wait(SECONDS)
    seconds = time.perf_counter() - start
    total = sum(answers)
    is_over.set()
    for reader in readers:
        reader.join()
    return total / seconds, gone / seconds


def measure() -> list[str]:
    """Return the lines of two Markdown tables."""
    torch.set_num_threads(1)
    lines = ["| readout | queries | ms | with the lock over without |", "|---|---:|---:|---:|"]
    for name in READOUTS:
        for count in (1, 256):
            milliseconds, found = ratio(name, count)
            lines.append(f"| {name} | {count} | {milliseconds:.3f} | {found:.3f} |")
    lines += [
        "",
        "| readout | threads | predictions/s | beside forgets: predictions/s | forgets/s |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in READOUTS:
        for threads in (1, 2, 4):
            alone, _ = throughput(name, threads, forgets=False)
            beside, forgets = throughput(name, threads, forgets=True)
            lines.append(f"| {name} | {threads} | {alone:,.0f} | {beside:,.0f} | {forgets:,.0f} |")
    return lines


if __name__ == "__main__":
    print("\n".join(measure()))
