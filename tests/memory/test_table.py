import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.memory._table import RowInfo, RowTable

SECRET = np.float32(42.4242)


def info(row_id, slot=0, groups=(), serial=0):
    return RowInfo(row_id, slot, groups, None, serial)


def table_of(*ids):
    table = RowTable(2)
    rows = [[i + 1, -i - 1] for i in range(len(ids))]
    infos = [info(row_id, slot=i + 1, groups=("g", i)) for i, row_id in enumerate(ids)]
    table.append(np.array(rows, np.float32).reshape(-1, 2), infos)
    return table


def contents(table):
    """Return what the table holds of each row, found through its position index."""
    places = {row.id: table.position(row.id) for row in table.infos}
    return {
        row_id: (
            table.infos[place].id,
            table.embeddings[place].tolist(),
            int(table.slots[place]),
            table.infos[place].slot,
        )
        for row_id, place in places.items()
    }


@given(st.data())
def test_every_row_is_found_at_its_position_after_any_removals(data):
    ids = [f"row {i}" for i in range(data.draw(st.integers(0, 8)))]
    table = table_of(*ids)
    gone = data.draw(st.lists(st.sampled_from(ids), unique=True) if ids else st.just([]))
    for row_id in gone:
        table.remove(row_id)
    assert contents(table) == {
        row_id: (row_id, [i + 1, -i - 1], i + 1, i + 1)
        for i, row_id in enumerate(ids)
        if row_id not in gone
    }


@pytest.mark.parametrize("gone", ["first", "middle", "last"])
def test_no_byte_of_a_removed_row_stays_in_the_arrays(gone):
    table = RowTable(2)
    ids = ["first", "middle", "last"]
    rows = [[SECRET] * 2 if row_id == gone else [1, 2] for row_id in ids]
    table.append(np.array(rows, np.float32), [info(i, slot=77 if i == gone else 1) for i in ids])
    table.remove(gone)
    assert SECRET.tobytes() not in table._embeddings.tobytes()
    assert 77 not in table._slots


def test_the_place_a_moved_row_came_from_is_wiped():
    table = table_of("a", "b", "c")
    table.remove("a")
    assert not table._embeddings[2:].any()
    assert not table._slots[2:].any()


def test_nothing_else_of_a_removed_row_stays_in_the_table():
    table = table_of("a", "secret", "c")
    table.remove("secret")
    assert "secret" not in repr(vars(table))


def test_removal_moves_the_last_row_into_the_hole():
    table = table_of("a", "b", "c")
    table.remove("a")
    assert [row.id for row in table.infos] == ["c", "b"]


def test_a_removed_row_has_no_position():
    table = table_of("a", "b")
    table.remove("a")
    assert table.position("a") is None


def test_a_group_lists_its_rows():
    assert table_of("a", "b", "c").ids_in_group("g") == ["a", "b", "c"]


def test_a_removed_row_leaves_its_groups():
    table = table_of("a", "b", "c")
    table.remove("b")
    assert table.ids_in_group("g") == ["a", "c"]


def test_a_group_without_rows_leaves_no_name_behind():
    table = table_of("a", "b")
    table.remove("a")
    assert list(table._in_group) == ["g", 1]


def test_an_unknown_group_has_no_rows():
    assert table_of("a").ids_in_group("nobody") == []


def test_the_integer_1_and_the_text_1_are_two_rows():
    table = table_of(1, "1")
    assert (table.position(1), table.position("1")) == (0, 1)


def test_rows_survive_growth():
    table = RowTable(1)
    for i in range(200):
        table.append(np.array([[i]], np.float32), [info(i, slot=i)])
    assert (table.embeddings[:, 0].tolist(), table.slots.tolist()) == (list(range(200)),) * 2


def test_unused_capacity_is_zero_after_growth():
    table = table_of(*range(70))
    for i in range(30):
        table.remove(i)
    table.append(np.ones((100, 2), np.float32), [info(i) for i in range(1000, 1100)])
    assert not table._embeddings[len(table) :].any()


def test_capacity_grows_by_half_not_by_one():
    table = table_of(*range(65))
    table.append(np.ones((64, 2), np.float32), [info(i) for i in range(1000, 1064)])
    capacity = len(table._slots)
    table.append(np.ones((1, 2), np.float32), [info("one more")])
    assert len(table._slots) == capacity + capacity // 2


def test_views_show_live_rows_only():
    table = table_of("a", "b", "c")
    table.remove("c")
    assert (table.embeddings.shape, table.slots.shape, len(table)) == ((2, 2), (2,), 2)
