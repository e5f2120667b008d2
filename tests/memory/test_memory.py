import json

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from conformance import as_class, row_groups, row_ids, row_labels, shown, sorted_classes
from erasable.errors import ArgumentError, RowIdError, StateError
from erasable.memory import Grid, Memory, _memory, encode_key


def memory_of(*ids, labels=None, dim=1, **options):
    memory = Memory(dim, **options)
    rows = np.arange(1, len(ids) + 1)[:, None] * np.ones((1, dim))
    memory.add(rows, labels or ["x"] * len(ids), ids=list(ids))
    return memory


# -- against a plain model ----------------------------------------------------------------------


class Row:
    """What the model remembers of a row."""

    def __init__(self, label, units, groups):
        self.label, self.units, self.groups = as_class(label), units, groups


class MemoryMachine(RuleBasedStateMachine):
    """A memory and a dict of rows go through the same changes and stay the same."""

    seen = Bundle("seen")

    def __init__(self):
        super().__init__()
        self.memory = Memory(1, grid=Grid(0))
        self.rows, self.gone = {}, {"id": set(), "content": set(), "group": set()}

    def is_gone(self, row_id, units, groups):
        gone = self.gone
        return row_id in gone["id"] or units in gone["content"] or bool(gone["group"] & {*groups})

    def lose(self, ids):
        for row_id in ids:
            self.gone["id"].add(row_id)
            self.gone["content"].add(self.rows.pop(row_id).units)

    @rule(
        target=seen,
        row_id=row_ids(),
        label=row_labels(),
        units=st.integers(-9, 9),
        groups=row_groups(),
        mode=st.sampled_from([None, None, "reinstate", "skip_forgotten"]),
    )
    def add(self, row_id, label, units, groups, mode):
        options = {mode: True} if mode else {}
        is_gone = self.is_gone(row_id, units, groups)
        is_refused = row_id in self.rows or (is_gone and mode is None)
        if mode == "skip_forgotten" and is_gone:
            is_refused = False
        call = ([[units]], [label])
        try:
            stored = self.memory.add(*call, ids=[row_id], groups=[list(groups)], **options)
        except RowIdError:
            assert is_refused
            return row_id
        assert not is_refused
        assert stored == ([] if mode == "skip_forgotten" and is_gone else [row_id])
        if stored:
            self.rows[row_id] = Row(label, units, groups)
        if mode == "reinstate":
            self.gone["id"].discard(row_id)
            self.gone["content"].discard(units)
        return row_id

    @rule(units=st.lists(st.integers(10, 900), min_size=1, max_size=30, unique=True))
    def add_many_with_generated_ids(self, units):
        units = [unit for unit in units if unit not in self.gone["content"]]
        before = set(self.rows)
        ids = self.memory.add(np.array(units).reshape(-1, 1), ["many"] * len(units))
        assert len(set(ids)) == len(units)
        assert not set(ids) & (before | self.gone["id"])
        for row_id, unit in zip(ids, units, strict=True):
            self.rows[row_id] = Row("many", unit, ())

    @rule(ids=st.lists(seen, max_size=3, unique=True))
    def forget_ids(self, ids):
        live = [row_id for row_id in ids if row_id in self.rows]
        if len(live) < len(ids):
            with pytest.raises(RowIdError):
                self.memory.forget(ids=ids)
        forgotten = self.memory.forget(ids=ids, missing_ok=True)
        assert forgotten.ids == tuple(live)
        self.lose(live)

    @rule(group=st.sampled_from(["user-1", 1, "1", 7]))
    def forget_group(self, group):
        live = {row_id for row_id, row in self.rows.items() if group in row.groups}
        forgotten = self.memory.forget(groups=[group], missing_ok=True)
        assert set(forgotten.ids) == live
        self.lose(live)
        self.gone["group"].add(group)

    @rule(label=row_labels() | st.just("many"))
    def forget_class(self, label):
        live = {i for i, row in self.rows.items() if encode_key(row.label) == encode_key(label)}
        forgotten = self.memory.forget(classes=[label], missing_ok=True)
        assert set(forgotten.ids) == live
        assert shown(forgotten.emptied) == (shown([as_class(label)]) if live else [])
        self.lose(live)

    @rule()
    def save_and_restore(self):
        positions = self.memory.positions([row.id for row in self.memory])
        marks = self.memory.tombstones.marks.copy()
        other = Memory(1, grid=self.memory.grid, tombstones=marks)
        records = [self.memory.record(place) for place in positions]
        embeddings = self.memory.table.embeddings[positions]
        other.restore(embeddings, records, next_id=self.memory.next_id)
        self.memory = other

    @invariant()
    def rows_are_those_of_the_model(self):
        expected = {
            row_id: (
                shown([row.label]),
                float(row.units),
                tuple(sorted(row.groups, key=encode_key)),
            )
            for row_id, row in self.rows.items()
        }
        found = self.memory.get(list(self.rows))
        assert expected == {
            row.id: (shown([row.label]), float(row.embedding[0]), row.groups) for row in found
        }

    @invariant()
    def length_classes_and_order_are_those_of_the_model(self):
        assert len(self.memory) == len(self.rows)
        assert shown(self.memory.classes) == shown(sorted_classes(list(self.rows.values())))
        assert [row.id for row in self.memory] == sorted(self.rows, key=encode_key)

    @invariant()
    def the_position_index_is_right(self):
        for place, info in enumerate(self.memory.table.infos):
            assert self.memory.table.position(info.id) == place
            assert self.memory.table.slots[place] == info.slot

    @invariant()
    def groups_are_those_of_the_model(self):
        for group in ("user-1", 1, "1", 7):
            expected = {row_id for row_id, row in self.rows.items() if group in row.groups}
            assert set(self.memory.table.ids_in_group(group)) == expected

    @invariant()
    def unused_places_are_empty(self):
        assert not self.memory.table._embeddings[len(self.memory) :].any()
        assert not self.memory.table._slots[len(self.memory) :].any()

    @invariant()
    def the_state_is_that_of_a_new_memory_with_the_rows(self):
        other = Memory(1, grid=Grid(0))
        rows = list(self.rows.items())
        other.add(
            np.array([row.units for _, row in rows]).reshape(-1, 1),
            [row.label for _, row in rows],
            ids=[row_id for row_id, _ in rows],
            groups=[list(row.groups) for _, row in rows],
        )
        assert b"".join(self.memory.canonical_state()) == b"".join(other.canonical_state())
        assert self.memory.digest == other.digest


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)


