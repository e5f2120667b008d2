"""Audits: they verify what is so, find what is not, and say what they cannot see."""

import functools
import json
import shutil
import sqlite3
import threading
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from erasable import KNNClassifier, ParametricClassifier, SPMClassifier, declare, load
from erasable.errors import ArgumentError, RowIdError
from erasable.fusion import Reduction, RowsReduction
from erasable.memory import Follower, GaussianView, Grid, LiveRows, Memory, QuantizedSearch
from erasable.memory import _classes as classes_module
from erasable.memory._codebooks import hash_id
from erasable.memory._difference import Difference, compare_memories, compare_rows
from erasable.memory._gaussian import SecondMoments
from erasable.memory._keyring import key_id_of
from erasable.memory._quantized import ProductCodes
from erasable.memory._twin import copy_with_kept, kept
from erasable.models import _audit_views as audit_views
from erasable.models import _reading as reading_module
from erasable.models import audit as audit_model
from erasable.models._audit_report import Audit, Verdict
from erasable.models._canonical import canonical_digest
from models.toys import (
    TINY,
    blobs,
    fitted,
    forget_keys,
    names,
    own_network,
    remembering,
    snapshot,
)

QUERIES = blobs(7, seed=11)[0]
audit = functools.partial(audit_model, simulate=True)
"""What a model would be without rows, and what it is where they are gone."""

VIEWS = ["prototypes", "rows", "neighbours", "gaussian"]


def grouped(count=40, **options):
    """Return a model that was never trained, with rows of four groups."""
    X, y = blobs(count)
    model = SPMClassifier(**{"encoder": "identity", **options})
    return model.remember(X, y, ids=names(count), groups=[f"user-{i % 4}" for i in range(count)])


def used(model):
    """Return the model after it answered once, so that it keeps what it keeps."""
    model.predict(QUERIES)
    return model


def with_graph(**options):
    return used(fitted(set_encoder="graph", support_size=8, epochs=1, **options))


def with_codes(monkeypatch, count=1500):
    """Return a model with an index of codes, as only large memories have one."""
    small = functools.partial(QuantizedSearch, min_rows=1024)
    monkeypatch.setattr(reading_module, "QuantizedSearch", small)
    X, y = blobs(count, dim=8)
    model = KNNClassifier("identity", k=5, search="pq").remember(X, y, ids=names(count))
    model.predict(X[:3])
    return model


def index_of(model):
    return kept(model.memory.live)["codes"].index


def failed(model, part, *where, **named):
    """Check that an audit fails in a part and names the place; return what it says."""
    found = audit(model, **named)
    assert found.verdict is Verdict.FAILED, found
    assert found.first_difference.part == part, found
    assert all(word in found.first_difference.where for word in where), found
    assert str(found).startswith(f"failed: {found.first_difference}")
    return found


# -- what is so is verified -----------------------------------------------------------------------


@pytest.mark.parametrize("reduction", VIEWS)
def test_rows_the_weights_never_saw_are_verified_as_exact(reduction):
    found = audit(used(remembering(reduction=reduction)), ids=names(3))
    assert (found.verdict, found.level, found.basis) == ("exact_verified", "exact", "recorded")
    assert str(found).splitlines()[0] == (
        "simulated: exact, verified for a copy; the model still holds these rows"
    )
    assert (found.live, found.rows, found.queries) == (3, 37, 40)
    assert found.canonical_digest == found.rebuilt_digest
    assert (found.first_difference, found.not_verified) == (None, ())
    assert found.largest_difference == 0
    assert sorted(found.views) == sorted(VIEWS)
    assert found.views[0] == reduction


def test_every_model_is_verified(monkeypatch):
    models = [
        used(fitted(reduction="gaussian")),
        used(KNNClassifier(**TINY, k=3, epochs=1).fit(*blobs(40), ids=names(40))),
        with_graph(reduction="rows"),
        with_graph(reduction="gaussian"),
        with_codes(monkeypatch),
    ]
    audits = [audit(model, ids=names(3)) for model in models]
    assert [found.verdict for found in audits] == ["memory_verified"] * 4 + ["exact_verified"]
    assert [found.kept for found in audits] == [
        ("second moments",),
        (),
        ("graph",),
        ("second moments of rows after the set encoder", "graph"),
        ("codes",),
    ]
    assert audits[1].views == ("knn",)


def test_an_audit_tells_the_digests_that_forgetting_then_leads_to():
    model = used(grouped(reduction="gaussian"))
    before = audit(model, groups=["user-1"])
    receipt = model.forget(groups=["user-1"])
    after = audit(model)
    assert before.memory_digest == receipt.digest_after == after.memory_digest
    assert before.canonical_digest == after.canonical_digest
    assert before.weights_digest == receipt.weights_digest
    assert (before.level, before.basis) == (receipt.level, receipt.basis)


