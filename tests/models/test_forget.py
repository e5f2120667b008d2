"""Forgetting through the estimator: receipts, plans, refusals."""

import copy
import dataclasses
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from erasable import Receipt, SPMClassifier
from erasable.errors import (
    AlreadyForgottenError,
    ArgumentError,
    NothingFoundError,
    RowIdError,
    StoreError,
)
from models.toys import TINY, blobs, fitted, names, remembering, state


def grouped(count=12):
    """Return an untrained model whose rows belong to three subjects in turn."""
    X, y = blobs(count)
    groups = [f"subject-{i % 3}" for i in range(count)]
    model = SPMClassifier("identity").remember(X, y, ids=names(count), groups=groups)
    return model, X, y


# -- receipts -------------------------------------------------------------------------------------


def test_the_receipt_counts_the_rows():
    assert fitted().forget(ids=names(3)).rows == 3


def test_the_receipt_has_the_digests_around_the_forget():
    model = remembering()
    before = model.memory.digest
    receipt = model.forget(ids=names(3))
    assert (receipt.digest_before, receipt.digest_after) == (before, model.memory.digest)


def test_the_digest_after_is_that_of_a_model_that_never_held_the_rows():
    X, y = blobs(40)
    other = SPMClassifier("identity").remember(X[3:], y[3:], ids=names(37, 3))
    assert remembering().forget(ids=names(3)).digest_after == other.memory.digest


def test_the_receipt_names_the_weights():
    model = fitted()
    assert model.forget(ids=names(1)).weights_digest == model.weights_digest


def test_the_receipt_has_the_callers_request_id():
    assert fitted().forget(ids=names(1), request_id="REQ-7").request_id == "REQ-7"


def test_generated_request_ids_differ():
    model = fitted()
    assert model.forget(ids=names(1)).request_id != model.forget(ids=names(1, 1)).request_id


def test_the_receipt_has_the_time_in_utc():
    stamp = datetime.fromisoformat(fitted().forget(ids=names(1)).time)
    assert stamp.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - stamp) < timedelta(minutes=1)


def test_the_receipt_says_its_format():
    assert fitted().forget(ids=names(1)).format == "erasable.receipt.2"


def test_the_receipt_does_not_name_the_rows():
    assert "row-number" not in fitted().forget(ids=names(1)).to_json()


def test_the_receipt_cannot_be_changed():
    receipt = fitted().forget(ids=names(1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        receipt.rows = 0


RECEIPT = Receipt(
    request_id="Straße 7",
    time="2030-01-02T03:04:05.678+00:00",
    outcome="done",
    rows=2,
    already_forgotten=0,
    unknown=1,
    level="memory",
    basis="recorded",
    digest_before="aa",
    digest_after="bb",
    weights_digest="cc",
    model="SPMClassifier",
    library_version="0.1",
    input_kind="4 features",
    notes=("rows of fit: the weights saw 2 of 2 rows",),
)


def test_canonical_json_is_pinned():
    assert RECEIPT.to_json() == (
        '{"already_forgotten":0,"basis":"recorded","digest_after":"bb","digest_before":"aa",'
        '"format":"erasable.receipt.2","input_kind":"4 features","level":"memory",'
        '"library_version":"0.1","model":"SPMClassifier",'
        '"notes":["rows of fit: the weights saw 2 of 2 rows"],"outcome":"done",'
        '"request_id":"Stra\\u00dfe 7","rows":2,"saved":false,'
        '"time":"2030-01-02T03:04:05.678+00:00","unknown":1,"weights_digest":"cc"}'
    )


def test_canonical_json_read_and_written_again_is_the_same():
    receipt = fitted().forget(ids=names(1), request_id="ü")
    again = Receipt.from_json(receipt.to_json())
    assert (again, again.to_json()) == (receipt, receipt.to_json())


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 100_000, '{"format": 1}', RECEIPT.to_json().replace("2,", "2, ")]
)
def test_other_text_is_no_receipt(text):
    with pytest.raises(StoreError, match="Expected a receipt"):
        Receipt.from_json(text)


def test_a_printed_receipt_is_a_table():
    lines = str(RECEIPT).splitlines()
    assert lines[3] == "rows forgotten   2"
    assert "on disk          no: call save()" in lines
    assert lines[-1] == "note             rows of fit: the weights saw 2 of 2 rows"


def test_saving_returns_receipts_that_say_so(tmp_path):
    model = fitted()
    receipt = model.forget(ids=names(1))
    assert not receipt.saved
    assert model.save(tmp_path / "model") == (dataclasses.replace(receipt, saved=True),)
    assert model.save(tmp_path / "model") == ()


# -- requests that find nothing -------------------------------------------------------------------


def test_an_unknown_id_has_no_level():
    receipt = fitted().forget(ids=["nobody"], missing_ok=True)
    assert (receipt.outcome, receipt.level, receipt.basis) == ("nothing found", None, None)
    assert (receipt.rows, receipt.unknown) == (0, 1)


