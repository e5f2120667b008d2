"""The laws of deletion, as one test class that every memory, view, model and store must pass.

A subject is anything that stores rows and forgets them. To test one, subclass `DeletionLaws`, name
the subclass ``Test…`` and implement its hooks; each ``check_…`` method becomes a hypothesis test of
the subclass, with the subclass's ``dim`` and ``max_examples``.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from erasable.errors import ArgumentError, ErasableError, RowIdError

# -- rows, and strategies that draw them ----------------------------------------------------------

_RANK = {bool: 0, int: 1, float: 2, str: 3}
_TIE = 2.0**-15  # half a step of the default grid


@dataclass(frozen=True)
class ToyRow:
    """One row as a user would hand it in."""

    id: Any
    label: Any
    embedding: tuple[float, ...]
    groups: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Scene:
    """Rows, two disjoint sets of ids to forget, another order of the rows, and queries."""

    rows: tuple[ToyRow, ...]
    first: tuple[Any, ...]
    second: tuple[Any, ...]
    shuffled: tuple[ToyRow, ...]
    queries: npt.NDArray[np.float64]

    @property
    def gone(self) -> tuple[Any, ...]:
        """Every id to forget."""
        return self.first + self.second

    def with_ids(self, ids: Sequence[Any]) -> list[ToyRow]:
        """Return the rows of these ids."""
        wanted = set(ids)
        return [row for row in self.rows if row.id in wanted]

    def without_ids(self, ids: Sequence[Any]) -> list[ToyRow]:
        """Return the rows of all other ids."""
        wanted = set(ids)
        return [row for row in self.rows if row.id not in wanted]


def embeddings_of(rows: Sequence[ToyRow], dim: int) -> npt.NDArray[np.float64]:
    """Stack embeddings, (rows, dim); ``dim`` matters where there are no rows."""
    if not rows:
        return np.zeros((0, dim))
    return np.array([row.embedding for row in rows], np.float64)


def columns(rows: Sequence[ToyRow], dim: int) -> dict[str, Any]:
    """Split rows into ``embeddings``, ``labels``, ``ids`` and ``groups``, one list each."""
    return {
        "embeddings": embeddings_of(rows, dim),
        "labels": [row.label for row in rows],
        "ids": [row.id for row in rows],
        "groups": [list(row.groups) for row in rows],
    }


def as_class(label: Any) -> Any:
    """Return the class a label belongs to: ``-0.0`` is ``0.0``, and that is all."""
    return label + 0.0 if isinstance(label, float) else label


def class_key(label: Any) -> tuple[str, str]:
    """Return what tells two classes apart, type included."""
    return type(label).__name__, repr(as_class(label))


def sorted_classes(rows: Sequence[ToyRow]) -> list[Any]:
    """Return the classes of rows by type (bool, int, float, str), then by value."""
    found = {class_key(row.label): as_class(row.label) for row in rows}
    return sorted(found.values(), key=lambda label: (_RANK[type(label)], label))


def shown(labels: Sequence[Any]) -> list[tuple[str, str]]:
    """Write labels so that ``==`` sees their types and the sign of zero."""
    return [(type(label).__name__, repr(label)) for label in labels]


def row_ids() -> st.SearchStrategy[Any]:
    """Draw ids: str and int, among them ``1`` and ``"1"``."""
    few = st.sampled_from([0, 1, -1, 2**70, "", "1", "a", "b", "é", "i:1", "a\0b"])
    return few | st.integers(-99, 99) | st.text(st.characters(codec="utf-8"), max_size=4)


def row_labels() -> st.SearchStrategy[Any]:
    """Draw labels of all four types, close enough to each other to be confused."""
    return st.sampled_from([True, False, 1, 0, -3, 1.0, 0.0, -0.0, 0.5, "1", "cat", "dog", ""])


def row_groups() -> st.SearchStrategy[tuple[Any, ...]]:
    """Draw zero or more groups."""
    return st.sampled_from([(), ("user-1",), (1,), ("1",), ("user-1", 1), (7, "1", "user-1")])


def coordinates(limit: float = 64.0) -> st.SearchStrategy[float]:
    """Draw finite coordinates below ``limit``: signed zeros, ties of the grid, large ones."""
    edge = limit - 3 * _TIE
    special = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, _TIE, 3 * _TIE, -_TIE, edge, -edge])
    return special | st.floats(-edge, edge)


def embeddings(dim: int, limit: float = 64.0) -> st.SearchStrategy[tuple[float, ...]]:
    """Draw one embedding."""
    return st.tuples(*[coordinates(limit)] * dim)


@st.composite
def row_lists(
    draw: st.DrawFn,
    dim: int,
    *,
    min_size: int = 0,
    max_size: int = 6,
    limit: float = 64.0,
    ids: st.SearchStrategy[Any] | None = None,
    labels: st.SearchStrategy[Any] | None = None,
    groups: st.SearchStrategy[tuple[Any, ...]] | None = None,
) -> tuple[ToyRow, ...]:
    """Draw rows with different ids; embeddings repeat often."""
    pool = draw(st.lists(embeddings(dim, limit), min_size=1, max_size=3))
    row = st.builds(
        ToyRow,
        ids or row_ids(),
        row_labels() if labels is None else labels,
        st.sampled_from(pool),
        groups or row_groups(),
    )
    sizes = {"min_size": min_size, "max_size": max_size}
    return tuple(draw(st.lists(row, unique_by=lambda row: row.id, **sizes)))


@st.composite
def scenes(draw: st.DrawFn, dim: int, *, limit: float = 64.0, **options: Any) -> Scene:
    """Draw a scene; ``options`` are those of `row_lists`."""
    rows = draw(row_lists(dim, limit=limit, **options))
    fates = draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    first = tuple(row.id for row, fate in zip(rows, fates, strict=True) if fate == 1)
    second = tuple(row.id for row, fate in zip(rows, fates, strict=True) if fate == 2)
    queries = draw(st.lists(embeddings(dim, limit), min_size=1, max_size=2))
    shuffled = list(rows)
    random.Random(draw(st.integers(0, 9))).shuffle(shuffled)  # noqa: S311 - no secret
    return Scene(rows, first, second, tuple(shuffled), np.array(queries, np.float64))


# -- the laws -------------------------------------------------------------------------------------


class DeletionLaws:
    """Every ``check_…`` method is a law; a subclass gets each as a ``test_…`` of its own.

    Attributes:
        dim: Size of an embedding.
        max_examples: Examples per law.
        tolerance: Largest difference between readings of subjects with equal rows.
        batch_tolerance: Largest difference that other queries in the batch may make.
        separation: How far apart the two classes of the law about ignored memories lie.
        crowd: Rows of each of these two classes.
        reads: Whether the subject implements `read`; if not, laws about readings are left out.
        is_reading_only: Whether only laws about readings are tested, because another subclass has
            the same subject and another way to read it.
        exempt: Names of laws that do not hold for this subject, each with the reason.
    """

    dim: ClassVar[int] = 3
    max_examples: ClassVar[int] = 40
    tolerance: ClassVar[float] = 1e-6
    batch_tolerance: ClassVar[float] = 1e-5
    separation: ClassVar[float] = 4.0
    crowd: ClassVar[int] = 1
    reads: ClassVar[bool] = True
    is_reading_only: ClassVar[bool] = False
    exempt: ClassVar[dict[str, str]] = {}

    # -- hooks -----------------------------------------------------------------------------------

    def build(self, rows: Sequence[ToyRow]) -> Any:
        """Return a new subject that holds these rows (possibly none), stored in this order."""
        raise NotImplementedError

    def add(
        self,
        subject: Any,
        rows: Sequence[ToyRow],
        *,
        reinstate: bool = False,
        skip_forgotten: bool = False,
    ) -> None:
        """Store more rows in the subject."""
        raise NotImplementedError

    def forget(
        self,
        subject: Any,
        *,
        ids: Sequence[Any] | None = None,
        groups: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
        missing_ok: bool = False,
    ) -> None:
        """Take rows out of the subject."""
        raise NotImplementedError

    def state(self, subject: Any) -> bytes:
        """Return the canonical state."""
        raise NotImplementedError

    def digest(self, subject: Any) -> str:
        """Return the digest of the live rows."""
        raise NotImplementedError

    def rebuild(self, subject: Any) -> Any:
        """Return a new subject loaded from the canonical state, rows in canonical order."""
        raise NotImplementedError

    def classes(self, subject: Any) -> list[Any]:
        """Return the labels of live rows as the subject reports them."""
        raise NotImplementedError

    def read(self, subject: Any, queries: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return class probabilities, (queries, classes); never called without live rows."""
        raise NotImplementedError

    @classmethod
    def scenes(cls) -> st.SearchStrategy[Scene]:
        """Return the strategy the laws draw from; narrow it where the subject needs that."""
        return scenes(cls.dim)

    # -- machinery -------------------------------------------------------------------------------

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        names = [name for name in dir(cls) if name.startswith("check_")]
        unknown = sorted(set(cls.exempt) - set(names))
        if unknown:
            raise TypeError(f"{cls.__name__}.exempt names no law of DeletionLaws: {unknown}")
        for name in names:
            law = getattr(cls, name)
            is_reading = name.endswith("_when_read")
            is_asked_for = cls.reads if is_reading else not cls.is_reading_only
            is_left_out = name in cls.exempt or not is_asked_for
            test = None if is_left_out else cls._test_of(law)
            setattr(cls, name.replace("check_", "test_", 1).removesuffix("_when_read"), test)

    @classmethod
    def _test_of(cls, law: Callable[..., None]) -> Callable[..., None]:
        def run(self: DeletionLaws, scene: Scene) -> None:
            law(self, scene)

        run.__name__ = run.__qualname__ = law.__name__.replace("check_", "test_", 1)
        run.__doc__ = law.__doc__
        few = settings(
            max_examples=cls.max_examples, deadline=None, suppress_health_check=list(HealthCheck)
        )
        return few(given(scene=cls.scenes())(run))

    def snapshot(self, subject: Any) -> tuple[bytes, str, list[tuple[str, str]]]:
        """Return everything that must not change when a call fails."""
        return self.state(subject), self.digest(subject), shown(self.classes(subject))

    def assert_same(self, subject: Any, other: Any) -> None:
        """Check that two subjects have the same state, digest and classes."""
        assert self.snapshot(subject) == self.snapshot(other)

    def assert_refused(
        self, subject: Any, call: Callable[[], object], kind: type[ErasableError] = ErasableError
    ) -> str:
        """Check that a call raises and changes nothing; return the message."""
        before = self.snapshot(subject)
        with pytest.raises(kind) as caught:
            call()
        assert self.snapshot(subject) == before
        return str(caught.value)

    def assert_close(self, actual: Any, expected: Any, tolerance: float | None = None) -> None:
        """Check that two readings agree within the subject's tolerance."""
        limit = self.tolerance if tolerance is None else tolerance
        np.testing.assert_allclose(actual, expected, rtol=0, atol=limit)

    def fresh_row(self, scene: Scene, **changes: Any) -> ToyRow:
        """Return a row whose id and embedding no row of the scene has."""
        embedding = (7.25,) * self.dim
        assume(all(np.abs(np.subtract(row.embedding, 7.25)).max() > 1e-3 for row in scene.rows))
        row = ToyRow("a fresh id", "a fresh class", embedding)
        return replace(row, **changes)

    # -- law 1: forgetting equals never having stored ----------------------------------------------

    def check_forgetting_ids_equals_building_without_them(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.gone)
        self.assert_same(subject, self.build(scene.without_ids(scene.gone)))

    def check_forgetting_groups_equals_building_without_their_rows(self, scene: Scene) -> None:
        groups = sorted({group for row in scene.rows for group in row.groups}, key=repr)[:1]
        subject = self.build(scene.rows)
        self.forget(subject, groups=groups)
        left = [row for row in scene.rows if not set(groups) & set(row.groups)]
        self.assert_same(subject, self.build(left))

    def check_forgetting_classes_equals_building_without_their_rows(self, scene: Scene) -> None:
        labels = sorted_classes(scene.rows)[:1]
        subject = self.build(scene.rows)
        self.forget(subject, classes=labels)
        keys = {class_key(label) for label in labels}
        left = [row for row in scene.rows if class_key(row.label) not in keys]
        self.assert_same(subject, self.build(left))

    def check_selectors_are_united(self, scene: Scene) -> None:
        groups = sorted({group for row in scene.rows for group in row.groups}, key=repr)[:1]
        labels = sorted_classes(scene.rows)[-1:]
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.first, groups=groups, classes=labels)
        keys = {class_key(label) for label in labels}
        left = [
            row
            for row in scene.without_ids(scene.first)
            if not set(groups) & set(row.groups) and class_key(row.label) not in keys
        ]
        self.assert_same(subject, self.build(left))

    def check_forgetting_everything_leaves_an_empty_subject(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        self.forget(subject, ids=[row.id for row in scene.rows])
        self.assert_same(subject, self.build([]))

    def check_rebuilding_keeps_the_state(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.gone)
        self.assert_same(subject, self.rebuild(subject))

    def check_equal_states_read_bit_equal_after_rebuild_when_read(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.gone)
        kept = set(scene.without_ids(scene.gone))
        assume(kept)
        other = self.build([row for row in scene.shuffled if row in kept])
        expected = self.read(self.rebuild(other), scene.queries)
        np.testing.assert_array_equal(self.read(self.rebuild(subject), scene.queries), expected)

    def check_forgetting_reads_as_building_without_when_read(self, scene: Scene) -> None:
        kept = scene.without_ids(scene.gone)
        assume(kept)
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.gone)
        expected = self.read(self.build(kept), scene.queries)
        self.assert_close(self.read(subject, scene.queries), expected)

    def check_a_history_reads_as_its_outcome_when_read(self, scene: Scene) -> None:
        # Readings in between, so that whatever a reading keeps has to follow every change.
        kept = scene.without_ids(scene.second)
        assume(kept)
        row = self.fresh_row(scene)
        subject = self.build([*scene.rows, row])
        self.read(subject, scene.queries)
        self.forget(subject, ids=scene.first)
        self.read(subject, scene.queries)
        self.add(subject, scene.with_ids(scene.first), reinstate=True)
        self.forget(subject, ids=scene.second)
        self.read(subject, scene.queries)
        self.forget(subject, ids=[row.id])
        expected = self.read(self.build(kept), scene.queries)
        self.assert_close(self.read(subject, scene.queries), expected)

    def check_the_digest_tells_different_rows_apart(self, scene: Scene) -> None:
        assume(scene.gone)
        subject = self.build(scene.rows)
        before = self.digest(subject)
        self.forget(subject, ids=scene.gone)
        assert self.digest(subject) != before

    # -- law 2: order and company do not matter ----------------------------------------------------

    def check_row_order_does_not_change_the_state(self, scene: Scene) -> None:
        self.assert_same(self.build(scene.rows), self.build(scene.shuffled))

    def check_adding_in_parts_equals_adding_at_once(self, scene: Scene) -> None:
        subject = self.build(scene.with_ids(scene.first))
        for row in scene.without_ids(scene.first):
            self.add(subject, [row])
        self.assert_same(subject, self.build(scene.rows))

    def check_row_order_does_not_change_readings_when_read(self, scene: Scene) -> None:
        assume(scene.rows)
        expected = self.read(self.build(scene.rows), scene.queries)
        self.assert_close(self.read(self.build(scene.shuffled), scene.queries), expected)

    def check_other_queries_do_not_change_a_reading_when_read(self, scene: Scene) -> None:
        assume(scene.rows)
        subject = self.build(scene.rows)
        together = self.read(subject, scene.queries)
        alone = [self.read(subject, query[None])[0] for query in scene.queries]
        self.assert_close(together, np.array(alone), self.batch_tolerance)

    def check_reading_changes_nothing_when_read(self, scene: Scene) -> None:
        assume(scene.rows)
        subject = self.build(scene.rows)
        before = self.snapshot(subject)
        self.read(subject, scene.queries)
        assert self.snapshot(subject) == before

    def check_classes_are_sorted_never_first_seen(self, scene: Scene) -> None:
        subject = self.build(scene.shuffled)
        assert shown(self.classes(subject)) == shown(sorted_classes(scene.rows))

    def check_a_forgotten_class_leaves_no_name_behind(self, scene: Scene) -> None:
        subject = self.build(scene.shuffled)
        self.forget(subject, ids=scene.gone)
        expected = sorted_classes(scene.without_ids(scene.gone))
        assert shown(self.classes(subject)) == shown(expected)

    def check_a_reading_has_one_column_per_class_when_read(self, scene: Scene) -> None:
        kept = scene.without_ids(scene.gone)
        assume(kept)
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.gone)
        shape = self.read(subject, scene.queries).shape
        assert shape == (len(scene.queries), len(sorted_classes(kept)))

    # -- law 3: forgets commute and compose, reinstating undoes ------------------------------------

    def check_forgets_commute(self, scene: Scene) -> None:
        one, other = self.build(scene.rows), self.build(scene.rows)
        for ids in (scene.first, scene.second):
            self.forget(one, ids=ids)
        for ids in (scene.second, scene.first):
            self.forget(other, ids=ids)
        self.assert_same(one, other)

    def check_forgets_compose(self, scene: Scene) -> None:
        one, other = self.build(scene.rows), self.build(scene.rows)
        for ids in (scene.first, scene.second):
            self.forget(one, ids=ids)
        self.forget(other, ids=scene.gone)
        self.assert_same(one, other)

    def check_a_forget_and_an_unrelated_add_commute(self, scene: Scene) -> None:
        row = self.fresh_row(scene)
        one, other = self.build(scene.rows), self.build(scene.rows)
        self.forget(one, ids=scene.gone)
        self.add(one, [row])
        self.add(other, [row])
        self.forget(other, ids=scene.gone)
        self.assert_same(one, other)

    def check_reinstating_restores_the_state(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.gone)
        self.add(subject, scene.with_ids(scene.gone), reinstate=True)
        self.assert_same(subject, self.build(scene.rows))

    def check_forgetting_nothing_is_the_identity(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        before = self.snapshot(subject)
        self.forget(subject, ids=[])
        assert self.snapshot(subject) == before

    def check_missing_ok_forgets_the_rest(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        self.forget(subject, ids=["an id nobody has", *scene.gone], missing_ok=True)
        self.assert_same(subject, self.build(scene.without_ids(scene.gone)))

    # -- forgotten rows stay out -------------------------------------------------------------------

    def check_forgotten_ids_are_refused(self, scene: Scene) -> None:
        assume(scene.gone)
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.gone)
        row = self.fresh_row(scene, id=scene.gone[0])
        self.assert_refused(subject, lambda: self.add(subject, [row]), RowIdError)

    def check_forgotten_content_is_refused_under_another_id(self, scene: Scene) -> None:
        assume(scene.gone)
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.gone)
        copy = replace(scene.with_ids(scene.gone)[0], id="a fresh id", groups=())
        self.assert_refused(subject, lambda: self.add(subject, [copy]), RowIdError)

    def check_rows_of_a_forgotten_group_are_refused(self, scene: Scene) -> None:
        row = self.fresh_row(scene, groups=("the group",))
        subject = self.build([*scene.rows, row])
        self.forget(subject, groups=["the group"])
        later = replace(row, id="another id", embedding=(6.5,) * self.dim)
        self.assert_refused(subject, lambda: self.add(subject, [later]), RowIdError)

    def check_one_forgotten_row_refuses_the_whole_add(self, scene: Scene) -> None:
        assume(scene.gone)
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.gone)
        rows = [self.fresh_row(scene), scene.with_ids(scene.gone)[0]]
        self.assert_refused(subject, lambda: self.add(subject, rows), RowIdError)

    def check_skip_forgotten_stores_the_others(self, scene: Scene) -> None:
        subject, row = self.build(scene.rows), self.fresh_row(scene)
        self.forget(subject, ids=scene.gone)
        self.add(subject, [*scene.with_ids(scene.gone), row], skip_forgotten=True)
        self.assert_same(subject, self.build([*scene.without_ids(scene.gone), row]))

    def check_skip_forgotten_may_skip_every_row(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.gone)
        self.add(subject, scene.with_ids(scene.gone), skip_forgotten=True)
        self.assert_same(subject, self.build(scene.without_ids(scene.gone)))

    def check_a_reinstated_row_can_be_forgotten_again(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.gone)
        self.add(subject, scene.with_ids(scene.gone), reinstate=True)
        self.forget(subject, ids=scene.gone)
        self.assert_same(subject, self.build(scene.without_ids(scene.gone)))

    # -- law 5: the memory decides -----------------------------------------------------------------

    def check_swapping_two_classes_swaps_their_readings_when_read(self, scene: Scene) -> None:
        classes = sorted_classes(scene.rows)
        assume(len(classes) > 1)
        first, last = classes[0], classes[-1]
        other = {class_key(first): last, class_key(last): first}
        swapped = [replace(r, label=other.get(class_key(r.label), r.label)) for r in scene.rows]
        expected = self.read(self.build(scene.rows), scene.queries)
        expected[:, [0, -1]] = expected[:, [-1, 0]]
        self.assert_close(self.read(self.build(swapped), scene.queries), expected)

    def check_a_reading_follows_the_labels_of_near_rows_when_read(self, scene: Scene) -> None:
        # A reading that ignores the memory would survive the swap above; it cannot survive this.
        place = np.eye(self.dim)[0] * self.separation
        for labels, winner in (("ab", 0), ("ba", 1)):
            rows = [
                ToyRow(f"{label} {number}", label, tuple(side * place))
                for side, label in zip((1, -1), labels, strict=True)
                for number in range(self.crowd)
            ]
            reading = self.read(self.build(rows), place[None])[0]
            assert reading.argmax() == winner
            assert reading.max() > 0.5 + self.batch_tolerance

    def check_forgetting_a_class_only_rescales_the_others_when_read(self, scene: Scene) -> None:
        classes = sorted_classes(scene.rows)
        assume(len(classes) > 1)
        subject = self.build(scene.rows)
        others = self.read(subject, scene.queries)[:, 1:]
        self.forget(subject, classes=classes[:1])
        after = self.read(subject, scene.queries)
        self.assert_close(after * others.sum(axis=1, keepdims=True), others)

    # -- law 6: a call that fails says why and changes nothing -------------------------------------

    def check_unknown_ids_are_refused(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        ids = [*scene.gone, "an id nobody has"]
        message = self.assert_refused(subject, lambda: self.forget(subject, ids=ids), RowIdError)
        assert "'an id nobody has'" in message

    def check_forgetting_an_id_twice_is_refused(self, scene: Scene) -> None:
        assume(scene.gone)
        subject = self.build(scene.rows)
        self.forget(subject, ids=scene.gone)
        message = self.assert_refused(
            subject, lambda: self.forget(subject, ids=scene.gone[:1]), RowIdError
        )
        assert repr(scene.gone[0]) in message

    def check_a_refused_forget_names_every_problem(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        names = {"ids": ["no id"], "groups": ["no group"], "classes": ["no class"]}
        message = self.assert_refused(subject, lambda: self.forget(subject, **names), RowIdError)
        assert all(repr(name) in message for (name,) in names.values())

    def check_forgetting_without_a_selector_is_refused(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        self.assert_refused(subject, lambda: self.forget(subject), ArgumentError)

    def check_an_id_in_use_is_refused(self, scene: Scene) -> None:
        assume(scene.rows)
        subject = self.build(scene.rows)
        rows = [self.fresh_row(scene), self.fresh_row(scene, id=scene.rows[0].id)]
        message = self.assert_refused(subject, lambda: self.add(subject, rows), RowIdError)
        assert repr(scene.rows[0].id) in message

    def check_a_repeated_id_is_refused(self, scene: Scene) -> None:
        subject, row = self.build(scene.rows), self.fresh_row(scene)
        self.assert_refused(subject, lambda: self.add(subject, [row, row]), ErasableError)

    def check_nan_is_refused(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        bad = self.fresh_row(scene, embedding=(math.nan,) * self.dim)
        rows = [self.fresh_row(scene, id="good"), bad]
        self.assert_refused(subject, lambda: self.add(subject, rows), ArgumentError)

    def check_a_wrong_shape_is_refused(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        row = self.fresh_row(scene, embedding=(1.0,) * (self.dim + 1))
        self.assert_refused(subject, lambda: self.add(subject, [row]), ArgumentError)

    def check_a_label_of_another_type_is_refused(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        row = self.fresh_row(scene, label=None)
        self.assert_refused(subject, lambda: self.add(subject, [row]), ArgumentError)

    def check_a_refused_add_names_every_problem(self, scene: Scene) -> None:
        subject = self.build(scene.rows)
        bad = self.fresh_row(scene, label=None, embedding=(math.nan,) * self.dim)
        message = self.assert_refused(subject, lambda: self.add(subject, [bad, bad]), ArgumentError)
        assert all(part in message for part in ("'a fresh id'", "None", "NaN"))

    def check_reinstate_and_skip_forgotten_exclude_each_other(self, scene: Scene) -> None:
        subject, row = self.build(scene.rows), self.fresh_row(scene)
        self.assert_refused(
            subject,
            lambda: self.add(subject, [row], reinstate=True, skip_forgotten=True),
            ArgumentError,
        )
