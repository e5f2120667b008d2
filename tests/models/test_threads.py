"""Predictions of several threads beside one that forgets and remembers."""

import functools

import numpy as np
import pytest
import torch

from erasable import KNNClassifier, SPMClassifier
from erasable.memory import QuantizedSearch
from erasable.models import _reading
from erasable.training import Training
from models.crowds import ask_beside, questions
from models.generation_toys import generator, quarters
from models.toys import blobs

READOUTS = {
    "prototypes": lambda: SPMClassifier("identity", "prototypes"),
    "gaussian": lambda: SPMClassifier("identity", "gaussian"),
    "rows": lambda: SPMClassifier("identity", "rows"),
    "neighbours": lambda: SPMClassifier("identity", "neighbours", k=8),
    "codes": lambda: SPMClassifier("identity", "neighbours", k=8, search="pq"),
    "knn": lambda: KNNClassifier("identity", k=5),
    "knn codes": lambda: KNNClassifier("identity", k=5, search="pq"),
    "graph": lambda: SPMClassifier(
        "identity", set_encoder="graph", training=Training(support_size=8)
    ),
    "precise": lambda: SPMClassifier(
        "random_features", encoder_options={"dim": 16}, random_state=0
    ),
}


@pytest.fixture(autouse=True)
def codes_of_few_rows(monkeypatch):
    """Let the quantised search keep an index of as few rows as it can."""
    few = functools.partial(QuantizedSearch, min_rows=1024)
    monkeypatch.setattr(_reading, "QuantizedSearch", few)


def crowd(name, *, rows, steps, readers=4):
    """Ask a readout of some rows from threads beside that many changes."""
    X, y = blobs(rows + steps, classes=("a", "b", "c"), dim=8)
    model = READOUTS[name]().remember(X[:rows], y[:rows], ids=list(range(rows)))
    return ask_beside(model, changes(X, y, rows, steps), questions(X[:3]), readers=readers)


def changes(X, y, rows, steps):
    """Return as many changes: mostly forgets of one row; new rows and classes come and go."""

    def forget(row):
        return lambda model: model.forget(ids=[row])

    def remember(row):
        label = "a new class" if row % 2 else y[row]
        return lambda model: model.remember(X[row : row + 1], [label], ids=[row])

    made = [remember(rows + i) if i % 10 == 4 else forget(i) for i in range(steps)]
    made[7:8] = [lambda model: model.forget(classes=["a new class"], missing_ok=True)]
    return made


@pytest.mark.parametrize("name", READOUTS)
def test_every_answer_beside_changes_is_of_one_state_that_had_not_ended(name):
    rows, steps = (1100, 20) if "codes" in name else (150, 50)

    found = crowd(name, rows=rows, steps=steps)

    assert (dict(found.errors), found.stale, found.torn) == ({}, 0, 0)
    assert found.answers > 0


@pytest.mark.parametrize("branch", ["fixed", "follow"])
def test_what_a_generator_draws_beside_changes_is_of_one_state(branch):
    model = generator(ids=list(range(64)), branch=branch, labels="permuted")
    images = quarters(2)[0]

    def drawn(model):
        source = torch.Generator().manual_seed(0)
        asked = ["a", "b"]
        return [], model.sample(asked, num_inference_steps=2, generator=source, stand_in="c")

    def votes(model):
        found = model.votes(images, ["a", "b"], 3, stand_in="c")
        return [found.ids.tolist(), found.labels.tolist()], found.weights

    steps = [lambda model, row=row: model.forget(ids=[row]) for row in range(0, 40, 4)]
    steps.append(lambda model: model.forget(classes=["a"]))

    found = ask_beside(model, steps, {"sample": drawn, "votes": votes}, readers=2, within=1e-5)

    assert (dict(found.errors), found.stale, found.torn) == ({}, 0, 0)
    assert found.answers > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", READOUTS)
def test_every_answer_is_right_while_nearly_all_rows_are_forgotten(name):
    X, y = blobs(3000, classes=tuple("abcdefghij"), dim=16)
    model = READOUTS[name]().remember(X, y, ids=list(range(3000)))
    steps = [lambda model, row=row: model.forget(ids=[row]) for row in range(2950)]

    found = ask_beside(model, steps, questions(np.ascontiguousarray(X[-4:])))

    assert (dict(found.errors), found.stale, found.torn) == ({}, 0, 0)
    assert found.answers > 0