def test_a_forgotten_row_has_the_level_that_it_was_forgotten_at():
    model = fitted()
    X, y = blobs(1, seed=9)
    model.remember(X, y, ids=["later"])
    model.forget(ids=["later"])
    model.forget(ids=names(1))
    for row_id, level in (("later", "exact"), (names(1)[0], "memory")):
        receipt = model.forget(ids=[row_id], missing_ok=True)
        assert (receipt.outcome, receipt.level) == ("already forgotten", level)


def test_a_refusal_says_when_a_row_was_forgotten():
    model = fitted()
    day = model.forget(ids=names(1)).time[:10]
    with pytest.raises(AlreadyForgottenError, match=f"already forgotten on {day}, level memory"):
        model.forget(ids=names(1))


def test_a_refusal_says_that_nothing_is_known():
    with pytest.raises(NothingFoundError, match="1 row id is unknown: 'nobody'"):
        fitted().forget(ids=["nobody"])


# -- what forgetting does -------------------------------------------------------------------------


def test_forgetting_does_not_touch_the_weights():
    model = fitted()
    before = copy.deepcopy(model.network_.state_dict())
    model.forget(ids=names(20))
    after = model.network_.state_dict()
    assert all(before[name].equal(after[name]) for name in before)


def test_a_forgotten_class_disappears():
    model = fitted()
    model.forget(classes=["a"])
    assert model.classes_.tolist() == ["b"]


def test_a_forgotten_class_is_never_predicted():
    model = fitted()
    model.forget(classes=["a"])
    assert set(model.predict(blobs(40)[0])) == {"b"}


def test_a_forgotten_row_no_longer_votes():
    model = remembering(reduction="rows")
    model.forget(ids=names(1))
    assert "row-number-0" not in model.votes(blobs(40)[0], top=40).ids


def test_forgetting_a_group_takes_all_its_rows():
    model, _, _ = grouped()
    assert model.forget(groups=["subject-1"]).rows == 4
    assert not any("subject-1" in row.groups for row in model.memory)


def test_forgetting_is_all_or_nothing():
    model = fitted()
    before = state(model)
    with pytest.raises(RowIdError, match="'nobody'"):
        model.forget(ids=[*names(3), "nobody"])
    assert state(model) == before


def test_missing_rows_can_be_skipped():
    assert fitted().forget(ids=[*names(3), "nobody"], missing_ok=True).rows == 3


def test_an_empty_model_can_be_filled_again():
    model = fitted()
    model.forget(classes=["a", "b"])
    model.remember(*blobs(2, seed=9), ids=["p", "q"])
    assert model.classes_.tolist() == ["a", "b"]


# -- dry runs -------------------------------------------------------------------------------------


def test_a_dry_run_changes_nothing():
    model = fitted()
    before, marks = state(model), len(model.memory.tombstones.marks)
    model.forget(ids=names(3), dry_run=True)
    assert (state(model), len(model.memory.tombstones.marks)) == (before, marks)


def test_a_dry_run_counts_the_rows():
    assert fitted().forget(ids=names(3), classes=["a"], dry_run=True).rows == 21


def test_a_dry_run_names_the_classes_that_would_be_empty():
    model = fitted()
    assert model.forget(classes=["b", "a"], dry_run=True).emptied == ("a", "b")


def test_a_dry_run_tells_how_far_each_prototype_will_move():
    model = fitted()
    plan = model.forget(ids=names(7), dry_run=True)
    before = model.memory.sums.means.copy()
    model.forget(ids=names(7))
    moved = np.linalg.norm(model.memory.sums.means - before, axis=1)
    expected = moved / np.linalg.norm(before, axis=1)
    assert [label for label, _ in plan.drift] == ["a", "b"]
    np.testing.assert_allclose([value for _, value in plan.drift], expected, rtol=1e-12)


def test_a_dry_run_tells_no_drift_of_classes_it_leaves_alone():
    plan = fitted().forget(ids=names(1), dry_run=True)
    assert [label for label, _ in plan.drift] == ["a"]


def with_copies():
    """Return a model with rows a to e: b is near to a, c nearer, e alone, d in the same place."""
    rows = [[3.0, 4.0], [3.0, 4.2], [3.1, 4.0], [3.0, 4.0], [-3.0, 4.0]]
    return SPMClassifier("identity").remember(np.array(rows), list("xyxyx"), ids=list("abcde"))


def test_a_dry_run_lists_rows_that_are_near_and_would_stay():
    plan = with_copies().forget(ids=["a"], dry_run=True, near=0.05)
    assert [(copy.id, copy.of) for copy in plan.near] == [("d", "a"), ("c", "a"), ("b", "a")]
    assert [copy.relative for copy in plan.near] == pytest.approx([0, 0.02, 0.04], abs=1e-4)


def test_a_dry_run_does_not_list_rows_that_it_names():
    plan = with_copies().forget(ids=["a", "d"], dry_run=True, near=0.03)
    assert [(copy.id, copy.of) for copy in plan.near] == [("c", "a")]


