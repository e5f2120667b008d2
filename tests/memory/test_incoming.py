import numpy as np
import pytest

from erasable.errors import ArgumentError, ErasableError, RowIdError
from erasable.memory import Memory

ROWS = [[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]]
LABELS = ["x", "y", "z"]


def message_of(*args, kind=ArgumentError, memory=None, **kwargs):
    with pytest.raises(kind) as caught:
        (memory or Memory(2)).add(*args, **kwargs)
    assert type(caught.value) is kind
    return str(caught.value)


def stored(*args, **kwargs):
    memory = Memory(2)
    memory.add(*args, **kwargs)
    return list(memory)


# -- embeddings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2,), (1, 3), (1, 2, 2), ()])
def test_another_shape_is_refused(shape):
    message = message_of(np.zeros(shape), ["x"])
    assert message == f"add(): Expected embeddings of shape (n, 2), but got {shape}."


@pytest.mark.parametrize("values", [[["a", "b"]], [[1, 2], [3]], [[None, 1]], [[1j, 0]], None])
def test_what_is_not_numbers_is_refused(values):
    message = message_of(values, ["x"])
    assert message == "add(): Expected embeddings to be numbers of shape (n, 2)."


def test_rows_that_are_not_finite_are_named():
    message = message_of([[0, np.nan], [0, 0], [np.inf, 0]], LABELS)
    assert message == "add(): Expected finite embeddings, but got NaN or infinity in rows: 0, 2."


def test_rows_out_of_range_are_named_with_what_to_do():
    assert message_of([[0, 0], [0, -64.0]], LABELS[:2]) == (
        "add(): Expected embeddings below 64 in magnitude, but got larger ones in rows: 1. "
        "Normalise or scale the embeddings, or use a coarser grid (fewer bits)."
    )


def test_five_bad_rows_are_shown_then_counted():
    message = message_of(np.full((7, 2), np.nan), ["x"] * 7)
    assert message.endswith("in rows: 0, 1, 2, 3, 4 and 2 more.")


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_, np.float16, ">f4", ">f8"])
def test_numbers_of_any_kind_are_stored(dtype):
    (row,) = stored(np.array([[0, 1]], dtype), ["x"])
    assert row.embedding.tolist() == [0, 1]


def test_large_integers_are_out_of_range_not_wrapped():
    assert "larger ones in rows: 0" in message_of(np.array([[2**62, 0]]), ["x"])


# -- labels, ids, groups, contents ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"), [("ids", ["a"]), ("groups", [["a"]]), ("contents", [b"a"])]
)
def test_another_number_of_values_is_refused(name, values):
    message = message_of(ROWS, LABELS, **{name: values})
    assert message == f"add(): Expected 3 {name}, one per embedding, but got 1."


def test_another_number_of_labels_is_refused():
    message = message_of(ROWS, ["x", "y", "z", "w"])
    assert message == "add(): Expected 3 labels, one per embedding, but got 4."


@pytest.mark.parametrize("name", ["ids", "groups", "contents"])
def test_a_lone_string_is_refused(name):
    message = message_of(ROWS, LABELS, **{name: "abc"})
    assert message == f"add(): Expected {name} to be a list, but got 'abc'. Write ['abc']."


def test_a_lone_label_is_refused():
    message = message_of(ROWS, "xyz")
    assert message == "add(): Expected labels to be a list, but got 'xyz'. Write ['xyz']."


def test_a_column_of_labels_is_refused():
    message = message_of(ROWS, np.array([["x"], ["y"], ["z"]]))
    assert message == "add(): Expected labels to be 1-D, but got shape (3, 1)."


def test_a_bad_label_is_quoted():
    assert message_of(ROWS, ["x", None, "z"]) == (
        "add(): Expected a label of type str, int, float or bool, but got None."
    )


def test_further_bad_labels_are_counted():
    assert message_of(ROWS, [None, float("nan"), b""]) == (
        "add(): Expected a label of type str, int, float or bool, but got None. "
        "(2 more of the labels are not valid.)"
    )


def test_repeated_ids_are_named():
    message = message_of(ROWS, LABELS, ids=["a", "b", "a"], kind=RowIdError)
    assert message == "add(): Expected each id once, but got again: 'a'."


def test_the_integer_1_and_the_text_1_are_not_a_repetition():
    assert [row.id for row in stored(ROWS[:2], LABELS[:2], ids=[1, "1"])] == [1, "1"]