def test_the_canonical_digest_depends_on_how_the_memory_is_read():
    first, second = (audit(remembering(reduction=name)) for name in ("rows", "gaussian"))
    assert first.memory_digest == second.memory_digest
    assert first.canonical_digest != second.canonical_digest


def test_the_canonical_digest_is_that_of_a_model_that_never_had_the_rows():
    X, y = blobs(40)
    without = SPMClassifier("identity").remember(X[3:][::-1], y[3:][::-1], ids=names(37, 3)[::-1])
    expected = canonical_digest(without, without.memory, without.weights_digest)
    assert audit(remembering(), ids=names(3)).canonical_digest == expected


def test_rows_are_named_by_ids_groups_and_classes_together():
    found = audit(grouped(), ids=names(1), groups=["user-1"], classes=["b"])
    assert (found.live, found.rows) == (21, 19)


@pytest.mark.parametrize("make", [remembering, with_graph])
def test_a_history_of_changes_is_verified(make):
    model = used(make(reduction="gaussian"))
    for step in range(4):
        model.forget(ids=names(2, 5 * step))
        model.remember(*blobs(3, classes=("c", "b"), seed=20 + step), ids=names(3, 100 + 3 * step))
        model.predict(QUERIES)
        model.forget(ids=names(2, 100 + 3 * step))
    assert audit(model).is_verified
    assert audit(model, ids=names(3, 30), classes=["c"]).is_verified


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 11), min_size=1)), max_size=5),
    st.sets(st.integers(0, 11)),
    st.sampled_from(VIEWS),
)
def test_whatever_was_done_before_is_verified(steps, named, reduction):
    X, y = blobs(12, classes=("a", "b", "c"))
    model = SPMClassifier("identity", reduction).remember(X, y, ids=list(range(12)))
    for is_back, ids in steps:
        there = [row_id for row_id in sorted(ids) if row_id in model.memory]
        gone = [row_id for row_id in sorted(ids) if row_id not in model.memory]
        if is_back and gone:
            labels = [y[row_id] for row_id in gone]
            model.remember(X[gone], labels, ids=gone, reinstate=True)
        elif there:
            model.forget(ids=there)
        if len(model.memory):
            model.predict(X[:2])
    found = audit(model, ids=sorted(named))
    assert found.verdict == "exact_verified", found
    assert found.rows == len([i for i in range(12) if i in model.memory and i not in named])


def test_own_queries_are_asked_instead_of_stored_rows():
    assert audit(remembering(), ids=names(3), queries=QUERIES).queries == 7


def test_forgetting_every_row_leaves_nothing_to_ask():
    found = audit(remembering(), classes=["a", "b"])
    assert (found.verdict, found.rows, found.views) == ("exact_verified", 0, ())
    assert "no row is left" in str(found)


def test_an_empty_memory_is_verified():
    model = remembering(2)
    model.forget(ids=names(2))
    assert audit(model).verdict == "exact_verified"


def test_an_audit_changes_nothing():
    model = used(grouped(reduction="gaussian"))
    before, tombstones = snapshot(model), len(model.memory.tombstones.marks)
    followers = kept(model.memory.live)
    total = followers["second moments"].total.copy()
    audit(model, groups=["user-1"], queries=QUERIES)
    assert snapshot(model) == before
    assert len(model.memory.tombstones.marks) == tombstones
    assert kept(model.memory.live) == followers
    np.testing.assert_array_equal(followers["second moments"].total, total)


def test_an_audit_leaves_no_view_behind_in_the_model():
    model = grouped()
    audit(model, ids=names(1))
    assert kept(model.memory.live) == {}


def test_steps_are_told_before_they_are_taken():
    steps = []
    audit(remembering(), ids=names(3), on_step=steps.append)
    assert steps[:3] == ["copying the memory", "forgetting in the copy", "building anew"]
    assert steps[-1] == "reading gaussian"


def test_rows_forgotten_meanwhile_do_not_disturb_an_audit():
    model = used(grouped(400, reduction="gaussian"))
    stop = threading.Event()

    def forget():
        for row_id in names(300):
            model.forget(ids=[row_id])
            if stop.is_set():
                return

    forgetting = threading.Thread(target=forget)
    forgetting.start()
    found = [audit(model, queries=QUERIES).verdict for _ in range(5)]
    stop.set()
    forgetting.join()
    assert set(found) == {"exact_verified"}
    assert len(model.memory) < 400


# -- levels ---------------------------------------------------------------------------------------


def test_rows_of_fit_are_verified_in_the_memory_only():
    found = audit(fitted(), ids=names(3))
    assert (found.verdict, found.level, found.basis) == ("memory_verified", "memory", "recorded")
    assert found.sources == ("rows of fit (recorded)",)
    [open_question] = found.not_verified
    assert "saw 3 of 3 rows" in open_question
    assert "membership attacks" in open_question
    assert str(found).startswith("simulated: memory, verified for a copy; ")


