"""Time of a training step with the batch as memory, relative to the parametric twin's.

Same encoder, same batch of 256, forward, backward and update; alternating order in one run; median
of per-round ratios over 20 rounds after 3 to warm up.
"""

import time

import numpy as np
import torch
from torch import nn

from erasable.encoders import build_encoder
from erasable.fusion import DotProductFusion, VoteFusion, get_reduction
from erasable.models._networks import EmbeddingNorm, ParametricNetwork, SPMNetwork
from erasable.training import Batch, CrossEntropy, InBatchMemory, Objective

ROUNDS, WARM_UP, BATCH = 20, 3, 256
CASES = {
    "small_cnn, 32×32×3, prototypes": ("small_cnn", (3, 32, 32), "prototypes"),
    "small_cnn, 32×32×3, rows": ("small_cnn", (3, 32, 32), "rows"),
    "mlp, 512 features, prototypes": ("mlp", (512,), "prototypes"),
}


class Stepper:
    """One network with its optimiser."""

    def __init__(self, network: nn.Module, objective: Objective) -> None:
        self._network = network.train().to(memory_format=torch.channels_last)
        self._objective = objective
        self._optimizer = torch.optim.SGD(network.parameters(), 0.01, 0.9, nesterov=True)

    def seconds(self, inputs: torch.Tensor, classes: torch.Tensor) -> float:
        """Take one step and return its time."""
        start = time.perf_counter()
        loss = self._objective(self._network, Batch(inputs, classes)).loss
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        return time.perf_counter() - start


def ratio(encoder: str, shape: tuple[int, ...], reduction: str) -> tuple[float, float, float]:
    """Return median ratio, and median seconds of twin and semi-parametric model."""
    torch.manual_seed(0)
    inputs, classes = torch.rand(BATCH, *shape), torch.arange(BATCH) % 10
    if len(shape) == 3:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    first, second = (build_encoder(encoder, shape, seed=0) for _ in range(2))
    vote = VoteFusion(DotProductFusion(first.dim), get_reduction(reduction))
    spm = Stepper(SPMNetwork(first, EmbeddingNorm(), vote), InBatchMemory())
    twin = Stepper(ParametricNetwork(second, EmbeddingNorm(), 10), CrossEntropy())
    times = []
    for number in range(ROUNDS + WARM_UP):
        steppers = (twin, spm) if number % 2 else (spm, twin)
        seconds = {stepper: stepper.seconds(inputs, classes) for stepper in steppers}
        times.append([seconds[twin], seconds[spm]])
    table = np.array(times[WARM_UP:])
    ratios = table[:, 1] / table[:, 0]
    return float(np.median(ratios)), *np.median(table, axis=0).tolist()


def measure() -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| case | twin ms | in-batch memory ms | ratio |", "|---|---:|---:|---:|"]
    for name, case in CASES.items():
        found, twin, spm = ratio(*case)
        lines.append(f"| {name} | {1000 * twin:.1f} | {1000 * spm:.1f} | {found:.3f} |")
    return lines


if __name__ == "__main__":
    print("\n".join(measure()))
