from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import ArgumentError, RowIdError, StateError
from erasable.memory import CONTENT, ID, Marks, Memory, Tombstone, encode_key, keyring
from erasable.memory._keyring import Keyring, mark
from erasable.memory._marks import GROUP
from erasable.memory._tombstones import Entry

A, B, NEW = [1.0, 2.0], [3.0, 4.0], [5.0, 6.0]


def memory_without(**selectors):
    memory = Memory(2)
    memory.add([A, B], ["x", "y"], ids=["a", "b"], groups=[["g"], None])
    memory.forget(**selectors)
    return memory


def refusal(memory, *args, **kwargs):
    with pytest.raises(RowIdError) as caught:
        memory.add(*args, **kwargs)
    return str(caught.value)


def forget_elsewhere(row_id="a", kind=ID, ring=None):
    """Return marks of a row forgotten in another process, and that process's keys."""
    ring = ring or Keyring()
    key_id = ring.active()
    return Marks([(key_id, mark(ring.get(key_id), kind, encode_key(row_id).encode()))]), ring


def test_the_message_says_how_many_rows_and_what_to_do():
    memory = memory_without(ids=["a"])
    assert refusal(memory, [A, NEW], ["x", "x"], ids=["a", "n"]) == (
        "add(): 1 of 2 rows were forgotten before (same id, content or a forgotten group). "
        "Leave them out, for which add and remember have skip_forgotten=True, or store them again "
        "with reinstate=True."
    )


def test_a_forgotten_id_is_refused_with_other_content():
    assert refusal(memory_without(ids=["a"]), [NEW], ["x"], ids=["a"])


def test_forgotten_content_is_refused_with_another_id():
    assert refusal(memory_without(ids=["a"]), [A], ["x"], ids=["n"])


def test_forgotten_content_is_refused_with_a_generated_id():
    assert refusal(memory_without(ids=["a"]), [A], ["x"])


def test_forgotten_content_is_refused_under_another_label():
    assert refusal(memory_without(ids=["a"]), [A], ["another"], ids=["n"])


def test_content_is_compared_on_the_grid():
    assert refusal(memory_without(ids=["a"]), [[1.0 + 1e-6, 2.0]], ["x"], ids=["n"])


def test_content_one_step_away_is_another_content():
    memory = memory_without(ids=["a"])
    assert memory.add([[1.0 + 2.0**-14, 2.0]], ["x"], ids=["n"]) == ["n"]


def test_given_contents_are_what_is_recognised():
    memory = Memory(2)
    memory.add([A], ["x"], ids=["a"], contents=[b"pixels"])
    memory.forget(ids=["a"])
    assert refusal(memory, [NEW], ["x"], ids=["n"], contents=[b"pixels"])


def test_other_contents_are_accepted_whatever_their_embedding():
    memory = Memory(2)
    memory.add([A], ["x"], ids=["a"], contents=[b"pixels"])
    memory.forget(ids=["a"])
    assert memory.add([A], ["x"], ids=["n"], contents=[b"other pixels"]) == ["n"]


def test_a_new_row_of_a_forgotten_group_is_refused():
    assert refusal(memory_without(groups=["g"]), [NEW], ["x"], ids=["n"], groups=[["h", "g"]])


def test_a_group_is_not_forgotten_with_one_of_its_rows():
    memory = memory_without(ids=["a"])
    assert memory.add([NEW], ["x"], ids=["n"], groups=["g"]) == ["n"]


def test_a_group_stays_forgotten_after_a_row_of_it_is_reinstated():
    memory = memory_without(groups=["g"])
    memory.add([A], ["x"], ids=["a"], groups=["g"], reinstate=True)
    assert refusal(memory, [NEW], ["x"], ids=["n"], groups=["g"])


def test_a_group_without_rows_can_be_forgotten_ahead():
    memory = memory_without(groups=["later"], missing_ok=True)
    assert refusal(memory, [NEW], ["x"], ids=["n"], groups=["later"])


def test_rows_of_a_forgotten_class_are_refused():
    assert refusal(memory_without(classes=["x"]), [NEW], ["x"], ids=["a"])