def test_a_bool_is_no_id():
    message = message_of(ROWS[:1], ["x"], ids=[True])
    assert message == "add(): Expected a row id of type str or int, but got True."


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, ()),
        ([], ()),
        ("u", ("u",)),
        (7, (7,)),
        (np.int64(7), (7,)),
        (np.array(["u", "v"]), ("u", "v")),
        (["v", "u"], ("u", "v")),
        (["u", "u"], ("u",)),
        ({"u", 1, "1"}, (1, "1", "u")),
    ],
)
def test_a_row_may_have_no_group_one_or_many(given, kept):
    assert stored(ROWS[:1], ["x"], groups=[given])[0].groups == kept


def test_groups_may_be_an_array_with_one_group_per_row():
    rows = stored(ROWS, LABELS, ids=[1, 2, 3], groups=np.array(["u", "v", "u"]))
    assert [row.groups for row in rows] == [("u",), ("v",), ("u",)]


def test_groups_may_be_an_array_with_several_groups_per_row():
    rows = stored(ROWS[:2], LABELS[:2], ids=[1, 2], groups=np.array([[1, 2], [2, 3]]))
    assert [row.groups for row in rows] == [(1, 2), (2, 3)]


@pytest.mark.parametrize("group", [b"user", 1.5, True, [None]])
def test_other_values_are_no_groups(group):
    message = message_of(ROWS[:1], ["x"], groups=[group])
    assert message.startswith("add(): Expected a group of type str or int, but got ")


@pytest.mark.parametrize("content", ["text", 1, bytearray(b"x"), np.zeros(2)])
def test_contents_are_bytes_or_none(content):
    message = message_of(ROWS[:1], ["x"], contents=[content])
    assert message == f"add(): Expected a content of type bytes or None, but got {content!r}."


def test_contents_are_kept_with_their_rows():
    memory = Memory(2)
    memory.add(ROWS[:2], LABELS[:2], ids=["a", "b"], contents=[None, b"pixels"])
    assert [memory.record(p).content for p in memory.positions(["a", "b"])] == [None, b"pixels"]


# -- all at once ----------------------------------------------------------------------------------


def test_every_problem_of_an_add_is_in_one_message():
    rows = {"ids": ["a", "a"], "groups": [None], "contents": [1, None], "reinstate": True}
    message = message_of([[np.nan, 0], [99, 0]], [None], **rows, skip_forgotten=True)
    assert message == (
        "add(): Expected reinstate or skip_forgotten, but got both. "
        "Expected finite embeddings, but got NaN or infinity in rows: 0. "
        "Expected embeddings below 64 in magnitude, but got larger ones in rows: 1. "
        "Normalise or scale the embeddings, or use a coarser grid (fewer bits). "
        "Expected 2 labels, one per embedding, but got 1. "
        "Expected a label of type str, int, float or bool, but got None. "
        "Expected 2 groups, one per embedding, but got 1. "
        "Expected a content of type bytes or None, but got 1. "
        "Expected each id once, but got again: 'a'."
    )


def test_a_wrong_shape_does_not_hide_other_problems():
    message = message_of([[1.0]], [None], ids=["a"], contents=[1])
    assert message == (
        "add(): Expected embeddings of shape (n, 2), but got (1, 1). "
        "Expected a label of type str, int, float or bool, but got None. "
        "Expected a content of type bytes or None, but got 1."
    )


def test_ids_in_use_and_forgotten_rows_are_reported_together():
    memory = Memory(2)
    memory.add(ROWS[:2], LABELS[:2], ids=["a", "b"])
    memory.forget(ids=["b"])
    message = message_of(ROWS[1:], ["x", "y"], ids=["b", "a"], kind=RowIdError, memory=memory)
    assert "in use: 'a'. 1 of 2 rows were forgotten before" in message


@pytest.mark.parametrize(
    "rows",
    [
        {"embeddings": [[np.nan, 0], [1, 1]]},
        {"embeddings": [[64, 0], [1, 1]]},
        {"embeddings": [[1], [1]]},
        {"labels": ["x"]},
        {"labels": ["x", None]},
        {"ids": ["n", "n"]},
        {"ids": ["n", "a"]},
        {"ids": ["n", "gone"]},
        {"ids": ["n", 10**5000]},
        {"groups": ["u"]},
        {"groups": ["u", 1.5]},
        {"contents": ["text", None]},
        {"reinstate": True, "skip_forgotten": True},
    ],
)
def test_a_refused_add_changes_nothing(rows):
    memory = Memory(2)
    memory.add([[1, 2], [3, 4]], ["x", "y"], ids=["a", "gone"])
    memory.forget(ids=["gone"])

    def everything():
        marks = list(memory.tombstones.marks)
        return b"".join(memory.canonical_state()), memory.digest, memory.next_id, marks

    before = everything()
    good = {"embeddings": [[5, 5], [6, 6]], "labels": ["new", "new"], "ids": ["n", "m"]}
    with pytest.raises(ErasableError):
        memory.add(**good | rows)
    assert everything() == before
