"""Small runs: data, a network and settings, always built in the same bits."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from erasable.encoders import build_encoder
from erasable.fusion import DotProductFusion, VoteFusion, get_reduction
from erasable.models._networks import EmbeddingNorm, SPMNetwork
from erasable.training import (
    CrossEntropy,
    InBatchMemory,
    Objective,
    Training,
    TrainingConfig,
    train,
)


def blobs(count=36, classes=3, dim=4, *, spread=0.3, seed=0):
    """Draw points around one corner per class; return inputs and class indices."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.arange(count) % classes
    corners = 2 * torch.eye(classes, dim)
    return corners[places] + spread * torch.randn(count, dim, generator=generator), places


def plain_network(seed=0, classes=3):
    """Build a classifier with everything that has a state: batch statistics and dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(4, 16),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(16, classes),
        )


def memory_network(shape=(4,), encoder="mlp", seed=0, reduction="prototypes", **options):
    """Build encoder, normalisation and fusion."""
    built = build_encoder(encoder, shape, options={"dim": 8, **options}, seed=seed)
    vote = VoteFusion(DotProductFusion(built.dim), get_reduction(reduction))
    return SPMNetwork(built, EmbeddingNorm(), vote)


@dataclass(frozen=True)
class Run:
    """Everything `train` takes."""

    inputs: Tensor
    classes: Tensor
    objective: Objective
    config: TrainingConfig
    build: Any

    def go(self, folder=None, *, objective=None, network=None):
        """Train from the first weights; return the network and the history."""
        network = network or self.build()
        history = train(
            network,
            objective or self.objective,
            inputs=self.inputs,
            classes=self.classes,
            config=self.config,
            device="cpu",
            checkpoint=folder,
        )
        return network, history


def config_of(config=None, **settings):
    """Return a config with other settings; those of its training are among them, by name."""
    config = config or TrainingConfig()
    inner = {name: settings.pop(name) for name in Training().get_params() if name in settings}
    return replace(config, **settings).trained(**inner)


def changed(run, **settings):
    """Return a run with other settings, as `config_of` takes them."""
    return replace(run, config=config_of(run.config, **settings))


def vectors():
    """Return a run of 4 epochs of 3 steps: feature vectors, dropout, batch statistics."""
    config = TrainingConfig(epochs=4, batch_size=12, learning_rate=0.05, seed=5)
    return Run(*blobs(), CrossEntropy(label_smoothing=0.1), config, plain_network)


def images():
    """Return a run of 4 epochs of 3 steps: images, augmented, classes renumbered at each step."""
    inputs, places = blobs(36, 3, 2 * 4 * 4)
    config = config_of(
        epochs=4, batch_size=12, seed=5, label_permutation=True, augmentation="crop_flip"
    )
    return Run(
        inputs.reshape(36, 2, 4, 4),
        places,
        InBatchMemory(),
        config,
        lambda: memory_network((2, 4, 4), "small_cnn", reduction="rows", widths=[4]),
    )


def quick():
    """Return a run of 4 epochs of 3 steps that has everything that keeps a state of its own."""
    config = config_of(
        images().config,
        average="lookahead",
        clip=0.5,
        cutout=1,
        edge="reflect",
        flips="turns",
        precision="bfloat16",
        schedule="steps",
        milestones=(0.3, 0.7),
        head_rate=0.5,
        bias_rate=8.0,
    )
    options = {"stem": "whitened", "width": 0.1}
    return replace(
        images(), config=config, build=lambda: memory_network((2, 4, 4), "fast_cnn", **options)
    )


RUNS = {"vectors": vectors, "images": images, "quick": quick}


class Acting(Objective):
    """An objective that does something of its own at one of its calls, counted from 1."""

    def __init__(self, objective, at, action):
        self.needs_partners = objective.needs_partners
        self.support = objective.support
        self.calls = 0
        self._objective, self._at, self._action = objective, at, action

    def __call__(self, network, batch):
        self.calls += 1
        if self.calls == self._at:
            self._action()
        return self._objective(network, batch)

    def describe(self):
        return self._objective.describe()


class Watching(Acting):
    """An objective that keeps what it was shown."""

    def __init__(self, objective):
        super().__init__(objective, 0, None)
        self.seen = []

    def __call__(self, network, batch):
        self.seen.append(batch)
        return super().__call__(network, batch)
