"""Audits of generators: they verify what is so, and find what is not."""

import sqlite3

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable import audit, load
from erasable.errors import ArgumentError
from erasable.memory import Follower, Memory
from erasable.models import Verdict
from erasable.models._canonical import canonical_digest
from erasable.models._class_numbers import ClassNumbers
from erasable.models._generator_reading import Reading
from models.generation_toys import generator, quarters
from models.toys import names, snapshot

VIEWS = ("drawings", "votes")
STAND_IN = ("drawings", "drawings by a stand-in", "votes")


def with_later(**options):
    """Return a generator of 16 trained rows and four later ones, two of them of a later class."""
    model = generator(16, ids=names(16), **{"steps": 0, **options})
    X, _ = quarters(4, seed=7)
    return model.remember(X, ["a", "b", "z", "z"], ids=names(4, 100))


@pytest.fixture
def trained():
    return with_later(steps=1, labels="permuted", batch_size=16)


# -- what is so is verified -----------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["none", "plain", "permuted"])
@pytest.mark.parametrize("branch", ["fixed", "follow"])
def test_rows_of_every_kind_of_generator_are_verified(labels, branch):
    model = with_later(labels=labels, branch=branch)
    found = audit(model, ids=names(2, 100), simulate=True)
    assert (found.verdict, found.rows, found.images) == ("exact_verified", 18, 8), found
    assert (found.views, found.queries) == (VIEWS, 0)
    assert found.canonical_digest == found.rebuilt_digest
    assert "equal bit for bit: drawings, votes; 8 images" in str(found)
    model.forget(ids=names(2, 100))
    after = audit(model, ids=names(2, 100))
    assert after.verdict == "exact_verified"
    assert after.canonical_digest == found.canonical_digest


def test_half_precision_in_training_is_verified():
    assert audit(with_later(precision="bfloat16", steps=1)).is_verified


def test_what_the_weights_learnt_of_trained_rows_is_not_verified(trained):
    model = trained
    assert audit(model, ids=names(2), simulate=True).verdict == "memory_verified"
    model.forget(ids=names(2))
    assert audit(model, ids=names(2)).verdict == "memory_verified"
    assert audit(model, ids=names(2, 100), simulate=True).verdict == "exact_verified"


def test_rows_that_were_not_forgotten_are_still_there():
    found = audit(with_later(), ids=names(1))
    assert (found.verdict, found.images) == ("still_there", 0)


def test_a_class_that_loses_all_rows_is_drawn_by_a_stand_in():
    found = audit(with_later(), classes=["z", "b"], simulate=True)
    assert (found.verdict, found.views, found.images) == ("exact_verified", STAND_IN, 10)


def test_an_empty_memory_is_verified_without_images():
    model = with_later()
    found = audit(model, classes=list("abcdz"), simulate=True)
    assert (found.verdict, found.rows, found.images) == ("exact_verified", 0, 0)
    model.forget(classes=list("abcdz"))
    assert audit(model).verdict == "exact_verified"


def test_an_audit_changes_nothing():
    model = with_later(labels="permuted")
    before = snapshot(model)
    audit(model, classes=["z"], simulate=True)
    assert snapshot(model) == before


def test_the_canonical_digest_is_that_of_a_generator_that_never_had_the_rows(monkeypatch):
    monkeypatch.setattr("erasable.models._spm_generator.ROWS_AT_ONCE", 1)  # a last bit may differ
    X, _ = quarters(4, seed=7)
    without = generator(16, ids=names(16), steps=0, labels="permuted")
    without.remember(X[:2], ["a", "b"], ids=names(2, 100))
    expected = canonical_digest(without, without.memory, without.weights_digest)
    found = audit(with_later(labels="permuted"), classes=["z"], simulate=True)
    assert found.canonical_digest == expected


def test_the_canonical_digest_depends_on_what_is_read_and_on_numbers():
    models = [with_later(labels="plain"), with_later(labels="plain"), with_later(labels="plain")]
    models[1].set_params(rows_per_class=3)
    models[2].numbers_ = ClassNumbers.of(["a", "b", "c", None])
    assert len({audit(model).canonical_digest for model in models}) == 3


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from([*names(4), *names(4, 100)]), max_size=6), st.booleans())
def test_whatever_was_done_before_is_verified(toggled, is_permuted):
    model = with_later(labels="permuted" if is_permuted else "none")
    X, labels = quarters(4, seed=3)
    for place, row_id in enumerate(toggled):
        if row_id in model.memory:
            model.forget(ids=[row_id])
        else:
            at = slice(place % 4, place % 4 + 1)
            model.remember(X[at], labels[at], ids=[row_id], reinstate=True)
    found = audit(model)
    assert found.verdict == "exact_verified", found


def test_a_loaded_generator_and_its_file_are_verified(tmp_path, trained):
    trained.save(tmp_path / "model")
    model = load(tmp_path / "model")
    model.forget(ids=names(2))
    found = audit(model, ids=names(2))
    assert found.verdict == "memory_verified"
    assert any("it still holds 2 rows" in sentence for sentence in found.not_verified)
    model.save(tmp_path / "model")
    assert not any("it still holds" in sentence for sentence in audit(model).not_verified)


def test_queries_are_refused():
    with pytest.raises(ArgumentError, match="asked for images of its classes"):
        audit(with_later(), queries=quarters(2)[0])


def test_steps_are_told_before_they_are_taken():
    steps = []
    audit(with_later(), classes=["z"], simulate=True, on_step=steps.append)
    assert steps == [
        "copying the memory",
        "forgetting in the copy",
        "building anew",
        "drawing images",
        "drawing from a stand-in",
        "reading votes",
    ]