# -- reading ---------------------------------------------------------------------------------------


def test_rows_are_read_in_the_order_of_their_encoded_ids():
    memory = memory_of("b", 10, "a", 2, -1)
    assert [row.id for row in memory] == [-1, 10, 2, "a", "b"]


def test_get_returns_rows_in_the_order_asked_for():
    assert [row.id for row in memory_of("a", "b", "c").get(["c", "a"])] == ["c", "a"]


def test_get_returns_all_of_a_row():
    memory = Memory(2)
    memory.add([[1, 2]], [True], ids=["a"], groups=[["u", 3]])
    (row,) = memory.get(["a"])
    assert (row.id, row.label, row.groups, row.embedding.tolist()) == ("a", True, (3, "u"), [1, 2])


def test_a_row_is_a_copy():
    memory = memory_of("a")
    memory.get(["a"])[0].embedding[:] = 7
    assert memory.get(["a"])[0].embedding.tolist() == [1]


def test_getting_unknown_ids_names_them():
    with pytest.raises(RowIdError) as caught:
        memory_of("a").get(["a", "x", 1])
    assert str(caught.value) == "Expected ids of this memory, but it has no 'x', 1."


def test_getting_a_lone_string_is_refused():
    with pytest.raises(ArgumentError, match=r"Write \['a'\]\."):
        memory_of("a").get("a")


def test_positions_accept_numpy_ids():
    assert memory_of(5, 6).positions(np.array([6, 5])).tolist() == [1, 0]


def test_a_live_id_is_in_the_memory():
    assert "a" in memory_of("a")


@pytest.mark.parametrize("row_id", ["b", 1, True, 1.0, None, ["a"]])
def test_anything_else_is_not_in_the_memory(row_id):
    assert row_id not in memory_of("a", "1")


@pytest.mark.parametrize("row_id", [True, 1.0])
def test_what_equals_an_id_but_has_another_type_is_not_in_the_memory(row_id):
    assert row_id not in memory_of(1)


def test_a_numpy_id_is_in_the_memory():
    assert np.int64(1) in memory_of(1)


def test_the_integer_1_is_not_the_text_1():
    assert "1" not in memory_of(1)


