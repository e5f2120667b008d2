"""Forget rules as people write them."""

import json

import numpy as np
import pytest

from erasable.bench._rules import classes_rule, forget_digest, scenario, sequence, stages
from erasable.data import Split
from erasable.errors import ArgumentError
from erasable.models import SPMClassifier

COUNT = 60


@pytest.fixture
def rows():
    y = np.arange(COUNT) % 6
    groups = [f"subject-{i % 4}" for i in range(COUNT)]
    X = np.eye(COUNT, dtype=np.float32)
    return Split(X, y, [f"row-{i}" for i in range(COUNT)], groups)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("class:3", lambda i: i % 6 == 3),
        ("classes:0, 5", lambda i: i % 6 in (0, 5)),
        ("group:subject-2", lambda i: i % 4 == 2),
        ("class:1 > group:subject-2", lambda i: i % 6 == 1 or i % 4 == 2),
    ],
)
def test_a_rule_marks_its_rows(rows, rule, expected):
    found = scenario(rows, rule)
    assert found.is_forgotten.tolist() == [expected(i) for i in range(COUNT)]


def test_whole_classes_are_known_as_such(rows):
    assert scenario(rows, "class:3").is_class
    assert scenario(rows, "class:3 > class:4").is_class
    assert not scenario(rows, "random:5").is_class
    assert not scenario(rows, "class:3 > random:5").is_class


@pytest.mark.parametrize(("rule", "count"), [("random:10%", 6), ("random:7", 7)])
def test_random_rows_follow_from_the_seed(rows, rule, count):
    first, again, other = (scenario(rows, rule, seed=seed) for seed in (0, 0, 1))
    assert first.is_forgotten.sum() == count
    np.testing.assert_array_equal(first.is_forgotten, again.is_forgotten)
    assert not np.array_equal(first.is_forgotten, other.is_forgotten)


def test_a_random_rule_may_have_a_seed_of_its_own(rows):
    first, again = (scenario(rows, "random:10%@7", seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(first.is_forgotten, again.is_forgotten)
    np.testing.assert_array_equal(
        first.is_forgotten, scenario(rows, "random:10%", seed=7).is_forgotten
    )


def test_requests_of_a_sequence_name_only_what_is_left(rows):
    steps = sequence(rows, "class:3 > random:5 > random:5")
    counts = [int(step.is_forgotten.sum()) for step in steps]
    assert counts == [10, 15, 20]
    assert steps[0].request == {"classes": [3]}
    named = [set(step.request["ids"]) for step in steps[1:]]
    assert not named[0] & named[1]
    gone = {f"row-{i}" for i in range(COUNT) if i % 6 == 3}
    assert not gone & (named[0] | named[1])


def test_a_model_forgets_a_sequence_as_it_forgets_the_whole(rows):
    rule = "class:3 > group:subject-1 > random:5"
    by_step = SPMClassifier(encoder="identity", epochs=0)
    by_step.remember(rows.X, rows.y, ids=rows.ids, groups=rows.groups)
    at_once = SPMClassifier(encoder="identity", epochs=0)
    at_once.remember(rows.X, rows.y, ids=rows.ids, groups=rows.groups)
    for step in sequence(rows, rule):
        by_step.forget(**step.request)
    whole = scenario(rows, rule)
    at_once.forget(**whole.request)
    assert len(by_step.memory) == COUNT - int(whole.is_forgotten.sum())
    assert by_step.memory.digest == at_once.memory.digest


@pytest.mark.parametrize("as_json", [True, False])
def test_a_file_of_ids(rows, tmp_path, as_json):
    path = tmp_path / "ids"
    ids = ["row-1", "row-8"]
    path.write_text(json.dumps(ids) if as_json else "\n".join(ids) + "\n\n")
    found = scenario(rows, f"ids:{path}")
    assert found.request == {"ids": ids}
    assert np.flatnonzero(found.is_forgotten).tolist() == [1, 8]


def test_two_rules_for_the_same_rows_have_one_digest(rows, tmp_path):
    path = tmp_path / "ids"
    path.write_text("\n".join(f"row-{i}" for i in range(COUNT) if i % 6 == 3))
    digests = [forget_digest(rows, scenario(rows, r)) for r in ("class:3", f"ids:{path}")]
    assert digests[0] == digests[1]
    assert digests[0] != forget_digest(rows, scenario(rows, "class:4"))
    turned = rows.take(np.arange(COUNT)[::-1])
    assert digests[0] == forget_digest(turned, scenario(turned, "class:3"))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("", "Expected a rule such as"),
        ("3", "Expected a rule such as"),
        ("class:", "Expected a rule such as"),
        ("odd:3", "Expected a rule such as"),
        ("class:3 >", "Expected classes among"),
        ("class:9", "Expected classes among '0'"),
        ("random:0", "a share such as 10%"),
        ("random:x%", "a share such as 10%"),
        ("random:100%", "a share such as 10%"),
        ("random:nan%", "a share such as 10%"),
        ("random:5@x", "a share such as 10%"),
        ("random:5@-1", "a share such as 10%"),
        ("group:nobody", "a group of the data set"),
        ("ids:/nowhere", "a file of ids"),
        ("class:3 > class:3", "none left"),
        ("classes:0,1,2,3,4,5", "forgets all"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(rows, rule, message):
    with pytest.raises(ArgumentError, match=message):
        scenario(rows, rule)


def test_unknown_ids_and_absent_groups_are_named(rows, tmp_path):
    path = tmp_path / "ids"
    path.write_text('["row-1", "nobody"]')
    with pytest.raises(ArgumentError, match="'nobody'"):
        scenario(rows, f"ids:{path}")
    path.write_text('{"a": 1}')
    with pytest.raises(ArgumentError, match="a list of ids"):
        scenario(rows, f"ids:{path}")
    bare = Split(rows.X, rows.y, rows.ids)
    with pytest.raises(ArgumentError, match="has none"):
        scenario(bare, "group:a")


def test_classes_may_be_called_anything():
    labels = ["tench, Tinca tinca", "a > b", "plain"]
    y = np.array([labels[i % 3] for i in range(12)])
    rows = Split(np.eye(12, dtype=np.float32), y, [str(i) for i in range(12)])
    for label in labels:
        found = scenario(rows, classes_rule([label]))
        assert found.is_forgotten.tolist() == (y == label).tolist()
    both = scenario(rows, classes_rule(labels[:2]))
    assert both.is_forgotten.tolist() == (y != "plain").tolist()
    assert [s.request for s in sequence(rows, "class:a > b > class:plain")] == [
        {"classes": ["a > b"]},
        {"classes": ["plain"]},
    ]
    assert stages("class:a > b>random:5%") == ["class:a > b", "class:a > b > random:5%"]


@pytest.mark.parametrize("rule", ["random:inf%", "random:nan%", 'classes:["a'])
def test_amounts_and_lists_that_are_none_are_refused(rows, rule):
    with pytest.raises(ArgumentError, match="Expected a"):
        scenario(rows, rule)
