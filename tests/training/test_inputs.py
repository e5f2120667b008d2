"""Inputs of networks: bytes and files stay as they are until they are asked for."""

import hashlib
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from erasable import KNNClassifier, ParametricClassifier, SPMClassifier
from erasable.data import LazyImages
from erasable.errors import ArgumentError
from erasable.memory import content_parts
from erasable.models._inputs import as_float32
from erasable.training import Inputs, as_images

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8)
LABELS = ["a", "b"] * 10
IDS = [f"image-{index}" for index in range(20)]
TINY = {"encoder_options": {"widths": [4], "dim": 8}, "random_state": 0, "batch_size": 8}


class Decoded:
    """Bytes that come into being when they are indexed, as images in files do."""

    dtype = np.dtype(np.uint8)

    def __init__(self, array):
        self._array = array
        self.shape = array.shape
        self.largest = 0
        self.read = 0

    def __len__(self):
        return len(self._array)

    def __getitem__(self, index):
        assert isinstance(index, slice) or index.dtype == np.int64
        found = self._array[index].copy()
        self.largest = max(self.largest, len(found))
        self.read += len(found)
        return found


def floats(array):
    """Return bytes as the numbers that a network sees, all at once."""
    return as_images(array.astype(np.float32) / np.float32(255))


def slow_digests(numbers):
    """Return the digests that every version has given float32 numbers."""
    rows = [row.astype("<f4").tobytes() for row in np.ascontiguousarray(numbers)]
    return [hashlib.sha256(b"erasable.input.1:" + row).digest() for row in rows]


def mapped(path, array):
    """Return an array as it lies on disk, read-only."""
    np.save(path, array)
    return np.load(path, mmap_mode="r")


images = hnp.arrays(
    np.uint8,
    hnp.array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=5),
)


# -- what is read ---------------------------------------------------------------------------------


@given(images, st.data())
def test_bytes_are_the_same_numbers_as_when_converted_as_a_whole(array, data):
    whole, inputs = floats(array), Inputs(array)
    assert inputs.shape == whole.shape
    assert (len(inputs), inputs.ndim) == (len(whole), whole.ndim)
    places = data.draw(st.lists(st.integers(0, len(array) - 1)))
    for index in (slice(None), slice(1, 3), np.array(places, np.int64)):
        found = inputs[index]
        assert found.dtype == torch.float32
        np.testing.assert_array_equal(found.numpy(), whole[index])


@given(images)
def test_digests_of_bytes_are_those_of_the_numbers(array):
    digests = slow_digests(floats(array))
    assert Inputs(array).digests == Inputs(floats(array)).digests == digests


@given(images, st.data())
def test_a_part_is_the_inputs_at_these_places(array, data):
    places = data.draw(st.lists(st.integers(0, len(array) - 1), unique=True).map(sorted))
    for source in (array, floats(array), Decoded(array)):
        part = Inputs(source).take(places)
        assert part.shape == (len(places), *floats(array).shape[1:])
        np.testing.assert_array_equal(part[:].numpy(), floats(array)[places])
        assert part.digests == [Inputs(source).digests[place] for place in places]


def test_a_part_of_a_part_is_read_from_the_source():
    inputs = Inputs(Decoded(BYTES)).take([1, 3, 5, 7, 9]).take([0, 2, 4])
    np.testing.assert_array_equal(inputs[:].numpy(), floats(BYTES)[[1, 5, 9]])
    np.testing.assert_array_equal(inputs[np.array([2, 0])].numpy(), floats(BYTES)[[9, 1]])


def test_taking_a_part_reads_nothing():
    source = Decoded(BYTES)
    Inputs(source).take([0, 4])
    assert source.largest == 0


def test_floats_are_not_scaled():
    array = np.array([[255.0, -3.0]], np.float32)
    np.testing.assert_array_equal(Inputs(array)[:].numpy(), array)


def test_what_is_read_is_a_copy():
    array = floats(BYTES).copy()
    before = array.copy()
    Inputs(array)[:].zero_()
    np.testing.assert_array_equal(array, before)


def test_a_minus_before_zero_does_not_change_a_digest():
    assert Inputs(np.array([[-0.0]], np.float32)).digests == Inputs(np.zeros((1, 1), "f4")).digests


def test_a_flattened_image_is_a_copy_of_the_image():
    flat = floats(BYTES).reshape(20, -1)
    assert Inputs(flat).digests == Inputs(BYTES).digests


