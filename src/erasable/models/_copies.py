"""Every place that holds something of a model's rows, and how rows leave it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from erasable.errors import StateError, StoreError, listing
from erasable.memory import DIGEST_SIZE, content_parts, forms_of, keys_folder
from erasable.store import EmbeddingCache, ModelDirectory
from erasable.typing import RowId

if TYPE_CHECKING:
    from erasable.models._memory_model import MemoryModel

_WORDS = {
    "model": "ids, labels, groups and embeddings of the live rows; weights",
    "embeddings": "embeddings of rows, by id and content; forget and purge remove them",
    "checkpoint": "weights in training, and digests of what they are trained on; no rows",
    "report": "a page that may show rows; forget does not reach it, purge tells of it",
    "drawing": "images drawn from the rows of that time; forget does not reach them",
}


_ABSENT = (
    "embeddings of rows, on a disk that is not there now: what is forgotten meanwhile stays in it; "
    "purge when it is back. If it was deleted, nothing is left"
)


@final
@dataclass(frozen=True)
class KnownCopy:
    """A place that holds something of a model's rows.

    Attributes:
        kind: ``model``, ``embeddings``, ``checkpoint``, ``report`` or ``drawing``.
        path: The file or folder.
        holds: In words, what of the rows is there.
        rows: Number of the model's live rows there, if that can be told.
    """

    kind: str
    path: str
    holds: str
    rows: int | None = None


@final
@dataclass(frozen=True)
class Purged:
    """What `purge` removed, and what it cannot.

    Attributes:
        entries: Embeddings of forgotten rows that were still kept somewhere.
        left: Places that may still hold something of forgotten rows.
    """

    entries: int
    left: list[KnownCopy]


def known_copies(model: "MemoryModel") -> list[KnownCopy]:
    """Return every copy of the rows that the model knows of and that may still exist."""
    count = len(model.memory)
    found = [
        KnownCopy("model", str(path), _WORDS["model"], count)
        for path in model.places_
        if path.exists()
    ]
    for folder in _cache_folders(model):
        if folder.exists():
            held = EmbeddingCache(folder).held(_encoded(_ids(model)))
            found.append(KnownCopy("embeddings", str(folder), _WORDS["embeddings"], held))
    found += absent_caches(model)
    return found + [
        KnownCopy(copy.kind, copy.path, _WORDS[copy.kind])
        for copy in model.copies_
        if copy.kind != "embeddings" and copy.is_there
    ]


def absent_caches(model: "MemoryModel") -> list[KnownCopy]:
    """Return caches that the model has used and that are out of reach now."""
    return [
        KnownCopy("embeddings", copy.path, _ABSENT)
        for copy in model.copies_
        if copy.kind == "embeddings" and not copy.is_there
    ]


def forgotten_entries(model: "MemoryModel") -> dict[Path, int]:
    """Return how many embeddings of rows forgotten before each cache still holds."""
    marks = model.memory.tombstones.marks
    there = [folder for folder in _cache_folders(model) if folder.exists()]
    return {
        folder: EmbeddingCache(folder).count_forgotten(lambda content: marks.has_content(content))
        for folder in there
    }


def clear_caches(model: "MemoryModel", ids: list[RowId]) -> int:
    """Remove the rows' embeddings from every cache the model has used; return how many.

    Embeddings of the same inputs under other ids go, too; who needs one encodes it again.

    Raises:
        StoreError: If a link has taken the place of a cache, or of something in it.
    """
    folders = _cache_folders(model)
    for folder in folders:
        _require_in_place(folder)
    if not folders:
        return 0
    encoded, contents = _encoded(ids), _contents(model, ids)
    return sum(EmbeddingCache(folder).remove(encoded, contents) for folder in folders)


def _contents(model: "MemoryModel", ids: list[RowId]) -> list[bytes]:
    """Return the digests of the inputs of those rows that are live."""
    table = model.memory.table
    places = [place for row_id in ids if (place := table.position(row_id)) is not None]
    contents = [table.infos[place].content for place in places]
    found = {part for content in contents if content for part in content_parts(content)}
    return sorted(part for part in found if len(part) == DIGEST_SIZE)


def purge(model: "MemoryModel") -> Purged:
    """Remove from every cache what the tombstones recognise, and name what is out of reach.

    Also finishes, in the directories that the model was loaded from or saved to, what an
    interrupted save has left.

    Raises:
        StateError: If a key of the tombstones is missing, so that nobody can tell.
        StoreError: If a link has taken the place of a cache, or of something in it.
    """
    marks = model.memory.tombstones.marks
    if marks.missing_keys:
        raise StateError(
            f"Expected the keys of this memory's tombstones in {keys_folder()}, but "
            f"{listing(marks.missing_keys)} are not there, so kept embeddings cannot be checked "
            "against what was forgotten. Put the key files back."
        )
    for path in model.places_:
        if path.exists():
            ModelDirectory(path).tidy()
    folders = _cache_folders(model)
    for folder in folders:
        _require_in_place(folder)
    removed = sum(
        EmbeddingCache(folder).sweep(lambda content: marks.has_content(content))
        for folder in folders
    )
    out_of_reach = ("checkpoint", "report", "drawing")
    left = [copy for copy in known_copies(model) if copy.kind in out_of_reach]
    return Purged(removed, [*absent_caches(model), *left])


def _cache_folders(model: "MemoryModel") -> list[Path]:
    """Return the folders of embeddings that were used, or are to be, even if that failed."""
    folders = [Path(copy.path) for copy in model.copies_ if copy.kind == "embeddings"]
    if model.embedding_cache is not None:
        folders.append(Path(model.embedding_cache).resolve())
    return list(dict.fromkeys(folders))


def _require_in_place(folder: Path) -> None:
    """Refuse a folder, noted without links in its path, that is only reached by one now."""
    if folder.exists() and folder.resolve() != folder:
        raise StoreError(
            f"Expected the cache of embeddings itself in {folder}, but a link leads from there to "
            f"{folder.resolve()}. Nothing there was removed. Delete the link; if the cache was "
            "moved, name its new place as embedding_cache."
        )


def _ids(model: "MemoryModel") -> list[RowId]:
    with model.memory.live.lock.reading():
        return [info.id for info in model.memory.table.infos]


def _encoded(ids: list[RowId]) -> list[bytes]:
    return [form for row_id in ids for form in forms_of(row_id)]
