"""Small models and rows for the tests of models, store and command line."""

import copy
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from erasable import SPMClassifier
from erasable.memory import keyring
from erasable.models import parameters_of

TINY = {"encoder": "mlp", "encoder_options": {"hidden": [16], "dim": 8}, "random_state": 0}


def blobs(count=40, *, classes=("a", "b"), dim=4, seed=0):
    """Return rows (count, dim) around one centre per class, and their labels."""
    rng = np.random.default_rng(seed)
    places = np.arange(count) % len(classes)
    centres = 3 * np.random.default_rng(99).normal(size=(len(classes), dim))
    X = (centres[places] + rng.normal(size=(count, dim))).astype(np.float32)
    return X, [classes[place] for place in places]


def names(count, start=0):
    """Return ids that are easy to find in a file."""
    return [f"row-number-{index}" for index in range(start, start + count)]


def spm(**options):
    """Return a new model; options of its training are given by name, beside the others."""
    return SPMClassifier(**parameters_of(options))


def fitted(count=40, **options):
    """Return a tiny model trained on rows named by `names`."""
    X, y = blobs(count)
    model = spm(**{**TINY, "epochs": 3, **options})
    return model.fit(X, y, ids=names(count))


def remembering(count=40, **options):
    """Return a model that was never trained, with rows named by `names`."""
    X, y = blobs(count)
    return spm(**{"encoder": "identity", **options}).remember(X, y, ids=names(count))


def own_network(dim=4, seed=0):
    """Return a network such as a user would bring."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(dim, 8), nn.ReLU(), nn.Linear(8, 6))


def state(model):
    """Return everything that defines a model: rows, weights and settings."""
    rows = b"".join(model.memory.canonical_state())
    return rows, model.weights_digest, model.memory.digest, repr(sorted(model.get_params().items()))


def snapshot(model):
    """Return every attribute of a model in a form that can be compared."""
    return {name: (id(value), repr(value)) for name, value in copy.copy(vars(model)).items()} | (
        {"state": state(model)} if hasattr(model, "memory_") else {}
    )


def forget_keys():
    """Make the process look like a new one, which has only the keys on disk."""
    keyring._known = {}
    keyring._active = None


def whole_labels(scene):
    """Put a whole number in the place of each label with a fraction.

    A column of floats with a fraction is a regression target to scikit-learn: refused.
    """

    def change(rows):
        return tuple(replace(row, label=2.0) if row.label == 0.5 else row for row in rows)

    return replace(scene, rows=change(scene.rows), shuffled=change(scene.shuffled))
