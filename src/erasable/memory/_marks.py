"""Sets of values that can be recognised but not read: keyed marks."""

from collections.abc import Iterable, Iterator

from erasable.memory._keyring import keyring, mark

ID = "id"
GROUP = "group"
CONTENT = "content"


class Marks:
    """A set of (kind, value) pairs kept only as keyed hashes.

    Values are marked with the keyring's active key; marks made with other keys, loaded from
    elsewhere, stay beside them. A mark whose key is missing can be neither matched nor ruled out;
    `missing_keys` names those keys.
    """

    def __init__(self, marks: Iterable[tuple[str, bytes]] = ()) -> None:
        self._by_key: dict[str, set[bytes]] = {}
        for key_id, value in marks:
            self._by_key.setdefault(key_id, set()).add(value)

    def __len__(self) -> int:
        return sum(map(len, self._by_key.values()))

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yield (key id, mark) in sorted order."""
        for key_id in sorted(self._by_key):
            yield from ((key_id, value) for value in sorted(self._by_key[key_id]))

    def copy(self) -> "Marks":
        """Return an independent copy."""
        return Marks(self)

    def add(self, kind: str, payload: bytes) -> None:
        """Mark a value."""
        key_id = keyring.active()
        key = keyring.get(key_id)
        assert key is not None  # noqa: S101 - the active key is always at hand
        self._by_key.setdefault(key_id, set()).add(mark(key, kind, payload))

    def update(self, marks: "Marks") -> None:
        """Take over marks made elsewhere, as they are."""
        for key_id, value in marks:
            self._by_key.setdefault(key_id, set()).add(value)

    def discard(self, kind: str, payload: bytes) -> None:
        """Unmark a value under every key at hand."""
        for key_id in list(self._by_key):
            key = keyring.get(key_id)
            if key is not None:
                self._by_key[key_id].discard(mark(key, kind, payload))
                if not self._by_key[key_id]:
                    del self._by_key[key_id]

    def has(self, kind: str, payload: bytes) -> bool:
        """Tell whether a value is marked under any key at hand."""
        for key_id, values in self._by_key.items():
            key = keyring.get(key_id)
            if key is not None and mark(key, kind, payload) in values:
                return True
        return False

    @property
    def key_ids(self) -> list[str]:
        """Ids of the keys the marks were made with."""
        return sorted(self._by_key)

    @property
    def missing_keys(self) -> list[str]:
        """Ids of keys without which some marks cannot be checked."""
        return [key_id for key_id in self.key_ids if keyring.get(key_id) is None]