def test_a_forgotten_id_is_not_in_the_memory():
    memory = memory_of("a")
    memory.forget(ids=["a"])
    assert "a" not in memory


def test_repr_gives_sizes_and_no_row():
    assert repr(memory_of("a", "b", labels=["x", "y"])) == "Memory(rows=2, classes=2, dim=1)"


@pytest.mark.parametrize("dim", [0, -1, 1.0, True, "2", None])
def test_other_dims_are_refused(dim):
    with pytest.raises(ArgumentError) as caught:
        Memory(dim)
    assert str(caught.value) == f"Expected dim to be a positive int, but got {dim!r}."


def test_dim_and_grid_are_those_given():
    memory = Memory(3, grid=Grid(4))
    assert (memory.dim, memory.grid) == (3, Grid(4))


def test_the_grid_decides_what_is_stored():
    memory = Memory(1, grid=Grid(1))
    memory.add([[0.3]], ["x"], ids=["a"])
    assert memory.get(["a"])[0].embedding.tolist() == [0.5]


def test_the_state_begins_with_configuration_and_sorted_classes():
    memory = memory_of("a", "b", labels=["x", 1], grid=Grid(3))
    assert json.loads(next(memory.canonical_state())) == {
        "format": "erasable.memory.1",
        "dim": 1,
        "grid": 3,
        "classes": ["i:1", "s:x"],
    }


def test_the_state_holds_counts_and_sums_in_sorted_order():
    memory = memory_of("a", "b", "c", labels=["x", "x", 1], grid=Grid(0))
    _, counts, sums, *_ = memory.canonical_state()
    assert [np.frombuffer(part, "<i8").tolist() for part in (counts, sums)] == [[1, 2], [3, 3]]


@pytest.mark.parametrize("other", [Memory(2), Memory(1, grid=Grid(3))])
def test_memories_with_another_configuration_have_another_state(other):
    assert b"".join(other.canonical_state()) != b"".join(Memory(1).canonical_state())


@pytest.mark.parametrize(
    "change", [{"ids": ["b"]}, {"labels": ["y"]}, {"groups": ["v"]}, {"embeddings": [[2]]}]
)
def test_every_field_of_a_row_is_in_the_digest(change):
    row = {"embeddings": [[1]], "labels": ["x"], "ids": ["a"], "groups": ["u"]}
    one, other = Memory(1), Memory(1)
    one.add(**row)
    other.add(**row | change)
    assert one.digest != other.digest


def test_contents_are_not_in_the_state():
    one, other = Memory(1), memory_of("a")
    one.add([[1]], ["x"], ids=["a"], contents=[b"pixels"])
    assert b"".join(one.canonical_state()) == b"".join(other.canonical_state())


# -- changing --------------------------------------------------------------------------------------


def test_add_returns_the_ids_given():
    assert Memory(1).add([[1], [2]], ["x", "x"], ids=[np.int64(3), "b"]) == [3, "b"]


def test_generated_ids_count_up():
    memory = Memory(1)
    assert memory.add([[1], [2]], ["x", "x"]) + memory.add([[3]], ["x"]) == [0, 1, 2]


def test_generated_ids_skip_ids_in_use():
    assert memory_of(0, 2).add([[8], [9]], ["x", "x"]) == [1, 3]


def test_ids_in_use_are_named():
    with pytest.raises(RowIdError) as caught:
        memory_of("a", "b").add([[8], [9]], ["x", "x"], ids=["b", "c"])
    assert str(caught.value) == "add(): Expected new ids, but these are in use: 'b'."


def test_more_rows_than_sums_can_hold_are_refused(monkeypatch):
    monkeypatch.setattr(_memory, "MAX_ROWS", 3)
    with pytest.raises(ArgumentError) as caught:
        memory_of("a", "b").add([[8], [9]], ["x", "x"])
    assert str(caught.value) == "add(): Expected at most 3 rows, but got 4."


def test_as_many_rows_as_sums_can_hold_are_accepted(monkeypatch):
    monkeypatch.setattr(_memory, "MAX_ROWS", 3)
    assert memory_of("a", "b").add([[8]], ["x"]) == [0]


def test_the_row_limit_keeps_sums_of_squares_within_int64():
    assert _memory.MAX_ROWS * (2**20 - 1) ** 2 < 2**63