def test_a_forgotten_class_may_have_new_rows():
    memory = memory_without(classes=["x"])
    assert memory.add([NEW], ["x"], ids=["n"]) == ["n"]


def test_reinstating_lifts_the_mark_of_the_id():
    memory = memory_without(ids=["a"])
    memory.add([A], ["x"], ids=["a"], reinstate=True)
    assert not memory.tombstones.has_id("a")


def test_reinstating_lifts_the_mark_of_the_content():
    memory = memory_without(ids=["a"])
    memory.add([A], ["x"], ids=["a"], reinstate=True)
    assert memory.add([A], ["x"], ids=["copy"]) == ["copy"]


def test_reinstating_leaves_no_mark():
    memory = memory_without(ids=["a"])
    memory.add([A], ["x"], ids=["a"], reinstate=True)
    assert len(memory.tombstones.marks) == 0


def test_adding_without_reinstate_lifts_nothing():
    memory = memory_without(ids=["a"])
    memory.add([NEW], ["x"], ids=["n"])
    assert memory.tombstones.has_id("a")


def test_a_forget_marks_id_and_content():
    assert len(memory_without(ids=["a"]).tombstones.marks) == 2


def test_a_group_forget_marks_the_group_too():
    assert len(memory_without(groups=["g"]).tombstones.marks) == 3


def test_skip_forgotten_returns_the_ids_it_stored():
    memory = memory_without(ids=["a"])
    rows = {"ids": ["a", "n"], "groups": ["g", "h"], "contents": [b"1", b"2"]}
    assert memory.add([A, NEW], ["x", "y"], **rows, skip_forgotten=True) == ["n"]


def test_skip_forgotten_keeps_each_rows_own_values():
    memory = memory_without(ids=["a"])
    rows = {"ids": ["a", "n"], "groups": ["g", "h"], "contents": [b"1", b"2"]}
    memory.add([A, NEW], ["x", "y"], **rows, skip_forgotten=True)
    record = memory.record(memory.positions(["n"])[0])
    assert (record.label, record.groups, record.content) == ("y", ("h",), b"2")


def test_skip_forgotten_works_with_generated_ids():
    memory = memory_without(ids=["a"])
    assert memory.add([A, NEW], ["x", "y"], skip_forgotten=True) == [0]


def test_skip_forgotten_stores_all_rows_if_none_was_forgotten():
    assert memory_without(ids=["a"]).add([NEW], ["x"], ids=["n"], skip_forgotten=True) == ["n"]


def test_generated_ids_skip_forgotten_ones():
    memory = Memory(2)
    memory.add([A, B], ["x", "y"])
    memory.forget(ids=[0, 1])
    assert memory.add([NEW], ["x"]) == [2]


def test_generated_ids_skip_ids_forgotten_elsewhere():
    marks, ring = forget_elsewhere(0)
    ring.persist(ring.active())
    assert Memory(2, tombstones=marks).add([NEW], ["x"]) == [1]


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (ID, {"ids": ["a"]}),
        (CONTENT, {"ids": ["n"], "contents": [b"s:a"]}),
        (GROUP, {"ids": ["n"], "groups": ["a"]}),
    ],
)
def test_what_was_forgotten_elsewhere_is_refused_once_the_key_is_here(kind, row):
    marks, ring = forget_elsewhere("a", kind)
    ring.persist(ring.active())
    assert refusal(Memory(2, tombstones=marks), [A], ["x"], **row)


def missing_key_memory():
    marks, ring = forget_elsewhere("a")
    return Memory(2, tombstones=marks), ring.active()


def test_without_the_key_every_add_is_refused(keys):
    memory, key_id = missing_key_memory()
    with pytest.raises(StateError) as caught:
        memory.add([NEW], ["x"], ids=["n"])
    assert str(caught.value) == (
        f"Expected the keys of this memory's tombstones in {keys}, but '{key_id}' are not there, "
        "so rows cannot be checked against what was forgotten. Put the key files back, or pass "
        "reinstate=True to do without."
    )


