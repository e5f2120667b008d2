"""Forgetting while something derived from the rows is being built, or is interrupted."""

import copy
import threading

import numpy as np
import pytest

from erasable import SPMClassifier
from erasable.errors import RowIdError
from erasable.memory import GaussianView, Memory
from erasable.memory import _gaussian as gaussian
from models.toys import blobs, names


def memory_of(count=40):
    X, y = blobs(count)
    memory = Memory(X.shape[1])
    memory.add(X, list(y), ids=names(count), groups=[f"g{i % 4}" for i in range(count)])
    return memory


def moments_of(memory):
    units = memory.grid.units(memory.table.embeddings).astype(np.int64)
    return units.T @ units


def test_a_row_forgotten_while_a_view_is_built_is_not_in_it(monkeypatch):
    memory, is_building, may_go_on = memory_of(), threading.Event(), threading.Event()
    change = gaussian.SecondMoments._change

    def slow_change(self, embeddings, sign):
        rows = embeddings.copy()
        is_building.set()
        may_go_on.wait(timeout=0.3)
        change(self, rows, sign)

    monkeypatch.setattr(gaussian.SecondMoments, "_change", slow_change)
    reader = threading.Thread(target=lambda: GaussianView(memory).fit)
    reader.start()
    is_building.wait(timeout=10)
    memory.forget(ids=names(1))
    may_go_on.set()
    reader.join()
    assert GaussianView(memory).moments.total.tolist() == moments_of(memory).tolist()


class Interrupted:
    """Raises KeyboardInterrupt at one of a function's calls."""

    def __init__(self, function, at):
        self.function, self.at, self.calls = function, at, 0

    def __call__(self, *args):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return self.function(*args)


@pytest.mark.parametrize("at", [1, 4, 10])
def test_an_interrupted_removal_is_finished(monkeypatch, at):
    memory = memory_of()
    monkeypatch.setattr(memory.table, "remove", Interrupted(memory.table.remove, at))
    with pytest.raises(KeyboardInterrupt):
        memory.forget(ids=names(10))
    other = memory_of()
    other.forget(ids=names(10))
    assert b"".join(memory.canonical_state()) == b"".join(other.canonical_state())
    assert memory.digest == other.digest


def test_an_interrupted_removal_leaves_no_empty_class(monkeypatch):
    memory = Memory(1)
    memory.add([[1.0], [2.0], [3.0]], ["a", "a", "b"], ids=[0, 1, 2])
    monkeypatch.setattr(memory.table, "remove", Interrupted(memory.table.remove, 2))
    with pytest.raises(KeyboardInterrupt):
        memory.forget(classes=["a"])
    assert (memory.classes, memory.sums.counts.tolist()) == (["b"], [1])


def test_a_group_whose_forgetting_was_interrupted_is_refused(monkeypatch):
    memory = memory_of()
    GaussianView(memory).fit  # noqa: B018 - builds the follower
    monkeypatch.setattr(gaussian.SecondMoments, "remove", Interrupted(None, 1))
    with pytest.raises(KeyboardInterrupt):
        memory.forget(groups=["g0"])
    with pytest.raises(RowIdError, match="forgotten group"):
        memory.add([[0.0] * memory.dim], ["a"], ids=["new"], groups=["g0"])


def test_a_copied_model_can_be_changed_by_itself():
    X, y = blobs(40)
    model = SPMClassifier("identity", "gaussian").remember(X, y, ids=names(40))
    model.predict(X)
    twin = copy.deepcopy(model)
    twin.forget(ids=names(5))
    assert (len(model.memory), len(twin.memory)) == (40, 35)
