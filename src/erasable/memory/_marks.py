"""Sets of values that can be recognised but not read: keyed marks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from erasable.memory._keyring import keyring, mark

ID = "id"
GROUP = "group"
CONTENT = "content"
CLASS = "class"


@dataclass(frozen=True)
class Tombstone:
    """When something was forgotten, and how far that reached.

    Attributes:
        time: UTC, ISO 8601.
        level: The level of the request; None where no model was asked, or no row was found.
        weights: The weights, and the record of what they saw, that the level was told for; None
            likewise.
    """

    time: str
    level: str | None = None
    weights: str | None = None


class Marks:
    """A set of (kind, value) pairs kept only as keyed hashes.

    Values are marked with the keyring's active key; marks made with other keys, loaded from
    elsewhere, stay beside them. A mark whose key is missing can be neither matched nor ruled out;
    `missing_keys` names those keys. A mark of something forgotten can carry its `Tombstone`.
    """

    def __init__(self, marks: Iterable[tuple[str, bytes]] = ()) -> None:
        self._by_key: dict[str, dict[bytes, Tombstone | None]] = {}
        for key_id, value in marks:
            self.put(key_id, value, None)

    def __len__(self) -> int:
        return sum(map(len, self._by_key.values()))

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yield (key id, mark) in sorted order."""
        return ((key_id, value) for key_id, value, _ in self.items())

    def items(self) -> Iterator[tuple[str, bytes, Tombstone | None]]:
        """Yield (key id, mark, tombstone) in sorted order."""
        for key_id in sorted(self._by_key):
            for value in sorted(self._by_key[key_id]):
                yield key_id, value, self._by_key[key_id][value]

    def copy(self) -> "Marks":
        """Return an independent copy."""
        copied = Marks()
        copied.update(self)
        return copied

    def put(self, key_id: str, value: bytes, tombstone: Tombstone | None) -> None:
        """Take over a mark made elsewhere, as it is."""
        self._by_key.setdefault(key_id, {})[value] = tombstone

    def add(self, kind: str, payload: bytes, tombstone: Tombstone | None = None) -> None:
        """Mark a value."""
        key_id = keyring.active()
        key = keyring.get(key_id)
        assert key is not None  # noqa: S101 - the active key is always at hand
        self.put(key_id, mark(key, kind, payload), tombstone)

    def update(self, marks: "Marks") -> None:
        """Take over marks made elsewhere, as they are; a mark that is here keeps its tombstone."""
        for key_id, values in marks._by_key.items():
            self._by_key[key_id] = {**values, **self._by_key.get(key_id, {})}

    def remove(self, key_id: str, value: bytes) -> None:
        """Take out one mark."""
        values = self._by_key.get(key_id, {})
        values.pop(value, None)
        if not values:
            self._by_key.pop(key_id, None)

    def discard(self, kind: str, payload: bytes) -> None:
        """Unmark a value under every key at hand."""
        for key_id, value in self._present(kind, payload):
            self.remove(key_id, value)

    def has(self, kind: str, payload: bytes) -> bool:
        """Tell whether a value is marked under any key at hand."""
        return next(self._present(kind, payload), None) is not None

    def tombstone(self, kind: str, payload: bytes) -> Tombstone | None:
        """Return what is known of when a value was forgotten; None if nothing is."""
        found = [self._by_key[key_id][value] for key_id, value in self._present(kind, payload)]
        return next((tombstone for tombstone in found if tombstone is not None), None)

    @property
    def key_ids(self) -> list[str]:
        """Ids of the keys the marks were made with."""
        return sorted(self._by_key)

    @property
    def missing_keys(self) -> list[str]:
        """Ids of keys without which some marks cannot be checked."""
        return [key_id for key_id in self.key_ids if keyring.get(key_id) is None]

    def _present(self, kind: str, payload: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield where a value is marked, under every key at hand."""
        for key_id, values in list(self._by_key.items()):
            key = keyring.get(key_id)
            if key is not None and (value := mark(key, kind, payload)) in values:
                yield key_id, value