def test_the_rows_that_the_weights_saw_are_counted():
    model = fitted().remember(*blobs(4, seed=3), ids=names(4, 100))
    found = audit(model, ids=[*names(2), *names(3, 100)])
    assert "saw 2 of 5 rows" in found.not_verified[0]


def test_rows_remembered_after_fit_are_verified_as_exact():
    model = fitted().remember(*blobs(4, seed=3), ids=names(4, 100))
    assert audit(model, ids=names(4, 100)).verdict == "exact_verified"


def test_a_declared_source_is_named_as_the_word_it_rests_on():
    model = SPMClassifier(declare(own_network(), "ImageNet-1k")).remember(*blobs(6), ids=names(6))
    found = audit(model, ids=names(1))
    assert (found.verdict, found.basis) == ("exact_verified", "declared")
    assert "on the word that they were trained on ImageNet-1k (declared) and nothing else" in str(
        found
    )


def test_weights_of_unknown_origin_may_have_seen_every_row():
    model = SPMClassifier(own_network()).remember(*blobs(6), ids=names(6))
    found = audit(model, ids=names(2))
    assert (found.verdict, found.basis) == ("memory_verified", "unknown")
    assert "may have seen 2 of 2 rows" in found.not_verified[0]


def test_without_names_no_more_is_promised_than_the_weights_allow():
    assert audit(remembering()).verdict == "exact_verified"
    found = audit(fitted())
    assert found.verdict == "memory_verified"
    assert "what the weights learnt" in found.not_verified[0]


# -- rows forgotten before ------------------------------------------------------------------------


def test_rows_forgotten_before_are_recognised():
    model = remembering()
    model.forget(ids=names(3))
    found = audit(model, ids=names(5))
    assert (found.forgotten_before, found.live, found.rows) == (3, 2, 35)
    assert found.verdict == "exact_verified"


def test_a_group_forgotten_before_is_recognised():
    model = grouped()
    model.forget(groups=["user-1"])
    found = audit(model, groups=["user-1"])
    assert (found.forgotten_before, found.live, found.verdict) == (1, 0, "exact_verified")


def test_a_group_forgotten_before_may_have_trained_the_weights():
    X, y = blobs(40)
    model = SPMClassifier(**TINY, epochs=1).fit(X, y, groups=[f"user-{i % 4}" for i in range(40)])
    model.forget(groups=["user-1"])
    found = audit(model, groups=["user-1"])
    assert found.verdict == "memory_verified"
    assert "saw, or may have seen" in found.not_verified[0]


def test_rows_of_fit_forgotten_before_are_not_exact():
    model = fitted()
    model.forget(ids=names(2))
    assert audit(model, ids=names(2)).level == "memory"


def test_rows_that_were_only_remembered_are_exact_after_they_were_forgotten():
    model = fitted().remember(*blobs(4, seed=3), ids=names(4, 100))
    model.forget(ids=names(4, 100))
    assert audit(model, ids=names(4, 100)).verdict == "exact_verified"


def test_a_forgotten_copy_of_a_row_of_fit_is_not_exact():
    X, y = blobs(40)
    model = fitted().remember(X[:1], y[:1], ids=["a copy"])
    model.forget(ids=["a copy"])
    found = audit(model, ids=["a copy"])
    assert (found.verdict, found.basis) == ("memory_verified", "unknown")
    assert "when it was forgotten" in found.not_verified[0]


def test_marks_under_another_key_than_the_record_rule_nothing_out(tmp_path, keys, monkeypatch):
    X, y = blobs(40)
    model = fitted().remember(X[:1], y[:1], ids=["a copy"])
    model.save(tmp_path / "model")
    forget_keys()
    model = load(tmp_path / "model")
    monkeypatch.setattr("erasable.memory._keyring.Keyring.active", _another_key)
    model.forget(ids=["a copy"])
    assert audit(model, ids=["a copy"]).verdict == "memory_verified"


def _another_key(ring):
    key = b"k" * 32
    ring._known[key_id_of(key)] = key
    return key_id_of(key)


def test_unknown_names_are_refused_all_at_once():
    with pytest.raises(RowIdError) as caught:
        audit(grouped(), ids=["x", names(1)[0]], groups=["y"], classes=["z"])
    message = str(caught.value)
    assert message.startswith("audit(): Expected ids of rows that are live or were forgotten, but ")
    assert all(name in message for name in ("'x'", "'y'", "'z'", "missing_ok=True"))
    assert names(1)[0] not in message


