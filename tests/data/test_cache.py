"""Data sets on disk: what is verified, and what a failure leaves behind."""

import dataclasses
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from data import tiny
from erasable.data import data_folder, get_dataset, load_dataset
from erasable.data._cache import read_entry, read_split, verify, write_entry
from erasable.data._get import fetch
from erasable.data._layouts import Decoded, decoded_digest
from erasable.data._specs import CIFAR10, KNOWN, spec_of
from erasable.errors import ArgumentError, StoreError

DATA = tiny.splits((4, 4, 3))
SPEC = tiny.colour_spec()


@pytest.fixture
def entry(tmp_path):
    return write_entry(SPEC, DATA, source="here", root=tmp_path)


def message_of(call, *arguments, **options):
    with pytest.raises(StoreError) as error:
        call(*arguments, **options)
    return str(error.value)


def test_what_is_written_is_read_again(tmp_path, entry):
    assert read_entry(SPEC, tmp_path) == entry
    for split, arrays in DATA.items():
        found = read_split(SPEC, entry, split)
        np.testing.assert_array_equal(found.X, arrays.images)
        assert found.y.tolist() == [SPEC.classes[number] for number in arrays.labels]
        assert found.ids == [f"colour/{split}/{index}" for index in range(len(arrays.images))]
        assert found.groups is None


def test_classes_without_names_are_numbers(tmp_path):
    data = tiny.splits((4, 3))
    entry = write_entry(tiny.grey_spec(), data, source="here", root=tmp_path)
    found = read_split(tiny.grey_spec(), entry, "test").y
    assert (found.dtype, found.tolist()) == (np.int64, data["test"].labels.tolist())


def test_pixels_are_mapped_and_cannot_be_changed(entry):
    images = read_split(SPEC, entry, "train").X
    assert isinstance(images, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        images[0] = 0


def test_an_empty_cache_has_nothing(tmp_path):
    assert read_entry(SPEC, tmp_path / "none") is None


def test_without_its_commit_point_a_folder_does_not_count(tmp_path, entry):
    (entry.folder / "data.json").unlink()
    assert read_entry(SPEC, tmp_path) is None


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", None])
def test_a_file_of_another_size_is_named_on_every_load(tmp_path, entry, change):
    path = entry.folder / "test-images.npy"
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    message = message_of(read_entry, SPEC, tmp_path)
    assert str(path) in message
    assert "erasable data get colour" in message


def test_a_flipped_byte_is_found_and_named_by_verifying(tmp_path, entry):
    path = entry.folder / "train-images.npy"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    assert read_entry(SPEC, tmp_path) == entry
    assert str(path) in message_of(verify, SPEC, entry)


def test_pixels_changed_together_with_their_record_are_found_by_verifying(tmp_path, entry):
    other = tiny.splits((4, 4, 3), seed=1)
    elsewhere = dataclasses.replace(SPEC, digest=decoded_digest(other))
    write_entry(elsewhere, other, source="here", root=tmp_path)
    assert read_entry(elsewhere, tmp_path).files != entry.files
    record = entry.folder / "data.json"
    record.write_text(record.read_text().replace(elsewhere.digest, SPEC.digest))
    assert "other pixels" in message_of(verify, SPEC, read_entry(SPEC, tmp_path))


def test_another_data_set_under_this_name_is_refused(tmp_path, entry):
    other = dataclasses.replace(SPEC, digest="0" * 64)
    assert "other data than colour" in message_of(read_entry, other, tmp_path)


def test_a_changed_byte_of_the_record_is_read_or_refused_in_words(tmp_path, entry):
    path = entry.folder / "data.json"
    content = path.read_bytes()
    refused = 0
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 0x10
        path.write_bytes(changed)
        try:
            verify(SPEC, read_entry(SPEC, tmp_path))
        except StoreError:
            refused += 1
    assert refused > len(content) // 2


@pytest.mark.parametrize("files", [None, [], {"train-images.npy": 3}, {}])
def test_a_record_without_files_is_refused(tmp_path, entry, files):
    path = entry.folder / "data.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "files": files}))
    assert "get it again" in message_of(read_entry, SPEC, tmp_path)


def test_arrays_of_another_shape_are_refused(entry):
    np.save(entry.folder / "test-labels.npy", np.zeros(5, np.uint8))
    assert "shape (5,)" in message_of(read_split, SPEC, entry, "test")


def test_arrays_of_objects_are_refused(entry):
    np.save(entry.folder / "test-labels.npy", np.array([{}, []], dtype=object))
    assert "cannot be read" in message_of(read_split, SPEC, entry, "test")


def test_a_damaged_cache_is_repaired_by_getting_it_again(tmp_path, entry):
    (entry.folder / "test-images.npy").write_bytes(b"")
    source = tmp_path / "data.tgz"
    source.write_bytes(tiny.tar(tiny.bin_files(DATA)))
    fetch(SPEC, root=tmp_path, source=source)
    verify(SPEC, read_entry(SPEC, tmp_path))


def times(entry):
    return {path.name: path.stat().st_mtime_ns for path in entry.folder.iterdir()}


def test_what_the_cache_has_is_not_fetched_again(tmp_path, entry):
    before = times(entry)
    assert fetch(SPEC, root=tmp_path) == entry
    assert times(entry) == before


def test_a_whole_cache_is_left_alone_while_others_may_read_it(tmp_path, entry):
    before = times(entry)
    source = tmp_path / "data.tgz"
    source.write_bytes(tiny.tar(tiny.bin_files(DATA)))
    assert fetch(SPEC, root=tmp_path, source=source) == entry
    assert times(entry) == before


FULL = """
import resource, signal, sys
from pathlib import Path
from data import tiny
from erasable.data._cache import write_entry
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
write_entry(tiny.colour_spec(), tiny.splits((4, 4, 3)), source="here", root=Path(sys.argv[1]))
"""


@pytest.mark.parametrize("limit", [0, 100, 200, 500])
def test_a_disk_that_cannot_take_it_is_named_and_nothing_stays(tmp_path, limit):
    words = [sys.executable, "-c", FULL, str(tmp_path), str(limit)]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent
    )
    assert done.returncode == 1
    assert "StoreError: Expected to write colour to" in done.stderr
    assert str(tmp_path) in done.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


