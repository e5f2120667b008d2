import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import as_class, row_labels, shown, sorted_classes
from erasable.errors import ArgumentError
from erasable.memory import as_label, decode_key, encode_key, sort_labels
from erasable.memory._keys import as_group, as_id

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
LABELS = TEXT | st.integers() | FINITE | st.booleans()


@given(LABELS)
def test_a_key_reads_back_as_the_value_with_its_type(label):
    assert shown([decode_key(encode_key(label))]) == shown([as_class(label)])


@given(LABELS, LABELS)
def test_different_values_have_different_keys(one, other):
    are_equal = shown([as_class(one)]) == shown([as_class(other)])
    assert (encode_key(one) == encode_key(other)) == are_equal


def test_both_zeros_have_one_key():
    assert encode_key(-0.0) == encode_key(0.0)


@pytest.mark.parametrize("text", ["", "x", "x:1", "i:", "i:1.5", "f:zz", "b:yes", "cat"])
def test_text_that_is_no_key_is_refused(text):
    with pytest.raises(ArgumentError) as caught:
        decode_key(text)
    assert str(caught.value) == f"Expected a key such as 's:cat' or 'i:3', but got {text!r}."


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        (np.int8(3), 3),
        (np.uint64(2**63), 2**63),
        (np.float32(0.5), 0.5),
        (np.float16(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("cat"), "cat"),
    ],
)
def test_numpy_labels_become_plain_values(scalar, value):
    assert shown([as_label(scalar)]) == shown([value])


@pytest.mark.parametrize(("scalar", "value"), [(np.int32(3), 3), (np.str_("a"), "a")])
def test_numpy_ids_become_plain_values(scalar, value):
    assert shown([as_id(scalar)]) == shown([value])


def test_a_negative_zero_label_becomes_zero():
    assert math.copysign(1, as_label(-0.0)) == 1


@pytest.mark.parametrize("value", [None, b"cat", (1,), 1j, [1], {}])
def test_other_types_are_no_labels(value):
    with pytest.raises(ArgumentError) as caught:
        as_label(value)
    expected = f"Expected a label of type str, int, float or bool, but got {value!r}."
    assert str(caught.value) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float32("nan"), -math.inf])
def test_labels_are_finite(value):
    with pytest.raises(ArgumentError, match=r"Expected a finite label, but got -?(nan|inf)\."):
        as_label(value)


@pytest.mark.parametrize("value", [True, np.bool_(False), 1.0, np.float32(2), None, b"a", (1,)])
def test_other_types_are_no_ids(value):
    with pytest.raises(ArgumentError, match="Expected a row id of type str or int, but got "):
        as_id(value)


@pytest.mark.parametrize("value", [True, 1.5, None])
def test_other_types_are_no_groups(value):
    with pytest.raises(ArgumentError, match="Expected a group of type str or int, but got "):
        as_group(value)


@pytest.mark.parametrize("convert", [as_label, as_id, as_group])
def test_lone_surrogates_are_refused(convert):
    with pytest.raises(ArgumentError) as caught:
        convert("a\ud800")
    assert "Expected text that UTF-8 can hold" in str(caught.value)


@pytest.mark.parametrize("convert", [as_label, as_id, as_group])
def test_integers_too_long_to_write_down_are_refused(convert):
    with pytest.raises(ArgumentError, match="Expected an int of at most 4300 digits"):
        convert(10**4300)


@pytest.mark.parametrize("convert", [as_label, as_id, as_group])
def test_integers_beyond_64_bits_are_accepted(convert):
    assert convert(-(2**200)) == -(2**200)


@given(st.lists(row_labels().map(as_class), unique_by=encode_key), st.randoms())
def test_the_order_of_labels_is_theirs_not_the_callers(labels, random):
    shuffled = list(labels)
    random.shuffle(shuffled)
    assert shown(sort_labels(shuffled)) == shown(sort_labels(labels))


def test_labels_are_sorted_by_type_then_value():
    labels = ["b", 2, 0.5, True, "a", 10, -1, False, -2.0, "B"]
    expected = [False, True, -1, 2, 10, -2.0, 0.5, "B", "a", "b"]
    assert shown(sort_labels(labels)) == shown(expected)


def test_the_shared_reference_sorts_classes_the_same_way():
    labels = ["b", 2, 0.5, True, "a", 1, 1.0, "1"]
    rows = [type("R", (), {"label": label}) for label in labels]
    assert shown(sorted_classes(rows)) == shown(sort_labels(labels))
