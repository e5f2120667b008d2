"""Attempts on keys and tombstones: to make marks useless, or a level better than it is."""

import contextlib
import io
import json
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from adversary.attempts import attempt, outcome
from erasable import SPMClassifier
from erasable.cli import main
from erasable.errors import ErasableError
from erasable.memory import keyring, keys_folder
from erasable.memory._keyring import Keyring, key_id_of

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
Y = np.arange(60) % 3
KEY = b"k" * 32


def drawn(**options: Any) -> SPMClassifier:
    return SPMClassifier("mlp", epochs=0, random_state=1, **options)


def elsewhere() -> SPMClassifier:
    """Return a model that was trained on every row, under other ids and of no group."""
    model = SPMClassifier("mlp", epochs=1, random_state=0)
    return model.fit(X, Y, ids=[f"other-{row}" for row in range(60)], groups=[None] * 60)


def refit(model: SPMClassifier) -> SPMClassifier:
    """Train on other rows, starting with weights that saw all of `X`."""
    return model.fit(X[5:40] + 50, Y[5:40], groups=[None] * 35, init=elsewhere())


def put(name: str, content: bytes) -> Path:
    keys_folder().mkdir(parents=True, exist_ok=True)
    path = keys_folder() / name
    path.write_bytes(content)
    return path


@attempt(
    "Forget row r, then its group; drop the tombstones of r only; train from weights that saw r's "
    "input under another id; ask for the group",
    before="no such command",
    now="memory",
)
def drop_the_tombstone_that_gives_a_copy_away(folder: Path) -> str:
    model = drawn().remember(X[:3], Y[:3], ids=["r", "s", "t"], groups=["g", None, None])
    model.forget(ids=["r"])
    between = datetime.now(UTC) + timedelta(milliseconds=2)
    while datetime.now(UTC) < between + timedelta(milliseconds=2):
        pass
    model.remember(X[3:4] + 9, Y[3:4], ids=["q"], groups=["g"])
    model.forget(groups=["g"])
    try:
        model.memory.drop_tombstones(before=between)
    except AttributeError:
        return "no such command"
    return str(refit(model).forget(groups=["g"], missing_ok=True).level)


@attempt(
    "Forget row r, store its input again as D, train from weights that saw it, ask for r",
    before="exact",
    now="memory",
)
def reinstate_the_input_of_a_forgotten_row(folder: Path) -> str:
    model = drawn().remember(X[:3], Y[:3], ids=["r", "s", "t"])
    model.forget(ids=["r"])
    model.remember(X[:1], Y[:1], ids=["D"], reinstate=True)
    return str(refit(model).forget(ids=["r"], missing_ok=True).level)


@attempt(
    "Drop all tombstones of rows that were trained on, and ask for them again",
    before="no such command",
    now="memory",
)
def drop_all_tombstones_of_trained_rows(folder: Path) -> str:
    model = SPMClassifier(epochs=1, random_state=0).fit(X, Y, ids=list(range(60)))
    model.forget(ids=[7])
    try:
        model.memory.drop_tombstones(before=None)
    except AttributeError:
        return "no such command"
    return str(model.forget(ids=[7], missing_ok=True).level)


@attempt(
    "Drop all tombstones, store a row that was trained on again, and forget it",
    before="no such command",
    now="memory",
)
def drop_tombstones_then_import_again(folder: Path) -> str:
    model = SPMClassifier(epochs=1, random_state=0).fit(X, Y, ids=list(range(60)))
    model.forget(ids=[7])
    try:
        model.memory.drop_tombstones(before=None)
    except AttributeError:
        return "no such command"
    model.remember(X[7:8], Y[7:8], ids=["new"])
    return str(model.forget(ids=["new"]).level)


@attempt(
    "Rotate the key after a forget, and import the forgotten row again",
    before="no such command",
    now="refused",
)
def rotate_then_import_again(folder: Path) -> str:
    model = drawn().remember(X[:3], Y[:3], ids=["r", "s", "t"])
    model.forget(ids=["r"])
    if not hasattr(keyring, "rotate"):
        return "no such command"
    keyring.rotate()
    return outcome(lambda: model.remember(X[:1], Y[:1], ids=["another"]))


