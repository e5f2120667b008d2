import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import as_class, row_groups, row_ids, row_labels, shown
from erasable.memory import Memory, decode_key
from erasable.memory._digest import LtHash, encode_row, row_lanes

ROWS = st.tuples(
    row_ids(),
    row_labels(),
    row_groups(),
    st.integers(0, 20),
    st.binary(max_size=8),
)


def encode(row):
    row_id, label, groups, bits, units = row
    return encode_row(row_id, label, groups, bits=bits, units=units)


def parse(data):
    """Read an encoded row back field by field, knowing nothing but the lengths."""
    fields = []
    while data:
        (size,) = struct.unpack_from("<I", data)
        assert len(data) >= 4 + size
        fields.append(data[4 : 4 + size])
        data = data[4 + size :]
    domain, row_id, label, count, *rest = fields
    (groups,) = struct.unpack("<I", count)
    (bits,) = struct.unpack("<I", rest[groups])
    assert (domain, len(rest)) == (b"erasable.row.1", groups + 2)
    keys = [decode_key(key.decode()) for key in (row_id, label, *rest[:groups])]
    return keys[0], keys[1], keys[2:], bits, rest[-1]


def slow_digest(encoded_rows):
    """Sum the lanes of rows one integer at a time."""
    lanes = [0] * 1024
    for encoded in encoded_rows:
        stream = hashlib.shake_128(encoded).digest(2048)
        for lane in range(1024):
            value = stream[2 * lane] + 256 * stream[2 * lane + 1]
            lanes[lane] = (lanes[lane] + value) % 65536
    state = b"".join(bytes([lane % 256, lane // 256]) for lane in lanes)
    return hashlib.sha256(state).hexdigest()


def digest(encoded_rows):
    total = LtHash()
    for encoded in encoded_rows:
        total.add(encoded)
    return total.hexdigest()


@given(ROWS)
def test_an_encoded_row_can_be_read_back(row):
    row_id, label, groups, bits, units = parse(encode(row))
    assert shown([row_id, label]) == shown([row[0], as_class(row[1])])
    assert (sorted(shown(groups)), bits, units) == (sorted(shown(row[2])), *row[3:])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c", (), 14, b""), ("a", "bc", (), 14, b"")),
        (("a", "b", ("c", "d"), 14, b""), ("a", "b", ("cd",), 14, b"")),
        (("a", "b", ("c",), 14, b""), ("a", "b", (), 14, b"\x03\0\0\0s:c")),
        (("a", "b", ("c",), 14, b""), ("a", "c", ("b",), 14, b"")),
        (("a", "b", (), 14, b"\0"), ("a", "b", (), 14, b"")),
        (("a", "b", (), 14, b"\0\0\0\0"), ("a", "b", (), 13, b"\0\0\0\0")),
        (("s:a", "b", (), 14, b""), ("a", "b", (), 14, b"")),
    ],
)
def test_moving_a_field_boundary_changes_the_bytes(one, other):
    assert encode(one) != encode(other)


@pytest.mark.parametrize("field", [0, 1, 2])
def test_the_type_of_a_value_is_part_of_it(field):
    def row(value):
        base = ["id", "label", (), 14, b""]
        base[field] = (value,) if field == 2 else value
        return encode(base)

    assert len({row(value) for value in (1, "1", 1.0, True, "True", "i:1")}) == 6


def test_the_order_of_groups_does_not_matter():
    assert encode(("a", 0, ("x", "y", 3), 14, b"")) == encode(("a", 0, (3, "y", "x"), 14, b""))


@given(st.lists(st.binary(max_size=4), max_size=4))
def test_the_digest_is_that_of_the_slow_sum(rows):
    assert digest(rows) == slow_digest(rows)


@given(st.lists(st.binary(max_size=4), max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert digest(shuffled) == digest(rows)


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_removing_undoes_adding(kept, gone):
    total = LtHash()
    for row in kept + gone:
        total.add(row)
    for row in gone:
        total.subtract([row_lanes(row)])
    assert total.hexdigest() == digest(kept)


def test_a_row_may_be_removed_before_it_is_added():
    total = LtHash()
    total.subtract([row_lanes(b"row")])
    total.add(b"row")
    assert total.hexdigest() == LtHash().hexdigest()


def test_a_row_added_twice_is_not_a_row_added_once_or_never():
    assert len({digest([b"row"] * times) for times in range(4)}) == 4


def test_the_empty_set_is_1024_lanes_of_zero():
    assert LtHash().hexdigest() == hashlib.sha256(bytes(2 * 1024)).hexdigest()


def test_one_row_has_the_digest_recorded_for_format_1():
    memory = Memory(2)
    memory.add([[0.5, -1.0]], ["cat"], ids=["a"], groups=[["user-42", 7]])
    encoded = bytes.fromhex(
        "0e000000" + b"erasable.row.1".hex()
        + "03000000" + b"s:a".hex()
        + "05000000" + b"s:cat".hex()
        + "04000000" + "02000000"
        + "03000000" + b"i:7".hex()
        + "09000000" + b"s:user-42".hex()
        + "04000000" + "0e000000"
        + "08000000" + "00200000" + "00c0ffff"
    )  # fmt: skip
    assert memory.digest == slow_digest([encoded])
