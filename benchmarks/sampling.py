"""Time of denoising with rows to read, relative to the ordinary twin, at the paper's size.

UNet of channels (128, 256, 256, 256), two residual blocks per level, attention at 16 × 16, images
of 32 × 32 pixels; 8 images of one class, one step of denoising, with guidance (two passes of the
twin; the way down of the semi-parametric network is shared) and without. Alternating order in one
run; median of per-round ratios over 5 rounds after 1 to warm up. Weights are untrained: time does
not depend on them. Encoding of rows is done once per memory and told apart.

The second table has the largest differences from the slow way, rows encoded anew in each step and
every pair of patches laid out, with 50 rows and guidance 0.3: of the noise that is seen in two
images at one time step, and of the pixels, from 0 to 1 and most of them clipped to either end, of
two images that are drawn in 50 steps.
"""

import time
from collections.abc import Callable
from unittest import mock

import numpy as np
import torch

from erasable.diffusion import (
    ClassUNet,
    MemoryUNet,
    PatchMemory,
    Sampling,
    class_predictor,
    denoise,
    make_scheduler,
    memory_predictor,
)
from erasable.fusion import get_kernels

ROUNDS, WARM_UP, IMAGES = 5, 1, 8
NETWORK = {
    "image_shape": (3, 32, 32),
    "channels": (128, 256, 256, 256),
    "layers": 2,
    "attention": (1,),
}


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    torch.manual_seed(0)
    twin = ClassUNet(classes=10, **NETWORK).eval().to(memory_format=torch.channels_last)
    spm = MemoryUNet(**NETWORK).eval().to(memory_format=torch.channels_last)
    images = torch.randn(IMAGES, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    timestep, reads, part = torch.tensor(500), torch.zeros(IMAGES, dtype=torch.long), slice(None)
    lines = ["| rows per class | kernels | guidance | twin s | SPM s | ratio | encoding once s |"]
    lines.append("|---|---|---|---:|---:|---:|---:|")
    with torch.no_grad():
        for rows in (50, 1024):
            start = time.perf_counter()
            batches = torch.randn(rows, 3, 32, 32).split(64)
            patches = torch.cat([spm.encode(b, torch.zeros(len(b))) for b in batches])
            keys = spm.fusion.project(patches)
            encoding = time.perf_counter() - start
            for name in ("compiled", "eager"):
                kernels = get_kernels(name)
                memory = PatchMemory(keys, torch.zeros(rows, dtype=torch.long), kernels=kernels)
                for guidance in (0.0, 0.3):
                    first = class_predictor(twin, reads, guidance)
                    second = memory_predictor(spm, reads, lambda _, m=memory: m, guidance)
                    times = []
                    for number in range(ROUNDS + WARM_UP):
                        order = (first, second) if number % 2 else (second, first)
                        seconds = {}
                        for predict in order:
                            start = time.perf_counter()
                            predict(images, timestep, part)
                            seconds[predict] = time.perf_counter() - start
                        times.append([seconds[first], seconds[second]])
                    table = np.array(times[WARM_UP:])
                    ratio = np.median(table[:, 1] / table[:, 0])
                    medians = np.median(table, axis=0)
                    lines.append(
                        f"| {rows} | {name} | {guidance} | {medians[0]:.3f} | {medians[1]:.3f} | "
                        f"{ratio:.3f} | {encoding:.1f} |"
                    )
    return [*lines, "", *_differences(spm, torch.randn(50, 3, 32, 32))]


def _differences(network: MemoryUNet, rows: torch.Tensor) -> list[str]:
    """Return the lines of the second table."""
    noise = torch.randn(2, 3, 32, 32)
    reads, classes = torch.zeros(2, dtype=torch.long), torch.zeros(len(rows), dtype=torch.long)

    @torch.no_grad()
    def encoded(kernels: str = "eager") -> PatchMemory:
        keys = network.fusion.project(network.encode(rows, torch.zeros(len(rows))))
        return PatchMemory(keys, classes, kernels=get_kernels(kernels))

    def drawn(memory: Callable[[torch.Tensor], PatchMemory]) -> torch.Tensor:
        predict = memory_predictor(network, reads, memory, 0.3)
        return denoise(predict, make_scheduler(), noise, Sampling(steps=50))

    @torch.no_grad()
    def seen(memory: Callable[[torch.Tensor], PatchMemory]) -> torch.Tensor:
        predict = memory_predictor(network, reads, memory, 0.3)
        return predict(noise, torch.tensor(500), slice(None))

    def apart(found: torch.Tensor, slow: torch.Tensor) -> float:
        return float((found - slow).abs().max())

    with mock.patch("erasable.fusion._additive.additive_attention", _unfused):
        slow = [way(lambda _: encoded()) for way in (seen, drawn)]
    lines = ["| kernels | noise | its spread | pixels |", "|---|---:|---:|---:|"]
    for name in ("compiled", "eager"):
        once = encoded(name)
        found = [
            apart(way(lambda _, once=once: once), its)
            for way, its in zip((seen, drawn), slow, strict=True)
        ]
        lines.append(f"| {name} | {found[0]:.1e} | {float(slow[0].std()):.2f} | {found[1]:.1e} |")
    return lines


def _unfused(
    queries: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor, **_: object
) -> torch.Tensor:
    """Mix rows by the formula, with every pair in memory at once."""
    return (torch.relu(queries[:, None] + rows) @ weight).softmax(dim=1) @ rows


if __name__ == "__main__":
    print("\n".join(measure()))