def test_a_dry_run_lists_each_row_once_by_the_nearest_that_is_named():
    plan = with_copies().forget(ids=["a", "b"], dry_run=True, near=0.05)
    assert [(copy.id, copy.of) for copy in plan.near] == [("d", "a"), ("c", "a")]


def test_a_dry_run_lists_no_copies_unless_asked():
    assert with_copies().forget(ids=["a"], dry_run=True).near is None
    assert with_copies().forget(ids=["e"], dry_run=True, near=0.05).near == ()


@pytest.mark.parametrize("near", [-0.1, float("nan"), float("inf"), True, "0.1"])
def test_near_is_a_distance(near):
    with pytest.raises(ArgumentError, match="near to be a number of 0 or more"):
        with_copies().forget(ids=["a"], dry_run=True, near=near)


def test_near_needs_a_dry_run():
    model = with_copies()
    with pytest.raises(ArgumentError, match="near only with dry_run=True"):
        model.forget(ids=["a"], near=0.05)
    assert len(model.memory) == 5


def test_copies_are_found_among_more_rows_than_are_compared_at_once(monkeypatch):
    from erasable.memory import _find

    expected = with_copies().forget(classes=["x"], dry_run=True, near=0.05).near
    monkeypatch.setattr(_find, "_QUERIES", 1)
    monkeypatch.setattr(_find, "_CHUNK", 2)
    assert with_copies().forget(classes=["x"], dry_run=True, near=0.05).near == expected
    assert [(copy.id, copy.of) for copy in expected] == [("d", "a"), ("b", "a")]


def test_a_dry_run_of_something_unknown_is_refused():
    with pytest.raises(RowIdError, match="'nobody'"):
        fitted().forget(ids=["nobody"], dry_run=True)


# -- forgotten rows stay out ----------------------------------------------------------------------


@pytest.fixture
def forgotten():
    """Return a model without its first subject's rows, and those rows."""
    model, X, y = grouped()
    model.forget(groups=["subject-0"])
    return model, X[::3], y[::3]


def test_the_same_id_is_refused(forgotten):
    model, X, _ = forgotten
    with pytest.raises(RowIdError, match="1 of 1 rows were forgotten before"):
        model.remember(X[:1] + 50, ["a"], ids=["row-number-0"])


def test_the_same_content_under_another_id_is_refused(forgotten):
    model, X, y = forgotten
    with pytest.raises(RowIdError, match="4 of 4 rows were forgotten before"):
        model.remember(X, y, ids=names(4, 100))


def test_another_row_of_a_forgotten_group_is_refused(forgotten):
    model, X, _ = forgotten
    with pytest.raises(RowIdError, match="forgotten before"):
        model.remember(X[:1] + 50, ["a"], ids=["new"], groups=["subject-0"])


def test_an_unrelated_row_is_accepted(forgotten):
    model, X, _ = forgotten
    model.remember(X[:1] + 50, ["a"], ids=["new"], groups=["subject-9"])
    assert "new" in model.memory


def test_fit_refuses_forgotten_rows_before_it_trains(forgotten, tmp_path):
    model, X, y = forgotten
    model.set_params(**TINY, epochs=2, training__checkpoint=tmp_path / "state")
    with pytest.raises(RowIdError, match="forgotten before"):
        model.fit(X, y, ids=names(4, 100))
    assert not (tmp_path / "state").exists()


def test_fit_of_other_rows_keeps_refusing_the_forgotten_ones(forgotten):
    model, X, y = forgotten
    model.fit(*blobs(8, seed=4), ids=names(8, 200))
    with pytest.raises(RowIdError, match="forgotten before"):
        model.remember(X[:1], y[:1], ids=["new"])


def test_skip_forgotten_stores_only_the_others(forgotten):
    model, X, y = forgotten
    rows = np.concatenate([X, X[:1] + 50])
    model.remember(rows, [*y, "a"], ids=names(5, 100), skip_forgotten=True)
    assert [f"row-number-{i}" in model.memory for i in range(100, 105)] == [False] * 4 + [True]


def test_reinstate_restores_the_digest():
    model, X, y = grouped()
    before = model.memory.digest
    model.forget(ids=names(2))
    groups = ["subject-0", "subject-1"]
    model.remember(X[:2], y[:2], ids=names(2), groups=groups, reinstate=True)
    assert model.memory.digest == before


def test_generated_ids_never_return():
    X, y = blobs(6)
    model = SPMClassifier("identity").remember(X, y)
    model.forget(ids=[5])
    model.remember(X[:1] + 50, ["a"])
    assert sorted(row.id for row in model.memory) == [0, 1, 2, 3, 4, 6]


def test_forget_without_a_selector_is_refused():
    with pytest.raises(ArgumentError, match="ids, groups or classes"):
        fitted().forget()


def test_the_drift_of_a_number_is_not_that_of_a_truth_value():
    X = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 2.0]]
    model = SPMClassifier("identity").remember(X, [1, 1, True, True], ids=["a", "b", "c", "d"])
    plan = model.forget(ids=["a", "c"], dry_run=True)
    assert [type(label) for label, _ in plan.drift] == [bool, int]
