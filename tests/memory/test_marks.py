import hashlib

import pytest

from erasable.memory import ID, Marks, keyring
from erasable.memory._keyring import Keyring, mark
from erasable.memory._marks import GROUP


def elsewhere(*values):
    """Return marks made in another process, whose key this one does not have."""
    ring = Keyring()
    key_id = ring.active()
    return Marks([(key_id, mark(ring.get(key_id), ID, value)) for value in values]), ring


def marked(*values):
    marks = Marks()
    for value in values:
        marks.add(ID, value)
    return marks


def test_a_marked_value_is_recognised():
    assert marked(b"a").has(ID, b"a")


def test_an_unmarked_value_is_not():
    assert not marked(b"a").has(ID, b"b")


def test_a_value_of_another_kind_is_not():
    assert not marked(b"a").has(GROUP, b"a")


def test_a_discarded_value_is_not():
    marks = marked(b"a", b"b")
    marks.discard(ID, b"a")
    assert (marks.has(ID, b"a"), marks.has(ID, b"b")) == (False, True)


def test_discarding_what_is_not_marked_changes_nothing():
    marks = marked(b"a")
    marks.discard(ID, b"b")
    assert len(marks) == 1


def test_discarding_the_last_mark_of_a_key_drops_the_key():
    marks = marked(b"a")
    marks.discard(ID, b"a")
    assert marks.key_ids == []


def test_a_value_marked_twice_counts_once():
    assert len(marked(b"a", b"a")) == 1


def test_marks_come_back_from_their_own_listing():
    marks = marked(b"a", b"b")
    assert Marks(marks).has(ID, b"b")


def test_marks_are_listed_in_sorted_order():
    other, _ = elsewhere(b"x", b"y", b"z")
    marks = Marks([*marked(b"c", b"a", b"b"), *other])
    assert list(marks) == sorted(marks)


def test_a_copy_is_independent():
    marks = marked(b"a")
    marks.copy().add(ID, b"b")
    assert not marks.has(ID, b"b")


def test_a_copy_knows_the_same_values():
    assert marked(b"a").copy().has(ID, b"a")


def test_new_marks_use_the_active_key():
    assert marked(b"a").key_ids == [keyring.active()]


def test_marks_of_several_keys_are_all_recognised():
    marks, ring = elsewhere(b"old")
    marks.add(ID, b"new")
    ring.persist(ring.active())
    assert (marks.has(ID, b"old"), marks.has(ID, b"new")) == (True, True)


def test_a_value_is_discarded_under_every_key_at_hand():
    marks, ring = elsewhere(b"a")
    marks.add(ID, b"a")
    ring.persist(ring.active())
    marks.discard(ID, b"a")
    assert len(marks) == 0


def test_a_missing_key_is_named():
    marks, ring = elsewhere(b"a")
    marks.add(ID, b"b")
    assert marks.missing_keys == [ring.active()]


def test_a_key_at_hand_is_not_named_as_missing():
    assert marked(b"a").missing_keys == []


def test_marks_of_a_missing_key_survive_a_discard():
    marks, _ = elsewhere(b"a")
    marks.discard(ID, b"a")
    assert len(marks) == 1


def test_marks_of_a_missing_key_match_nothing():
    marks, _ = elsewhere(b"a")
    assert not marks.has(ID, b"a")


@pytest.mark.parametrize("name", ["md5", "sha1", "sha256", "sha512", "blake2b"])
def test_a_mark_is_no_plain_hash_of_its_value(name):
    (_, value), *_ = marked(b"user-42")
    guesses = (b"user-42", b"id\0user-42", b"iduser-42")
    assert all(hashlib.new(name, guess).digest()[:16] != value for guess in guesses)


def test_a_mark_does_not_contain_its_value():
    assert all(b"user-42" not in value for _, value in marked(b"user-42"))


def test_a_mark_does_not_contain_its_key():
    marks = marked(b"a")
    secret = keyring.get(keyring.active())
    listed = b"".join(key_id.encode() + value for key_id, value in marks)
    assert secret.hex() not in listed.hex()


def test_the_same_value_has_another_mark_under_another_key():
    assert set(elsewhere(b"a")[0]).isdisjoint(marked(b"a"))


def test_an_update_takes_marks_over_as_they_are():
    marks, _ = elsewhere(b"a")
    mine = marked(b"b")
    mine.update(marks)
    assert set(mine) == {*marks, *marked(b"b")}


def test_an_update_leaves_the_other_marks_alone():
    marks = marked(b"a")
    Marks().update(marks)
    mine = Marks()
    mine.update(marks)
    mine.discard(ID, b"a")
    assert marks.has(ID, b"a")