# -- what is not so is found ----------------------------------------------------------------------


def _payload(model):
    model.memory.table.embeddings[0, 3] += 1


def _payload_off_the_grid(model):
    model.memory.table.embeddings[0, 3] += 2**-20


def _swapped_payloads(model):
    stored = model.memory.table.embeddings
    stored[[0, 4]] = stored[[4, 0]]  # of one class: sums stay


def _sums(model):
    model.memory.sums._sums[1, 0] += 1


def _counts(model):
    model.memory.sums._counts[1] += 1


def _digest(model):
    model.memory._hash._state[3] += 1


def _class_of_a_row(model):
    model.memory.table.slots[0] = model.memory.table.slots[1]


def _swapped_numbers(model):
    object.__setattr__(model.numbers_, "names", ("b", "a", "c", "d"))


def _number_of_a_later_class(model):
    object.__setattr__(model.numbers_, "names", ("a", "b", "c", "z"))


def _a_number_too_many(model):
    model.numbers_ = ClassNumbers.of(["a", "b", "c", "d", "z"])


def _weights(model):
    with torch.no_grad():
        model.network_.conv_out.bias += 1e-3


def _weights_and_their_record(model):
    """Half of what an attacker would change: the record says that these are the weights."""
    with torch.no_grad():
        model.network_.class_embedding.weight += 1
    _, *record = model.network_._erasable_provenance
    model.network_._erasable_provenance = ("0" * 64, *record)


def _hook(model):
    model.network_.conv_out.register_forward_hook(lambda module, given, found: found + 1e-3)


def _replaced_forward(model):
    model.network_.denoise = lambda images, *rest, **named: images


@pytest.mark.parametrize(
    ("tamper", "part"),
    [
        (_payload, "sums"),
        (_payload_off_the_grid, "rows"),
        (_swapped_payloads, "digest"),
        (_sums, "sums"),
        (_counts, "counts"),
        (_digest, "digest"),
        (_class_of_a_row, "rows"),
        (_swapped_numbers, "numbers of classes"),
        (_number_of_a_later_class, "numbers of classes"),
        (_a_number_too_many, "numbers of classes"),
        (_weights, "weights"),
        (_weights_and_their_record, "weights"),
        (_hook, "drawings"),
        (_replaced_forward, "drawings"),
    ],
)
def test_a_change_behind_the_models_back_is_found(tamper, part):
    model = with_later(labels="permuted")
    tamper(model)
    found = audit(model)
    assert found.verdict is Verdict.FAILED, found
    assert part in found.first_difference.part, found
    assert str(found).startswith(f"failed: {found.first_difference}")


def test_swapped_numbers_are_found_after_a_forget_too():
    model = with_later(labels="permuted")
    _swapped_numbers(model)
    model.forget(classes=["d"])
    assert audit(model).verdict is Verdict.FAILED


def test_a_memory_that_forgets_too_little_is_found(monkeypatch):
    model = with_later()
    whole = Memory.drop

    def drop(memory, selection, *rest):
        selection.ids.pop()
        return whole(memory, selection, *rest)

    monkeypatch.setattr(Memory, "drop", drop)
    found = audit(model, ids=names(2), simulate=True)
    assert "still there" in str(found.first_difference)


def test_rows_that_are_read_after_they_were_forgotten_are_found(monkeypatch):
    read = Reading.memory

    def keeping(reading, kernels=None):
        kept = vars(reading._model.network_).setdefault("kept", {})
        return kept.setdefault(tuple(reading.reads.tolist()), read(reading, kernels))

    monkeypatch.setattr(Reading, "memory", keeping)
    found = audit(with_later(), ids=names(1), simulate=True)
    assert found.first_difference.part == "drawings"
    assert "of class 'a'" in found.first_difference.where


def test_a_stand_in_that_reads_the_forgotten_rows_is_found(monkeypatch):
    read = Reading.memory

    def keeping(reading, kernels=None):
        if len(reading.reads) > 4:  # the other drawings
            return read(reading, kernels)
        kept = vars(reading._model.network_).setdefault("kept", [])
        kept.append(read(reading, kernels))
        return kept[0]

    monkeypatch.setattr(Reading, "memory", keeping)
    found = audit(with_later(), classes=["z"], simulate=True)
    assert found.first_difference.part == "drawings by a stand-in", found


def test_votes_of_other_rows_are_found(monkeypatch):
    model = with_later()
    whole = type(model).votes

    def votes(self, *given, **named):
        found = whole(self, *given, **named)
        if self.network_ is model.network_:
            found.ids[0, 0] = "another"
        return found

    monkeypatch.setattr(type(model), "votes", votes)
    assert audit(model).first_difference.part == "votes"


def test_a_row_changed_on_disk_is_found(tmp_path):
    model = with_later()
    model.save(tmp_path / "model")
    with sqlite3.connect(tmp_path / "model" / "rows.sqlite") as connection:
        connection.execute("UPDATE rows SET label = 's:a' WHERE label = 's:z'")
    connection.close()
    found = audit(model)
    assert found.verdict is Verdict.FAILED
    assert found.first_difference.part == "rows on disk"


class _Counter(Follower):
    def add(self, infos, embeddings):
        pass

    def remove(self, infos, embeddings):
        pass


def test_what_is_kept_but_not_known_is_said_to_be_compared_by_answers_only():
    model = with_later()
    model.memory.live.follower("counter", lambda live: _Counter())
    found = audit(model)
    assert found.is_verified
    assert any("'counter'" in sentence for sentence in found.not_verified)
