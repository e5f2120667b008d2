"""Additive fusion of 64 patches of queries with the patches of 1,024 rows of the paper's size.

256 hidden units, 16 patches per row, float32; forward alone, and forward with gradients. The naive
form keeps queries × chunk × hidden numbers; it is measured at several chunk sizes, and the best one
counts; freed memory is kept for it, since getting it anew takes longer than its sums. Alternating
order in one run, median of 5 rounds after 1 to warm up. Compiling is not counted. Memory is the
peak of the process during one call, less what it held before, as Linux counts it; inputs and
outputs take 17 MB, and their gradients as much again. The second table has the memory of a call
with gradients by its size, beside what its inputs, its output and all their gradients take, and
what queries × rows × hidden numbers would.
"""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from erasable.fusion import additive_attention, get_kernels

ROUNDS, WARM_UP = 5, 1
QUERIES, ROWS, HIDDEN = 64, 1024 * 16, 256
CHUNKS = (16, 32, 64, 128, 256)
SIZES = ((64, 4096), (64, 16384), (64, 65536), (256, 16384), (1024, 16384))
"""Patches of queries and of rows."""


def naive(queries: Tensor, rows: Tensor, weight: Tensor, chunk: int) -> Tensor:
    """Mix rows as the formula says, a chunk of rows at a time."""
    scores = [
        torch.relu(queries[:, None] + rows[None, start : start + chunk]) @ weight
        for start in range(0, len(rows), chunk)
    ]
    return torch.cat(scores, dim=1).softmax(dim=1) @ rows


def seconds(
    mix: Callable[..., Tensor], *, has_gradient: bool, size: tuple[int, int] = (QUERIES, ROWS)
) -> float:
    """Time one mixture."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((size[0], HIDDEN), (size[1], HIDDEN), (HIDDEN,))
    parts = [torch.randn(shape, generator=generator) for shape in shapes]
    for part in parts:
        part.requires_grad_(has_gradient)
    start = time.perf_counter()
    with torch.set_grad_enabled(has_gradient):
        mixed = mix(*parts)
        if has_gradient:
            mixed.square().sum().backward()
    return time.perf_counter() - start


def peak(
    mix: Callable[..., Tensor], *, has_gradient: bool, size: tuple[int, int] = (QUERIES, ROWS)
) -> float:
    """Return how many MB one mixture holds at most; NaN where the system does not tell."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        return float("nan")
    ctypes.CDLL(None).malloc_trim(0)  # or freed memory, still held, would hide what is taken
    reset.write_text("5")  # the peak starts anew from what is held now
    before = _held(status, "VmRSS")
    seconds(mix, has_gradient=has_gradient, size=size)
    return (_held(status, "VmHWM") - before) / 1024


def _held(status: Path, field: str) -> int:
    """Return a field of the process's status, in kB."""
    line = next(line for line in status.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])


def _keep_freed_memory() -> None:
    """Have freed memory used again: handed out page by page, it takes longer than any sum."""
    most = 2**25  # of a piece that is not asked of the system anew
    for option, value in ((-3, most), (-1, 2**31 - 1)):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
        ctypes.CDLL(None).mallopt(option, value)


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    _keep_freed_memory()
    cases: dict[str, Callable[..., Tensor]] = {
        f"naive, chunks of {c}": lambda q, k, w, c=c: naive(q, k, w, c) for c in CHUNKS
    }
    for name in ("eager", "compiled"):
        kernels = get_kernels(name)
        cases[f"fused, {name}"] = lambda q, k, w, kernels=kernels: additive_attention(
            q, k, w, kernels=kernels
        )
    lines = [
        "| case | forward ms | naive / this | MB | with gradients ms | naive / this | MB |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    found: dict[str, list[float]] = {name: [] for name in cases}
    for has_gradient in (False, True):
        times: dict[str, list[float]] = {name: [] for name in cases}
        for number in range(ROUNDS + WARM_UP):
            order = list(cases) if number % 2 else list(reversed(cases))
            for name in order:
                times[name].append(seconds(cases[name], has_gradient=has_gradient))
        for name in cases:
            found[name].append(float(np.median(times[name][WARM_UP:])))
    best = [min(v[i] for n, v in found.items() if n.startswith("naive")) for i in (0, 1)]
    for name, (forward, both) in found.items():
        lines.append(
            f"| {name} | {1000 * forward:.0f} | {best[0] / forward:.2f} | "
            f"{peak(cases[name], has_gradient=False):.0f} | {1000 * both:.0f} | "
            f"{best[1] / both:.2f} | {peak(cases[name], has_gradient=True):.0f} |"
        )
    return [*lines, "", *_memory_by_size(cases)]


def _memory_by_size(cases: dict[str, Callable[..., Tensor]]) -> list[str]:
    """Return the lines of the second table."""
    fused = ("fused, eager", "fused, compiled")
    lines = [
        "| patches of queries | of rows | tensors MB | all pairs MB | eager MB | compiled MB |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for queries, rows in SIZES:
        tensors = 2 * 4 * HIDDEN * (2 * queries + rows + 1) / 2**20
        pairs = 4 * HIDDEN * queries * rows / 2**20
        size, found = (queries, rows), []
        for name in fused:
            seconds(cases[name], has_gradient=True, size=size)  # compiling takes memory, too
            found.append(peak(cases[name], has_gradient=True, size=size))
        lines.append(
            f"| {queries:,} | {rows:,} | {tensors:.0f} | {pairs:,.0f} | {found[0]:.0f} | "
            f"{found[1]:.0f} |"
        )
    return lines


if __name__ == "__main__":
    print("\n".join(measure()))
