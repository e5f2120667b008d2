"""Every place that holds something of a model's rows, and how rows leave it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from erasable.memory import CONTENT, encode_key
from erasable.store import Copy, EmbeddingCache
from erasable.typing import RowId

if TYPE_CHECKING:
    from erasable.models._memory_classifier import MemoryClassifier

_WORDS = {
    "model": "ids, labels, groups and embeddings of the live rows; weights",
    "embeddings": "embeddings of rows, by id and content; forget and purge remove them",
    "checkpoint": "weights in training, and digests of what they are trained on; no rows",
    "report": "a page that may show rows; forget does not reach it, purge tells of it",
}


@final
@dataclass(frozen=True)
class KnownCopy:
    """A place that holds something of a model's rows.

    Attributes:
        kind: ``model``, ``embeddings``, ``checkpoint`` or ``report``.
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


def known_copies(model: "MemoryClassifier") -> list[KnownCopy]:
    """Return every copy of the rows that the model knows of and that still exists."""
    count = len(model.memory)
    found = [KnownCopy("model", str(path), _WORDS["model"], count) for path in model.places_]
    for copy in model.copies_:
        if copy.is_there:
            rows = _held(model, Path(copy.path)) if copy.kind == "embeddings" else None
            found.append(KnownCopy(copy.kind, copy.path, _WORDS[copy.kind], rows))
    return found


def clear_caches(model: "MemoryClassifier", ids: list[RowId]) -> int:
    """Remove the rows' embeddings from every cache the model has used; return how many."""
    return sum(cache.remove(_encoded(ids)) for cache in _caches(model))


def purge(model: "MemoryClassifier") -> Purged:
    """Remove from every cache what the tombstones recognise, and name what is out of reach."""
    marks = model.memory.tombstones.marks
    removed = sum(
        cache.sweep(lambda content: marks.has(CONTENT, content)) for cache in _caches(model)
    )
    left = [copy for copy in known_copies(model) if copy.kind in ("checkpoint", "report")]
    return Purged(removed, left)


def _caches(model: "MemoryClassifier") -> list[EmbeddingCache]:
    copies: list[Copy] = model.copies_
    return [EmbeddingCache(Path(copy.path)) for copy in copies if copy.kind == "embeddings"]


def _held(model: "MemoryClassifier", folder: Path) -> int:
    ids: list[RowId] = [info.id for info in model.memory.table.infos]
    return EmbeddingCache(folder).count(_encoded(ids))


def _encoded(ids: list[RowId]) -> list[bytes]:
    return [encode_key(row_id).encode() for row_id in ids]