def test_without_the_key_a_refused_add_stores_nothing():
    memory, _ = missing_key_memory()
    with pytest.raises(StateError):
        memory.add([NEW], ["x"], ids=["n"])
    assert len(memory) == 0


def test_without_the_key_skip_forgotten_is_refused_too():
    memory, _ = missing_key_memory()
    with pytest.raises(StateError):
        memory.add([NEW], ["x"], ids=["n"], skip_forgotten=True)


def test_without_the_key_reinstate_stores():
    memory, _ = missing_key_memory()
    assert memory.add([A], ["x"], ids=["a"], reinstate=True) == ["a"]


def test_without_the_key_reinstate_keeps_the_marks_it_cannot_read():
    memory, key_id = missing_key_memory()
    memory.add([A], ["x"], ids=["a"], reinstate=True)
    assert memory.tombstones.marks.missing_keys == [key_id]


def test_without_the_key_forget_works():
    memory, _ = missing_key_memory()
    memory.add([A], ["x"], ids=["a"], reinstate=True)
    assert memory.forget(ids=["a"]).ids == ("a",)


def test_with_a_tampered_key_file_every_add_is_refused(keys):
    marks, ring = forget_elsewhere("a")
    ring.persist(ring.active()).write_bytes(b"x" * 32)
    with pytest.raises(StateError):
        Memory(2, tombstones=marks).add([NEW], ["x"], ids=["n"])


def test_the_key_put_back_makes_adding_possible_again():
    marks, ring = forget_elsewhere("a")
    memory = Memory(2, tombstones=marks)
    with pytest.raises(StateError):
        memory.add([NEW], ["x"], ids=["n"])
    ring.persist(ring.active())
    assert memory.add([NEW], ["x"], ids=["n"]) == ["n"]


def test_marks_hold_no_id_group_or_embedding():
    memory = memory_without(groups=["g"])
    kept = b"".join(value for _, value in memory.tombstones.marks)
    units = memory.grid.units(np.array(A, np.float32))
    assert all(part not in kept for part in (b"s:a", b"s:g", units.tobytes()[:4]))


def test_tombstones_lie_outside_the_canonical_state():
    memory = Memory(2)
    memory.add([B], ["y"], ids=["b"])
    forgetful = memory_without(ids=["a"])
    assert b"".join(forgetful.canonical_state()) == b"".join(memory.canonical_state())


def test_forgetting_in_memory_writes_no_file(keys):
    memory_without(ids=["a"])
    assert not keys.exists()


def test_a_forget_that_cannot_leave_marks_changes_nothing(monkeypatch):
    memory = Memory(2)
    memory.add([A, B], ["x", "y"], ids=["a", "b"])
    before = memory.digest

    def fail():
        raise OSError("disk on fire")

    monkeypatch.setattr(keyring, "active", fail)
    with pytest.raises(OSError, match="disk on fire"):
        memory.forget(ids=["a"])
    assert memory.digest == before


# -- contents with digests of other forms ----------------------------------------------------------

EXACT, FORM, PIXELS = b"e" * 32, b"f" * 32, b"p" * 32


@pytest.mark.parametrize("part", [EXACT, FORM, PIXELS])
def test_a_row_is_refused_by_any_digest_of_its_content(part):
    memory = Memory(2)
    memory.add([A], ["x"], ids=["a"], contents=[EXACT + FORM + PIXELS])
    memory.forget(ids=["a"])
    for content in (part, b"o" * 32 + part, part + b"o" * 64):
        assert refusal(memory, [NEW], ["x"], ids=["n"], contents=[content])
    assert memory.add([NEW], ["x"], ids=["n"], contents=[b"o" * 64]) == ["n"]


def test_a_mark_of_an_earlier_version_is_found_by_any_digest():
    memory = Memory(2)
    memory.add([A], ["x"], ids=["a"], contents=[FORM])
    memory.forget(ids=["a"])
    assert refusal(memory, [NEW], ["x"], ids=["n"], contents=[EXACT + FORM])