def test_unknown_names_are_skipped_on_request():
    found = audit(grouped(), ids=["x", *names(1)], groups=["y"], classes=["z"], missing_ok=True)
    assert (found.not_found, found.live) == (3, 1)
    assert "not found        3 of the names" in str(found)


def test_without_the_key_what_was_forgotten_cannot_be_recognised(tmp_path, keys):
    model = remembering()
    model.forget(ids=names(1))
    model.save(tmp_path / "model")
    for path in keys.glob("*.key"):
        path.unlink()
    forget_keys()
    model = load(tmp_path / "model")
    with pytest.raises(RowIdError, match="cannot be recognised"):
        audit(model, ids=names(1))
    assert audit(model).verdict == "memory_verified"  # nobody can check the seal of the model


@pytest.mark.parametrize("named", [{"ids": "abc"}, {"ids": [1.5]}, {"classes": [None]}])
def test_malformed_names_are_refused(named):
    with pytest.raises(ArgumentError, match=r"^audit\(\): "):
        audit(remembering(), **named)


def test_a_model_without_a_memory_cannot_be_audited():
    with pytest.raises(ArgumentError, match="ParametricClassifier"):
        audit(ParametricClassifier(**TINY, epochs=1).fit(*blobs(40)))


def test_a_model_that_was_never_fitted_cannot_be_audited():
    with pytest.raises(NotFittedError):
        audit(SPMClassifier())


def test_queries_of_another_shape_are_refused():
    with pytest.raises(ArgumentError):
        audit(remembering(), queries=np.zeros((2, 9)))


def test_rows_with_the_input_of_a_forgotten_one_are_counted():
    X, y = blobs(40)
    model = remembering().remember(X[:2], y[:2], ids=["copy 0", "copy 1"])
    assert "2 rows that stay" in audit(model, ids=names(3)).not_verified[0]
    model.forget(ids=names(1))
    assert "1 rows that stay" in audit(model).not_verified[0]


# -- what is not so is found ----------------------------------------------------------------------


def _sums(memory):
    memory.sums._sums[0, 2] += 1


def _counts(memory):
    memory.sums._counts[1] += 1


def _means(memory):
    memory.sums._means[1, 3] *= 1 + 1e-15


def _stored_embedding(memory):
    memory.table._embeddings[5, 1] += memory.grid.step


def _digest_lanes(memory):
    assert memory.digest  # kept from now on
    memory._hash._state[7] += 1


def _kept_digest(memory):
    memory._hash._hex = "0" * 64


@pytest.mark.parametrize(
    ("tamper", "part", "where"),
    [
        (_sums, "sums", "class 'a', dimension 2"),
        (_counts, "counts", "class 'b'"),
        (_means, "prototypes", "class 'b', dimension 3"),
        (_stored_embedding, "sums", "class 'b', dimension 1"),
        (_digest_lanes, "digest", ""),
        (_kept_digest, "digest", ""),
    ],
)
def test_what_was_summed_up_wrongly_is_found(tamper, part, where):
    model = grouped()
    tamper(model.memory)
    found = failed(model, part, where)
    assert (found.canonical_digest == found.rebuilt_digest) == (part in ("digest", "prototypes"))


@pytest.mark.parametrize("tamper", [_sums, _counts, _stored_embedding, _digest_lanes])
def test_what_was_summed_up_wrongly_is_found_if_forgetting_does_not_mend_it(tamper):
    model = grouped()
    tamper(model.memory)
    assert audit(model, ids=names(2)).verdict == "failed"


def _off_the_grid(memory):
    value = memory.table._embeddings[5, 1]
    memory.table._embeddings[5, 1] = np.nextafter(value, np.float32(99))


def _not_a_number(memory):
    memory.table._embeddings[5, 1] = np.nan


def _too_large(memory):
    memory.table._embeddings[5, 1] = 1e6


def _label(memory):
    memory.table._slots[5] = 0


def _id(memory):
    del memory.table._position[names(6)[5]]


def _left_id(memory):
    memory.table._position["left"] = 3


def _left_in_group(memory):
    memory.table._in_group["user-1"]["left"] = None


def _lost_from_group(memory):
    del memory.table._in_group["user-1"][names(6)[5]]


def _left_group(memory):
    memory.table._in_group["user-9"] = {}


def _left_bytes(memory):
    memory.table._embeddings[len(memory), 0] = 1


def _left_sums(memory):
    memory.sums._sums[5, 0] = 1


