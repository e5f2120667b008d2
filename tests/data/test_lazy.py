"""Images that are decoded when they are indexed."""

import io
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from erasable.data import LazyImages
from erasable.data._lazy import decode_image
from erasable.errors import ArgumentError

COUNT, SIDE = 7, 6


def picture(width, height, seed=0, mode="RGB"):
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(256, size=(height, width, 3), dtype=np.uint8)).convert(mode)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    for number in range(COUNT):
        picture(8 + number, 20 - number, number).save(root / f"{number}.png")
    return LazyImages(root, [f"{number}.png" for number in range(COUNT)], resolution=SIDE)


def test_it_has_the_shape_of_its_array(images):
    everything = np.asarray(images)
    assert images.shape == everything.shape == (COUNT, SIDE, SIDE, 3)
    assert (images.dtype, images.ndim, len(images)) == (everything.dtype, everything.ndim, COUNT)


@given(hnp.basic_indices((COUNT,), allow_ellipsis=False, allow_newaxis=False))
def test_slices_are_those_of_the_array(images, index):
    index = index[0] if isinstance(index, tuple) and index else index
    index = slice(None) if index == () else index
    np.testing.assert_array_equal(images[index], np.asarray(images)[index])


@given(st.lists(st.integers(-COUNT, COUNT - 1)))
def test_positions_are_those_of_the_array(images, positions):
    expected = np.asarray(images)[np.array(positions, int)]
    np.testing.assert_array_equal(images[positions], expected)
    np.testing.assert_array_equal(np.asarray(images.take(positions)), expected)


@given(hnp.arrays(bool, COUNT))
def test_masks_are_those_of_the_array(images, mask):
    np.testing.assert_array_equal(images[mask], np.asarray(images)[mask])


@pytest.mark.parametrize("index", [COUNT, -COUNT - 1, [0, COUNT]])
def test_positions_out_of_range_are_refused(images, index):
    with pytest.raises(IndexError):
        images[index]


@pytest.mark.parametrize("index", [1.5, [0.5], [[1, 2]], [True, False], True, "a"])
def test_other_indices_are_refused(images, index):
    with pytest.raises(IndexError, match="Expected a number, a slice, positions or a mask"):
        images[index]


def test_iterating_gives_each_image_once(images):
    np.testing.assert_array_equal(list(images), np.asarray(images))


def test_taking_decodes_nothing(tmp_path):
    missing = LazyImages(tmp_path, ["a.png", "b.png"], resolution=4)
    assert missing.take([1, 1, 0]).shape == (3, 4, 4, 3)


def test_an_array_without_decoding_is_refused(images):
    with pytest.raises(ValueError, match="have to be decoded"):
        np.asarray(images, copy=False)


def test_another_type_can_be_asked_for(images):
    found = np.asarray(images, dtype=np.float32)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.asarray(images))


def test_pixels_do_not_depend_on_the_number_of_threads(images, tmp_path):
    names = [f"{number}.png" for number in range(COUNT)]
    one = LazyImages(images._root, names, resolution=SIDE, workers=1)
    many = LazyImages(images._root, names, resolution=SIDE, workers=8)
    np.testing.assert_array_equal(np.asarray(one), np.asarray(many))


def test_a_square_of_the_right_size_is_left_as_it_is(tmp_path):
    picture(5, 5).save(tmp_path / "a.png")
    np.testing.assert_array_equal(decode_image(tmp_path / "a.png", 5), np.asarray(picture(5, 5)))


@pytest.mark.parametrize(("width", "height"), [(9, 5), (5, 9)])
def test_the_middle_is_kept(tmp_path, width, height):
    picture(width, height).save(tmp_path / "a.png")
    pixels = np.asarray(picture(width, height))
    middle = pixels[:, 2:7] if width > height else pixels[2:7]
    np.testing.assert_array_equal(decode_image(tmp_path / "a.png", 5), middle)


def test_fine_stripes_become_grey_and_not_stripes(tmp_path):
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[:, ::2] = 255
    Image.fromarray(stripes).save(tmp_path / "a.png")
    small = decode_image(tmp_path / "a.png", 8).astype(int)
    assert np.abs(small - 127).max() < 8


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_turned_upright(tmp_path, orientation):
    upright = np.zeros((8, 8, 3), np.uint8)
    upright[:4, :4] = 250
    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = Image.fromarray(upright)
    stored = stored.transpose(turns[orientation]) if orientation in turns else stored
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(decode_image(tmp_path / "a.png", 8), upright)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"])
def test_every_usual_mode_becomes_rgb(tmp_path, mode):
    picture(6, 6, mode=mode).save(tmp_path / "a.tif" if mode != "P" else tmp_path / "a.png")
    (path,) = tmp_path.iterdir()
    assert decode_image(path, 6).shape == (6, 6, 3)


def test_sixteen_bits_are_scaled_and_not_cut_off(tmp_path):
    grey = np.full((4, 4), 0x8012, np.uint16)
    Image.fromarray(grey).save(tmp_path / "a.png")
    assert set(decode_image(tmp_path / "a.png", 4).ravel().tolist()) == {0x80}


def test_pixels_without_a_range_are_refused(tmp_path):
    Image.fromarray(np.zeros((4, 4), np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(ArgumentError, match="no fixed range"):
        LazyImages(tmp_path, ["a.tif"])[0]


def test_every_broken_file_of_a_batch_is_named(tmp_path):
    buffer = io.BytesIO()
    picture(40, 40).save(buffer, "JPEG")
    files = {
        "good.jpg": buffer.getvalue(),
        "cut.jpg": buffer.getvalue()[:500],
        "empty.png": b"",
        "text.png": b"hello",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    images = LazyImages(tmp_path, [*files, "gone.png"], resolution=8)
    with pytest.raises(ArgumentError) as error:
        images[:]
    for name in ("cut.jpg", "empty.png", "text.png", "gone.png"):
        assert f"'{name}' (" in str(error.value)
    assert "good.jpg" not in str(error.value)
    assert set(images.broken()) == {"cut.jpg", "empty.png", "text.png", "gone.png"}


@pytest.mark.parametrize("factor", [0.9, 0.4])
def test_a_file_with_too_many_pixels_is_refused(tmp_path, monkeypatch, factor):
    picture(10, 10).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", int(100 * factor))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ArgumentError, match=r"'a\.png' \("):
            LazyImages(tmp_path, ["a.png"])[0]


def test_a_resolution_must_be_positive(tmp_path):
    with pytest.raises(ArgumentError, match="at least 1"):
        LazyImages(tmp_path, [], resolution=0)


def test_no_images_are_an_empty_array(tmp_path):
    assert np.asarray(LazyImages(tmp_path, [], resolution=3)).shape == (0, 3, 3, 3)


def test_it_says_what_it_is_without_decoding(tmp_path):
    assert repr(LazyImages(tmp_path, ["a"], resolution=3)) == (
        f"LazyImages({str(tmp_path)!r}, shape=(1, 3, 3, 3))"
    )
