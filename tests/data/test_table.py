"""Tables of features or of image paths."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from erasable.data import Columns, load_dataset
from erasable.errors import ArgumentError, MissingExtraError


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "t.csv", "a,label,b,id,group\n1,x,2,r,u\n3,y,4,s,\n5,x,6,t,v\n")


def refused(path, **options):
    with pytest.raises(ArgumentError) as error:
        load_dataset(path, **options)
    return str(error.value)


def test_features_labels_ids_and_groups_are_read(table):
    rows = load_dataset(table, test_share=0).train
    assert rows.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert (rows.X.dtype, rows.y.tolist()) == (np.float32, ["x", "y", "x"])
    assert (rows.ids, rows.groups) == (["r", "s", "t"], [["u"], [], ["v"]])


def test_columns_can_have_other_names(tmp_path):
    path = write(tmp_path / "t.csv", "species,who,x,y,note\nfox,1,2,3,hi\n")
    columns = Columns(label="species", id="who", features=("y", "x"))
    rows = load_dataset(path, columns=columns, test_share=0).train
    assert (rows.X.tolist(), rows.y.tolist(), rows.ids) == ([[3, 2]], ["fox"], ["1"])


def test_without_ids_file_and_number_of_the_row_are_the_id(tmp_path):
    path = write(tmp_path / "t.csv", "a,label\n1,x\n2,y\n")
    rows = load_dataset(path, test_share=0).train
    assert (rows.ids, rows.groups) == (["t.csv/0", "t.csv/1"], None)


@given(st.integers(0, 5), st.floats(0, 0.9))
def test_ids_are_the_same_with_every_split(tmp_path_factory, seed, share):
    path = tmp_path_factory.getbasetemp() / "many.csv"
    if not path.exists():
        write(path, "a,label\n" + "".join(f"{n},{n % 3}\n" for n in range(30)))
    dataset = load_dataset(path, seed=seed, test_share=share)
    for part in (dataset.train, dataset.test):
        if part is not None:
            assert part.ids == [f"many.csv/{int(x)}" for x in part.X[:, 0]]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1", "-2"], [1, -2]),
        (["1", "x"], ["1", "x"]),
        (["01", "2"], ["01", "2"]),
        (["1.5", "2"], ["1.5", "2"]),
    ],
)
def test_labels_that_all_read_as_whole_numbers_are_numbers(tmp_path, labels, expected):
    path = write(tmp_path / "t.csv", "a,label\n" + "".join(f"1,{label}\n" for label in labels))
    assert load_dataset(path, test_share=0).train.y.tolist() == expected


def test_quotes_commas_line_ends_and_a_byte_order_mark_are_understood(tmp_path):
    path = write(tmp_path / "t.csv", '\ufeffa,label,id\r\n1,"x, ""y""","two\nlines"\r\n\r\n')
    rows = load_dataset(path, test_share=0).train
    assert (rows.y.tolist(), rows.ids) == (['x, "y"'], ["two\nlines"])


def test_paths_of_images_are_relative_to_the_table(tmp_path):
    (tmp_path / "pictures").mkdir()
    for number in range(2):
        pixels = np.full((4, 4, 3), number, np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{number}.png")
    path = write(
        tmp_path / "t.csv", "path,label,age\npictures/1.png,x,old\npictures/0.png,y,young\n"
    )
    rows = load_dataset(path, test_share=0, resolution=2, check=True).train
    assert rows.ids == ["pictures/1.png", "pictures/0.png"]
    assert rows.X[:].shape == (2, 2, 2, 3)
    assert [image.max() for image in rows.X] == [1, 0]


def test_broken_images_of_a_table_are_named(tmp_path):
    write(tmp_path / "odd.png", "odd")
    path = write(tmp_path / "t.csv", "path,label\nodd.png,x\ngone.png,y\n")
    message = refused(path, check=True)
    assert "2 cannot" in message
    assert "'odd.png' (" in message
    assert "'gone.png' (" in message


def test_cells_that_are_no_numbers_are_named_all_at_once(tmp_path):
    path = write(tmp_path / "t.csv", "a,b,label,id\n1,two,x,r\n,4,,s\ninf,1,y,\n")
    message = refused(path)
    for text in (
        "two in row 0 of b",
        "in row 1 of a",
        "inf in row 2 of a",
        "none: 1",
        "these rows: 2",
    ):
        assert text in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty file these are missing: 'label'"),
        ("a,label\n", "at least one row"),
        ("a,b\n1,2\n", "of a, b these are missing: 'label'"),
        ("label\nx\n", "there is neither"),
        ("a,a,label\n1,2,x\n", "twice: 'a'"),
        ("a,label\n1,x\n2\n3,y,z\n", "these lines: 3, 4"),
        ("a,label,id\n1,x,r\n2,y,r\n", "more than once: 'r'"),
        ('a,label\n1,"x\n', "cannot be read"),
        ("path,label\n,x\n", "these rows have none: 0"),
    ],
)
def test_an_odd_table_is_refused_in_words(tmp_path, text, message):
    assert message in refused(write(tmp_path / "t.csv", text))