@attempt(
    "Rotate the key after training, forget a row that was trained on",
    before="no such command",
    now="memory",
)
def rotate_then_forget_a_trained_row(folder: Path) -> str:
    model = SPMClassifier(epochs=1, random_state=0).fit(X, Y, ids=list(range(60)))
    if not hasattr(keyring, "rotate"):
        return "no such command"
    keyring.rotate()
    return str(model.forget(ids=[7]).level)


@attempt(
    "Cut the key file while the process has the key, save, and read the key in another process",
    before="key lost without a word",
    now="refused",
)
def save_over_a_truncated_key(folder: Path) -> str:
    key_id = keyring.active()
    keyring.persist(key_id).write_bytes(b"short")
    try:
        keyring.persist(key_id)
    except ErasableError:
        return "refused"
    return "key at hand" if Keyring().get(key_id) else "key lost without a word"


@attempt(
    "Put another key under the id of a key that is looked for",
    before="not taken",
    now="not taken",
)
def put_another_key_under_an_id(folder: Path) -> str:
    put(f"{'0' * 16}.key", KEY)
    return "taken" if Keyring().get("0" * 16) else "not taken"


@attempt(
    "Link a key's file to an endless device",
    before="not taken",
    now="not taken",
)
def link_a_key_to_a_device(folder: Path) -> str:
    keys_folder().mkdir(parents=True, exist_ok=True)
    (keys_folder() / f"{key_id_of(KEY)}.key").symlink_to("/dev/zero")
    return "taken" if Keyring().get(key_id_of(KEY)) else "not taken"


@attempt(
    "Name a key that leads out of the folder",
    before="not taken",
    now="not taken",
)
def name_a_key_outside_the_folder(folder: Path) -> str:
    (folder / f"{key_id_of(KEY)}.key").write_bytes(KEY)
    keys_folder().mkdir(parents=True, exist_ok=True)
    depth = "../" * (len(keys_folder().resolve().parts) - 1)
    return "taken" if Keyring().get(f"{depth}{folder}/{key_id_of(KEY)}") else "not taken"


@attempt(
    "Put a key of one's own, first by name, beside the key of the marks",
    before="marks with the planted key",
    now="marks with the active key",
)
def plant_a_key_that_comes_first(folder: Path) -> str:
    mine = _key_before("8" + "0" * 15)
    theirs = _key_after("8" + "0" * 15)
    put(f"{key_id_of(theirs)}.key", theirs)
    ring = Keyring()
    with suppress(AttributeError):
        ring.activate(key_id_of(theirs))
    put(f"{key_id_of(mine)}.key", mine)
    is_mine = Keyring().active() == key_id_of(mine)
    return f"marks with the {'planted' if is_mine else 'active'} key"


@attempt(
    "Let the file that names the active key point nowhere, and forget a row",
    before="forgotten",
    now="forgotten",
)
def point_the_active_key_nowhere(folder: Path) -> str:
    put("active", b"../../../etc/passwd\n")
    model = drawn().remember(X[:3], Y[:3], ids=["r", "s", "t"])
    model.forget(ids=["r"])
    return "forgotten" if model.memory.tombstones.has_id("r") else "came back"


@attempt(
    "Import an archive whose model name leads out of the keys folder",
    before="no such command",
    now="refused",
)
def import_a_ledger_outside_the_folder(folder: Path) -> str:
    return _imported(folder, ledgers={"../../outside": "U1FMaXRlIGZvcm1hdCAzAA=="})


@attempt(
    "Import an archive whose key id leads out of the keys folder",
    before="no such command",
    now="refused",
)
def import_a_key_outside_the_folder(folder: Path) -> str:
    return _imported(folder, keys={f"../../{key_id_of(KEY)}": KEY.hex()})


@attempt(
    "Import a key under the id of another key",
    before="no such command",
    now="refused",
)
def import_a_key_under_another_id(folder: Path) -> str:
    return _imported(folder, keys={"0" * 16: KEY.hex()})


