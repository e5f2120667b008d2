"""Training by steps: the rate rises, and a network ends as the running mean of its weights."""

import pytest
import torch
from torch import nn

from erasable.training import Inputs, StepConfig, mean_weight, train_steps
from training.toy import blobs


class Square:
    """A loss with slopes that keep their sign: Adam then moves by about its rate."""

    needs_partners = False

    def __call__(self, network, draw):
        return network.weight.sum() + 0 * draw.inputs.sum()

    def describe(self):
        return "square"


def trained(steps, **options):
    inputs, classes = blobs(16)
    network = nn.Linear(4, 1)
    with torch.no_grad():
        network.weight.fill_(1.0)
    config = StepConfig(steps=steps, batch_size=8, learning_rate=0.1, **options)
    train_steps(
        network, Square(), inputs=Inputs(inputs), classes=classes, config=config, device="cpu"
    )
    return float(network.weight.detach()[0, 0])


def test_the_rate_rises_in_the_warm_up():
    # With average=0 the mean is the last weights.
    def walk(steps, warmup):
        return sum(0.1 * min(1.0, (step + 1) / max(1, warmup)) for step in range(steps))

    for warmup in (0, 1, 4):
        assert trained(6, warmup=warmup, average=0.0) == pytest.approx(
            1 - walk(6, warmup), abs=1e-4
        )


def test_a_network_ends_as_the_running_mean_of_its_weights():
    mean, last = 1.0, 1.0
    for step in range(5):
        last -= 0.1
        mean += mean_weight(step, 0.9) * (last - mean)
    assert trained(5, warmup=0, average=0.9) == pytest.approx(mean, abs=1e-4)
    assert mean > last + 0.01


def test_early_steps_weigh_more_than_the_mean_allows_for_later():
    weights = [mean_weight(step, 0.99) for step in range(3000)]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == pytest.approx(10 / 11)
    assert weights[-1] == pytest.approx(0.01)