def test_a_named_feature_that_is_not_there_is_refused(table):
    assert "'z'" in refused(table, columns=Columns(features=("a", "z")))


def test_a_table_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "t.csv").write_bytes("a,label\n1,é\n".encode("latin-1"))
    assert "in UTF-8" in refused(tmp_path / "t.csv")


def test_a_table_that_is_not_there_is_refused(tmp_path):
    assert "there is no" in refused(tmp_path / "none.csv")


def test_features_have_no_resolution(table):
    assert "no resolution" in refused(table, resolution=8)


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"erasable\[table\]"):
        load_dataset(tmp_path / "t.parquet")


@pytest.fixture
def parquet():
    pytest.importorskip("pyarrow")
    from pyarrow import parquet, table

    return lambda path, **columns: parquet.write_table(table(columns), path)


def test_parquet_and_csv_of_the_same_table_are_the_same_rows(tmp_path, table, parquet):
    path = tmp_path / "t.parquet"
    parquet(
        path, a=[1, 3, 5], label=list("xyx"), b=[2.0, 4, 6], id=list("rst"), group=["u", None, "v"]
    )
    one, other = (load_dataset(file, test_share=0).train for file in (table, path))
    np.testing.assert_array_equal(one.X, other.X)
    assert (one.y.tolist(), one.ids, one.groups) == (other.y.tolist(), other.ids, other.groups)


def test_parquet_labels_keep_their_type(tmp_path, parquet):
    path = tmp_path / "t.parquet"
    parquet(path, a=[1.0, 2.0], label=["1", "2"], id=[7, 8])
    rows = load_dataset(path, test_share=0).train
    assert (rows.y.tolist(), rows.ids) == (["1", "2"], ["7", "8"])


@pytest.mark.parametrize("cells", [[1.0, None], [1.0, float("nan")], [[1.0], [2.0]], ["1", "x"]])
def test_parquet_cells_that_are_no_numbers_are_refused(tmp_path, parquet, cells):
    path = tmp_path / "t.parquet"
    parquet(path, a=cells, label=["x", "y"])
    assert "finite numbers" in refused(path)


def test_a_damaged_parquet_file_is_refused(tmp_path, parquet):
    path = tmp_path / "t.parquet"
    parquet(path, a=[1.0], label=["x"])
    path.write_bytes(path.read_bytes()[:-9])
    assert "cannot be read" in refused(path)
    assert "there is no" in refused(tmp_path / "none.parquet")


def test_arrays_are_loaded_with_their_ids_or_row_numbers(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=[1, 2, 1])
    np.savez(tmp_path / "b.npz", X=np.eye(2), y=["x", "y"], ids=[7, 8], groups=["u", ""])
    plain = load_dataset(tmp_path / "a.npz", test_share=0).train
    named = load_dataset(f"arrays:{tmp_path / 'b.npz'}", test_share=0).train
    assert (plain.ids, plain.groups, plain.y.tolist()) == (
        ["a.npz/0", "a.npz/1", "a.npz/2"],
        None,
        [1, 2, 1],
    )
    assert (named.ids, named.groups) == ([7, 8], [["u"], []])
    assert json.dumps(load_dataset(tmp_path / "b.npz").record())


def test_arrays_with_an_id_twice_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(2), y=[1, 2], ids=["r", "r"])
    assert "more than once: 'r'" in refused(tmp_path / "a.npz")


def test_digits_are_the_rows_that_they_always_were():
    from erasable.data import load_digits

    dataset = load_dataset("digits")
    train, test = load_digits()
    assert (dataset.train.digest, dataset.test.digest) == (train.digest, test.digest)
    assert dataset.record()["seed"] == 0
    assert load_dataset("digits", test_share=0).test is None


def test_unknown_names_list_what_there_is():
    message = refused("cifar11")
    assert "digits, mnist, fashion-mnist, cifar10" in message
    assert "'cifar11'" in message


@pytest.mark.parametrize("options", [{"resolution": 64}, {"columns": Columns()}])
def test_options_that_do_not_fit_are_refused(options):
    assert "'digits'" in refused("digits", **options)
