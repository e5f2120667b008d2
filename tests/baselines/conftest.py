"""A small network with batch normalisation, trained on digits, and a class to forget."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from erasable.data import Split, load_digits
from erasable.training import CrossEntropy, Inputs, TrainingConfig, as_images, train

LABEL = 3


@dataclass(frozen=True)
class Problem:
    """An original network, and the rows it was trained on."""

    network: nn.Module
    forget: Split
    retain: Split
    test: Split

    def error(self, network: nn.Module, rows: Split) -> float:
        """Share of rows that a network gets wrong."""
        with torch.no_grad():
            inputs = torch.from_numpy(as_images(np.asarray(rows.X, np.float32)))
            return float((network(inputs).argmax(1).numpy() != rows.y).mean())


def small_network(seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(128, 10),
        )


def fitted(rows, seed=0, epochs=8):
    network = small_network(seed)
    inputs = Inputs(as_images(np.asarray(rows.X, np.float32)))
    config = TrainingConfig(epochs=epochs, batch_size=64, seed=seed)
    classes = torch.tensor(rows.y)
    train(network, CrossEntropy(), inputs=inputs, classes=classes, config=config, device="cpu")
    return network.eval()


@pytest.fixture(scope="session")
def problem():
    train_rows, test = load_digits(seed=0)
    rows = train_rows.take(range(900))
    is_gone = rows.y == LABEL
    return Problem(fitted(rows), rows.where(is_gone), rows.where(~is_gone), test)