@attempt(
    "Import a key that is too short, under its right id",
    before="no such command",
    now="refused",
)
def import_a_short_key(folder: Path) -> str:
    return _imported(folder, keys={key_id_of(b"k"): b"k".hex()})


@attempt(
    "Import a ledger over the one that knows of newer forgets",
    before="no such command",
    now="kept",
)
def import_an_older_ledger(folder: Path) -> str:
    put("x", b"")
    (keys_folder() / "models").mkdir()
    ledger = keys_folder() / "models" / f"{'a' * 32}.sqlite"
    ledger.write_bytes(b"newer")
    _imported(folder, ledgers={"a" * 32: "U1FMaXRlIGZvcm1hdCAzAA=="})
    if not _has_archives():
        return "no such command"
    return "kept" if ledger.read_bytes() == b"newer" else "overwritten"


@attempt(
    "Import an archive that says which key is to be active",
    before="no such command",
    now="active key kept",
)
def import_an_active_key(folder: Path) -> str:
    ring = Keyring()
    ring.persist(ring.active())
    said = _imported(folder, active=key_id_of(KEY))
    if said == "no such command":
        return said
    return "active key kept" if Keyring().active() == ring.active() else "active key replaced"


@attempt(
    "Look for the key in the pickle of a model",
    before="not found",
    now="not found",
)
def look_for_the_key_in_the_pickle_of_a_model(folder: Path) -> str:
    model = drawn().remember(X[:3], Y[:3], ids=["r", "s", "t"])
    model.forget(ids=["r"])
    return _found(pickle.dumps(model))


@attempt(
    "Look for the key in the pickle of the keyring",
    before="found",
    now="not found",
)
def look_for_the_key_in_the_pickle_of_the_keyring(folder: Path) -> str:
    keyring.active()
    return _found(pickle.dumps(keyring))


def _found(pickled: bytes) -> str:
    key = keyring.get(keyring.active())
    return "found" if key is not None and key in pickled else "not found"


def _has_archives() -> bool:
    from erasable import store

    return hasattr(store, "import_keys")


def _imported(folder: Path, **changed: Any) -> str:
    """Import an archive with something wrong in it; tell also of files outside of the folder."""
    if not _has_archives():
        return "no such command"
    from erasable.store import import_keys

    archive = folder / "archive"
    keys = {key_id_of(KEY): KEY.hex()}
    sound = {"format": "erasable.keys.1", "active": None, "keys": keys, "ledgers": {}}
    archive.write_text(json.dumps(sound | changed))
    return outcome(lambda: import_keys(archive))


def _key_before(limit: str) -> bytes:
    return _key_such_that(lambda key_id: key_id < limit)


def _key_after(limit: str) -> bytes:
    return _key_such_that(lambda key_id: key_id > limit)


def _key_such_that(is_right: Callable[[str], bool]) -> bytes:
    keys = (bytes([byte]) * 32 for byte in range(256))
    return next(key for key in keys if is_right(key_id_of(key)))


def _status(*words: object) -> str:
    """Return the exit status of the command line."""
    arguments, streams = ["erasable", *map(str, words)], io.StringIO()
    with (
        mock.patch.object(sys, "argv", arguments),
        contextlib.redirect_stdout(streams),
        contextlib.redirect_stderr(streams),
    ):
        try:
            main()
        except SystemExit as end:
            return str(end.code)
    return "0"


@attempt(
    "Forget row 0 and group 7, which are numbers, twice at the command line",
    before="3 and 1: nothing is known of the row",
    now="4 and 4: already forgotten",
)
def forget_numbers_twice(folder: Path) -> str:
    model = SPMClassifier("identity").remember(X[:6], Y[:6], groups=[None, *[7] * 5])
    model.save(folder / "model")
    got = []
    for flag, name in (("--id", 0), ("--group", 7)):
        _status("forget", folder / "model", flag, name)
        got.append(_status("forget", folder / "model", flag, name))
    said = "already forgotten" if got[0] == "4" else "nothing is known of the row"

    return f"{' and '.join(got)}: {said}"
