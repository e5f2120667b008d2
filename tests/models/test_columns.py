"""What names rows: an index that somebody made does, the one that pandas counts does not."""

import numpy as np
import pytest

from erasable import KNNClassifier, ParametricClassifier, SPMClassifier
from erasable.errors import ArgumentError
from erasable.models import audit

pandas = pytest.importorskip("pandas")

X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
Y = list("aabbab")
NAMES = [f"customer-{row}" for row in range(6)]
ORDER = [3, 0, 5, 1, 4, 2]


def table(index=None):
    return pandas.DataFrame(X, columns=list("pqr"), index=index)


def column(values, index=None):
    return pandas.Series(values, index=index)


def model(rows, labels=Y, **options):
    return SPMClassifier("identity").remember(rows, labels, **options)


def ids(found):
    return sorted(row.id for row in found.memory)


def rows(found):
    """Return what each row holds, by its first number."""
    position = found.memory.table.position
    return {
        float(found.memory.table.embeddings[position(row.id)][0]): (row.id, row.label, row.groups)
        for row in found.memory
    }


@pytest.mark.parametrize("verb", ["fit", "remember"])
def test_an_index_of_names_is_taken_as_ids(verb):
    found = getattr(SPMClassifier("identity", epochs=0), verb)(table(NAMES), Y)
    assert ids(found) == NAMES


@pytest.mark.parametrize("index", [[7, 3, 9, 1, 5, 8], [0, 1, 2, 3, 5, 4], range(10, 16)])
def test_an_index_of_numbers_that_somebody_chose_is_taken_as_ids(index):
    chosen = pandas.RangeIndex(index.start, index.stop) if isinstance(index, range) else index
    assert ids(model(table(chosen))) == sorted(index)


def test_the_index_of_labels_names_rows_whose_inputs_have_none():
    assert ids(model(X, column(Y, NAMES))) == NAMES


def test_a_default_index_names_nothing():
    found = model(table())
    found.remember(table() + 9, Y)
    assert ids(found) == list(range(12))


def test_ids_that_are_given_go_before_the_index():
    assert ids(model(table(NAMES), ids=list("uvwxyz"))) == list("uvwxyz")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (["a", "a", "b", "c", "d", "e"], "more than once: 'a'"),
        (np.arange(6) / 2, "text or whole numbers"),
        ([True, "a", "b", "c", "d", "e"], "text or whole numbers"),
        (pandas.MultiIndex.from_product([[1, 2], [1, 2, 3]]), "text or whole numbers"),
        (pandas.date_range("2026-01-01", periods=6), "text or whole numbers"),
    ],
)
@pytest.mark.parametrize("verb", ["fit", "remember"])
def test_an_index_that_cannot_name_rows_is_refused_with_the_remedy(verb, index, message):
    found = SPMClassifier("identity", epochs=0)
    with pytest.raises(ArgumentError, match=rf"{message}.*Pass ids="):
        getattr(found, verb)(table(index), Y)
    assert not hasattr(found, "memory_")


def test_an_index_that_cannot_name_rows_is_no_matter_where_ids_are_given():
    assert ids(model(table(["a"] * 6), ids=NAMES)) == NAMES


@pytest.mark.parametrize("what", ["y", "ids", "groups"])
def test_a_column_in_another_order_is_matched_by_index(what):
    whole = {"y": column(Y, NAMES), "ids": column(NAMES, NAMES), "groups": column(NAMES, NAMES)}
    mixed = {**whole, what: whole[what].iloc[ORDER]}
    found = SPMClassifier("identity").remember(table(NAMES), **mixed)
    expected = SPMClassifier("identity").remember(X, Y, ids=NAMES, groups=NAMES)
    assert rows(found) == rows(expected)


@pytest.mark.parametrize("index", [ORDER, [f"other-{row}" for row in range(6)], ["a"] * 6])
@pytest.mark.parametrize("what", ["y", "ids", "groups"])
def test_a_column_with_another_index_is_refused(what, index):
    given = {"y": Y, "ids": NAMES, what: column(NAMES, index)}
    with pytest.raises(ArgumentError, match=rf"{what} with the index of X.*{what}.to_numpy"):
        SPMClassifier("identity").remember(table(), **given)


