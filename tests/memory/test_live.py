import contextlib
import copy

import numpy as np
import pytest

from erasable.memory import Follower, Grid, LiveRows, Memory, Record

EVENTS = ("add", "remove")


class Notes(Follower):
    """Write down what it is told, and what the rows were then."""

    def __init__(self, live):
        self.live, self.heard = live, []
        self.known = {row.id for row in live.table.infos}

    def add(self, infos, embeddings):
        self.known |= {row.id for row in infos}
        self.note("add", infos, embeddings)

    def remove(self, infos, embeddings):
        self.known -= {row.id for row in infos}
        self.note("remove", infos, embeddings)

    def note(self, change, infos, embeddings):
        self.heard.append((change, [row.id for row in infos], embeddings.tolist(), len(self.live)))


class Failing(Notes):
    """Raise on a change, halfway through."""

    error: BaseException = RuntimeError("broken")

    def note(self, change, infos, embeddings):
        raise self.error


def memory_of(*ids, dim=1):
    memory = Memory(dim)
    rows = np.arange(1, len(ids) + 1)[:, None] * np.ones((1, dim))
    memory.add(rows, ["x"] * len(ids), ids=list(ids))
    return memory


def change(memory, event):
    """Add row ``d`` or forget row ``b``."""
    if event == "add":
        memory.add([[4.0]], ["y"], ids=["d"])
    else:
        memory.forget(ids=["b"])


def follow(memory, build=Notes):
    return memory.live.follower("notes", build)


# -- what a follower is told -------------------------------------------------------------------


def test_a_follower_is_built_from_the_rows_at_hand():
    assert follow(memory_of("a", "b")).known == {"a", "b"}


def test_a_follower_is_built_once():
    memory = memory_of("a")
    assert follow(memory) is follow(memory)


def test_two_names_are_two_followers():
    memory = memory_of("a")
    assert follow(memory) is not memory.live.follower("other", Notes)


def test_a_follower_hears_of_an_addition_once_the_rows_are_there():
    memory = memory_of("a")
    notes = follow(memory)
    memory.add([[2.0], [3.0]], ["x", "y"], ids=["b", "c"])
    assert notes.heard == [("add", ["b", "c"], [[2.0], [3.0]], 3)]


def test_a_follower_hears_of_a_forget_once_the_rows_are_gone():
    memory = memory_of("a", "b", "c")
    notes = follow(memory)
    memory.forget(ids=["a", "b"])
    assert notes.heard == [("remove", ["a", "b"], [[1.0], [2.0]], 1)]


def test_a_follower_hears_changes_in_their_order():
    memory = memory_of("a", "b")
    notes = follow(memory)
    memory.forget(ids=["a"])
    memory.add([[5.0]], ["x"], ids=["e"])
    memory.forget(classes=["x"])
    assert [(event, ids) for event, ids, *_ in notes.heard] == [
        ("remove", ["a"]),
        ("add", ["e"]),
        ("remove", ["b", "e"]),
    ]


def test_every_follower_is_told():
    memory = memory_of("a", "b")
    both = [follow(memory), memory.live.follower("other", Notes)]
    memory.forget(ids=["a"])
    assert [len(notes.heard) for notes in both] == [1, 1]


def test_a_follower_outlives_the_last_row():
    memory = memory_of("a")
    notes = follow(memory)
    memory.forget(ids=["a"])
    memory.add([[1.5]], ["x"], ids=["b"])
    assert follow(memory) is notes
    assert notes.known == {"b"}


def test_a_refused_change_is_not_told():
    memory = memory_of("a")
    notes = follow(memory)
    with pytest.raises(LookupError):
        memory.forget(ids=["a", "nobody"])
    assert notes.heard == []


def test_rows_outside_a_memory_have_followers_too():
    live = LiveRows(1, Grid())
    notes = live.follower("notes", Notes)
    infos = live.append(np.ones((1, 1), np.float32), [Record("a", "x", (), None, 0)])
    live.remove(infos, live.grid.units(np.ones((1, 1), np.float32)))
    assert [event for event, *_ in notes.heard] == list(EVENTS)


# -- copies ----------------------------------------------------------------------------------------


def test_a_copy_leaves_followers_behind():
    memory = memory_of("a", "b")
    notes = follow(memory)
    twin = copy.deepcopy(memory)
    assert follow(twin) is not notes
    assert follow(twin).live is twin.live


def test_a_copys_changes_do_not_reach_the_originals_followers():
    memory = memory_of("a", "b")
    notes = follow(memory)
    copy.deepcopy(memory).forget(ids=["a"])
    assert notes.heard == []


def test_copying_keeps_the_originals_followers():
    memory = memory_of("a", "b")
    notes = follow(memory)
    copy.deepcopy(memory)
    assert follow(memory) is notes


# -- when something goes wrong ---------------------------------------------------------------------


def fail(memory, event, error):
    """Let a follower fail during a change, whether or not the caller hears of it."""
    follow(memory, Failing).error = error
    with contextlib.suppress(type(error)):
        change(memory, event)


@pytest.mark.parametrize("error", [RuntimeError(), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("event", EVENTS)
def test_a_follower_that_fails_is_built_anew(event, error):
    memory = memory_of("a", "b", "c")
    fail(memory, event, error)
    assert follow(memory).known == {row.id for row in memory}


@pytest.mark.parametrize("error", [RuntimeError(), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("event", EVENTS)
def test_a_follower_that_fails_leaves_the_rows_changed(event, error):
    memory = memory_of("a", "b", "c")
    fail(memory, event, error)
    assert {row.id for row in memory} == ({*"abcd"} if event == "add" else {*"ac"})


@pytest.mark.parametrize("error", [RuntimeError(), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("event", EVENTS)
def test_a_follower_that_fails_leaves_sums_that_fit_the_rows(event, error):
    memory = memory_of("a", "b", "c")
    fail(memory, event, error)
    expected = {}
    for row in memory:
        expected[row.label] = expected.get(row.label, 0) + float(row.embedding[0])
    found = memory.sums.sums[:, 0] * memory.grid.step
    assert dict(zip(memory.classes, found.tolist(), strict=True)) == expected


@pytest.mark.parametrize("error", [RuntimeError(), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("event", EVENTS)
def test_a_follower_that_fails_leaves_a_digest_that_fits_the_rows(event, error):
    memory = memory_of("a", "b", "c")
    fail(memory, event, error)
    twin = Memory(1)
    rows = list(memory)
    twin.add([r.embedding for r in rows], [r.label for r in rows], ids=[r.id for r in rows])
    assert memory.digest == twin.digest


@pytest.mark.parametrize("error", [RuntimeError(), KeyboardInterrupt()], ids=repr)
def test_rows_after_a_failed_follower_have_serials_of_their_own(error):
    memory = memory_of("a", "b", "c")
    fail(memory, "add", error)
    memory.add([[5.0]], ["x"], ids=["e"])
    serials = [row.serial for row in memory.table.infos]
    assert len(set(serials)) == len(serials)


def test_a_follower_that_was_dropped_hears_no_more():
    memory = memory_of("a", "b", "c")
    failing = follow(memory, Failing)
    memory.forget(ids=["b"])
    memory.forget(ids=["a"])
    assert failing.known == {"a", "c"}


def test_a_forget_whose_follower_fails_is_still_done_and_the_failure_is_logged(caplog):
    memory = memory_of("a", "b", "c")
    follow(memory, Failing)
    assert memory.forget(ids=["b"]).ids == ("b",)
    assert "could not follow a change and will be built anew" in caplog.text
