"""Forgetting while something derived from the rows is being built, or is interrupted."""

import contextlib
import copy
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from erasable import SPMClassifier
from erasable.errors import RowIdError
from erasable.fusion import RowsReduction
from erasable.memory import GaussianView, Memory, encode_key
from erasable.memory import _gaussian as gaussian
from erasable.models import _base, _holding, _memory_model, holding
from erasable.store import EmbeddingCache, Receipt
from models.toys import blobs, names


def memory_of(count=40):
    X, y = blobs(count)
    memory = Memory(X.shape[1])
    memory.add(X, list(y), ids=names(count), groups=[f"g{i % 4}" for i in range(count)])
    return memory


def everything(memory):
    """Return what a memory holds, in whatever order, and what it refuses."""
    table = memory.table
    groups = {group: sorted(table.ids_in_group(group)) for group in table._in_group}
    marks = list(memory.tombstones.marks)
    return b"".join(memory.canonical_state()), memory.digest, groups, marks, memory.classes


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


@pytest.mark.parametrize(
    ("owner", "name", "at", "reinstate"),
    [
        ("table", "_reserve", 1, False),
        ("table", "append", 1, False),
        ("sums", "add", 1, False),
        ("_hash", "add", 1, False),
        ("_hash", "add", 3, False),
        ("_hash", "add", 3, True),
        ("_tombstones", "lift", 1, True),
        ("_tombstones", "lift", 3, True),
    ],
)
def test_an_interrupted_addition_adds_nothing(monkeypatch, owner, name, at, reinstate):
    memory, (X, _) = memory_of(), blobs(45)
    memory.forget(ids=names(5))
    before, target = everything(memory), getattr(memory, owner)
    monkeypatch.setattr(target, name, Interrupted(getattr(target, name), at))
    with pytest.raises(KeyboardInterrupt):
        memory.add(
            X[:5] if reinstate else X[40:],
            ["new"] * 5,
            ids=names(5) if reinstate else names(5, 40),
            groups=["g0", "other", None, "g1", "other"],
            reinstate=reinstate,
        )
    monkeypatch.undo()
    assert everything(memory) == before


def test_a_table_that_was_cut_holds_what_it_held_before():
    memory = memory_of()
    before = everything(memory)
    infos = memory.table.infos[:3]
    added = [replace(info, id=f"{info.id} again", groups=("g0", "new")) for info in infos]
    memory.table.append(memory.table.embeddings[:3].copy(), added)
    memory.table.cut(40)
    assert everything(memory) == before
    assert not memory.table._embeddings[40:].any()


def test_a_table_that_was_cut_finds_no_other_form_of_what_is_gone():
    memory, name = Memory(2), "Zoe\u0308"  # as earlier versions stored names that came so
    info = replace(memory_of(1).table.infos[0], id=name, groups=())
    memory.table.append(np.zeros((1, 2), np.float32), [info])
    assert memory.table.ids_named(name) == [name]
    memory.table.cut(0)
    assert memory.table.ids_named(name) == []


def test_what_a_failing_call_puts_back_is_never_missing_meanwhile():
    model, seen = SPMClassifier("identity").remember(*blobs(8)), set()

    def look(frame, *_):
        if frame.f_code.co_filename == _base.__file__:
            seen.add(len(model.classes_))
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        with contextlib.suppress(ZeroDivisionError), model._unchanged_on_error():
            model.new_ = 1 / 0
    finally:
        sys.settrace(before)
    assert seen == {2}


class Decoding:
    """Images that call something in another thread when they are decoded, and may then fail."""

    def __init__(self, images, call, *, fails=False):
        self._images, self._call, self._fails = images, call, fails
        self.dtype, self.shape, self.ndim = images.dtype, images.shape, images.ndim

    def __len__(self):
        return len(self._images)

    def __getitem__(self, places):
        self._call()
        if self._fails:
            raise OSError("no such file")
        return self._images[places]