@pytest.mark.parametrize(
    ("tamper", "where"),
    [
        (_off_the_grid, "'row-number-5', dimension 1"),
        (_not_a_number, "'row-number-5'"),
        (_too_large, "'row-number-5'"),
        (_label, "'row-number-5'"),
        (_id, "'row-number-5'"),
        (_left_id, "'left'"),
        (_left_in_group, "group 'user-1', row 'left'"),
        (_lost_from_group, "group 'user-1', row 'row-number-5'"),
        (_left_group, "group 'user-9'"),
        (_left_bytes, "behind the last row"),
        (_left_sums, "classes without rows"),
    ],
)
def test_rows_that_contradict_themselves_are_found(tamper, where):
    model = grouped()
    tamper(model.memory)
    found = failed(model, "rows", where)
    assert (found.canonical_digest, found.rebuilt_digest, found.rows) == (None, None, 0)
    assert "canonical state" not in str(found)


@settings(max_examples=30)
@given(st.data())
def test_any_number_that_is_off_by_any_amount_is_found(data):
    model = used(grouped(12, reduction="gaussian"))
    numbers = {
        "counts": model.memory.sums._counts[:2],
        "sums": model.memory.sums._sums[:2],
        "digest": model.memory._hash._state,
        "second moments": kept(model.memory.live)["second moments"].total,
    }
    part = data.draw(st.sampled_from(sorted(numbers)))
    place = data.draw(st.integers(0, numbers[part].size - 1))
    numbers[part].reshape(-1)[place] += data.draw(st.integers(1, 99))
    failed(model, part)


def test_the_name_of_a_class_without_rows_is_found():
    model = grouped()
    model.memory.sums.open(["left"])
    found = failed(model, "classes")
    assert "['a', 'b', 'left'] here, ['a', 'b'] when built anew" in str(found)


def test_memories_of_other_shape_are_told_apart():
    found = compare_memories(Memory(2), Memory(2, grid=Grid(10)))
    assert found == Difference("configuration", "dim and grid bits", "(2, 14)", "(2, 10)")


def test_tampered_second_moments_are_found():
    model = used(grouped(reduction="gaussian"))
    kept(model.memory.live)["second moments"].total[1, 2] += 1
    failed(model, "second moments", "dimensions 1 and 2")
    failed(model, "second moments", "dimensions 1 and 2", groups=["user-1"])


def test_second_moments_of_rows_since_forgotten_are_found():
    model = used(grouped(reduction="gaussian"))
    followers = model.memory.live._followers
    model.memory.live._followers = {}
    model.forget(ids=names(1))
    model.memory.live._followers = followers
    failed(model, "second moments")


def test_a_solution_of_rows_since_forgotten_is_found():
    model = used(grouped(reduction="gaussian"))
    old = GaussianView(model.memory).fit
    model.forget(ids=names(1))
    kept(model.memory.live)["second moments"]._fit = old
    failed(model, "answers by gaussian", "query 0")


def test_a_view_that_ignores_forgets_is_found_before_anything_is_forgotten(monkeypatch):
    monkeypatch.setattr(SecondMoments, "remove", lambda self, infos, embeddings: None)
    model = used(grouped(reduction="gaussian"))
    assert audit(model).is_verified
    failed(model, "second moments", ids=names(1))


def test_sums_that_ignore_forgets_are_found_before_anything_is_forgotten(monkeypatch):
    monkeypatch.setattr(classes_module.ClassSums, "remove", lambda self, slots, units: [])
    model = grouped()
    assert audit(model).is_verified
    failed(model, "counts", "class 'a'", ids=names(1))


def test_a_memory_that_forgets_too_little_or_too_much_is_found(monkeypatch):
    drop = Memory.drop

    def changed(change):
        monkeypatch.setattr(Memory, "drop", lambda self, found: drop(self, change(found)))

    model = grouped()
    changed(lambda found: type(found)(found.ids[1:], found.groups))
    found = failed(model, "rows", "'row-number-0'", ids=names(2))
    assert "still there here, not there when built anew" in str(found)
    changed(lambda found: type(found)([*found.ids, names(3)[2]], found.groups))
    found = failed(model, "rows", "'row-number-2'", ids=names(2))
    assert "missing here, there when built anew" in str(found)


def test_a_row_left_in_the_rows_after_a_set_encoder_is_found():
    model = with_graph()
    rows = kept(model.memory.live)["graph"].rows
    record = rows.record(0)
    rows.append(rows.table.embeddings[:1].copy(), [type(record)("left", "a", (), None, 999)])
    failed(model, "rows after the set encoder", "'left'")


def test_a_row_that_a_set_encoder_gave_another_value_is_found():
    model = with_graph()
    rows = kept(model.memory.live)["graph"].rows
    rows.table._embeddings[3, 0] += rows.grid.step
    failed(model, "rows after the set encoder", "dimension 0")


def test_a_row_left_among_those_last_encoded_is_found():
    model = with_graph()
    kept(model.memory.live)["graph"].encoded = ("left",)
    failed(model, "class graph", "'left'")


@pytest.mark.parametrize("index", ["_neighbours", "_heard_by", "_last"])
def test_a_row_left_in_the_class_graph_is_found(index):
    model = with_graph()
    getattr(kept(model.memory.live)["graph"]._graph, index)["left"] = ["row-number-0"]
    failed(model, "class graph", "'left'")