@given(images, images)
def test_other_inputs_have_other_digests(some, others):
    numbers = [row.tobytes() for row in (*floats(some), *floats(others))]
    digests = Inputs(some).digests + Inputs(others).digests
    assert len(set(digests)) == len(set(numbers))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_inputs_on_disk_are_read_without_a_warning(tmp_path, dtype):
    array = BYTES if dtype == np.uint8 else floats(BYTES)
    inputs = Inputs(mapped(tmp_path / "images.npy", array))
    np.testing.assert_array_equal(inputs[2:9].numpy(), floats(BYTES)[2:9])
    inputs[np.array([3, 1])].zero_()  # a tensor of its own, not the file
    assert inputs.digests == Inputs(BYTES).digests


@pytest.mark.parametrize("count", [511, 512, 513, 1025])
def test_digests_do_not_depend_on_how_many_are_read_at_once(count):
    array = np.random.default_rng(1).integers(0, 256, (count, 3), dtype=np.uint8)
    assert Inputs(array).digests == slow_digests(floats(array))
    assert Inputs(array).contents == [Inputs(row[None]).contents[0] for row in array]


# -- the same input in another form ---------------------------------------------------------------


def same(one, other):
    """Tell for each row whether two forms are recognised as the same input."""
    contents = zip(Inputs(one).contents, Inputs(other).contents, strict=True)
    return [bool(set(content_parts(a)) & set(content_parts(b))) for a, b in contents]


OF_BYTES = {
    "float32 over 255": lambda array: array.astype(np.float32) / np.float32(255),
    "float64 over 255": lambda array: as_float32(array / 255),
    "times 1/255": lambda array: array.astype(np.float32) * np.float32(1 / 255),
    "float16 over 255": lambda array: (array / 255).astype(np.float16).astype(np.float32),
    "float16, then over 255": lambda array: (array.astype(np.float16) / np.float16(255)).astype(
        np.float32
    ),
    "floats 0…255": lambda array: array.astype(np.float32),
    "float16 0…255": lambda array: array.astype(np.float16).astype(np.float32),
    "whole numbers": lambda array: as_float32(array.astype(np.int64)),
}
LAYOUTS = {
    "as it was": lambda array: array,
    "channels first": lambda array: as_images(array),
    "Fortran order": lambda array: np.asfortranarray(array),
    "flattened pixel after pixel": lambda array: array.reshape(len(array), -1),
    "flattened plane after plane": lambda array: as_images(array).reshape(len(array), -1),
}
pictures = hnp.arrays(
    np.uint8,
    st.one_of(
        st.tuples(st.integers(1, 3), st.just(5), st.just(4), st.sampled_from([1, 3, 4])),
        st.tuples(st.integers(1, 3), st.just(6), st.just(5)),
    ),
    elements=st.one_of(st.integers(0, 255), st.integers(0, 1), st.sampled_from([0, 255])),
)


@given(pictures, st.sampled_from(sorted(OF_BYTES)), st.sampled_from(sorted(LAYOUTS)))
@settings(max_examples=200)
def test_a_picture_is_recognised_in_every_harmless_form(array, form, layout):
    other = LAYOUTS[layout](OF_BYTES[form](array))
    assert all(same(array, as_images(other)))


@given(array=pictures, layout=st.sampled_from(sorted(LAYOUTS)))
def test_bytes_are_recognised_in_every_layout(array, layout):
    assert all(same(array, LAYOUTS[layout](array)))


def test_every_byte_in_half_precision_is_nearest_to_itself():
    levels = np.arange(256, dtype=np.float64)
    for halves in ((levels / 255).astype(np.float16), levels.astype(np.float16) / np.float16(255)):
        moved = np.abs(halves.astype(np.float32) * np.float32(255) - levels)
        assert (moved <= levels * 2.0**-11 + 1e-4).all()


@given(pictures, st.data())
def test_another_picture_is_never_taken_for_it(array, data):
    other = array.copy()
    row = data.draw(st.integers(0, len(array) - 1))
    place = data.draw(st.integers(0, other[row].size - 1))
    value = other[row].reshape(-1)[place]
    other[row].reshape(-1)[place] = data.draw(st.integers(2, 255).filter(lambda v: v != value))
    found = same(array, other)
    assert not found[row]
    assert all(found[:row] + found[row + 1 :])


normalised = hnp.arrays(
    np.float32,
    st.one_of(st.just((2, 3, 4, 4)), st.just((2, 30))),
    elements=st.floats(-8, 8, width=32),
)


@given(normalised)
def test_numbers_are_recognised_in_half_precision(array):
    is_small = np.abs(array.reshape(2, -1)).max(axis=1) < 2.0**-14
    halves = array.astype(np.float16).astype(np.float32)
    assert all(np.array(same(array, halves)) | is_small)


@given(normalised)
def test_images_of_numbers_are_recognised_when_flattened(array):
    if array.ndim == 4:
        assert all(same(array, array.transpose(0, 2, 3, 1).reshape(2, -1)))
        assert all(same(array, array.reshape(2, -1)))


