import numpy as np
import pytest

from erasable.errors import ArgumentError, ErasableError, RowIdError
from erasable.memory import Memory

REMEDY = "Pass missing_ok=True to skip what is not in this memory."


@pytest.fixture
def memory():
    memory = Memory(1)
    memory.add(
        [[1.0], [2.0], [3.0], [4.0]],
        ["cat", "cat", "dog", 1],
        ids=["a", "b", "c", 4],
        groups=[["u", "v"], "u", "v", None],
    )
    return memory


def message_of(memory, kind=RowIdError, **selectors):
    with pytest.raises(kind) as caught:
        memory.forget(**selectors)
    return str(caught.value)


def test_unknown_ids_are_named(memory):
    assert message_of(memory, ids=["a", "x", 7]) == (
        f"forget(): 2 row ids are unknown: 'x', 7. {REMEDY}"
    )


def test_five_unknown_ids_are_shown(memory):
    assert message_of(memory, ids=list("vwxyz")) == (
        f"forget(): 5 row ids are unknown: 'v', 'w', 'x', 'y', 'z'. {REMEDY}"
    )


def test_more_unknown_ids_are_counted(memory):
    assert message_of(memory, ids=list(range(100, 107))) == (
        f"forget(): 7 row ids are unknown: 100, 101, 102, 103, 104 and 2 more. {REMEDY}"
    )


def test_forgotten_ids_are_told_from_unknown_ones(memory):
    memory.forget(ids=["a", "b"])
    day = memory.tombstones.of_id("b").time[:10]
    assert message_of(memory, ids=["b", "x"]) == (
        f"forget(): 1 row was already forgotten on {day}: 'b'. 1 row id is unknown: 'x'. {REMEDY}"
    )


def test_groups_without_rows_are_named(memory):
    assert message_of(memory, groups=["u", "w"]) == (f"forget(): 1 group is unknown: 'w'. {REMEDY}")


def test_unknown_classes_are_named_with_their_type(memory):
    assert message_of(memory, classes=["cat", "1", True, 1.0]) == (
        f"forget(): 3 classes are unknown: '1', True, 1.0. {REMEDY}"
    )


def test_every_problem_is_in_one_message(memory):
    assert message_of(memory, ids=["x"], groups=["w"], classes=["emu"]) == (
        "forget(): 1 row id is unknown: 'x'. 1 group is unknown: 'w'. 1 class is unknown: 'emu'. "
        f"{REMEDY}"
    )


def test_no_selector_is_an_error(memory):
    assert message_of(memory, ArgumentError) == (
        "Expected ids, groups or classes to forget, but got none of them."
    )


@pytest.mark.parametrize("name", ["ids", "groups", "classes"])
def test_a_lone_string_is_refused(memory, name):
    assert message_of(memory, ArgumentError, **{name: "abc"}) == (
        f"forget(): Expected {name} to be a list, but got 'abc'. Write ['abc']."
    )


def test_lone_bytes_are_not_a_list_of_numbers(memory):
    assert message_of(memory, ArgumentError, ids=b"ab") == (
        "forget(): Expected ids to be a list, but got b'ab'. Write [b'ab']."
    )


@pytest.mark.parametrize("name", ["ids", "groups", "classes"])
def test_a_lone_number_is_refused(memory, name):
    assert message_of(memory, ArgumentError, **{name: 4}) == (
        f"forget(): Expected {name} to be a list, but got 4. Write [4]."
    )


@pytest.mark.parametrize(
    "selectors", [{"ids": [1.5]}, {"ids": [True]}, {"groups": [None]}, {"classes": [None]}]
)
def test_values_of_another_type_are_refused(memory, selectors):
    assert "Expected a " in message_of(memory, ArgumentError, **selectors)


def test_missing_ok_does_not_accept_values_of_another_type(memory):
    assert message_of(memory, ArgumentError, ids=[None], missing_ok=True)


@pytest.mark.parametrize(
    "selectors",
    [
        {"ids": ["a", "x"]},
        {"ids": ["a"], "groups": ["w"]},
        {"ids": ["a"], "classes": ["emu"]},
        {"ids": ["a", 1.5]},
        {"ids": "a"},
        {},
    ],
)
def test_a_refused_forget_takes_no_row_and_leaves_no_tombstone(memory, selectors):
    before = b"".join(memory.canonical_state())
    with pytest.raises(ErasableError):
        memory.forget(**selectors)
    assert b"".join(memory.canonical_state()) == before
    assert len(memory.tombstones.marks) == 0


def test_missing_ok_takes_what_is_there(memory):
    missing = {"ids": ["a", "x"], "groups": ["w"], "classes": ["emu", 1]}
    assert set(memory.forget(**missing, missing_ok=True).ids) == {"a", 4}


def test_missing_ok_accepts_ids_forgotten_before(memory):
    memory.forget(ids=["a"])
    assert memory.forget(ids=["a"], missing_ok=True).ids == ()


def test_ids_select_rows(memory):
    assert memory.select(ids=["b", 4]).ids == ["b", 4]


def test_groups_select_rows(memory):
    assert memory.select(groups=["v"]).ids == ["a", "c"]


def test_classes_select_rows(memory):
    assert memory.select(classes=["cat"]).ids == ["a", "b"]


def test_selectors_are_united_and_each_row_counts_once(memory):
    selection = memory.select(ids=["a", "a"], groups=["u", "v"], classes=["cat", 1])
    assert sorted(selection.ids, key=str) == [4, "a", "b", "c"]


def test_a_selection_lists_the_groups_named(memory):
    assert memory.select(ids=["a"], groups=["u"]).groups == ["u"]


def test_selecting_takes_nothing_out(memory):
    memory.select(ids=["a"])
    assert "a" in memory


def test_an_empty_list_selects_nothing(memory):
    assert memory.select(ids=[], groups=[], classes=[]).ids == []


@pytest.mark.parametrize("values", [np.array(["a", "b"]), ("a", "b"), {"a": 1, "b": 2}, iter("ab")])
def test_any_collection_of_ids_will_do(memory, values):
    assert memory.select(ids=values).ids == ["a", "b"]


def test_numpy_numbers_select_rows_and_classes(memory):
    assert memory.select(ids=np.array([4]), classes=np.array([1])).ids == [4]


def test_a_two_dimensional_array_is_refused(memory):
    assert message_of(memory, ArgumentError, ids=np.array([["a", "b"]])) == (
        "forget(): Expected ids to be 1-D, but got shape (1, 2)."
    )
