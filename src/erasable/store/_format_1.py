"""Models that were saved in the format before: three files, and no seal over them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from erasable.errors import StoreError
from erasable.files import parse_json, read_part
from erasable.memory import CONTENT, ID, Marks, Memory
from erasable.store._copies import COPY_KINDS, Copy
from erasable.store._rows_file import APPLICATION_ID, RowsFile
from erasable.store._saved import UNREADABLE, Saved, SavedSource, parse_rows, restored
from erasable.store._sqlite import Schema, check_pages, kind_of

FORMAT = "erasable.model.1"
COPIES = "erasable.copies.1"
SCHEMA = Schema(
    "rows of erasable",
    APPLICATION_ID,
    1,
    (
        """CREATE TABLE generations (
    generation INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL,
    dim INTEGER NOT NULL,
    grid_bits INTEGER NOT NULL,
    next_id INTEGER NOT NULL,
    digest TEXT NOT NULL,
    record_digest TEXT NOT NULL
)""",
        """CREATE TABLE rows (
    generation INTEGER NOT NULL,
    serial INTEGER NOT NULL,
    id TEXT NOT NULL,
    label TEXT NOT NULL,
    groups TEXT NOT NULL,
    content BLOB,
    embedding BLOB NOT NULL,
    UNIQUE (generation, serial)
)""",
        """CREATE TABLE tombstones (
    generation INTEGER NOT NULL, key_id TEXT NOT NULL, mark BLOB NOT NULL,
    UNIQUE (generation, key_id, mark)
)""",
        """CREATE TABLE sources (
    generation INTEGER NOT NULL, place INTEGER NOT NULL, basis TEXT NOT NULL, name TEXT NOT NULL,
    UNIQUE (generation, place)
)""",
        """CREATE TABLE seen (
    generation INTEGER NOT NULL, place INTEGER NOT NULL, key_id TEXT NOT NULL, mark BLOB NOT NULL,
    UNIQUE (generation, place, key_id, mark)
)""",
        "CREATE TABLE unswept (since INTEGER NOT NULL)",
    ),
)
_RECORD = {
    "rows": "serial, content",
    "tombstones": "key_id, mark",
    "sources": "place, basis, name",
    "seen": "place, key_id, mark",
}
_LARGEST = 2**24
_DOUBT = (
    "This model was saved by an earlier version of erasable, which did not seal what it wrote, so "
    "nobody can tell whether something has changed its files: rows are forgotten at level memory."
)


def is_in(file: RowsFile) -> bool:
    """Tell whether an open file is of this format."""
    return kind_of(file.db) == (SCHEMA.application_id, SCHEMA.version)


def files(folder: Path) -> Iterator[Path]:
    """Yield what a model of this format has besides its rows: of no use once it is upgraded."""
    if _is_ours(folder / "config.json", FORMAT):
        yield folder / "config.json"
    if _is_ours(folder / "copies.json", COPIES):
        yield folder / "copies.json"


def read(folder: Path, file: RowsFile) -> Saved:
    """Read a model.

    Raises:
        StoreError: If it is damaged.
    """
    SCHEMA.check(file.db, file.path)
    config = _document(folder / "config.json", FORMAT)
    generation = config.get("generation")
    if type(generation) is not int or not 0 <= generation < 2**63:
        raise _damaged(folder / "config.json", f"it names the generation {generation!r}")
    check_pages(file.db, file.path)
    found = file.db.execute("SELECT * FROM generations WHERE generation = ?", (generation,))
    head = found.fetchone()
    if head is None:
        raise _damaged(folder, "its files do not belong together")
    try:
        memory = _memory(file, generation, head)
    except UNREADABLE as error:
        raise _damaged(file.path, str(error)) from error
    digests = (memory.digest, _record_digest(file, generation))
    if digests != (head["digest"], head["record_digest"]):
        raise _damaged(file.path, "its rows do not match their digest")
    return Saved(
        _identity_of(generation),
        head["revision"],
        config,
        str(config.get("weights")),
        memory,
        _sources(file, generation),
        _copies(folder / "copies.json"),
        is_verified=False,
        doubts=(_DOUBT,),
    )


def take_out(file: RowsFile) -> None:
    """Drop every table of this format, in a transaction that brings those of the next."""
    for table in ("generations", "rows", "tombstones", "sources", "seen", "unswept"):
        file.db.execute(f"DROP TABLE {table}")
    file.db.execute("PRAGMA application_id = 0")
    file.db.execute("PRAGMA user_version = 0")


def _memory(file: RowsFile, generation: int, head: Any) -> Memory:
    query = "SELECT * FROM rows WHERE generation = ? ORDER BY CAST(id AS BLOB)"
    records, embeddings = parse_rows(file.db.execute(query, (generation,)).fetchall(), head["dim"])
    return restored(
        records,
        embeddings,
        dim=head["dim"],
        grid_bits=head["grid_bits"],
        next_id=head["next_id"],
        marks=_marks(file, "tombstones", generation),
    )


def _marks(file: RowsFile, table: str, generation: int, place: int | None = None) -> Marks:
    query = f"SELECT key_id, mark FROM {table} WHERE generation = ?"  # noqa: S608 - constant
    if place is None:
        return Marks(map(tuple, file.db.execute(query, (generation,))))
    return Marks(map(tuple, file.db.execute(f"{query} AND place = ?", (generation, place))))


def _sources(file: RowsFile, generation: int) -> list[SavedSource]:
    query = "SELECT place, basis, name FROM sources WHERE generation = ? ORDER BY place"
    return [
        SavedSource(
            basis,
            name,
            _marks(file, "seen", generation, place) if basis == "recorded" else None,
            frozenset({ID, CONTENT}),
        )
        for place, basis, name in file.db.execute(query, (generation,)).fetchall()
    ]


def _record_digest(file: RowsFile, generation: int) -> str:
    digest = hashlib.sha256(b"erasable.record.1")
    for table, columns in _RECORD.items():
        query = f"SELECT {columns} FROM {table} WHERE generation = ? ORDER BY {columns}"  # noqa: S608 - constant names
        for row in file.db.execute(query, (generation,)):
            digest.update(repr((table, *row)).encode())
    return digest.hexdigest()


def _copies(path: Path) -> list[Copy]:
    if not path.exists():
        return []
    document = _document(path, COPIES)
    try:
        listed = [Copy(item["kind"], str(item["path"])) for item in document["copies"]]
    except (KeyError, TypeError) as error:
        raise _damaged(path, repr(error)) from error
    return [copy for copy in listed if copy.kind in COPY_KINDS]


def _document(path: Path, form: str) -> dict[str, Any]:
    try:
        document = parse_json(read_part(path, limit=_LARGEST, noun=f"the format {form!r}"))
    except ValueError as error:
        raise _damaged(path, f"it is no JSON: {error}") from error
    found = document.get("format") if isinstance(document, dict) else None
    if not isinstance(document, dict) or found != form:
        raise StoreError(
            f"Expected the format {form!r} in {path}, but got {found!r}. Give the directory that "
            "save() or 'erasable train' wrote."
        )
    return document


def _is_ours(path: Path, form: str) -> bool:
    try:
        return bool(_document(path, form))
    except StoreError:
        return False


def _identity_of(generation: int) -> str:
    """Name a model of this format: the number was drawn at random when it was first saved."""
    return hashlib.sha256(f"erasable.format.1:{generation}".encode()).hexdigest()[:32]


def _damaged(path: Path, found: str) -> StoreError:
    return StoreError(
        f"Expected a model of an earlier version in {path}, but {found}: it is damaged. Restore "
        "the last copy of the whole directory."
    )
