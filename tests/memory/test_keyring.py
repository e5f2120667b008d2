import copy
import hashlib
import pickle
import stat
from pathlib import Path

import pytest

from erasable.errors import StoreError
from erasable.memory import Memory, keyring, keys_folder
from erasable.memory._keyring import Keyring, key_id_of, mark


def saved_key(folder, key=b"k" * 32, name=None):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name or key_id_of(key)}.key"
    path.write_bytes(key)
    return path.stem


def test_the_environment_names_the_folder(monkeypatch):
    monkeypatch.setenv("ERASABLE_KEYS", "/some/where")
    assert keys_folder() == Path("/some/where")


def test_without_it_the_folder_is_in_the_users_configuration(monkeypatch):
    monkeypatch.delenv("ERASABLE_KEYS")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/config")
    assert keys_folder() == Path("/config/erasable/keys")


def test_without_either_the_folder_is_in_the_home(monkeypatch):
    monkeypatch.delenv("ERASABLE_KEYS")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/someone"))
    assert keys_folder() == Path("/home/someone/.config/erasable/keys")


def test_a_new_key_has_32_bytes():
    ring = Keyring()
    assert len(ring.get(ring.active())) == 32


def test_new_keys_differ():
    assert Keyring().active() != Keyring().active()


def test_the_active_key_stays_the_same():
    ring = Keyring()
    assert ring.active() == ring.active()


def test_a_key_that_was_never_persisted_leaves_no_file(keys):
    Keyring().active()
    assert not keys.exists()


def test_a_persisted_key_is_read_by_another_process():
    ring = Keyring()
    key_id = ring.active()
    ring.persist(key_id)
    assert Keyring().get(key_id) == ring.get(key_id)


def test_a_key_on_disk_becomes_the_active_one(keys):
    key_id = saved_key(keys)
    assert Keyring().active() == key_id


def test_the_first_of_several_keys_on_disk_is_active(keys):
    found = [saved_key(keys, bytes([byte]) * 32) for byte in range(5)]
    assert Keyring().active() == min(found)


def test_a_key_file_is_readable_by_its_owner_only():
    ring = Keyring()
    mode = ring.persist(ring.active()).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_the_keys_folder_is_open_to_its_owner_only(keys):
    ring = Keyring()
    ring.persist(ring.active())
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700


def test_a_key_is_persisted_in_the_keys_folder_under_its_id(keys):
    ring = Keyring()
    assert ring.persist(ring.active()) == keys / f"{ring.active()}.key"


def test_persisting_leaves_no_other_file(keys):
    ring = Keyring()
    path = ring.persist(ring.active())
    assert list(keys.iterdir()) == [path]


def test_persisting_twice_does_not_write_again():
    ring = Keyring()
    path = ring.persist(ring.active())
    written = path.stat().st_ino
    ring.persist(ring.active())
    assert path.stat().st_ino == written


def test_persisting_a_key_nobody_has_is_refused(keys):
    with pytest.raises(StoreError) as caught:
        Keyring().persist("0" * 16)
    assert str(caught.value) == f"Expected the key {'0' * 16} in {keys}, but it is not there."


def test_a_missing_key_is_none():
    assert Keyring().get("0" * 16) is None


def test_a_tampered_key_file_is_not_accepted(keys):
    key_id = saved_key(keys)
    (keys / f"{key_id}.key").write_bytes(b"x" * 32)
    assert Keyring().get(key_id) is None


def test_a_tampered_key_file_does_not_become_active(keys):
    saved_key(keys, b"x" * 32, name="0" * 16)
    assert Keyring().active() != "0" * 16


@pytest.mark.parametrize("key", [b"", b"short", b"k" * 33])
def test_a_key_of_another_length_is_not_accepted(keys, key):
    key_id = saved_key(keys, key)
    assert Keyring().get(key_id) is None


def test_an_id_that_names_the_empty_key_has_no_key():
    assert Keyring().get(key_id_of(b"")) is None


def test_a_key_file_that_cannot_be_read_counts_as_missing(keys, monkeypatch):
    def deny(path):
        raise PermissionError(path)

    key_id = saved_key(keys)
    monkeypatch.setattr(Path, "read_bytes", deny)
    assert Keyring().get(key_id) is None