def test_a_row_that_is_back_leaves_no_digest_among_the_tombstones():
    memory = Memory(2)
    content = EXACT + FORM + PIXELS
    memory.add([A], ["x"], ids=["a"], contents=[content])
    memory.forget(ids=["a"])
    memory.add([A], ["x"], ids=["a"], contents=[content], reinstate=True)
    assert len(memory.tombstones.marks) == 0


def at(day):
    return datetime(2026, 1, day, tzinfo=UTC)


def aged(*days):
    """Return a memory from which rows were forgotten on days of January."""
    memory = Memory(1)
    memory.add([[float(day)] for day in days], ["x"] * len(days), ids=[f"day-{d}" for d in days])
    for day in days:
        tombstone = Tombstone(at(day).isoformat(), "exact")
        memory.drop(memory.select(ids=[f"day-{day}"]), tombstone)
    return memory


def test_entries_tell_time_level_and_key_and_nothing_else():
    memory = aged(3, 1)
    key_id = keyring.active()
    times = [at(1).isoformat()] * 2 + [at(3).isoformat()] * 2
    assert memory.tombstones.entries() == [Entry(key_id, time, "exact") for time in times]


def test_dropped_tombstones_refuse_nothing_any_more():
    memory = aged(1, 3)
    assert memory.drop_tombstones(before=at(2)) == 2
    memory.add([[1.0]], ["x"], ids=["day-1"])
    assert refusal(memory, [[3.0]], ["x"], ids=["day-3"])


def test_dropping_all_leaves_no_entry():
    memory = aged(1, 3)
    assert memory.drop_tombstones(before=None) == 4
    assert memory.tombstones.entries() == []
    memory.add([[1.0], [3.0]], ["x", "x"], ids=["day-1", "day-3"])


def test_dropping_twice_drops_nothing_more():
    memory = aged(1, 3)
    memory.drop_tombstones(before=None)
    assert memory.drop_tombstones(before=None) == 0


def test_tombstones_without_a_time_go_only_with_all():
    marks, ring = forget_elsewhere()
    keyring._known.update(ring._known)
    memory = Memory(2, tombstones=marks)
    assert memory.drop_tombstones(before=at(1)) == 0
    assert refusal(memory, [A], ["x"], ids=["a"])
    assert memory.drop_tombstones(before=None) == 1


def test_a_time_without_its_zone_is_refused():
    with pytest.raises(ArgumentError, match="time zone"):
        aged(1).drop_tombstones(before=datetime(2026, 1, 2))


@pytest.mark.parametrize(
    ("time", "dropped"), [("2026-01-01", 2), ("2026-01-01T00:00:00", 2), ("no time", 0), ("", 0)]
)
def test_a_time_in_another_form_counts_if_it_can_be_read(time, dropped):
    memory = Memory(1)
    memory.add([[1.0]], ["x"], ids=["a"])
    memory.drop(memory.select(ids=["a"]), Tombstone(time))
    assert memory.drop_tombstones(before=at(2)) == dropped


def test_a_memory_remembers_that_tombstones_were_dropped():
    memory = aged(1, 3)
    assert not memory.tombstones.has_gap
    memory.drop_tombstones(before=at(2))
    assert memory.tombstones.has_gap
    assert len(memory.tombstones.entries()) == 2


def test_dropping_nothing_leaves_no_gap():
    memory = aged(3)
    memory.drop_tombstones(before=at(2))
    assert not memory.tombstones.has_gap


def test_reinstating_one_of_several_leaves_a_gap():
    memory = aged(1, 3)
    memory.add([[1.0]], ["x"], ids=["another"], reinstate=True)
    assert memory.tombstones.has_gap


@given(st.lists(st.integers(1, 28), min_size=1, max_size=8, unique=True), st.integers(1, 28))
def test_what_was_forgotten_since_stays_refused(days, before):
    memory = aged(*days)
    memory.drop_tombstones(before=at(before))
    kept = [day for day in days if memory.tombstones.has_id(f"day-{day}")]
    assert kept == [day for day in days if day >= before]