def test_second_moments_of_rows_after_a_set_encoder_are_compared():
    model = with_graph(reduction="gaussian")
    inner = kept(kept(model.memory.live)["graph"].rows)["second moments"]
    inner.total[0, 0] += 1
    failed(model, "second moments", "dimensions 0 and 0")
    failed(model, "second moments", ids=names(2))


def test_a_code_left_in_the_index_is_found(monkeypatch):
    model = with_codes(monkeypatch)
    codes = index_of(model).codes
    codes.add_with_ids(np.zeros((1, codes.d), np.float32), np.array([10**6]))
    found = failed(model, "codes")
    assert "1 codes of no row" in str(found)


def test_codes_of_another_row_are_found(monkeypatch):
    model = with_codes(monkeypatch)
    codes, name = index_of(model).codes, names(8)[7]
    [place] = model.memory.positions([name])
    key = index_of(model).key(model.memory.table.infos[place].serial)
    codes.remove_ids(np.array([key]))
    codes.add_with_ids(np.full((1, codes.d), 9, np.float32), np.array([key]))
    failed(model, "codes", repr(name))


def test_codebooks_that_other_rows_had_a_share_in_are_found(monkeypatch):
    model = with_codes(monkeypatch)
    index_of(model)._centroids.values[1, 0] += 1
    failed(model, "codes", "centroids at [1, 0]")


def test_an_index_of_another_sample_is_found(monkeypatch):
    model = with_codes(monkeypatch)
    sample = index_of(model).sample
    index_of(model).sample = type(sample)(sample.lists, sample.threshold - 1, sample.positions)
    failed(model, "codes", "sample")


def test_a_place_that_changed_hands_in_the_index_is_found(monkeypatch):
    model = with_codes(monkeypatch)
    index_of(model)._places[4] = 5
    failed(model, "codes", "'row-number-4'")


def test_codes_are_verified_after_forgets_inside_and_outside_the_sample(monkeypatch):
    model = with_codes(monkeypatch, 2000)
    threshold = index_of(model).sample.threshold
    inside = [name for name in names(2000) if hash_id(name) <= threshold]
    outside = [name for name in names(2000) if hash_id(name) > threshold]
    for ids in (outside[:20], inside[:3]):
        assert audit(model, ids=ids).verdict == "exact_verified"
        model.forget(ids=ids)
        assert audit(model).verdict == "exact_verified"
    assert isinstance(kept(model.memory.live)["codes"], ProductCodes)


def test_weights_that_are_not_those_of_their_record_are_found():
    model = fitted()
    with torch.no_grad():
        next(model.network_.parameters()).add_(1)
    found = failed(model, "weights", "digest", ids=names(1))
    assert "in their training record" in str(found)
    assert (found.level, found.basis) == ("memory", "unknown")


class _Counter(Follower):
    """Something kept that the audit has no way to look into."""

    def add(self, infos, embeddings):
        pass

    def remove(self, infos, embeddings):
        pass


def test_what_is_kept_but_not_known_is_said_to_be_compared_by_answers_only():
    model = grouped()
    model.memory.live.follower("counter", lambda live: _Counter())
    found = audit(model, ids=names(1))
    assert found.is_verified
    assert "'counter'" in found.not_verified[0]


class _Leaky(Reduction):
    """A view that answers by something else than the rows."""

    name, vote_kind = "leaky", "probability"

    def __init__(self, noise):
        self._noise = noise

    def log_probabilities(self, queries, memory, **options):
        return RowsReduction().log_probabilities(queries, memory, **options) + next(self._noise)

    def votes(self, queries, memory, top, **options):
        raise NotImplementedError

    def fuse(self, readers, rows, classes, count, **options):
        raise NotImplementedError


def test_answers_that_do_not_come_from_the_rows_are_found(monkeypatch):
    noise = iter([1e-3, 0.0])
    monkeypatch.setitem(audit_views.REDUCTIONS, "leaky", lambda _: _Leaky(noise))
    failed(grouped(reduction="leaky"), "answers by leaky", "query 0, log probability of class 'a'")


def test_rounding_in_another_layout_is_accepted_if_afresh_the_bits_are_equal(monkeypatch):
    noise = iter([1e-12, 0.0, 0.0, 0.0])
    monkeypatch.setitem(audit_views.REDUCTIONS, "leaky", lambda _: _Leaky(noise))
    found = audit(grouped(reduction="leaky"))
    assert found.verdict == "exact_verified"
    assert 0 < found.largest_difference < 1e-11
    assert "bit for bit once loaded afresh" in str(found)