def test_adding_no_rows_is_a_no_op():
    memory = memory_of("a")
    assert memory.add(np.zeros((0, 1)), []) == []


def test_a_forget_tells_ids_emptied_classes_and_digests():
    memory = memory_of("a", "b", "c", labels=["x", "y", "y"])
    before = memory.digest
    done = memory.forget(ids=["b", "a"])
    expected = (("b", "a"), ("x",), before, memory.digest)
    assert (done.ids, done.emptied, done.digest_before, done.digest_after) == expected


def test_emptied_classes_are_sorted():
    memory = memory_of(*"abcd", labels=["z", "a", 3, "kept"])
    assert memory.forget(ids=["a", "b", "c"]).emptied == (3, "a", "z")


def test_a_selection_can_be_dropped_later():
    memory = memory_of("a", "b")
    memory.drop(memory.select(ids=["a"]))
    assert [row.id for row in memory] == ["b"]


def test_a_selection_that_is_out_of_date_is_refused():
    memory = memory_of("a", "b")
    selection = memory.select(ids=["a", "b"])
    memory.forget(ids=["a"])
    before = memory.digest
    with pytest.raises(RowIdError):
        memory.drop(selection)
    assert memory.digest == before


# -- subset ----------------------------------------------------------------------------------------


def many(order, seed=0):
    memory = Memory(1)
    for i in order:
        memory.add([[i / 8]], ["even" if i % 2 else "odd" if i < 30 else "rare"], ids=[i])
    return memory


def test_a_subset_does_not_depend_on_the_order_rows_came_in():
    shuffled = np.random.default_rng(1).permutation(31).tolist()
    assert many(shuffled).subset(0.4, 7).digest == many(range(31)).subset(0.4, 7).digest


def test_a_subset_does_not_depend_on_rows_forgotten_before():
    memory = many(range(40))
    memory.forget(ids=list(range(31, 40)))
    assert memory.subset(0.4, 7).digest == many(range(31)).subset(0.4, 7).digest


def test_a_subset_has_about_the_fraction_of_each_class_and_one_at_least():
    part = many(range(31)).subset(0.4, 7)
    labels = [row.label for row in part]
    assert {name: labels.count(name) for name in part.classes} == {"even": 6, "odd": 6, "rare": 1}


def test_a_subset_holds_rows_as_they_were():
    memory = many(range(31))
    part = memory.subset(0.4, 7)
    same = memory.get([row.id for row in part])
    assert [(r.label, r.embedding[0]) for r in part] == [(r.label, r.embedding[0]) for r in same]


def test_another_seed_draws_another_subset():
    memory = many(range(31))
    assert len({memory.subset(0.4, seed).digest for seed in range(4)}) > 1


def test_the_whole_fraction_is_the_whole_memory():
    assert many(range(31)).subset(1, 0).digest == many(range(31)).digest


def test_a_subset_leaves_the_memory_alone():
    memory = many(range(31))
    memory.subset(0.1, 0).forget(classes=["even"])
    assert memory.digest == many(range(31)).digest


def test_a_subset_refuses_what_was_forgotten():
    memory = many(range(31))
    memory.forget(ids=[3])
    with pytest.raises(RowIdError):
        memory.subset(0.5, 0).add([[60]], ["x"], ids=[3])


def test_forgetting_in_a_subset_leaves_no_tombstone_in_the_memory():
    memory = many(range(31))
    part = memory.subset(1, 0)
    part.forget(ids=[3])
    assert len(memory.tombstones.marks) == 0


def test_a_subset_of_an_empty_memory_is_empty():
    assert len(Memory(1).subset(0.5, 0)) == 0


@pytest.mark.parametrize("fraction", [0, -0.5, 1.5, float("nan")])
def test_other_fractions_are_refused(fraction):
    with pytest.raises(ArgumentError) as caught:
        many(range(3)).subset(fraction, 0)
    assert str(caught.value) == f"Expected fraction in (0, 1], but got {fraction!r}."


@pytest.mark.parametrize("seed", [-1, None, 0.5, "0", True])
def test_other_seeds_are_refused(seed):
    with pytest.raises(ArgumentError) as caught:
        many(range(3)).subset(0.5, seed)
    assert str(caught.value) == f"Expected seed to be an int of 0 or more, but got {seed!r}."


