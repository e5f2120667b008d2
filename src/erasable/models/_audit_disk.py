"""A model's rows compared with its saved copies, and what is known of other copies."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from erasable.errors import StoreError
from erasable.memory import Difference, Memory, Record, encode_key, first_unequal, forms_of
from erasable.models._copies import absent_caches, forgotten_entries
from erasable.models._saving import Place
from erasable.store import EmbeddingCache, ModelDirectory, StoredRows, read_stored_rows
from erasable.typing import RowId

if TYPE_CHECKING:
    from erasable.models._memory_model import MemoryModel

_FILE = "in the file"


def compare_saved(memory: Memory, place: Place) -> tuple[Difference | None, list[str]]:
    """Compare a memory with the rows on disk where it was loaded from or saved to.

    Returns:
        The first difference, and what the saved copy is not, one sentence each.
    """
    directory = ModelDirectory(place.path)
    if not directory.exists:
        return None, [f"the copy that was saved in {place.path}: it is no longer there."]
    try:
        stored = read_stored_rows(directory)
    except StoreError as error:
        return Difference("rows on disk", str(place.path), str(error), "sound rows", "expected"), []
    if stored.identity != place.identity:
        return None, [f"the copy that was saved in {place.path}: another model is there now."]
    if stored.revision != place.revision:
        return None, [
            f"the copy in {place.path}: another process changed it since. Load and audit that."
        ]
    return _compare(memory, stored), _behind(memory, stored, place)


def _compare(memory: Memory, stored: StoredRows) -> Difference | None:
    part, here, there = "rows on disk", [], []
    for position, record in enumerate(stored.records):
        found = _same_row(memory, record)
        if found is None:
            continue
        odd = _compare_records(memory.record(found), record)
        if odd is not None:
            return odd
        here.append(found)
        there.append(position)
    left, right = memory.table.embeddings[here], stored.embeddings[there]
    place = first_unequal(left, right)
    if place is not None:
        where = f"row {stored.records[there[place[0]]].id!r}, dimension {place[1]}"
        return Difference(part, where, str(left[place]), str(right[place]), _FILE)
    is_same = len(here) == len(memory) == len(stored.records)
    if is_same and stored.digest != memory.digest:
        return Difference(part, "digest", memory.digest, stored.digest, _FILE)
    return None


def _same_row(memory: Memory, stored: Record) -> int | None:
    """Return where a stored row lies; a row that was forgotten and stored again is another one."""
    position = memory.table.position(stored.id)
    if position is None or memory.table.infos[position].serial != stored.serial:
        return None
    return position


def _compare_records(ours: Record, stored: Record) -> Difference | None:
    fields = {
        "label": (encode_key(ours.label), encode_key(stored.label)),
        "groups": (sorted(map(encode_key, ours.groups)), sorted(map(encode_key, stored.groups))),
        "input digest": (ours.content, stored.content),
    }
    for name, (left, right) in fields.items():
        if left != right:
            where = f"{name} of row {ours.id!r}"
            return Difference("rows on disk", where, repr(left), repr(right), _FILE)
    return None


def _behind(memory: Memory, stored: StoredRows, place: Place) -> list[str]:
    """Say how a saved copy lags behind the model, and what else lies in its file."""
    held = sum(_same_row(memory, record) is not None for record in stored.records)
    gone, new = len(stored.records) - held, len(memory) - held
    sentences = {
        f"it still holds {gone} rows that this model has forgotten since. save() takes them out "
        "there.": gone,
        f"it lacks {new} rows that are not saved yet.": new,
        "in its file, deleted rows are not written over yet. save() tries again.": (
            not stored.is_swept
        ),
    }
    return [f"the copy in {place.path}: {text}" for text, holds in sentences.items() if holds]


def describe_copies(model: "MemoryModel", forgotten: Sequence[RowId]) -> list[str]:
    """Say what lies outside the model, one sentence each.

    Args:
        model: The model.
        forgotten: Ids of rows that were forgotten before, to look for in caches by id, too.
    """
    sentences = [
        f"the {copy.kind} in {copy.path}: audits do not look into it."
        for copy in model.copies_
        if copy.is_there and copy.kind != "embeddings"
    ]
    sentences += [
        f"the cache in {copy.path}: it is not there now. purge() when it is back."
        for copy in absent_caches(model)
    ]
    keys = [form for row_id in forgotten for form in forms_of(row_id)]
    for folder, by_content in forgotten_entries(model).items():
        count = max(by_content, EmbeddingCache(folder).held(keys))
        if count:
            sentences.append(
                f"the cache in {folder}: it holds {count} embeddings of rows forgotten before. "
                "purge() removes them."
            )
    return sentences