def test_rounding_that_stays_afresh_is_not_accepted(monkeypatch):
    noise = iter([1e-12, 0.0, 1e-12, 0.0])
    monkeypatch.setitem(audit_views.REDUCTIONS, "leaky", lambda _: _Leaky(noise))
    failed(grouped(reduction="leaky"), "answers by leaky")


def test_rows_of_other_labels_groups_and_values_differ_in_words():
    def live(label="a", group="g", value=1.0):
        memory = Memory(2)
        memory.add([[value, 0.0], [0.0, 1.0]], [label, "b"], ids=[1, 2], groups=[[group], []])
        return memory.live

    assert compare_rows(live(), live()) is None
    assert compare_rows(live(), live("c")) == Difference("rows", "label of row 1", "'a'", "'c'")
    assert str(compare_rows(live(), live(group="h"))) == (
        "rows, groups of row 1: ('g',) here, ('h',) when built anew"
    )
    assert compare_rows(live(), live(value=2)).where == "row 1, dimension 0"
    other = LiveRows(2, live().grid)
    assert compare_rows(live(), other) == Difference("rows", "row 1", "still there", "not there")


# -- saved copies ---------------------------------------------------------------------------------


def saved(tmp_path, **options):
    model = grouped(**options)
    model.save(tmp_path / "model")
    return model


def change(tmp_path, statement, *values):
    with sqlite3.connect(tmp_path / "model" / "rows.sqlite") as db:
        db.execute(statement, values)
    db.close()


def test_a_saved_model_is_compared_with_its_rows_on_disk(tmp_path):
    model = saved(tmp_path)
    assert audit(model).verdict == "exact_verified"
    assert audit(load(tmp_path / "model")).not_verified == ()


@pytest.mark.parametrize(
    ("statement", "value", "where"),
    [
        ("UPDATE rows SET embedding = ? WHERE id = 's:row-number-5'", bytes(16), "dimension 0"),
        ("UPDATE rows SET label = ? WHERE id = 's:row-number-5'", "s:a", "label"),
        ("UPDATE rows SET groups = ? WHERE id = 's:row-number-5'", "[]", "groups"),
        ("UPDATE rows SET content = ? WHERE id = 's:row-number-5'", b"x", "input digest"),
    ],
)
def test_a_row_changed_on_disk_is_found(tmp_path, statement, value, where):
    model = saved(tmp_path)
    change(tmp_path, statement, value)
    found = failed(model, "rows on disk", where, "'row-number-5'")
    assert "in the file" in str(found)


def test_a_digest_changed_on_disk_is_found(tmp_path):
    model = saved(tmp_path)
    change(tmp_path, "UPDATE model SET digest = 'x'")
    failed(model, "rows on disk", "digest")


def test_rows_on_disk_that_cannot_be_read_are_found(tmp_path):
    model = saved(tmp_path)
    change(tmp_path, "UPDATE rows SET embedding = ? WHERE id = 's:row-number-5'", bytes(3))
    failed(model, "rows on disk", "model")
    (tmp_path / "model" / "rows.sqlite").write_bytes(b"no database, but long enough to look at")
    failed(model, "rows on disk", "model")


def test_a_forget_that_is_not_saved_yet_is_told(tmp_path):
    model = saved(tmp_path)
    model.forget(ids=names(3))
    model.remember(*blobs(1, seed=3), ids=["new"])
    [gone, new] = audit(model, ids=names(3)).not_verified
    assert "still holds 3 rows that this model has forgotten" in gone
    assert "lacks 1 rows" in new
    model.save(tmp_path / "model")
    assert audit(model, ids=names(3)).not_verified == ()


def test_a_row_stored_again_under_its_id_is_not_a_difference_to_the_file(tmp_path):
    model = remembering()
    model.save(tmp_path / "model")
    model.forget(ids=names(1))
    X, _ = blobs(1)
    model.remember(X, ["another label"], ids=names(1), reinstate=True)
    found = audit(model)
    assert found.verdict == "exact_verified"
    assert "still holds 1 rows" in found.not_verified[0]


def test_what_else_lies_in_the_file_is_told(tmp_path):
    model = saved(tmp_path)
    change(tmp_path, "INSERT INTO unswept VALUES (1)")
    [unswept] = audit(model).not_verified
    assert "not written over" in unswept


def test_a_copy_that_is_gone_or_another_one_is_not_compared(tmp_path):
    model = saved(tmp_path)
    remembering().save(tmp_path / "model", overwrite=True)
    assert "another process changed it" in audit(model).not_verified[0]
    shutil.rmtree(tmp_path / "model")
    remembering().save(tmp_path / "model")
    assert "another model is there now" in audit(model).not_verified[0]
    (tmp_path / "model" / "rows.sqlite").unlink()
    assert "no longer there" in audit(model).not_verified[0]


