"""Time of a training step of the generator, relative to the ordinary twin's.

16 × 16 grey images, channels (32, 64, 64), one residual block per level, batch of 128; forward and
backward. In-batch memory: half of the batch is encoded once more as rows. Alternating order in one
run; median of per-round ratios over 10 rounds after 2 to warm up.
"""

import time

import numpy as np
import torch

from erasable.diffusion import ClassLoss, ClassUNet, MemoryLoss, MemoryUNet, make_scheduler
from erasable.training import Draw, Inputs

ROUNDS, WARM_UP, BATCH = 10, 2, 128
SHAPE = {"image_shape": (1, 16, 16), "channels": (32, 64, 64), "layers": 1}


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    inputs = Inputs(rng.integers(0, 255, (1000, 16, 16)).astype(np.uint8))
    classes, rows = torch.arange(1000) % 10, np.arange(BATCH)
    scheduler = make_scheduler()
    cases = {
        "twin": (ClassUNet(classes=10, **SHAPE), ClassLoss(scheduler)),
        "half of the batch as memory": (
            MemoryUNet(**SHAPE),
            MemoryLoss(scheduler, 0, inputs, classes),
        ),
        "the same, no gradient through rows": (
            MemoryUNet(**SHAPE),
            MemoryLoss(scheduler, 0, inputs, classes, has_gradient=False),
        ),
        "separate support of 256 (the paper's)": (
            MemoryUNet(**SHAPE),
            MemoryLoss(scheduler, 256, inputs, classes),
        ),
    }
    for network, _ in cases.values():
        network.train().to(memory_format=torch.channels_last)
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(ROUNDS + WARM_UP):
        for name in list(cases) if number % 2 else list(reversed(cases)):
            network, loss = cases[name]
            images = inputs[rows].contiguous(memory_format=torch.channels_last)
            draw = Draw(images, classes[rows], torch.Generator().manual_seed(0), rng, rows)
            start = time.perf_counter()
            loss(network, draw).backward()
            times[name].append(time.perf_counter() - start)
    lines = ["| case | ms | ratio |", "|---|---:|---:|"]
    base = np.array(times["twin"][WARM_UP:])
    for name, values in times.items():
        found = np.array(values[WARM_UP:])
        ratio = np.median(found / base)
        lines.append(f"| {name} | {1000 * np.median(found):.0f} | {ratio:.3f} |")
    return lines


if __name__ == "__main__":
    print("\n".join(measure()))
