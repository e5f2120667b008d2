"""What a model was given first it is given later: converted where that is certain, else refused."""

import numpy as np
import pytest

from erasable import KNNClassifier, ParametricClassifier, SPMClassifier, convert, load
from erasable.errors import ArgumentError
from erasable.models import audit
from models.toys import TINY, blobs, fitted

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (20, 6, 5), dtype=np.uint8)
UNIT = BYTES.astype(np.float32) / np.float32(255)
SIGNED = (UNIT - 0.45) / 0.22
WHOLE = BYTES.astype(np.float32)
FLAGS = (BYTES > 127).astype(np.uint8)
LABELS = ["a", "b"] * 10


def plain(images, **options):
    return SPMClassifier("identity", **{"grid_bits": 8, **options}).remember(images, LABELS)


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (BYTES, "bytes"),
        (FLAGS, "bytes of 0 and 1"),
        (UNIT, "numbers from 0 to 1"),
        (SIGNED, "numbers around 0"),
        (WHOLE, "whole numbers from 0 to 255"),
        (BYTES.astype(np.int64), "whole numbers from 0 to 255"),
        (WHOLE + 0.5, "numbers"),
        (40 * SIGNED, "numbers"),
    ],
)
def test_the_form_of_the_first_rows_is_recorded(first, kind):
    assert plain(first).input_kind_ == kind


CONVERTED = {
    "bytes where rows were numbers from 0 to 1": (UNIT, BYTES),
    "numbers from 0 to 1 where rows were bytes": (BYTES, UNIT),
    "whole numbers of another type where rows were bytes": (BYTES, BYTES.astype(np.int32)),
    "bytes where rows were the same numbers": (WHOLE, BYTES),
    "flags of another type": (FLAGS, FLAGS.astype(np.int64)),
}
converted = pytest.mark.parametrize(
    ("first", "later"), CONVERTED.values(), ids=[name.replace(" ", "-") for name in CONVERTED]
)


@converted
@pytest.mark.parametrize("is_flat", [True, False])
def test_other_forms_are_converted_where_that_is_certain(first, later, is_flat):
    if is_flat:
        first, later = first.reshape(20, -1), later.reshape(20, -1)
    model = plain(first)
    np.testing.assert_allclose(model.embed(later), model.embed(first), atol=1e-7)


@converted
def test_an_input_is_converted_the_same_whatever_lies_beside_it(first, later):
    model = plain(first)
    alone = np.concatenate([model.embed(later[at : at + 1]) for at in range(len(later))])
    np.testing.assert_array_equal(model.embed(later), alone)


REFUSED = {
    "bytes where rows were standardised": (SIGNED, BYTES),
    "bytes where rows were any numbers": (WHOLE + 0.5, BYTES),
    "numbers up to 255 where rows were bytes": (BYTES, WHOLE),
    "standardised numbers where rows were bytes": (BYTES, SIGNED),
    "standardised numbers where rows were from 0 to 1": (UNIT, SIGNED),
    "numbers up to 255 where rows were from 0 to 1": (UNIT, WHOLE),
    "numbers up to 255 where rows were standardised": (SIGNED, WHOLE),
    "numbers from 0 to 1 where rows were up to 255": (WHOLE, UNIT),
    "dark bytes where rows were from 0 to 1": (UNIT, FLAGS),
    "numbers where rows were flags": (FLAGS, FLAGS.astype(np.float32)),
    "whole numbers beyond bytes where rows were bytes": (BYTES, BYTES.astype(np.int64) + 1),
}
refused = pytest.mark.parametrize(
    ("first", "later"), REFUSED.values(), ids=[name.replace(" ", "-") for name in REFUSED]
)


@refused
@pytest.mark.parametrize("call", ["predict", "votes", "find", "embed"])
def test_a_query_of_uncertain_meaning_is_refused(first, later, call):
    with pytest.raises(ArgumentError, match="Expected inputs like the first rows of this model"):
        getattr(plain(first), call)(later)


@refused
def test_rows_of_uncertain_meaning_are_refused_and_change_nothing(first, later):
    model = plain(first)
    before = model.memory.digest
    with pytest.raises(ArgumentError, match="Expected inputs like the first rows of this model"):
        model.remember(later, LABELS)
    assert model.memory.digest == before


def test_queries_of_an_audit_are_held_to_it():
    with pytest.raises(ArgumentError, match="like the first rows"):
        audit(plain(SIGNED), queries=BYTES)


def test_rows_to_tune_with_are_held_to_it():
    model = KNNClassifier("identity", k=1, epochs=0).remember(SIGNED, LABELS)
    with pytest.raises(ArgumentError, match="like the first rows"):
        model.tune(BYTES, LABELS)


def test_the_twin_is_held_to_it():
    twin = ParametricClassifier(encoder_options={"widths": [4], "dim": 8}, epochs=1)
    twin.fit(SIGNED, LABELS)
    with pytest.raises(ArgumentError, match="like the first rows"):
        twin.predict(BYTES)


def test_feature_vectors_of_bytes_that_may_be_counts_are_refused():
    model = plain(UNIT.reshape(20, -1))
    with pytest.raises(ArgumentError, match=r"bytes up to 31.*X / 255"):
        model.predict(BYTES.reshape(20, -1) // 8)


def test_feature_vectors_of_numbers_may_lie_anywhere():
    model = plain(UNIT.reshape(20, -1))
    assert len(model.predict(1000 * SIGNED.reshape(20, -1))) == 20


def test_noise_on_images_is_no_other_form():
    noisy = UNIT + 0.1 * RNG.normal(size=UNIT.shape).clip(-3, 3)
    assert len(plain(UNIT).predict(noisy)) == 20


def test_a_new_fit_records_anew():
    model = SPMClassifier("identity", epochs=0).fit(SIGNED, LABELS)
    assert model.fit(BYTES, LABELS).input_kind_ == "bytes"


def test_a_fit_that_fails_leaves_the_record():
    model = SPMClassifier("identity", epochs=0).fit(SIGNED, LABELS)
    with pytest.raises(ArgumentError):
        model.fit(BYTES, ["a"])
    assert model.input_kind_ == "numbers around 0"


def test_the_record_is_saved(tmp_path):
    plain(SIGNED).save(tmp_path / "model")
    with pytest.raises(ArgumentError, match="numbers around 0, but got bytes"):
        load(tmp_path / "model").predict(BYTES)


def test_a_model_without_a_record_takes_what_it_took_before():
    model = fitted()
    model.input_kind_ = None
    assert len(model.predict(blobs(4)[0])) == 4


def test_no_value_of_a_row_is_recorded():
    model = SPMClassifier(**TINY, epochs=0).fit(*blobs(8))
    assert model._input_description() == {"input_kind": "numbers around 0"}


def test_a_network_that_was_trained_here_keeps_the_form_when_it_is_converted():
    twin = ParametricClassifier(encoder_options={"widths": [4], "dim": 8}, epochs=1)
    model = convert(twin.fit(SIGNED, LABELS))
    with pytest.raises(ArgumentError, match="numbers around 0, but got bytes"):
        model.remember(BYTES, LABELS)
    assert model.remember(SIGNED, LABELS).input_kind_ == "numbers around 0"
