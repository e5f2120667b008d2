"""Time to find the 256 nearest of 10⁶ rows for 256 queries, quantised against exact, in one run.

Rows: 2,000 cluster centres, normal in 32 dimensions; around each, normal with half the deviation in
the same 32 dimensions; mapped to 128 dimensions by a random orthonormal matrix, then each row
shifted and scaled to mean 0 and deviation 1. Queries come from the same distribution and are not
rows. Both searches run in alternating order, 5 rounds after 1 to warm up; the ratio is the median
of the per-round ratios. *Matrix product alone* is what any search that compares all rows has to pay
at least. Recall: share of the exact neighbours that the quantised search finds. Forgetting: 1,000
single rows each from one memory, before an index follows it and while one does; rows of the sample,
which drop the index, are counted, not timed.
"""

import time
from collections.abc import Callable

import numpy as np

from erasable.memory import ExactSearch, Memory
from erasable.memory._codebooks import draw_sample
from erasable.memory._quantized import ProductCodes, QuantizedSearch

ROWS, DIM, INNER, CLUSTERS = 1_000_000, 128, 32, 2_000
QUERIES, K, ROUNDS, WARM_UP, SINGLES = 256, 256, 5, 1, 1_000
_CHUNK = 50_000


def clustered(count: int, seed: int) -> np.ndarray:
    """Return vectors of the distribution above, (count, dim)."""
    world, rng = np.random.default_rng(0), np.random.default_rng(seed)
    centres = world.standard_normal((CLUSTERS, INNER), dtype=np.float32)
    lift = np.linalg.qr(world.standard_normal((DIM, INNER)))[0].astype(np.float32)
    inner = centres[rng.integers(CLUSTERS, size=count)]
    inner += 0.5 * rng.standard_normal((count, INNER), dtype=np.float32)
    rows = inner @ lift.T
    rows -= rows.mean(axis=1, keepdims=True)
    rows /= rows.std(axis=1, keepdims=True)
    return rows


def build() -> Memory:
    """Return a memory of clustered rows, one class."""
    memory = Memory(DIM)
    for start in range(0, ROWS, _CHUNK):
        ids = list(range(start, start + _CHUNK))
        memory.add(clustered(_CHUNK, seed=1 + start), ["x"] * _CHUNK, ids=ids)
    return memory


def seconds(call: Callable[[], object]) -> float:
    """Return the time of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def rounds(calls: list[Callable[[], object]]) -> np.ndarray:
    """Return the times of calls in alternating order, (rounds, calls)."""
    times = np.zeros((ROUNDS + WARM_UP, len(calls)))
    for number in range(len(times)):
        for place in range(len(calls))[:: 1 if number % 2 else -1]:
            times[number, place] = seconds(calls[place])
    return times[WARM_UP:]


def search_lines(memory: Memory) -> list[str]:
    """Compare the searches; return a table."""
    queries = clustered(QUERIES, seed=0).astype(np.float64)
    exact, quantized = ExactSearch(), QuantizedSearch()
    learned = seconds(lambda: quantized.nearest(memory.live, queries[:1], K))
    rows, few = memory.table.embeddings, queries.astype(np.float32)
    times = rounds(
        [
            lambda: exact.nearest(memory.live, queries, K),
            lambda: quantized.nearest(memory.live, queries, K),
            lambda: [few @ rows[i : i + _CHUNK].T for i in range(0, ROWS, _CHUNK)],
        ]
    )
    true = exact.nearest(memory.live, queries, K).positions
    found = quantized.nearest(memory.live, queries, K).positions
    recall = np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(true, found, strict=True)])
    lines = ["| search | ms per batch | exact ÷ this | recall |", "|---|---:|---:|---:|"]
    for place, (name, share) in enumerate(
        [("exact", "1"), ("quantised", f"{recall:.4f}"), ("matrix product alone", "–")]
    ):
        ratio = np.median(times[:, 0] / times[:, place])
        lines.append(
            f"| {name} | {1000 * np.median(times[:, place]):.0f} | {ratio:.1f} | {share} |"
        )
    codes = memory.live.follower("codes", ProductCodes).index.codes
    size = codes.code_size * codes.ntotal / 2**20
    return [
        *lines,
        "",
        f"Learning the index: {learned:.1f} s. Codes: {codes.code_size} bytes a row, "
        f"{size:.0f} MiB in all; the rows have {rows.nbytes / 2**20:.0f} MiB.",
    ]


def forget(memory: Memory, ids: list[int]) -> list[str]:
    """Forget rows one by one; return median and 99th percentile."""
    times = [1000 * seconds(lambda row_id=row_id: memory.forget(ids=[row_id])) for row_id in ids]
    return [f"{np.median(times):.3f}", f"{np.percentile(times, 99):.3f}"]


def measure() -> list[str]:
    """Return the lines of Markdown tables."""
    memory = build()
    sample = draw_sample(memory.table.infos)
    sampled = {memory.table.infos[place].id for place in sample.positions}
    chosen = np.random.default_rng(1).permutation(ROWS).tolist()
    others = [row_id for row_id in chosen if row_id not in sampled][: 2 * SINGLES]
    without = forget(memory, others[:SINGLES])
    lines = search_lines(memory)
    follower = memory.live.follower("codes", ProductCodes)
    index, before = follower.index, follower.index.codes.ntotal
    with_index = forget(memory, others[SINGLES:])
    assert follower.index is index  # noqa: S101 - else the times were of a memory without an index
    assert before - index.codes.ntotal == SINGLES  # noqa: S101
    return [
        *lines,
        "",
        "| forget one row | median ms | p99 ms |",
        "|---|---:|---:|",
        f"| no index | {' | '.join(without)} |",
        f"| index follows | {' | '.join(with_index)} |",
        "",
        f"The sample has {len(sampled):,} rows: {len(sampled) / ROWS:.1%} of single forgets drop "
        "the index, which the next search then learns anew.",
    ]


if __name__ == "__main__":
    print("\n".join(measure()))
