"""Attempts to be answered from a forgotten row, or from half of a change, by using threads."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np

from adversary.attempts import attempt, outcome
from erasable import KNNClassifier, SPMClassifier
from erasable.encoders import RandomFeatures
from erasable.fusion import RowsReduction
from erasable.memory import Memory, encode_key
from erasable.models._memory_model import MemoryModel
from erasable.store import EmbeddingCache
from erasable.training import Training

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 8)).astype(np.float32)
Y = [f"class {row % 3}" for row in range(400)]
LATE = 0.2
"""Seconds that a call may keep another thread waiting, here."""


def beside(call: Callable[[], object]) -> threading.Thread:
    """Make a call in another thread; return when it is over, or waits for this one."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(LATE)
    return thread


def once(call: Callable[[], object]) -> Callable[[], threading.Thread | None]:
    """Return a function that makes a call `beside` the first time, and then nothing."""
    calls = [call]
    return lambda: beside(calls.pop()) if calls else None


def join(threads: list[threading.Thread | None]) -> None:
    """Wait for threads to end."""
    for thread in filter(None, threads):
        thread.join()


def votes_beside_a_forget(model: Any) -> str:
    """Ask for votes; forget all rows but one between the moment they are weighed and named."""
    model.remember(X, Y, ids=list(range(400)))
    right = model.votes(X[:4], 5).ids.tolist()
    kind = type(model._reduction())
    votes, forgets = kind.votes, once(lambda: model.forget(ids=list(range(1, 400))))

    def late(*args: Any, **options: Any) -> Any:
        found = votes(*args, **options)
        forgets()
        return found

    with mock.patch.object(kind, "votes", late):
        try:
            found = model.votes(X[:4], 5).ids.tolist()
        except IndexError:
            return "IndexError"
    return "the rows that voted" if found == right else "other rows"


@attempt(
    "Ask prototypes for votes while another thread forgets nearly every row",
    before="IndexError",
    now="the rows that voted",
)
def forget_under_the_votes_of_prototypes(folder: Path) -> str:
    return votes_beside_a_forget(SPMClassifier("identity", "prototypes"))


@attempt(
    "Ask the gaussian readout for votes while another thread forgets nearly every row",
    before="IndexError",
    now="the rows that voted",
)
def forget_under_the_votes_of_gaussian(folder: Path) -> str:
    return votes_beside_a_forget(SPMClassifier("identity", "gaussian"))


@attempt(
    "Ask all rows for votes while another thread forgets nearly every row",
    before="IndexError",
    now="the rows that voted",
)
def forget_under_the_votes_of_rows(folder: Path) -> str:
    return votes_beside_a_forget(SPMClassifier("identity", "rows"))


@attempt(
    "Ask neighbours for votes while another thread forgets nearly every row",
    before="IndexError",
    now="the rows that voted",
)
def forget_under_the_votes_of_neighbours(folder: Path) -> str:
    return votes_beside_a_forget(SPMClassifier("identity", "neighbours", k=8))


@attempt(
    "Ask a nearest-neighbour classifier for votes while another thread forgets nearly every row",
    before="IndexError",
    now="the rows that voted",
)
def forget_under_the_votes_of_knn(folder: Path) -> str:
    return votes_beside_a_forget(KNNClassifier("identity", k=5))


@attempt(
    "Ask rows after a set encoder for votes while another thread forgets nearly every row",
    before="IndexError",
    now="the rows that voted",
)
def forget_under_the_votes_of_graph(folder: Path) -> str:
    return votes_beside_a_forget(
        SPMClassifier("identity", set_encoder="graph", training=Training(support_size=8))
    )