def test_a_copy_that_another_process_changed_is_not_compared(tmp_path):
    model = saved(tmp_path)
    other = load(tmp_path / "model")
    other.forget(ids=names(1))
    other.save(tmp_path / "model")
    found = audit(model)
    assert found.is_verified
    assert "another process changed it" in found.not_verified[0]


def test_embeddings_of_forgotten_rows_that_came_back_to_a_cache_are_told(tmp_path):
    X, y = blobs(6)
    model = SPMClassifier("identity", embedding_cache=tmp_path / "cache")
    model.remember(X, y, ids=names(6))
    assert audit(model, ids=names(2)).not_verified == ()
    model.forget(ids=names(2))
    assert audit(model, ids=names(2)).not_verified == ()
    model.embed(X[:2], ids=names(2))  # forgotten rows do not come back by this model
    assert audit(model).not_verified == ()
    other = SPMClassifier("identity", embedding_cache=tmp_path / "cache")
    other.remember(X[:2], y[:2], ids=names(2))
    for named in ({}, {"ids": names(2)}):
        [cache] = audit(model, **named).not_verified
        assert "holds 2 embeddings of rows forgotten before" in cache
    model.purge()
    assert audit(model, ids=names(2)).not_verified == ()


def test_a_forgotten_id_with_other_pixels_in_a_cache_is_told_by_name(tmp_path):
    X, y = blobs(6)
    model = SPMClassifier("identity", embedding_cache=tmp_path / "cache")
    model.remember(X, y, ids=names(6))
    model.forget(ids=names(1))
    other = SPMClassifier("identity", embedding_cache=tmp_path / "cache")
    other.remember(X[:1] + 1, y[:1], ids=names(1))
    assert audit(model).not_verified == ()  # by content alone it is another row
    [cache] = audit(model, ids=names(1)).not_verified
    assert "holds 1 embeddings of rows forgotten before" in cache


def test_a_cache_that_is_out_of_reach_is_told(tmp_path):
    X, y = blobs(6)
    model = SPMClassifier("identity", embedding_cache=tmp_path / "cache")
    model.remember(X, y, ids=names(6))
    (tmp_path / "cache").rename(tmp_path / "away")
    model.forget(ids=names(1))
    [sentence] = audit(model).not_verified
    assert "it is not there now" in sentence
    assert [copy.path for copy in model.purge().left] == [str(tmp_path / "cache")]
    (tmp_path / "away").rename(tmp_path / "cache")
    assert model.purge().entries == 1
    assert audit(model).not_verified == ()


def test_an_embedding_of_a_forgotten_row_is_the_same_without_a_cache(tmp_path):
    X, y = blobs(6)
    model = SPMClassifier("identity", embedding_cache=tmp_path / "cache")
    model.remember(X, y, ids=names(6))
    before = model.embed(X, ids=names(6))
    model.forget(ids=names(3)[1:])
    np.testing.assert_array_equal(model.embed(X, ids=names(6)), before)
    assert model.purge().entries == 0


def test_checkpoints_and_reports_are_named_as_not_looked_into(tmp_path):
    model = grouped()
    (tmp_path / "votes.html").write_text("rows")
    model.note_copy("report", tmp_path / "votes.html")
    model.note_copy("report", tmp_path / "gone.html")
    [report] = audit(model).not_verified
    assert report == f"the report in {tmp_path / 'votes.html'}: audits do not look into it."


# -- copies, and the report -----------------------------------------------------------------------


def test_a_copy_with_what_is_kept_is_independent():
    model = with_graph(reduction="gaussian")
    twin = copy_with_kept(model.memory)
    graph, copied = (kept(m.live)["graph"] for m in (model.memory, twin))
    assert copied is not graph
    assert kept(copied.rows)["second moments"] is not kept(graph.rows)["second moments"]
    before = kept(graph.rows)["second moments"].total.copy()
    twin.forget(ids=names(2))
    assert len(model.memory) == len(graph.rows) == 40
    assert len(twin) == len(copied.rows) == 38
    np.testing.assert_array_equal(kept(graph.rows)["second moments"].total, before)


def test_a_report_can_be_written_as_json():
    model = grouped()
    _sums(model.memory)
    for found in (audit(grouped(), ids=names(1)), audit(model)):
        document = json.loads(found.to_json())
        assert set(document) == {field.name for field in fields(Audit)}
        assert document["format"] == "erasable.audit.2"
        assert document["verdict"] == found.verdict
    assert document["first_difference"]["part"] == "sums"


def test_a_report_that_verifies_names_no_row():
    found = audit(grouped(), ids=names(3), groups=["user-2"])
    assert "row-number" not in found.to_json() + str(found)
    assert "user-2" not in found.to_json() + str(found)


def test_a_report_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        audit(grouped()).verdict = Verdict.EXACT_VERIFIED