def test_a_key_id_cannot_lead_out_of_the_folder(keys, monkeypatch):
    read = []
    monkeypatch.setattr(Path, "is_file", lambda path: read.append(path) or False)
    Keyring().get("../outside")
    assert read == []


def test_a_key_id_does_not_give_the_key_away():
    assert key_id_of(b"k" * 32) == hashlib.sha256(b"erasable.key.1" + b"k" * 32).hexdigest()[:16]


def test_marks_have_16_bytes():
    assert len(mark(b"k" * 32, "id", b"x")) == 16


def test_marks_differ_by_key_kind_and_value():
    marks = {mark(k, kind, v) for k in (b"1", b"2") for kind in "ab" for v in (b"x", b"y")}
    assert len(marks) == 8


def test_kind_and_value_of_a_mark_cannot_run_together():
    assert mark(b"k", "a", b"bc") != mark(b"k", "ab", b"c")


def test_a_mark_is_keyed_blake2b_with_the_kind_as_its_person():
    key = b"k" * 32
    expected = hashlib.blake2b(b"value", digest_size=16, key=key, person=b"id").digest()
    assert mark(key, "id", b"value") == expected


def test_a_rotation_makes_a_new_key_active_also_in_other_processes(keys):
    ring = Keyring()
    before = ring.persist(ring.active()).stem
    after = ring.rotate()
    assert ring.active() == Keyring().active() == after != before
    assert Keyring().get(before) is not None


def test_an_active_key_need_not_be_the_first(keys):
    _, last = sorted(saved_key(keys, bytes([byte]) * 32) for byte in range(2))
    Keyring().activate(last)
    assert Keyring().active() == last


@pytest.mark.parametrize("named", ["0" * 16, "../../etc/passwd", "", "x" * 10_000])
def test_an_active_file_that_points_nowhere_leaves_the_first_key_and_says_so(keys, named, caplog):
    key_id = saved_key(keys)
    (keys / "active").write_text(named)
    assert Keyring().active() == key_id
    assert "names no key that is there" in caplog.text


def test_an_active_file_that_is_a_device_is_not_read(keys):
    key_id = saved_key(keys)
    (keys / "active").symlink_to("/dev/zero")
    assert Keyring().active() == key_id


def test_a_place_that_something_else_has_is_not_overwritten(keys):
    ring = Keyring()
    path = ring.persist(ring.active())
    path.write_bytes(b"another")
    with pytest.raises(StoreError, match="holds something else"):
        ring.persist(ring.active())
    assert path.read_bytes() == b"another"


def test_a_key_that_others_can_read_is_warned_of(keys, caplog):
    key_id = saved_key(keys)
    (keys / f"{key_id}.key").chmod(0o640)
    Keyring().get(key_id)
    assert "can be read by others" in caplog.text


def test_a_list_of_keys_has_no_key(keys):
    key = b"k" * 32
    saved_key(keys, key)
    assert key.hex() not in repr(Keyring().files())
    assert repr(key) not in repr(Keyring().files())


def test_the_list_names_damaged_keys_and_the_active_one(keys):
    sound, cut = saved_key(keys), saved_key(keys, b"j" * 32)
    (keys / f"{cut}.key").write_bytes(b"j" * 31)
    found = {file.id: (file.is_sound, file.is_active) for file in Keyring().files()}
    assert found == {sound: (True, True), cut: (False, False)}


def test_copies_and_pickles_refer_to_the_keyring_of_the_process():
    key = keyring.get(keyring.active())
    pickled = pickle.dumps(keyring)
    assert key not in pickled
    assert pickle.loads(pickled) is copy.deepcopy(keyring) is keyring  # noqa: S301 - our own


def test_the_pickle_of_a_memory_holds_no_key():
    memory = Memory(1)
    memory.add([[0.0], [1.0]], ["a", "b"], ids=["x", "y"])
    memory.forget(ids=["x"])
    key = keyring.get(keyring.active())
    assert key not in pickle.dumps(memory)