KILLED = """
import os, sys
from pathlib import Path
from data import tiny
from erasable.data._cache import write_entry
left, flush = int(sys.argv[2]), os.fsync
def fsync(handle):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    flush(handle)
os.fsync = fsync
write_entry(tiny.colour_spec(), tiny.splits((4, 4, 3)), source="here", root=Path(sys.argv[1]))
"""


@pytest.mark.parametrize("writes", range(8))
def test_a_killed_process_leaves_a_whole_data_set_or_none(tmp_path, writes):
    words = [sys.executable, "-c", KILLED, str(tmp_path), str(writes)]
    done = subprocess.run(words, check=False, cwd=Path(__file__).parent.parent)
    found = read_entry(SPEC, tmp_path)
    assert (found is None, done.returncode) in {(True, 9), (False, 9), (False, 0)}
    assert (found is None) == (writes < 6)
    verify(SPEC, found or write_entry(SPEC, DATA, source="again", root=tmp_path))


def test_arrays_that_are_not_the_data_set_are_not_committed(tmp_path):
    other = tiny.splits((4, 4, 3), seed=1)
    assert "other pixels" in message_of(write_entry, SPEC, other, source="here", root=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_repair_that_fails_leaves_no_record(tmp_path, entry):
    (entry.folder / "test-images.npy").write_bytes(b"")
    message_of(write_entry, SPEC, tiny.splits((4, 4, 3), seed=1), source="here", root=tmp_path)
    assert read_entry(SPEC, tmp_path) is None


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.delenv("ERASABLE_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_folder() == Path.home() / ".cache" / "erasable" / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "erasable" / "data"
    monkeypatch.setenv("ERASABLE_DATA", str(tmp_path / "env"))
    assert data_folder() == tmp_path / "env"
    assert data_folder(tmp_path / "own") == tmp_path / "own"


def test_a_known_data_set_is_loaded_from_the_cache(tmp_path, entry, monkeypatch):
    monkeypatch.setitem(KNOWN, "colour", SPEC)
    monkeypatch.setenv("ERASABLE_DATA", str(tmp_path))
    dataset = load_dataset("colour", check=True)
    assert (dataset.name, dataset.source, dataset.seed) == ("colour", "here", None)
    assert (len(dataset.train), len(dataset.test)) == (10, 4)
    assert get_dataset("colour") == tmp_path / "colour"


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ArgumentError, match="mnist, fashion-mnist, cifar10"):
        spec_of("cifar11")


def test_loading_takes_a_fraction_of_the_memory_of_the_pixels(tmp_path):
    data = {
        split: Decoded(np.zeros((rows, *CIFAR10.shape), np.uint8), np.zeros(rows, np.uint8))
        for split, rows in CIFAR10.rows.items()
    }
    spec = dataclasses.replace(CIFAR10, digest=decoded_digest(data))
    write_entry(spec, data, source="zeros", root=tmp_path)
    del data
    tracemalloc.start()
    entry = read_entry(spec, tmp_path)
    splits = [read_split(spec, entry, split) for split in spec.rows]
    assert all(not split.X[-1].any() for split in splits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * spec.size  # the rest of 1.2 is the mapped pixels
