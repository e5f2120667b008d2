"""A whole model in one SQLite file: configuration, rows, tombstones, training record, copies."""

import hmac
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from erasable.errors import StoreError
from erasable.files import parse_json
from erasable.memory import (
    Marks,
    Memory,
    Record,
    encode_key,
    keyring,
)
from erasable.store._copies import COPY_KINDS, Copy
from erasable.store._saved import (
    UNREADABLE,
    VERSION,
    Head,
    Saved,
    SavedSource,
    State,
    no_model,
    parse_rows,
    restored,
)
from erasable.store._seal import record_digest
from erasable.store._sqlite import Schema, check_pages, is_empty, transaction
from erasable.store._tables import MARK_COLUMNS, mark_rows, read_marks, replace_rows
from erasable.typing import Float32s

# No index: SQLite would read some values from it, and a flipped byte of theirs would go unnoticed.
APPLICATION_ID = 0x65726173  # "eras"
SCHEMA = Schema(
    "a model of erasable",
    APPLICATION_ID,
    VERSION,
    (
        """CREATE TABLE model (
    identity TEXT NOT NULL,
    revision INTEGER NOT NULL,
    config TEXT NOT NULL,
    weights TEXT NOT NULL,
    dim INTEGER NOT NULL,
    grid_bits INTEGER NOT NULL,
    next_id INTEGER NOT NULL,
    digest TEXT NOT NULL,
    record_digest TEXT NOT NULL,
    key_id TEXT NOT NULL,
    mac BLOB NOT NULL
)""",
        """CREATE TABLE rows (
    serial INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    label TEXT NOT NULL,
    groups TEXT NOT NULL,
    content BLOB,
    embedding BLOB NOT NULL
)""",
        f"CREATE TABLE tombstones ({MARK_COLUMNS})",
        """CREATE TABLE sources (
    place INTEGER PRIMARY KEY, basis TEXT NOT NULL, name TEXT NOT NULL, covers TEXT NOT NULL
)""",
        "CREATE TABLE seen (place INTEGER NOT NULL, key_id TEXT NOT NULL, mark BLOB NOT NULL)",
        "CREATE TABLE copies (place INTEGER PRIMARY KEY, kind TEXT NOT NULL, path TEXT NOT NULL)",
        "CREATE TABLE unswept (since INTEGER NOT NULL)",
    ),
)
_HEX = {"identity": 32, "weights": 64, "digest": 64, "record_digest": 64}
_WHOLE = ("revision", "dim", "grid_bits", "next_id")


