import io
import zipfile

import numpy as np
import pytest

from erasable.data import load_digits, read_arrays
from erasable.errors import ArgumentError


def write(path, **arrays):
    np.savez(path, **arrays)
    return path


def message_of(path, **options):
    with pytest.raises(ArgumentError) as error:
        read_arrays(path, **options)
    return str(error.value)


def test_digits_are_the_same_rows_everywhere():
    train, test = load_digits()
    assert (len(train), len(test)) == (1438, 359)
    assert train.digest == "89721fff171cd17ead16653b8fa85adedaeb7fe459c34963a81349e66ffe517e"
    assert test.digest == "415efc2953d103b519ec2052f645efeae9c28dd2c34adbbde52202251b052a30"


def test_an_id_means_the_same_pixels_in_every_split():
    train, test = load_digits(seed=0)
    other, _ = load_digits(seed=1)
    pixels = dict(zip(train.ids + test.ids, np.concatenate([train.X, test.X]), strict=True))
    for row_id, image in zip(other.ids, other.X, strict=True):
        np.testing.assert_array_equal(image, pixels[row_id])


def test_no_row_is_in_both_splits():
    train, test = load_digits()
    assert not set(train.ids) & set(test.ids)


def test_every_class_is_split_alike():
    train, test = load_digits(test_share=0.25)
    shares = [np.mean(test.y == label) / np.mean(train.y == label) for label in range(10)]
    np.testing.assert_allclose(shares, 1, atol=0.05)


def test_pixels_are_from_zero_to_one():
    train, _ = load_digits()
    assert (train.X.min(), train.X.max(), train.X.dtype) == (0, 1, np.float32)


def test_only_the_wanted_rows_are_kept():
    train, _ = load_digits()
    threes = train.where(train.y == 3)
    assert set(threes.y) == {3}
    assert threes.ids == [row_id for row_id, y in zip(train.ids, train.y, strict=True) if y == 3]


def test_arrays_are_read_with_ids_and_groups(tmp_path):
    path = write(
        tmp_path / "a.npz",
        X=np.eye(2),
        y=["a", "b"],
        ids=["r", "s"],
        groups=[["u", "v"], ["w", ""]],
    )
    found = read_arrays(path)
    assert (found.ids, found.groups) == (["r", "s"], [["u", "v"], ["w"]])
    assert found.y.tolist() == ["a", "b"]


def test_one_group_per_row_may_be_a_plain_column(tmp_path):
    path = write(tmp_path / "a.npz", X=np.eye(2), groups=["u", ""])
    assert read_arrays(path).groups == [["u"], []]


def test_what_is_not_in_the_file_is_none(tmp_path):
    found = read_arrays(write(tmp_path / "a.npz", X=np.eye(2)))
    assert (found.y, found.ids, found.groups) == (None, None, None)


def test_missing_arrays_and_unknown_ones_are_named_together(tmp_path):
    message = message_of(write(tmp_path / "a.npz", x=np.eye(2)), needs_labels=True)
    assert "'X', 'y'" in message
    assert "also got: 'x'" in message


def test_a_file_without_rows_is_refused(tmp_path):
    path = write(tmp_path / "a.npz", X=np.zeros((0, 2)), groups=np.zeros((0, 2), str))
    assert "at least one row" in message_of(path)


def test_lengths_must_agree(tmp_path):
    message = message_of(write(tmp_path / "a.npz", X=np.eye(2), y=[1, 2, 3]))
    assert "one length" in message


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    assert "there is no" in message_of(tmp_path / "none.npz")


def test_a_file_of_one_array_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(2))
    assert "single array" in message_of(tmp_path / "a.npy")


def test_objects_are_refused_because_reading_them_could_run_code(tmp_path):
    path = write(tmp_path / "a.npz", X=np.array([{}, []], dtype=object))
    assert "cannot be read" in message_of(path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_file_is_an_error(tmp_path, share):
    data = write(tmp_path / "a.npz", X=np.arange(1000.0)).read_bytes()
    (tmp_path / "b.npz").write_bytes(data[: int(share * len(data))])
    assert "cannot be read" in message_of(tmp_path / "b.npz")


def test_a_zip_file_of_something_else_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("hello.txt", io.StringIO("hello").getvalue())
    assert "not an array" in message_of(tmp_path / "a.npz")