@attempt(
    "Ask for votes, and forget a row between the moment it is weighed and that it is named",
    before="the weight of 'a', beside the id 'c'",
    now="the weight of 'a', beside the id 'a'",
)
def swap_the_row_behind_a_vote(folder: Path) -> str:
    points = np.array([[4.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    model = SPMClassifier("identity", "rows").remember(points, [0, 1, 1], ids=["a", "b", "c"])
    votes = RowsReduction.votes
    forgets = once(lambda: model.forget(ids=["a"]))

    def late(*args: Any, **options: Any) -> Any:
        found = votes(*args, **options)
        forgets()
        return found

    with mock.patch.object(RowsReduction, "votes", late):
        return f"the weight of 'a', beside the id {model.votes(points[:1], 1).ids[0, 0]!r}"


@attempt(
    "Predict, and forget the first class between the choice of a column and that of its label",
    before="c",
    now="b",
)
def swap_the_label_of_a_column(folder: Path) -> str:
    points = np.array([[4.0, 0.0], [0.0, 4.0], [-4.0, -4.0]])
    model = SPMClassifier("identity").remember(points, ["a", "b", "c"], ids=["a", "b", "c"])
    labels = MemoryModel.classes_.fget
    forgets = once(lambda: model.forget(classes=["a"]))

    def late(self: Any) -> Any:
        forgets()
        return labels(self)

    with mock.patch.object(MemoryModel, "classes_", property(late)):
        return str(model.predict(points[1:2])[0])


@attempt(
    "Forget a group while another thread remembers a row of it after the rows were looked up",
    before="1 row of the forgotten group",
    now="0 row of the forgotten group",
)
def slip_a_row_into_a_group_that_is_being_forgotten(folder: Path) -> str:
    model = SPMClassifier("identity").remember(
        X[:9], Y[:9], ids=range(9), groups=["g", "h", "i"] * 3
    )
    select = Memory.select
    arrivals = once(
        lambda: outcome(lambda: model.remember(X[9:10], Y[9:10], ids=[9], groups=["g"]))
    )
    waiting: list[threading.Thread | None] = []

    def late(*args: Any, **options: Any) -> Any:
        found = select(*args, **options)
        waiting.append(arrivals())
        return found

    with mock.patch.object(Memory, "select", late):
        model.forget(groups=["g"])
    join(waiting)
    return f"{len(model.memory.table.ids_in_group('g'))} row of the forgotten group"


@attempt(
    "Let a remember fail while another thread saves, and save again",
    before="refused",
    now="saved",
)
def undo_the_save_of_another_thread(folder: Path) -> str:
    model = SPMClassifier("identity").remember(X[:9], Y[:9], ids=range(9))
    saves = once(lambda: model.save(folder / "model"))
    hook = model.encoder_.register_forward_pre_hook(lambda *_: saves() and 1 / 0)
    try:
        model.remember(X[9:12], Y[9:12], ids=range(9, 12))
    except ZeroDivisionError:
        hook.remove()
    return outcome(lambda: model.save(folder / "model") or "saved")


@attempt(
    "Embed rows with a cache, and forget one while it is computed",
    before="3 of 3 embeddings kept",
    now="2 of 3 embeddings kept",
)
def leave_an_embedding_behind(folder: Path) -> str:
    model = SPMClassifier("identity", embedding_cache=folder).remember(X[:3], Y[:3], ids=range(3))
    cache, keys = EmbeddingCache(folder), [encode_key(row).encode() for row in range(3)]
    cache.remove(keys)
    forgets = once(lambda: model.forget(ids=[0]))
    model.encoder_.register_forward_pre_hook(lambda *_: forgets() and None)
    model.embed(X[:3], ids=range(3))
    return f"{cache.held(keys)} of 3 embeddings kept"


@attempt(
    "Ask for the level of a row while another thread encodes in double precision",
    before="memory, later exact",
    now="exact, later exact",
)
def ask_for_the_level_while_weights_are_in_use(folder: Path) -> str:
    model = SPMClassifier("random_features", random_state=0).remember(X[:9], Y[:9], ids=range(9))
    levels: list[str] = []

    def ask(*_: Any) -> None:
        levels.append(model.forget(ids=[0], dry_run=True).level)

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code is RandomFeatures.forward.__code__:
            sys.setprofile(None)
            ask()

    sys.setprofile(look)  # not a hook of the encoder: with one, no row is exact
    model.predict(X[:1])
    ask()
    return ", later ".join(levels)


@attempt(
    "Interrupt the storing of rows, and ask what is stored",
    before="10 rows, of which the digest knows 9",
    now="9 rows, of which the digest knows 9",
)
def interrupt_the_storing_of_a_row(folder: Path) -> str:
    memory, other = Memory(8), Memory(8)
    for one in (memory, other):
        one.add(X[:9], Y[:9], ids=range(9))
    with mock.patch.object(memory._hash, "add", side_effect=KeyboardInterrupt):
        try:
            memory.add(X[9:10], Y[9:10], ids=[9])
        except KeyboardInterrupt:
            known = 9 if memory.digest == other.digest else 10
    return f"{len(memory)} rows, of which the digest knows {known}"


@attempt(
    "Start with two threads that remember at the same time",
    before="3 of 6 rows",
    now="6 of 6 rows",
)
def lose_the_rows_of_a_thread_that_came_first(folder: Path) -> str:
    model, begin = SPMClassifier("identity"), SPMClassifier._begin
    seconds = once(lambda: model.remember(X[3:6], Y[3:6], ids=range(3, 6)))
    waiting: list[threading.Thread | None] = []

    def late(*args: Any) -> None:
        waiting.append(seconds())
        begin(*args)

    with mock.patch.object(SPMClassifier, "_begin", late):
        model.remember(X[:3], Y[:3], ids=range(3))
        join(waiting)
    return f"{len(model.memory)} of 6 rows"


@attempt(
    "Forget from within a reading of the same rows",
    before="forgotten in the middle of it",
    now="refused",
)
def forget_while_reading(folder: Path) -> str:
    model = SPMClassifier("identity", "rows").remember(X[:9], Y[:9], ids=range(9))
    read, said = RowsReduction.log_probabilities, []

    def late(*args: Any, **options: Any) -> Any:
        if not said:
            said.append(outcome(lambda: model.forget(ids=[8]) and "forgotten in the middle of it"))
        return read(*args, **options)

    with mock.patch.object(RowsReduction, "log_probabilities", late):
        model.predict(X[:1])
    return said[0]
