"""Time of a training step in half precision, relative to that in full.

Forward and backward, as a classifier or a generator learns. Classifiers: `fast_cnn`, 32 × 32 colour
images, batch of 256, prototypes of the batch. Generators: 16 × 16 grey images, channels (32, 64,
64), one residual block per level, batch of 128. Alternating order in one run; median of per-round
ratios over 10 rounds after 2 to warm up. Faster only where the processor has instructions for it.
"""

import time
from collections.abc import Callable

import numpy as np
import torch

from erasable.diffusion import ClassLoss, ClassUNet, MemoryLoss, MemoryUNet, make_scheduler
from erasable.encoders import build_encoder
from erasable.fusion import DotProductFusion, VoteFusion, get_reduction
from erasable.models._networks import EmbeddingNorm, SPMNetwork
from erasable.training import Batch, Draw, InBatchMemory, Inputs, make_fabric

ROUNDS, WARM_UP = 10, 2
PRECISIONS = ("float32", "bfloat16")
GENERATOR = {"image_shape": (1, 16, 16), "channels": (32, 64, 64), "layers": 1}

Step = Callable[[], None]


def classifier(width: float, precision: str) -> Step:
    """Return a training step of a semi-parametric classifier."""
    torch.manual_seed(0)
    inputs = torch.rand(256, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    batch, objective = Batch(inputs, torch.arange(256) % 10), InBatchMemory()
    encoder = build_encoder("fast_cnn", (3, 32, 32), seed=0, options={"width": width})
    vote = VoteFusion(DotProductFusion(encoder.dim), get_reduction("prototypes"))
    network = SPMNetwork(encoder, EmbeddingNorm(), vote).train()
    network.to(memory_format=torch.channels_last)
    fabric = make_fabric("cpu", precision)
    module = fabric.setup_module(network)
    return lambda: fabric.backward(objective(module, batch).loss)


def generator(*, has_memory: bool, precision: str) -> Step:
    """Return a training step of a generator, or of its twin."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    inputs = Inputs(rng.integers(0, 255, (1000, 16, 16)).astype(np.uint8))
    classes, rows, scheduler = torch.arange(1000) % 10, np.arange(128), make_scheduler()
    network: torch.nn.Module
    loss: ClassLoss | MemoryLoss
    if has_memory:
        network = MemoryUNet(**GENERATOR, precision=precision)
        loss = MemoryLoss(scheduler, 0, inputs, classes)
    else:
        network = ClassUNet(classes=10, **GENERATOR, precision=precision)
        loss = ClassLoss(scheduler)
    network.train().to(memory_format=torch.channels_last)
    images = inputs[rows].contiguous(memory_format=torch.channels_last)

    def step() -> None:
        draw = Draw(images, classes[rows], torch.Generator().manual_seed(0), rng, rows)
        loss(network, draw).backward()

    return step


CASES: dict[str, Callable[[str], Step]] = {
    "classifier, width 0.5": lambda precision: classifier(0.5, precision),
    "classifier, width 0.25": lambda precision: classifier(0.25, precision),
    "generator": lambda precision: generator(has_memory=True, precision=precision),
    "its twin": lambda precision: generator(has_memory=False, precision=precision),
}


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| case | float32 ms | bfloat16 ms | ratio |", "|---|---:|---:|---:|"]
    for name, make in CASES.items():
        steps = {precision: make(precision) for precision in PRECISIONS}
        times: dict[str, list[float]] = {precision: [] for precision in PRECISIONS}
        for number in range(ROUNDS + WARM_UP):
            for precision in PRECISIONS if number % 2 else reversed(PRECISIONS):
                start = time.perf_counter()
                steps[precision]()
                times[precision].append(time.perf_counter() - start)
        full, half = (np.array(times[precision][WARM_UP:]) for precision in PRECISIONS)
        ratio, ms = np.median(half / full), [1000 * np.median(part) for part in (full, half)]
        lines.append(f"| {name} | {ms[0]:.0f} | {ms[1]:.0f} | {ratio:.3f} |")
    return lines


if __name__ == "__main__":
    print("\n".join(measure()))