@given(normalised)
def test_numbers_that_differ_by_more_than_half_precision_are_others(array):
    other = array.copy()
    other.reshape(2, -1)[:, 7] += 1.0
    is_other = (other != array).reshape(2, -1).any(axis=1)
    assert not any(np.array(same(array, other)) & is_other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([0.0] * 14 + [1.0], [0.0] * 14 + [255.0], id="too few to be a picture"),
        pytest.param([0.30001] * 15, [0.30002] * 15, id="too few to be rounded"),
        pytest.param([5013.0] * 20, [5014.0] * 20, id="whole numbers"),
        pytest.param([70_000.5] * 20, [70_001.5] * 20, id="beyond half precision"),
        pytest.param([1e-6] * 20, [1.01e-6] * 20, id="below half precision"),
    ],
)
def test_rows_of_a_table_are_not_rounded_into_each_other(one, other):
    assert same(np.array([one], np.float32), np.array([other], np.float32)) == [False]


def test_what_an_earlier_version_recognised_is_recognised_in_other_forms_too():
    old = slow_digests(floats(BYTES))
    for form in OF_BYTES.values():
        new = Inputs(as_images(form(BYTES))).contents
        assert all(a in content_parts(b) for a, b in zip(old, new, strict=True))


def test_every_picture_in_files_is_decoded_once_for_all_its_digests():
    source = Decoded(BYTES)
    inputs = Inputs(source)
    inputs.contents, inputs.digests  # noqa: B018
    assert source.read == len(BYTES)


# -- axes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 7), (2, 7)),
        ((2, 6, 5), (2, 1, 6, 5)),
        ((2, 6, 5, 1), (2, 1, 6, 5)),
        ((2, 6, 5, 3), (2, 3, 6, 5)),
        ((2, 6, 5, 4), (2, 4, 6, 5)),
        ((2, 3, 6, 5), (2, 3, 6, 5)),
        ((2, 3, 5, 4), (2, 3, 5, 4)),
        ((2, 6, 5, 2), (2, 6, 5, 2)),
        ((2, 2, 2, 2, 2), (2, 2, 2, 2, 2)),
    ],
)
def test_channels_come_first(shape, expected):
    assert as_images(np.zeros(shape)).shape == expected
    assert Inputs(np.zeros(shape, np.uint8)).shape == expected


# -- models on inputs of every form ---------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return square images as files that keep every byte, and the same as an array."""
    folder = tmp_path_factory.mktemp("images")
    array = RNG.integers(0, 256, (20, 6, 6, 3), dtype=np.uint8)
    names = [f"{index}.png" for index in range(20)]
    for name, image in zip(names, array, strict=True):
        Image.fromarray(image).save(folder / name)
    return LazyImages(folder, names, resolution=6), array


FORMS = {
    "decoded": lambda array, folder: Decoded(array),
    "on disk": lambda array, folder: mapped(folder / "images.npy", array),
    "a tensor": lambda array, folder: torch.from_numpy(array),
    "floats": lambda array, folder: array.astype(np.float32) / np.float32(255),
    "floats on disk": lambda array, folder: mapped(
        folder / "images.npy", array.astype(np.float32) / np.float32(255)
    ),
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


@forms
@pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier])
def test_a_model_trained_on_any_form_is_the_same(form, kind, tmp_path):
    source = form(BYTES, tmp_path)
    expected = kind(**TINY, epochs=2).fit(BYTES, LABELS, ids=IDS)
    model = kind(**TINY, epochs=2).fit(source, LABELS, ids=IDS)
    assert model.weights_digest == expected.weights_digest
    assert model.memory.digest == expected.memory.digest
    np.testing.assert_array_equal(model.predict_proba(source), expected.predict_proba(BYTES))


@forms
def test_rows_remembered_in_any_form_are_the_same(form, tmp_path):
    source = form(BYTES, tmp_path)
    expected = SPMClassifier(**TINY).remember(BYTES, LABELS, ids=IDS)
    model = SPMClassifier(**TINY).remember(source, LABELS, ids=IDS)
    assert model.memory.digest == expected.memory.digest
    np.testing.assert_array_equal(model.embed(source), expected.embed(BYTES))


@forms
def test_a_twin_trained_on_any_form_is_the_same(form, tmp_path):
    source = form(BYTES, tmp_path)
    expected = ParametricClassifier(**TINY, epochs=2).fit(BYTES, LABELS)
    twin = ParametricClassifier(**TINY, epochs=2).fit(source, LABELS)
    np.testing.assert_array_equal(twin.predict_proba(source), expected.predict_proba(BYTES))


