import base64
import json
import sqlite3
import stat
from contextlib import closing

import pytest

from erasable.errors import ErasableError, StoreError
from erasable.memory._keyring import Keyring, key_id_of
from erasable.store import export_keys, import_keys

MODEL = "a" * 32
KEY = b"k" * 32


@pytest.fixture
def two_keys(keys):
    ring = Keyring()
    return sorted([ring.rotate(), ring.rotate()]), ring.active()


@pytest.fixture
def ledger(keys):
    path = keys / "models" / f"{MODEL}.sqlite"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE ledger (revision INTEGER)")
    return path


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Be on another host from now on."""

    def go(name="elsewhere"):
        monkeypatch.setenv("ERASABLE_KEYS", str(tmp_path / name))
        return tmp_path / name

    return go


def archive(path, **changed):
    found = {
        "format": "erasable.keys.1",
        "warning": "",
        "active": None,
        "keys": {key_id_of(KEY): KEY.hex()},
        "ledgers": {},
    }
    path.write_text(json.dumps(found | changed))
    return path


def test_keys_come_back_on_another_host_with_their_active_one(two_keys, tmp_path, elsewhere):
    export_keys(tmp_path / "file")
    elsewhere()
    done = import_keys(tmp_path / "file")
    assert (list(done.keys), done.active, Keyring().active()) == (*two_keys, two_keys[1])


def test_an_archive_is_readable_by_its_owner_only(two_keys, tmp_path):
    export_keys(tmp_path / "file")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_an_archive_says_that_it_is_secret(two_keys, tmp_path):
    export_keys(tmp_path / "file")
    assert "SECRET" in (tmp_path / "file").read_text()


def test_an_archive_overwrites_nothing(two_keys, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="exists"):
        export_keys(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_without_keys_there_is_nothing_to_export(tmp_path):
    with pytest.raises(StoreError, match="none to export"):
        export_keys(tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_a_damaged_key_is_named_and_not_exported(two_keys, keys, tmp_path):
    (keys / f"{two_keys[0][0]}.key").write_bytes(b"short")
    done = export_keys(tmp_path / "file")
    assert (done.keys, done.left_out) == ((two_keys[0][1],), (f"{two_keys[0][0]}.key",))


def test_ledgers_of_models_go_along(two_keys, ledger, tmp_path, elsewhere):
    assert export_keys(tmp_path / "file").ledgers == (MODEL,)
    folder = elsewhere()
    assert import_keys(tmp_path / "file").ledgers == (MODEL,)
    with closing(sqlite3.connect(folder / "models" / ledger.name)) as db:
        assert db.execute("SELECT count(*) FROM ledger").fetchone() == (0,)
    for path in (folder, folder / "models"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_ledger_that_is_here_stays_as_it_is(two_keys, ledger, tmp_path):
    export_keys(tmp_path / "file")
    ledger.write_bytes(b"newer")
    assert import_keys(tmp_path / "file").kept == (MODEL,)
    assert ledger.read_bytes() == b"newer"


def test_a_damaged_ledger_is_named_and_not_exported(two_keys, ledger, tmp_path):
    ledger.write_bytes(b"no database" * 100)
    assert export_keys(tmp_path / "file").left_out == (f"models/{MODEL}.sqlite",)


def test_an_import_does_not_change_the_active_key(tmp_path, elsewhere):
    for number in range(8):  # whichever comes first by name
        elsewhere(f"from-{number}")
        Keyring().rotate()
        export_keys(tmp_path / f"file-{number}")
    elsewhere("here")
    ring = Keyring()
    ring.persist(ring.active())  # a folder as earlier versions left it
    for number in range(8):
        assert import_keys(tmp_path / f"file-{number}").active == ring.active()
    assert Keyring().active() == ring.active()


def test_a_lost_active_key_is_active_again_once_it_is_back(two_keys, keys, tmp_path):
    export_keys(tmp_path / "file")
    (keys / f"{two_keys[1]}.key").unlink()
    assert import_keys(tmp_path / "file").active == two_keys[1]


def test_importing_twice_changes_nothing(two_keys, tmp_path):
    export_keys(tmp_path / "file")
    done = import_keys(tmp_path / "file")
    assert (done.keys, list(done.there)) == ((), two_keys[0])


@pytest.mark.parametrize(
    "changed",
    [
        {"format": "erasable.keys.9"},
        {"keys": {}},
        {"keys": []},
        {"keys": {"0" * 16: KEY.hex()}},
        {"keys": {key_id_of(b"k" * 33): (b"k" * 33).hex()}},
        {"keys": {key_id_of(b""): ""}},
        {"keys": {f"../{key_id_of(KEY)}": KEY.hex()}},
        {"keys": {key_id_of(KEY): 7}},
        {"keys": {key_id_of(KEY): "no hex"}},
        {"active": "0" * 16},
        {"active": ["x"]},
        {"ledgers": {"../../../somewhere": base64.b64encode(b"SQLite format 3\0").decode()}},
        {"ledgers": {MODEL: base64.b64encode(b"no database").decode()}},
        {"ledgers": {MODEL: "?"}},
        {"ledgers": 7},
    ],
)
def test_an_archive_with_anything_wrong_is_refused_as_a_whole(changed, keys, tmp_path):
    path = archive(tmp_path / "file", **changed)
    with pytest.raises(StoreError, match=r"Nothing was imported\."):
        import_keys(path)
    assert not keys.exists()
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("text", ["", "[" * 100_000, "{}", "null", "\0", "9" * 10_000])
def test_a_file_that_is_no_archive_is_refused(text, tmp_path):
    (tmp_path / "file").write_text(text)
    with pytest.raises(StoreError, match="Expected an archive of keys"):
        import_keys(tmp_path / "file")


@pytest.mark.parametrize("path", ["/dev/zero", "/nowhere", "/"])
def test_what_is_no_file_is_refused(path):
    with pytest.raises(ErasableError, match="no file"):
        import_keys(path)


def test_a_key_in_another_ones_place_is_not_overwritten(keys, tmp_path):
    keys.mkdir()
    there = keys / f"{key_id_of(KEY)}.key"
    there.write_bytes(b"another key")
    with pytest.raises(StoreError, match="other files have their names"):
        import_keys(archive(tmp_path / "file"))
    assert there.read_bytes() == b"another key"


def test_a_dangling_link_in_a_keys_place_is_not_written_through(keys, tmp_path):
    keys.mkdir()
    (keys / f"{key_id_of(KEY)}.key").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreError, match="other files have their names"):
        import_keys(archive(tmp_path / "file"))
    assert not (tmp_path / "outside").exists()


def test_a_place_that_cannot_be_written_to_is_named(two_keys, tmp_path):
    with pytest.raises(StoreError, match=r"Expected to write .*there/keys\.json, but"):
        export_keys(tmp_path / "there" / "keys.json")
