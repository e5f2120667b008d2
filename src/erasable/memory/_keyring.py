"""Secret keys for the marks that forgetting leaves behind.

A mark (of a forgotten row, or of a row the weights were trained on) must not tell what it marks: a
hash of ``user-42``, with or without a salt beside it, is found by brute force in a second. Marks
are therefore keyed hashes, and the key is kept apart from the models: in the process, and once a
model is saved, in the folder of `keys_folder`.
"""

import hashlib
import logging
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from erasable.errors import StoreError
from erasable.files import write_atomically

_KEY_BYTES = 32
_MARK_BYTES = 16
_KEY_ID = re.compile(r"[0-9a-f]{16}")
_ACTIVE = "active"
_LONGEST_NAME = 64

log = logging.getLogger(__name__)


def keys_folder() -> Path:
    """Return where keys are kept: ``$ERASABLE_KEYS``, else in the user's configuration."""
    named = os.environ.get("ERASABLE_KEYS")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "erasable" / "keys"


@dataclass(frozen=True)
class KeyFile:
    """What can be told of a key without giving it away.

    Attributes:
        id: Its id, which is public.
        written: When its file was written, seconds since 1970.
        permissions: Permission bits of its file.
        is_sound: Whether the file holds the key of this id.
        is_active: Whether new marks are made with it.
    """

    id: str
    written: float
    permissions: int
    is_sound: bool
    is_active: bool


class Keyring:
    """Keys by id; the id is public, the key is not.

    A key lives in the process until `persist` writes it, so fitting a model in a notebook leaves no
    file behind. Whatever copies or pickles a keyring gets a reference to the process's own one,
    never a key.
    """

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._active: str | None = None

    def __reduce__(self) -> str:
        return "keyring"

    def active(self) -> str:
        """Return the id of the key for new marks: the active one on disk, else a new one."""
        if self._active is None:
            self._active = self._active_on_disk()
        if self._active is None:
            self._active = self._make()
        return self._active

    def get(self, key_id: str) -> bytes | None:
        """Return a key, or None if neither the process nor the folder has it."""
        if key_id not in self._known:
            path = key_path(key_id)
            key = read_key(path) if is_key_id(key_id) else None
            if key is None:
                return None
            _warn_if_open(path)
            self._known[key_id] = key
        return self._known[key_id]

    def persist(self, key_id: str) -> Path:
        """Write a key to the folder, readable by its owner only, and return its path.

        Raises:
            StoreError: If nobody has the key, or its place in the folder is taken.
        """
        key, path = self.get(key_id), key_path(key_id)
        if key is None:
            raise StoreError(f"Expected the key {key_id} in {path.parent}, but it is not there.")
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, key, mode=0o600)
        elif read_key(path) != key:
            raise StoreError(
                f"Expected {path} to hold the key of its name, but it holds something else. Move "
                "it away and try again. Nothing was changed."
            )
        return path

    def activate(self, key_id: str) -> None:
        """Make new marks with a key from now on, here and in processes that start later."""
        folder = self.persist(key_id).parent
        write_atomically(folder / _ACTIVE, f"{key_id}\n".encode(), mode=0o600)
        self._active = key_id

    def rotate(self) -> str:
        """Make new marks with a new key from now on, and return its id.

        Older keys stay, because the marks that were made with them need them.
        """
        key_id = self._make()
        self.activate(key_id)
        return key_id

    @property
    def names_active(self) -> bool:
        """Whether the folder has a file that names the active key."""
        return os.path.lexists(keys_folder() / _ACTIVE)

    @property
    def is_active_lost(self) -> bool:
        """Whether that file names no key of the folder."""
        return self.names_active and _named_active() not in self._sound()

    def files(self) -> list[KeyFile]:
        """Return the keys in the folder, sound or not, by id."""
        paths = [path for path in _key_files() if path.is_file()]
        active = _active_of(self._sound())
        return [
            KeyFile(
                path.stem,
                path.stat().st_mtime,
                stat.S_IMODE(path.stat().st_mode),
                is_sound=read_key(path) is not None,
                is_active=path.stem == active,
            )
            for path in paths
        ]

    def _active_on_disk(self) -> str | None:
        active = _active_of(self._sound())
        if self.is_active_lost:  # forgetting never waits for a key, so this is no error
            log.warning(
                "%s names no key that is there. New marks are made with %s. Put the key back, or "
                "run 'erasable keys rotate'.",
                keys_folder() / _ACTIVE,
                f"the key {active}" if active else "a new key",
            )
        return active

    def _sound(self) -> list[str]:
        return [path.stem for path in _key_files() if read_key(path) is not None]

    def _make(self) -> str:
        key = secrets.token_bytes(_KEY_BYTES)
        self._known[key_id_of(key)] = key
        return key_id_of(key)


def read_key(path: Path) -> bytes | None:
    """Return the key in a file; None if the file does not hold the key of its name."""
    try:
        is_key = path.is_file() and path.stat().st_size == _KEY_BYTES
        key = path.read_bytes() if is_key else b""
    except OSError:  # a key that cannot be read is as good as none
        return None
    return key if fits(path.stem, key) else None


def is_open(path: Path) -> bool:
    """Tell whether others than its owner may read a file or folder."""
    return os.name == "posix" and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def is_key_id(name: object) -> bool:
    """Tell whether a name can be that of a key; no other may become part of a path."""
    return isinstance(name, str) and _KEY_ID.fullmatch(name) is not None


def key_id_of(key: bytes) -> str:
    """Name a key without giving it away."""
    return hashlib.sha256(b"erasable.key.1" + key).hexdigest()[:16]


def fits(key_id: str, key: bytes) -> bool:
    """Tell whether bytes are the key of an id."""
    return len(key) == _KEY_BYTES and key_id_of(key) == key_id


def mark(key: bytes, kind: str, payload: bytes) -> bytes:
    """Mark a value of one kind so that only holders of the key can recognise it.

    Keyed BLAKE2b is a message authentication code by design (RFC 7693), and several times faster
    here than HMAC; forgetting one row makes two marks.
    """
    keyed = hashlib.blake2b(payload, digest_size=_MARK_BYTES, key=key, person=kind.encode())
    return keyed.digest()


def _active_of(sound: list[str]) -> str | None:
    """Return which of the keys on disk is active: the one that is named so, else the first."""
    named = _named_active()
    return named if named in sound else next(iter(sound), None)


def _named_active() -> str | None:
    """Return the id in the folder's file ``active``; None where it names none."""
    path = keys_folder() / _ACTIVE
    try:
        is_short = path.is_file() and path.stat().st_size <= _LONGEST_NAME
        found = path.read_bytes() if is_short else b""
    except OSError:
        return None
    name = found.decode(errors="replace").strip()
    return name if is_key_id(name) else None


def _key_files() -> list[Path]:
    return sorted(path for path in keys_folder().glob("*.key") if is_key_id(path.stem))


def key_path(key_id: str) -> Path:
    """Return where a key lies, or would."""
    return keys_folder() / f"{key_id}.key"


def _warn_if_open(path: Path) -> None:
    if is_open(path):
        log.warning(
            "%s can be read by others: whoever has it can guess who was forgotten. Run "
            "'chmod 600' on it.",
            path,
        )


keyring = Keyring()
"""The process's keys."""