@pytest.mark.parametrize("epochs", [0, 2])
def test_images_in_files_are_as_good_as_an_array(files, epochs):
    lazy, array = files
    expected = SPMClassifier(**TINY, epochs=epochs).fit(array, LABELS, ids=IDS)
    model = SPMClassifier(**TINY, epochs=epochs).fit(lazy, LABELS, ids=IDS)
    assert model.weights_digest == expected.weights_digest
    assert model.memory.digest == expected.memory.digest
    np.testing.assert_array_equal(model.predict_proba(lazy), expected.predict_proba(array))


def test_a_row_forgotten_as_an_array_is_recognised_in_a_file(files):
    lazy, array = files
    model = SPMClassifier(**TINY).remember(array[:3], LABELS[:3], ids=IDS[:3])
    model.forget(ids=IDS[:1])
    model.remember(lazy, LABELS, ids=[f"again-{i}" for i in range(20)], skip_forgotten=True)
    assert len(model.memory) == 2 + 19
    assert "again-0" not in model.memory


def test_rows_of_an_array_can_be_skipped_among_lazily_decoded_ones():
    model = SPMClassifier(**TINY).remember(BYTES[:4], LABELS[:4], ids=IDS[:4])
    model.forget(ids=IDS[1:3])
    model.forget(ids=[IDS[0], IDS[3]])
    model.remember(Decoded(BYTES), LABELS, ids=IDS, skip_forgotten=True)
    expected = SPMClassifier(**TINY).remember(BYTES[4:], LABELS[4:], ids=IDS[4:])
    assert model.memory.digest == expected.memory.digest


def test_lazily_decoded_images_of_another_size_are_refused():
    model = SPMClassifier(**TINY).remember(BYTES, LABELS)
    with pytest.raises(ArgumentError, match=r"\(n, 3, 6, 5\), but got \(20, 3, 5, 6\)"):
        model.predict(Decoded(BYTES.transpose(0, 2, 1, 3)))


def test_no_lazily_decoded_images_are_refused():
    with pytest.raises(ArgumentError, match="at least one image"):
        SPMClassifier(**TINY).remember(Decoded(BYTES[:0]), [])


# -- memory ---------------------------------------------------------------------------------------


MANY = np.random.default_rng(2).integers(0, 256, (4000, 20, 20, 3), dtype=np.uint8)
CLASSES = np.arange(4000) % 5
WHOLE = 4 * MANY.size


def peak(call):
    """Return the most bytes that were allocated at once during a call, by Python and numpy."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_bound_is_one_that_converting_everything_breaks():
    assert peak(lambda: floats(MANY)) >= WHOLE


@pytest.mark.parametrize("wrap", [lambda array: array, Decoded], ids=["array", "decoded"])
def test_bytes_are_never_converted_as_a_whole(wrap):
    source = wrap(MANY)
    model = SPMClassifier(**{**TINY, "batch_size": 64}, epochs=1)

    def work():
        model.fit(source, CLASSES)
        model.predict(source)

    model.fit(MANY[:64], CLASSES[:64])  # what is imported for training does not count
    assert peak(work) < WHOLE


def test_lazily_decoded_images_are_never_decoded_all_at_once():
    source = Decoded(MANY)
    model = SPMClassifier(**{**TINY, "batch_size": 64}, epochs=1)
    model.fit(source, CLASSES)
    model.predict(source)
    assert 0 < source.largest <= 1024


def test_lazily_decoded_images_are_encoded_into_a_cache_in_parts(tmp_path):
    source = Decoded(MANY)
    model = SPMClassifier(**TINY, embedding_cache=tmp_path)
    model.remember(source, CLASSES, ids=list(range(4000)))
    assert 0 < source.largest <= 1024


# -- what only looks like lazily decoded images ---------------------------------------------------


def sparse(dtype):
    from scipy import sparse

    return sparse.csr_matrix(np.eye(4, dtype=dtype))


def series(dtype):
    pandas = pytest.importorskip("pandas")
    return pandas.Series([1, 2, 3, 4], dtype=dtype)


@pytest.mark.parametrize("make", [sparse, series])
def test_a_form_that_is_refused_as_floats_is_told(make):
    with pytest.raises((ArgumentError, TypeError), match=r"dense data is required|2-dimensional"):
        SPMClassifier("identity").remember(make(np.float32), [*"abcd"])


@pytest.mark.parametrize("make", [sparse, series])
def test_a_form_that_is_refused_as_floats_is_told_alike_as_bytes(make):
    with pytest.raises((ArgumentError, TypeError), match=r"dense data is required|2-dimensional"):
        SPMClassifier("identity").remember(make(np.uint8), [*"abcd"])


def test_a_table_may_have_a_column_named_dtype():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"dtype": [1.0, 2.0], "width": [3.0, 4.0]})
    assert len(SPMClassifier("identity").remember(table, ["a", "b"]).memory) == 2
