"""Keys, and the ledgers of models beside them, in one file: to back up, and for other hosts."""

import base64
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from erasable.errors import ArgumentError, StoreError, listing
from erasable.files import parse_json, sync_folder, write_atomically, writing_to
from erasable.memory import fits, is_key_id, key_path, keyring, keys_folder, read_key
from erasable.store._ledger import IDENTITY, Ledger

FORMAT = "erasable.keys.1"
_WARNING = "SECRET: with this file anybody can guess who was forgotten. Keep it as you keep keys."
_LARGEST = 2**28
_SQLITE = b"SQLite format 3\x00"


@dataclass(frozen=True)
class Exported:
    """What an archive was made of.

    Attributes:
        keys: Ids of the keys.
        ledgers: Identities of the models whose ledgers are in it.
        left_out: Names of files that are damaged and therefore not in it.
    """

    keys: tuple[str, ...]
    ledgers: tuple[str, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Imported:
    """What came of an archive.

    Attributes:
        keys: Ids of the keys that are new here.
        there: Ids of keys that were here already.
        ledgers: Identities of the models whose ledgers are new here.
        kept: Identities of models that have a ledger here already; it was left as it is.
        active: Id of the key that new marks are made with.
    """

    keys: tuple[str, ...]
    there: tuple[str, ...]
    ledgers: tuple[str, ...]
    kept: tuple[str, ...]
    active: str | None


def export_keys(path: str | Path) -> Exported:
    """Write the keys of the keys folder, and the ledgers of models, to a new file; it is secret.

    Args:
        path: The file, readable by its owner only. A file that is there is never overwritten.

    Raises:
        StoreError: If there is no key, or the file is there already.
    """
    files = keyring.files()
    read = {file.id: read_key(key_path(file.id)) for file in files}
    keys = {key_id: key.hex() for key_id, key in read.items() if key is not None}
    if not keys:
        raise StoreError(f"Expected keys in {keys_folder()}, but there are none to export.")
    copied = {path.stem: _snapshot(path) for path in _ledgers()}
    ledgers = {name: base64.b64encode(found).decode() for name, found in copied.items() if found}
    archive = {
        "format": FORMAT,
        "warning": _WARNING,
        "active": _active(),
        "keys": keys,
        "ledgers": ledgers,
    }
    _write_new(Path(path), (json.dumps(archive, indent=1) + "\n").encode())
    left_out = [f"{key_id}.key" for key_id in read if key_id not in keys]
    left_out += [f"models/{name}.sqlite" for name in copied if name not in ledgers]
    return Exported(tuple(keys), tuple(ledgers), tuple(left_out))


def import_keys(path: str | Path) -> Imported:
    """Add the keys and ledgers of an archive to the keys folder.

    If anything in the archive is wrong, nothing is added. What is there already stays as it is, and
    the active key, too; the archive's becomes active only in a folder that has none.

    Args:
        path: A file that `export_keys` wrote.

    Raises:
        StoreError: If the file is not an archive of keys, or something else has a key's place.
    """
    keys, ledgers, active = _read(Path(path))
    taken = [key_id for key_id in keys if _is_taken(key_id)]
    if taken:
        raise StoreError(
            f"Expected room for the keys {listing(taken)} in {keys_folder()}, but other files have "
            "their names. Move those away first. Nothing was imported."
        )
    there = [key_id for key_id in keys if key_path(key_id).exists()]
    before = _active()
    if before is not None and not keyring.names_active:
        keyring.activate(before)  # before a new key comes first by name
    for key_id, key in keys.items():
        if key_id not in there:
            _write_secret(key_path(key_id), key)
    if not keyring.names_active or keyring.is_active_lost:
        keyring.activate(before or active or next(iter(keys)))
    kept = [name for name in ledgers if Ledger(name).path.exists()]
    for name, content in ledgers.items():
        if name not in kept:
            _write_secret(Ledger(name).path, content)
    new = tuple(key_id for key_id in keys if key_id not in there)
    fresh = tuple(name for name in ledgers if name not in kept)
    return Imported(new, tuple(there), fresh, tuple(kept), _active())


def _read(path: Path) -> tuple[dict[str, bytes], dict[str, bytes], str | None]:
    """Return keys, ledgers and the active key of an archive, once everything in it is right."""
    if not path.is_file():
        raise ArgumentError(f"Expected a file that 'keys export' wrote, but {path} is no file.")
    if path.stat().st_size > _LARGEST:
        raise _no_archive(path, f"it has more than {_LARGEST >> 20} MB")
    try:
        found = parse_json(path.read_bytes())
        if found["format"] != FORMAT:
            raise ValueError("its format is another")
        keys = {_name(key_id, is_key_id): bytes.fromhex(k) for key_id, k in found["keys"].items()}
        ledgers = {
            _name(name, IDENTITY.fullmatch): base64.b64decode(text, validate=True)
            for name, text in found["ledgers"].items()
        }
        active = None if found["active"] is None else _name(found["active"], keys.__contains__)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _no_archive(path, str(error)) from None
    if not keys:
        raise _no_archive(path, "it holds no key")
    for key_id, key in keys.items():
        if not fits(key_id, key):
            raise _no_archive(path, f"what it holds as {key_id} is not the key of that id")
    for name, content in ledgers.items():
        if not content.startswith(_SQLITE):
            raise _no_archive(path, f"what it holds for the model {name} is no ledger")
    return keys, ledgers, active


def _name(name: str, is_right: Callable[[str], Any]) -> str:
    """Return a name that is to become a file's, unless it could lead anywhere else."""
    if not is_right(name):
        raise ValueError(f"{name[:40]!r} is no name of a key or model")
    return name


def _no_archive(path: Path, found: str) -> StoreError:
    return StoreError(
        f"Expected an archive of keys in {path}, but {found}. Nothing was imported. Use a file "
        "that 'erasable keys export' wrote."
    )


def _active() -> str | None:
    return next((file.id for file in keyring.files() if file.is_active), None)


def _is_taken(key_id: str) -> bool:
    path = key_path(key_id)
    return (path.exists() or path.is_symlink()) and read_key(path) is None


def _write_secret(path: Path, data: bytes) -> None:
    keys_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_atomically(path, data, mode=0o600)


def _write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, readable by its owner only."""
    with writing_to(path):
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise StoreError(
                f"Expected a new file, but {path} exists. Choose another name. Nothing was written."
            ) from None
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def _snapshot(path: Path) -> bytes | None:
    """Return a ledger as of one moment, whoever writes to it; None if it is damaged."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            db.execute("PRAGMA schema_version").fetchone()
            return db.serialize()
    except sqlite3.DatabaseError:
        return None


def _ledgers() -> list[Path]:
    found = sorted((keys_folder() / "models").glob("*.sqlite"))
    return [path for path in found if IDENTITY.fullmatch(path.stem) and path.is_file()]