class RowsFile:
    """The file ``rows.sqlite`` of a saved model, in a transaction that is open.

    One COMMIT of SQLite's brings a model from one state to the next. Each raises its *revision*, so
    that a process which read an older one cannot put back what another one forgot. Where rows were
    deleted the file is written anew without them, later: SQLite's own ``secure_delete`` leaves
    copies in pages that were rebalanced.

    Args:
        db: The transaction.
        path: The file.
    """

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self.db = db
        self.path = path

    def head(self) -> Head | None:
        """Return what the file says of its model; None if nothing was ever committed to it.

        Raises:
            StoreError: If the file is foreign, damaged or of another version.
        """
        if is_empty(self.db):
            return None
        SCHEMA.check(self.db, self.path)
        found = self.db.execute("SELECT * FROM model LIMIT 2").fetchall()
        if len(found) != 1:
            raise self._damaged(f"it describes {len(found)} models")
        values = dict(found[0])
        if not all(_is_hex(values[name], size) for name, size in _HEX.items()):
            raise self._damaged("a digest of it is no digest")
        if not all(type(values[name]) is int and values[name] >= 0 for name in _WHOLE):
            raise self._damaged("a number of it is no number")
        texts = all(type(values[name]) is str for name in ("config", "key_id"))
        if not texts or type(values["mac"]) is not bytes:
            raise self._damaged("a text of it is no text")
        return Head(**values)

    def require_head(self) -> Head:
        """Return what the file says of its model.

        Raises:
            StoreError: If there is none, or it is damaged.
        """
        found = self.head()
        if found is None:
            raise no_model(self.path)
        return found

    def read(self) -> Saved:
        """Read the model and check it against its seal and its digests.

        Raises:
            StoreError: If it is damaged, or was changed by something else than this library.
        """
        head = self.require_head()
        check_pages(self.db, self.path)
        is_verified = self.check_seal(head)
        memory = self._memory(head)
        if memory.digest != head.digest:
            raise self._damaged("its rows do not match their digest")
        return Saved(
            head.identity,
            head.revision,
            self._config(head),
            head.weights,
            memory,
            self._sources(),
            self.copies(),
            is_verified=is_verified,
            doubts=() if is_verified else (_unverified(head.key_id),),
        )

    def check_seal(self, head: Head) -> bool:
        """Check everything but the rows; return False if the key for that is not here.

        Raises:
            StoreError: If something has changed.
        """
        expected = head.expected_mac()
        is_whole = head.record_digest == record_digest(self.db)
        if not is_whole or (expected is not None and not hmac.compare_digest(expected, head.mac)):
            raise self._damaged("it does not match its seal")
        return expected is not None

    def rows(self, dim: int) -> tuple[list[Record], Float32s]:
        """Return the rows as they lie in the file, embeddings (rows, dim), unchecked."""
        query = "SELECT * FROM rows ORDER BY CAST(id AS BLOB)"
        return parse_rows(self.db.execute(query).fetchall(), dim)

    def marks(self) -> Marks:
        """Return the tombstones."""
        return read_marks(self.db, "tombstones")

    def copies(self) -> list[Copy]:
        """Return the places outside that hold something of the rows."""
        found = self.db.execute("SELECT kind, path FROM copies ORDER BY place")
        return [Copy(kind, path) for kind, path in found if kind in COPY_KINDS]

    def is_swept(self) -> bool:
        """Tell whether everything that was deleted was also written over."""
        return not self.db.execute("SELECT count(*) FROM unswept").fetchone()[0]

    def write(self, state: State, *, identity: str, revision: int, keeps_rows: bool) -> None:
        """Bring the file to a state; it counts once the transaction is committed.

        Args:
            state: The state.
            identity: The model's random name.
            revision: The new revision.
            keeps_rows: Whether rows of equal serials are equal, as in the file that this very model
                was read from: a row keeps its serial for life.
        """
        if self.head() is None:
            SCHEMA.create(self.db)
        deleted = self._write_rows(state.memory, keeps_rows=keeps_rows)
        deleted += replace_rows(self.db, "tombstones", mark_rows(state.marks))
        deleted += self._write_sources(state.sources)
        if deleted:
            self.db.execute("INSERT INTO unswept VALUES (?)", (revision,))
        self._write_copies(state.copies)
        self._seal(state, identity, revision)

    # -- inside ----------------------------------------------------------------------------------

    def _memory(self, head: Head) -> Memory:
        try:
            records, embeddings = self.rows(head.dim)
            return restored(
                records,
                embeddings,
                dim=head.dim,
                grid_bits=head.grid_bits,
                next_id=head.next_id,
                marks=self.marks(),
            )
        except UNREADABLE as error:
            raise self._damaged(str(error)) from error

    def _config(self, head: Head) -> dict[str, Any]:
        try:
            config = parse_json(head.config)
        except ValueError as error:
            raise self._damaged(f"its configuration is no JSON: {error}") from error
        if not isinstance(config, dict):
            raise self._damaged("its configuration is no JSON object")
        return config

    def _sources(self) -> list[SavedSource]:
        seen: dict[int, list[tuple[str, bytes]]] = {}
        for row in self.db.execute("SELECT place, key_id, mark FROM seen"):
            seen.setdefault(row["place"], []).append((row["key_id"], row["mark"]))
        return [
            SavedSource(
                row["basis"],
                row["name"],
                Marks(seen.get(row["place"], [])) if row["basis"] == "recorded" else None,
                frozenset(row["covers"].split()),
            )
            for row in self.db.execute("SELECT * FROM sources ORDER BY place")
        ]

    def _write_rows(self, memory: Memory, *, keeps_rows: bool) -> int:
        there = {row["serial"] for row in self.db.execute("SELECT serial FROM rows")}
        here = {info.serial: position for position, info in enumerate(memory.table.infos)}
        kept = there & here.keys() if keeps_rows else set()
        gone = [(serial,) for serial in there - kept]
        self.db.executemany("DELETE FROM rows WHERE serial = ?", gone)
        new = [here[serial] for serial in sorted(here.keys() - kept)]
        self.db.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", _values(memory, new))
        return len(gone)

    def _write_sources(self, sources: Sequence[SavedSource]) -> int:
        placed = list(enumerate(sources))
        listed = [
            (place, one.basis, one.name, " ".join(sorted(one.covers))) for place, one in placed
        ]
        seen = ((place, *mark) for place, source in placed for mark in source.marks or ())
        deleted = replace_rows(self.db, "sources", listed)
        return deleted + replace_rows(self.db, "seen", seen)

    def _write_copies(self, copies: Sequence[Copy]) -> None:
        """List copies, without those that are gone: a folder of embeddings may only be away."""
        known = dict.fromkeys([*self.copies(), *copies])
        listed = [copy for copy in known if copy.is_there or copy.kind == "embeddings"]
        replace_rows(
            self.db,
            "copies",
            ((place, copy.kind, copy.path) for place, copy in enumerate(listed)),
        )

    def _seal(self, state: State, identity: str, revision: int) -> None:
        memory = state.memory
        fields = {
            "identity": identity,
            "revision": revision,
            "config": json.dumps(state.config, sort_keys=True),
            "weights": state.weights,
            "dim": memory.dim,
            "grid_bits": memory.grid.bits,
            "next_id": memory.next_id,
            "digest": memory.digest,
            "record_digest": record_digest(self.db),
            "key_id": keyring.active(),
        }
        mac = Head(**fields, mac=b"").expected_mac()  # type: ignore[arg-type]  # by name
        self.db.execute("DELETE FROM model")
        self.db.execute(
            f"INSERT INTO model VALUES ({', '.join('?' * 11)})",  # noqa: S608 - marks only
            (*fields.values(), mac),
        )

    def _damaged(self, found: str) -> StoreError:
        return StoreError(
            f"Expected a sound model in {self.path}, but {found}: the file is damaged, or "
            "something else than erasable has changed it. Restore the last copy of the whole "
            "directory that you trust; if that is older, 'erasable catch-up' forgets again what "
            "was forgotten since."
        )


