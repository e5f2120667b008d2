"""What a reading of the data sets found: names that are not there, lists, leftovers."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from data import tiny
from erasable.data import Columns, load_dataset
from erasable.data import _cache as cache
from erasable.data._get import decode
from erasable.data._specs import KNOWN
from erasable.errors import ArgumentError, StoreError

pa = pytest.importorskip("pyarrow")


def csv(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


ROWS = ["label,patient,a", *(f"{i % 2},p{i},{i}" for i in range(6))]


@pytest.mark.parametrize("what", ["id", "group", "path"])
def test_a_column_that_was_named_must_be_there(tmp_path, what):
    table = csv(tmp_path / "t.csv", *ROWS)
    with pytest.raises(ArgumentError, match=r"columns that were named.*'pateint'"):
        load_dataset(table, columns=Columns(**{what: "pateint"}))
    assert load_dataset(table, columns=Columns(group="patient")).train.groups is not None


def parquet(path, **columns):
    from pyarrow import parquet as files

    files.write_table(pa.table(columns), path)
    return path


def test_a_row_may_have_several_groups(tmp_path):
    groups = [["ann", "bob"], [], None, ["ann"]]
    table = parquet(tmp_path / "t.parquet", label=[0, 1, 0, 1], a=[1.0, 2, 3, 4], group=groups)
    found = load_dataset(table, test_share=0).train
    assert found.groups == [["ann", "bob"], [], [], ["ann"]]


def test_whole_numbers_in_a_column_with_gaps_stay_whole(tmp_path):
    groups = [42.0, float("nan"), 7.0, 7.0]
    ids = [1.0, 2.0, 3.0, 4.0]
    table = parquet(tmp_path / "t.parquet", label=[0, 1, 0, 1], a=ids, id=ids, group=groups)
    found = load_dataset(table, test_share=0).train
    assert found.groups == [["42"], [], ["7"], ["7"]]
    assert found.ids == ["1", "2", "3", "4"]


@pytest.mark.parametrize("column", ["id", "group"])
def test_a_fraction_is_no_name(tmp_path, column):
    names = {column: [1.5, 2.0]}
    table = parquet(tmp_path / "t.parquet", label=[0, 1], a=[1.0, 2], **names)
    with pytest.raises(ArgumentError, match="whole number"):
        load_dataset(table, test_share=0)


def test_rows_without_ids_are_named_by_their_file(tmp_path):
    table = csv(tmp_path / "t.csv", "label,a", "0,1", "1,2")
    assert load_dataset(table, test_share=0).train.ids == ["t.csv/0", "t.csv/1"]
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3)), y=[0, 1])
    assert load_dataset(tmp_path / "a.npz", test_share=0).train.ids == ["a.npz/0", "a.npz/1"]


def test_paths_do_not_lead_out_of_a_table_s_folder(tmp_path):
    (tmp_path / "in").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "out.png")
    table = csv(tmp_path / "in" / "t.csv", "label,path", "0,../out.png")
    with pytest.raises(ArgumentError, match=r"lead out of the table's folder.*'\.\./out\.png'"):
        load_dataset(table, test_share=0)


def test_only_ordinary_formats_are_decoded(tmp_path):
    (tmp_path / "c").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "c" / "a.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "c" / "b.eps")
    (tmp_path / "c" / "b.eps").rename(tmp_path / "c" / "b.png")
    with pytest.raises(ArgumentError, match=r"b\.png"):
        load_dataset(tmp_path, test_share=0, check=True)


def test_other_folders_beside_splits_are_not_classes(tmp_path):
    for name in ("train", "validation"):
        for label in ("cat", "dog"):
            (tmp_path / name / label).mkdir(parents=True)
            Image.new("RGB", (8, 8)).save(tmp_path / name / label / "a.png")
    found = load_dataset(tmp_path)
    assert set(found.train.y) == {"cat", "dog"}
    assert len(found.test) == 2
    (tmp_path / "more").mkdir()
    with pytest.raises(ArgumentError, match="'more'"):
        load_dataset(tmp_path)


def small_spec(tmp_path, monkeypatch):
    from dataclasses import replace

    from erasable.data._layouts import Decoded, decoded_digest

    splits = {
        split: Decoded(np.zeros((3, 28, 28), np.uint8), np.array([0, 1, 2], np.uint8))
        for split in ("train", "test")
    }
    rows = {"train": 3, "test": 3}
    spec = replace(KNOWN["mnist"], rows=rows, digest=decoded_digest(splits))
    return spec, splits


def test_a_label_out_of_range_names_its_file(tmp_path, monkeypatch):
    spec, splits = small_spec(tmp_path, monkeypatch)
    entry = cache.write_entry(spec, splits, source="here", root=tmp_path)
    labels = np.load(entry.folder / "train-labels.npy")
    labels[1] = 17
    np.save(entry.folder / "train-labels.npy", labels)
    with pytest.raises(StoreError, match=r"train-labels\.npy has labels that are not below 10"):
        cache.read_split(spec, entry, "train")


def test_what_a_killed_writer_left_is_swept(tmp_path, monkeypatch):
    spec, _ = small_spec(tmp_path, monkeypatch)
    folder = tmp_path / spec.name
    (folder / f"{cache.PARTIAL}package").mkdir(parents=True)
    (folder / f"{cache.PARTIAL}train-images.npy.0").write_bytes(b"half")
    (folder / "other").write_bytes(b"stays")
    with cache.cache_lock(spec, tmp_path):
        assert sorted(path.name for path in folder.iterdir()) == ["other"]


def test_two_writers_do_not_meet(tmp_path, monkeypatch):
    spec, _ = small_spec(tmp_path, monkeypatch)
    code = (
        "from filelock import FileLock, Timeout\n"
        "import sys\n"
        "try:\n    FileLock(sys.argv[1], timeout=0.2).acquire()\n"
        "except Timeout:\n    print('locked')"
    )
    lock = tmp_path / f".{spec.name}.lock"
    with cache.cache_lock(spec, tmp_path):
        found = subprocess.run([sys.executable, "-c", code, lock], capture_output=True, check=True)
    assert found.stdout == b"locked\n"
    found = subprocess.run([sys.executable, "-c", code, lock], capture_output=True, check=True)
    assert found.stdout == b""


def test_of_two_data_sets_with_the_same_file_names_the_right_one_is_taken(tmp_path):
    wanted, other = tiny.splits((4, 3), seed=0), tiny.splits((4, 3), seed=1)
    for name, data in (("Fashion", other), ("MNIST", wanted)):
        (tmp_path / name).mkdir()
        for file, content in tiny.idx_files(data).items():
            (tmp_path / name / file).write_bytes(content)
    found = decode(tiny.grey_spec(wanted), tmp_path)
    np.testing.assert_array_equal(found["train"].images, wanted["train"].images)
    with pytest.raises(ArgumentError, match="another data set"):
        decode(tiny.grey_spec(tiny.splits((4, 3), seed=2)), tmp_path)


def test_a_package_that_cannot_be_unpacked_here_says_how(tmp_path):
    files = tiny.idx_files(tiny.splits((4, 3)))
    path = tmp_path / "grey.deb"
    path.write_bytes(tiny.deb(files).replace(b"data.tar.xz ", b"data.tar.zst"))
    with pytest.raises(ArgumentError, match=r"zstd. Unpack it with `dpkg-deb -x"):
        decode(tiny.grey_spec(), path)