def test_columns_with_a_default_index_beside_a_shuffled_table_are_refused():
    with pytest.raises(ArgumentError, match="groups with the index of X"):
        model(table(ORDER), groups=column(NAMES))


def test_columns_must_agree_where_the_inputs_have_no_index():
    found = model(X, column(Y, NAMES), groups=column(NAMES, NAMES).iloc[ORDER])
    assert rows(found) == rows(model(X, Y, ids=NAMES, groups=NAMES))


@pytest.mark.parametrize("verb", ["fit", "remember"])
def test_a_default_index_as_ids_is_refused(verb):
    with pytest.raises(ArgumentError, match="only numbers the rows"):
        getattr(SPMClassifier("identity", epochs=0), verb)(X, Y, ids=table().index)


@pytest.mark.parametrize("name", ["ids", "groups", "classes"])
@pytest.mark.parametrize("missing_ok", [True, False])
def test_a_default_index_names_nothing_to_forget(name, missing_ok):
    found = model(table())
    with pytest.raises(ArgumentError, match="only numbers the rows"):
        found.forget(**{name: table().iloc[:2].index}, missing_ok=missing_ok)
    assert len(found.memory) == 6


def test_a_default_index_names_nothing_to_audit():
    with pytest.raises(ArgumentError, match="only numbers the rows"):
        audit(model(table()), ids=table().index)


@pytest.mark.parametrize("name", ["ids", "groups", "classes"])
def test_a_table_names_nothing_to_forget(name):
    with pytest.raises(ArgumentError, match="one column, but got a table"):
        model(table()).forget(**{name: table()}, missing_ok=True)


def test_an_index_of_names_says_what_to_forget():
    found = model(table(NAMES))
    assert found.forget(ids=table(NAMES).index[:2]).rows == 2
    assert ids(found) == NAMES[2:]


def test_excluded_ids_are_matched_by_index():
    found = model(table(NAMES))
    expected = found.predict_proba(table(NAMES), exclude_ids=NAMES)
    own = column(NAMES, NAMES).iloc[ORDER]
    np.testing.assert_array_equal(found.predict_proba(table(NAMES), exclude_ids=own), expected)
    own_votes = found.votes(table(NAMES), exclude_ids=own).ids
    np.testing.assert_array_equal(own_votes, found.votes(table(NAMES), exclude_ids=NAMES).ids)


def test_a_default_index_names_nothing_to_exclude():
    found = model(table())
    with pytest.raises(ArgumentError, match="only numbers the rows"):
        found.predict_proba(table(), exclude_ids=table().index)


def test_labels_are_matched_by_index_where_nothing_has_ids():
    labels = column(Y, NAMES)
    twin = ParametricClassifier(encoder_options={"hidden": [4], "dim": 4}, random_state=0, epochs=2)
    expected = twin.fit(table(NAMES), labels).predict_proba(table(NAMES))
    found = twin.fit(table(NAMES), labels.iloc[ORDER]).predict_proba(table(NAMES))
    np.testing.assert_array_equal(found, expected)


def test_labels_to_tune_with_are_matched_by_index():
    found = KNNClassifier("identity", k=1, epochs=0).remember(table(NAMES), Y)
    labels = column(Y, NAMES)
    assert found.tune(table(NAMES), labels.iloc[ORDER], ks=[1]).k_scores_ == {1: 1.0}


def test_tables_without_an_index_name_nothing():
    arrow = pytest.importorskip("pyarrow")
    found = model(arrow.table({name: X[:, place] for place, name in enumerate("pqr")}))
    assert ids(found) == list(range(6))


@pytest.mark.parametrize("part", [[True, False, True, False, False, False], slice(2, 4)])
def test_a_part_of_a_default_index_does_not_name_rows_that_were_counted(part):
    found = model(table()).remember(table() + 9, Y)
    index = table()[part].index
    with pytest.raises(ArgumentError, match=r"may only number.*list\(index\)"):
        found.forget(ids=index)
    with pytest.raises(ArgumentError, match="may only number"):
        audit(found, ids=index)
    assert found.forget(ids=list(index)).rows == 2


def test_an_index_that_named_rows_names_them_beside_rows_that_were_counted():
    found = model(table([10, 20, 30, 40, 50, 60])).remember(table() + 9, Y)
    assert found.forget(ids=table([10, 20, 30, 40, 50, 60]).index[1:3]).rows == 2