def in_a_thread(call):
    """Call something in another thread and wait for it."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


def pictures(count=8):
    images = np.random.default_rng(0).integers(0, 255, (count, 4, 4)).astype(np.uint8)
    return images, ["a", "b"] * (count // 2)


def test_a_failed_remember_leaves_what_another_thread_noted_meanwhile(tmp_path):
    images, labels = pictures()
    model = SPMClassifier("identity").remember(images, labels, ids=names(8))
    noting = Decoding(images, lambda: in_a_thread(lambda: model.save(tmp_path / "m")), fails=True)
    with pytest.raises(OSError, match="no such file"):
        model.remember(noting, labels, ids=names(8, 8))
    model.save(tmp_path / "m")
    assert list(model.places_) == [(tmp_path / "m").resolve()]


def test_two_threads_that_remember_first_both_have_their_rows(monkeypatch):
    model, both = SPMClassifier("identity"), threading.Barrier(2)
    fitted = type(model).__sklearn_is_fitted__

    def looked(self):
        found = fitted(self)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return found

    monkeypatch.setattr(type(model), "__sklearn_is_fitted__", looked)
    X, y = blobs(8)

    def remember(part):
        model.remember(X[part], y[part], ids=names(8)[part])

    threads = [threading.Thread(target=remember, args=(slice(i, i + 4),)) for i in (0, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    assert len(model.memory) == 8


def test_weights_are_not_touched_while_inputs_are_encoded_in_float64():
    model = SPMClassifier("random_features", random_state=0).remember(*blobs(8))
    digest, seen = model.weights_digest, []
    model.encoder_.register_forward_pre_hook(lambda *_: seen.append(model.weights_digest))
    model.predict(blobs(2)[0])
    assert seen == [digest]


def test_a_row_of_a_group_that_is_forgotten_while_it_is_encoded_is_refused():
    images, labels = pictures()
    groups = ["mine", *["others"] * 7]
    model = SPMClassifier("identity").remember(images, labels, ids=names(8), groups=groups)
    calls = iter([lambda: model.forget(groups=["mine"])])
    late = Decoding(255 - images, lambda: [in_a_thread(call) for call in calls])
    with pytest.raises(RowIdError, match="forgotten group"):
        model.remember(late, labels, ids=names(8, 8), groups=groups)
    assert len(model.memory) == 7


def test_nothing_of_a_row_stays_in_a_cache_if_it_is_forgotten_while_it_is_embedded(tmp_path):
    images, labels = pictures()
    model = SPMClassifier("identity", embedding_cache=tmp_path / "cache")
    model.remember(images, labels, ids=names(8))
    cache = EmbeddingCache(tmp_path / "cache")
    cache.remove([encode_key(name).encode() for name in names(8)])
    calls = iter([lambda: model.forget(ids=names(1))])
    model.encoder_.register_forward_pre_hook(lambda *_: [in_a_thread(c) for c in calls] and None)
    model.embed(images, ids=names(8))
    assert cache.held([encode_key(name).encode() for name in names(8)]) == 7


def test_a_save_that_another_thread_begins_in_a_forget_returns_its_receipt(monkeypatch, tmp_path):
    model = SPMClassifier("identity").remember(*blobs(6), ids=names(6))
    saves, returned = [], []

    def made(**fields):
        save = threading.Thread(target=lambda: returned.extend(model.save(tmp_path / "model")))
        saves.append(save)
        save.start()
        save.join(0.5)  # the row is forgotten, so the save must wait until the receipt is kept
        return Receipt(**fields)

    monkeypatch.setattr(_memory_model, "Receipt", made)
    receipt = model.forget(ids=names(1))
    saves[0].join()
    assert returned == [replace(receipt, saved=True)]


def test_what_is_held_of_rows_is_told_of_one_state_of_them(monkeypatch):
    model = SPMClassifier("identity").remember(*blobs(6), ids=names(6))
    reach_of, forgets = _holding.reach_of, []

    def slow_reach(*args, **options):
        if not forgets:
            forgets.append(threading.Thread(target=model.forget, kwargs={"ids": names(2)}))
            forgets[0].start()
            forgets[0].join(0.2)  # it waits until all is told
        return reach_of(*args, **options)

    monkeypatch.setattr(_holding, "reach_of", slow_reach)
    found = holding(model, ids=names(2))
    forgets[0].join()
    assert [row.id for row in found.rows] == names(2)


def test_an_answer_keeps_its_state_while_another_thread_forgets(monkeypatch):
    X, y = blobs(6, classes=("a", "b", "c"))
    model = SPMClassifier("identity", "rows").remember(X, y, ids=names(6))
    right = model.votes(X, 2)
    votes, forgets = RowsReduction.votes, []

    def slow_votes(self, *args, **options):
        found = votes(self, *args, **options)
        forgets.append(threading.Thread(target=model.forget, kwargs={"ids": names(3)}))
        forgets[0].start()
        forgets[0].join(0.2)  # it waits for this answer
        return found

    monkeypatch.setattr(RowsReduction, "votes", slow_votes)
    found = model.votes(X, 2)
    forgets[0].join()
    assert found.ids.tolist() == right.ids.tolist()
    assert len(model.memory) == 3
