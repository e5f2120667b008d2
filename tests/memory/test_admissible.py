"""Which rows a memory would store, told before they are encoded."""

import hashlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from erasable.errors import ArgumentError, ErasableError, RowIdError, StateError
from erasable.memory import Memory, keyring

IDS = ["a", "b", 1, "1"]
GROUPS = ["g", "h"]


def content(number):
    return hashlib.sha256(f"content {number}".encode()).digest()


def embedding(number):
    """Return an embedding that stands for a content, as an encoder makes it."""
    return np.random.default_rng(number).normal(size=2)


def state(memory):
    """Return everything that a call could have changed."""
    records = [repr(memory.record(position)) for position in range(len(memory))]
    return memory.digest, memory.next_id, list(memory.tombstones.marks), records


def memory_with(rows, forgotten_ids, forgotten_groups):
    """Return a memory after rows (id, content, groups) came and some went."""
    memory = Memory(2)
    memory.add(
        [embedding(number) for _, number, _ in rows] or np.zeros((0, 2)),
        ["x"] * len(rows),
        ids=[row_id for row_id, _, _ in rows],
        groups=[groups for _, _, groups in rows],
        contents=[content(number) for _, number, _ in rows],
    )
    memory.forget(ids=forgotten_ids, groups=forgotten_groups, missing_ok=True)
    return memory


def outcome(call, *args, **options):
    """Return what a call returns, or the class and message of what it raises."""
    try:
        return call(*args, **options)
    except ErasableError as error:
        return type(error), str(error)


groups = st.none() | st.sampled_from(GROUPS) | st.lists(st.sampled_from(GROUPS), max_size=2)
labels = st.sampled_from(["x", 2, 0.5, True, None, float("nan")])
rows = st.lists(
    st.tuples(st.sampled_from(IDS), st.integers(0, 4), groups),
    min_size=1,
    max_size=4,
    unique_by=lambda row: row[0],
)
memories = st.builds(
    memory_with,
    rows,
    st.lists(st.sampled_from(IDS), unique=True),
    st.lists(st.sampled_from(GROUPS), unique=True),
)


@st.composite
def requests(draw):
    """Draw what a caller may pass, now and then with something wrong in it."""
    count = draw(st.integers(0, 5))

    def column(values, spare=0):
        size = count + draw(st.sampled_from([0] * 9 + [spare]))
        return draw(st.lists(values, min_size=size, max_size=size))

    numbers = column(st.integers(0, 6))
    usual = st.just("x")
    known = st.permutations([*IDS, "n", 7]).map(lambda found: found[:count])
    odd = st.builds(column, st.just(st.sampled_from([*IDS, 0.5])), st.just(1))
    reinstate, skip = draw(st.sampled_from([(0, 0), (0, 1), (0, 1), (1, 0), (1, 1)]))
    return {
        "numbers": numbers,
        "labels": column(draw(st.sampled_from([usual, usual, usual, labels])), 1),
        "ids": draw(st.none() | known | known | odd),
        "groups": draw(st.none() | st.builds(column, st.just(groups), st.just(1))),
        "reinstate": bool(reinstate),
        "skip_forgotten": bool(skip),
    }


def ask(memory, request):
    """Return the outcomes of admissible() and add(); the first must change nothing."""
    numbers = request["numbers"]
    options = {name: value for name, value in request.items() if name not in ("numbers", "labels")}
    options["contents"] = [content(number) for number in numbers]
    before = state(memory)
    told = outcome(memory.admissible, request["labels"], **options)
    assert state(memory) == before
    embeddings = np.array([embedding(number) for number in numbers]).reshape(-1, 2)
    return told, outcome(memory.add, embeddings, request["labels"], **options)


@settings(max_examples=150)
@given(memories, requests())
@example(memory_with([], [], []), {"numbers": [], "labels": [], "ids": None})
def test_it_raises_what_add_raises_and_names_the_rows_that_add_stores(memory, request):
    size = len(memory)
    kept, stored = ask(memory, request)
    if isinstance(stored, tuple):
        assert kept == stored
        return
    assert isinstance(kept, list)
    assert len(memory) - size == len(kept) == len(stored)
    found = [memory.record(int(place)).content for place in memory.positions(stored)]
    assert found == [content(request["numbers"][place]) for place in kept]
    if request["ids"] is not None:
        assert stored == [request["ids"][place] for place in kept]


def test_without_forgotten_rows_every_row_is_stored():
    memory = memory_with([("a", 0, None)], [], [])
    assert memory.admissible(["x", "y"], contents=[content(1), content(2)]) == [0, 1]


def test_rows_forgotten_by_id_content_or_group_are_left_out_on_request():
    memory = memory_with([("a", 0, ["g"]), ("b", 1, ["h"])], ["b"], ["g"])
    kept = memory.admissible(
        ["x"] * 5,
        ids=["new", "b", "another", "third", "fourth"],
        groups=["h", None, None, ["h", "g"], None],
        contents=[content(number) for number in (5, 6, 0, 7, 8)],
        skip_forgotten=True,
    )
    assert kept == [0, 4]


def test_a_forgotten_row_is_refused_as_add_refuses_it():
    memory = memory_with([("a", 0, None)], ["a"], [])
    with pytest.raises(RowIdError, match="1 of 1 rows were forgotten before"):
        memory.admissible(["x"], contents=[content(0)])


def test_an_id_in_use_is_refused():
    memory = memory_with([("a", 0, None)], [], [])
    with pytest.raises(RowIdError, match="Expected new ids, but these are in use: 'a'"):
        memory.admissible(["x"], ids=["a"], contents=[content(1)])


def test_every_problem_is_told_at_once():
    memory = memory_with([("a", 0, None)], [], [])
    with pytest.raises(ArgumentError) as caught:
        memory.admissible(["x", None], ids=["a", "a"], contents=[content(1)], groups=["g"])
    message = str(caught.value)
    assert message.startswith("add(): Expected 1 labels")
    assert all(part in message for part in ("got None", "Expected each id once", "in use: 'a'"))


def test_it_cannot_tell_without_the_keys():
    memory = memory_with([("a", 0, None)], ["a"], [])
    keyring._known, keyring._active = {}, None
    with pytest.raises(StateError, match="Expected the keys of this memory's tombstones"):
        memory.admissible(["x"], contents=[content(1)])


def test_generated_ids_are_not_used_up():
    memory = Memory(2)
    memory.admissible(["x", "y"], contents=[content(0), content(1)])
    assert memory.add([[0.0, 1.0]], ["x"]) == [0]