def sweep(path: Path) -> None:
    """Write a file anew if rows were deleted since that was last done."""
    with transaction(path, "read") as db:
        since = db.execute("SELECT max(since) FROM unswept").fetchone()[0]
    if since is None:
        return
    db = sqlite3.connect(path, isolation_level=None, timeout=10)
    try:
        db.execute("PRAGMA synchronous = FULL")
        db.execute("VACUUM")
        db.execute("DELETE FROM unswept WHERE since <= ?", (since,))
    finally:
        db.close()


def _values(memory: Memory, positions: Iterable[int]) -> Iterator[tuple[Any, ...]]:
    for position in positions:
        record = memory.record(position)
        groups = json.dumps([encode_key(group) for group in record.groups])
        keys = (encode_key(record.id), encode_key(record.label), groups)
        embedding = memory.table.embeddings[position].astype("<f4").tobytes()
        yield (record.serial, *keys, record.content, embedding)


def _is_hex(value: object, size: int) -> bool:
    return isinstance(value, str) and re.fullmatch(rf"[0-9a-f]{{{size}}}", value) is not None


def _unverified(key_id: str) -> str:
    return (
        f"The key {key_id} of this model is not here, so nobody can tell whether something has "
        "changed its files: rows are forgotten at level memory. Put the key file back."
    )