def test_a_numpy_seed_is_a_seed():
    memory = many(range(31))
    assert memory.subset(0.4, np.int64(7)).digest == memory.subset(0.4, 7).digest


# -- restore ---------------------------------------------------------------------------------------


def saved(memory):
    records = [memory.record(place) for place in range(len(memory))]
    return memory.table.embeddings.copy(), records


def test_restoring_puts_every_row_back():
    memory = memory_of("a", "b")
    other = Memory(1)
    other.restore(*saved(memory))
    assert other.digest == memory.digest


def test_restoring_keeps_contents_and_serials():
    memory = Memory(1)
    memory.add([[1], [2]], ["x", "x"], ids=["a", "b"], contents=[b"1", b"2"])
    memory.forget(ids=["a"])
    other = Memory(1)
    other.restore(*saved(memory))
    assert other.record(0) == memory.record(0)


def test_serials_go_on_after_the_restored_ones():
    memory = memory_of("a", "b")
    other = Memory(1)
    other.restore(*saved(memory))
    other.add([[9]], ["x"], ids=["c"])
    assert other.record(2).serial == 2


def test_generated_ids_go_on_where_they_stood():
    memory = memory_of("a")
    other = Memory(1)
    other.restore(*saved(memory), next_id=5)
    assert other.add([[9]], ["x"]) == [5]


def test_restoring_does_not_ask_the_tombstones():
    memory = memory_of("a")
    rows = saved(memory)
    memory.forget(ids=["a"])
    other = Memory(1, tombstones=memory.tombstones.marks.copy())
    other.restore(*rows)
    assert "a" in other


def test_restoring_lifts_no_tombstone():
    memory = memory_of("a")
    rows = saved(memory)
    memory.forget(ids=["a"])
    other = Memory(1, tombstones=memory.tombstones.marks.copy())
    other.restore(*rows)
    assert other.tombstones.has_id("a")


def test_restoring_into_a_memory_with_rows_is_refused():
    memory = memory_of("a")
    with pytest.raises(StateError) as caught:
        memory.restore(*saved(memory_of("b")))
    expected = "Expected an empty memory to restore into, but it has rows."
    assert str(caught.value) == expected


# -- tombstones from elsewhere ---------------------------------------------------------------------


def forgotten_elsewhere(**selectors):
    other = Memory(1)
    other.add([[1], [50]], ["x", "x"], ids=["a", "z"], groups=[None, "u"])
    other.forget(**selectors)
    return other.tombstones.marks


def test_respected_tombstones_refuse_rows_here_too():
    memory = memory_of("b", "c")
    memory.respect(forgotten_elsewhere(ids=["z"]))
    with pytest.raises(RowIdError):
        memory.add([[9]], ["x"], ids=["z"])


def test_respecting_keeps_the_memorys_own_tombstones():
    memory = memory_of("b", "c")
    memory.forget(ids=["b"])
    memory.respect(forgotten_elsewhere(ids=["z"]))
    assert memory.tombstones.has_id("b")


def test_respecting_changes_no_row():
    memory = memory_of("b", "c")
    before = b"".join(memory.canonical_state())
    memory.respect(forgotten_elsewhere(ids=["z"]))
    assert b"".join(memory.canonical_state()) == before


def test_a_live_row_among_the_tombstones_is_named():
    with pytest.raises(RowIdError) as caught:
        memory_of("z", "b").respect(forgotten_elsewhere(ids=["z"]))
    assert str(caught.value) == (
        "1 of 2 rows were forgotten before (same id, content or a forgotten group): 'z'. "
        "Forget them here too first."
    )


def test_a_live_copy_of_a_forgotten_row_is_named():
    with pytest.raises(RowIdError, match=r"group\): 'copy'\."):
        memory_of("copy", "b").respect(forgotten_elsewhere(ids=["a"]))


def test_a_live_row_of_a_forgotten_group_is_named():
    memory = Memory(1)
    memory.add([[9]], ["x"], ids=["mine"], groups=["u"])
    with pytest.raises(RowIdError, match=r"group\): 'mine'\."):
        memory.respect(forgotten_elsewhere(groups=["u"]))


def test_refused_tombstones_are_not_taken_over():
    memory = memory_of("z")
    with pytest.raises(RowIdError):
        memory.respect(forgotten_elsewhere(ids=["z"]))
    assert len(memory.tombstones.marks) == 0
