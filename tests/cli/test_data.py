"""``erasable data``: get, list, info."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.main import get_command
from typer.testing import CliRunner

from data import tiny
from erasable.cli._data import data_app
from erasable.data._specs import KNOWN
from erasable.errors import ArgumentError, ErasableError, StoreError

DATA = tiny.splits((4, 4, 3))


def call(*words):
    """Run a command in this process; expected errors raise."""
    words = [str(word) for word in words]
    result = CliRunner().invoke(data_app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Know one more data set, and keep data sets in a folder that goes away."""
    monkeypatch.setitem(KNOWN, "colour", tiny.colour_spec())
    monkeypatch.setenv("ERASABLE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "colour.tgz"
    path.write_bytes(tiny.tar(tiny.bin_files(DATA)))
    return path


@pytest.fixture
def photographs(tmp_path):
    root = tmp_path / "photographs"
    for label in ("cat", "dog"):
        (root / label).mkdir(parents=True)
        for number in range(5):
            pixels = np.full((6, 6, 3), number, np.uint8)
            Image.fromarray(pixels).save(root / label / f"{number}.png")
    return root


@pytest.mark.parametrize("command", sorted(get_command(data_app).commands))
def test_help_shows_examples(command):
    examples = call(command, "--help").split("Examples:\n")[1].split("\n\n")[0].splitlines()
    assert len(examples) > 1
    assert all(line.strip().startswith(f"erasable data {command}") for line in examples)


def test_get_says_where_the_data_set_is(archive, cache):
    assert call("get", "colour", "--from", archive) == f"colour: {cache / 'colour'}\n"
    assert call("get", "colour") == f"colour: {cache / 'colour'}\n"


def test_get_with_another_cache_prints_one_document(archive, tmp_path):
    found = call("get", "colour", "--from", archive, "--cache", tmp_path / "own", "--json")
    assert json.loads(found) == {"folders": {"colour": str(tmp_path / "own" / "colour")}}


def test_get_of_something_unknown_lists_the_known():
    with pytest.raises(ArgumentError, match="mnist, fashion-mnist, cifar10"):
        call("get", "imagenet")


def test_get_from_something_else_is_refused(tmp_path, cache):
    (tmp_path / "odd.tgz").write_bytes(b"odd")
    with pytest.raises(ArgumentError, match=r"odd\.tgz"):
        call("get", "colour", "--from", tmp_path / "odd.tgz")
    assert not cache.exists()


def state_of(name):
    return {one["name"]: one["cached"] for one in json.loads(call("list", "--json"))["known"]}[name]


def test_list_tells_what_is_cached(archive, cache):
    assert (state_of("digits"), state_of("colour")) == ("built in", "no")
    call("get", "colour", "--from", archive)
    assert state_of("colour") == "yes"
    (cache / "colour" / "test-labels.npy").unlink()
    assert state_of("colour") == "damaged"


def test_list_is_a_table_for_people(cache):
    lines = call("list").splitlines()
    assert lines[0].split() == ["name", "rows", "shape", "classes", "MB", "cached", "what"]
    assert lines[4].split()[:6] == ["cifar10", "60000", "32×32×3", "10", "184", "no"]
    assert lines[-1] == f"in {cache}"


def test_info_describes_a_cached_data_set(archive):
    call("get", "colour", "--from", archive)
    document = json.loads(call("info", "colour", "--verify", "--json"))
    assert (document["train_rows"], document["test_rows"], document["shape"]) == (10, 4, [4, 4, 3])
    assert sum(one["train"] for one in document["rows_per_class"]) == 10
    assert len(document["files"]["train-images.npy"]["sha256"]) == 64
    assert document["checked"]
    lines = call("info", "colour")
    assert document["train_digest"] in lines
    assert document["files"]["train-images.npy"]["sha256"] in lines
    assert "not read; --verify does" in lines


def test_info_finds_a_flipped_byte_when_asked_to(archive, cache):
    call("get", "colour", "--from", archive)
    path = cache / "colour" / "train-images.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    call("info", "colour")
    with pytest.raises(StoreError, match=r"train-images\.npy"):
        call("info", "colour", "--verify")


def test_info_of_a_data_set_that_is_not_there_says_how_to_get_it():
    with pytest.raises(StoreError, match="erasable data get colour"):
        call("info", "colour")


def test_info_checks_a_folder(photographs):
    (photographs / "notes.txt").write_text("x")
    result = CliRunner().invoke(data_app, ["info", str(photographs), "--json"])
    document = json.loads(result.stdout)
    assert document["rows_per_class"][0] == {"label": "cat", "train": 4, "test": 1}
    assert "1 file that is not an image was left out" in result.stderr
    (photographs / "cat" / "broken.png").write_bytes(b"odd")
    with pytest.raises(ArgumentError, match=r"cat/broken\.png"):
        call("info", photographs)


def test_info_draws_the_split_it_is_asked_for(photographs):
    first, again, other = (
        json.loads(call("info", photographs, "--seed", seed, "--json")) for seed in (0, 0, 1)
    )
    assert first == again
    assert first["train_digest"] != other["train_digest"]


def test_info_of_a_table_takes_the_names_of_its_columns(tmp_path):
    (tmp_path / "t.csv").write_text("a,species\n1,fox\n2,owl\n")
    options = ("--label-column", "species", "--test-share", 0)
    document = json.loads(call("info", tmp_path / "t.csv", *options, "--json"))
    assert document["rows_per_class"] == [
        {"label": "fox", "train": 1, "test": 0},
        {"label": "owl", "train": 1, "test": 0},
    ]
    assert "\ntest  " not in call("info", tmp_path / "t.csv", *options)


def test_info_shows_the_first_of_many_classes(tmp_path):
    rows = "".join(f"1,{n}\n" for n in range(30))
    (tmp_path / "t.csv").write_text(f"a,label\n{rows}")
    assert "and 10 more classes" in call("info", tmp_path / "t.csv")


@pytest.mark.parametrize("words", [["info", "nothing"], ["info", "digits", "--test-share", "2"]])
def test_what_is_wrong_is_an_error_in_words(words):
    with pytest.raises(ErasableError, match="Expected"):
        call(*words)
