"""What a forgotten row leaves behind: marks that make it recognisable and nothing else."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from erasable.errors import ArgumentError, StateError, listing
from erasable.memory._contents import content_parts
from erasable.memory._grid import Grid
from erasable.memory._incoming import Incoming
from erasable.memory._keyring import keys_folder
from erasable.memory._keys import forms_of
from erasable.memory._marks import CONTENT, GROUP, ID, Marks, Tombstone
from erasable.typing import Group, RowId, Units

_GAP = "gap"
"""Kind of the one mark that says that marks of forgotten rows were taken out."""

_EARLIER = "earlier"
"""Kind of the mark of a live row's id, of which an earlier row was forgotten at some level."""


@dataclass(frozen=True)
class Entry:
    """What can be told of a tombstone; not whose it is, nor whether it is of a row or a group.

    Attributes:
        key_id: Id of the key that it was made with.
        time: When it was made, UTC, ISO 8601; None if that was not kept.
        level: The level of the request; None where that is not known.
    """

    key_id: str
    time: str | None
    level: str | None


class Tombstones:
    """Refuse rows that were forgotten: by id, by content, or by a group that was forgotten whole.

    Args:
        grid: The grid of the memory's embeddings.
        marks: Marks to begin with.
    """

    def __init__(self, grid: Grid, marks: Marks) -> None:
        self._grid = grid
        self.marks = marks

    def bury(
        self, row_id: RowId, content: bytes | None, units: Units, tombstone: Tombstone
    ) -> None:
        """Mark a row as forgotten; where an earlier row had its id, no better than that one."""
        name = forms_of(row_id)[0]
        self.marks.add(ID, name, self._joined(tombstone, self.marks.tombstone(_EARLIER, name)))
        self.marks.discard(_EARLIER, name)
        for part in self._parts(content, units):
            self.marks.add(CONTENT, part, tombstone)

    def bury_group(self, group: Group, tombstone: Tombstone) -> None:
        """Mark a group as forgotten whole."""
        self.marks.add(GROUP, forms_of(group)[0], tombstone)

    def lift(self, row_id: RowId, content: bytes | None, units: Units) -> None:
        """Unmark a row; marks of its groups stay, for the group's other rows."""
        earlier, parts = self.of_id(row_id), self._parts(content, units)
        is_same = any(self.marks.has(CONTENT, part) for part in parts)
        for form in forms_of(row_id):
            self.marks.discard(ID, form)
        for part in parts:
            self.marks.discard(CONTENT, part)
        if earlier is not None and (earlier.level == "memory" or not is_same):
            self.marks.add(_EARLIER, forms_of(row_id)[0], earlier)
        if len(self.marks):  # another id may have had this input
            self.marks.add(_GAP, b"")

    def entries(self) -> list[Entry]:
        """Return what can be told of each tombstone, oldest first."""
        shown = self.marks.copy()
        shown.discard(_GAP, b"")
        found = [
            Entry(key_id, None, None) if known is None else Entry(key_id, known.time, known.level)
            for key_id, _, known in shown.items()
        ]
        return sorted(found, key=lambda entry: entry.time or "")

    def drop(self, *, before: datetime | None) -> int:
        """Drop tombstones: what they refused can be stored again, and nobody can tell any more.

        Args:
            before: Drop those that were made before this time; those of which no time is known
                stay. None: drop all of them.

        Returns:
            How many marks were dropped.
        """
        if before is not None and before.tzinfo is None:
            raise ArgumentError(f"Expected a time with its time zone, but got {before}.")
        had_gap = self.has_gap
        self.marks.discard(_GAP, b"")  # it has no time, and is none
        dropped = [
            (key_id, value)
            for key_id, value, tombstone in list(self.marks.items())
            if before is None or _is_older(tombstone, before)
        ]
        for key_id, value in dropped:
            self.marks.remove(key_id, value)
        if dropped or had_gap:
            self.marks.add(_GAP, b"")
        return len(dropped)

    @property
    def has_gap(self) -> bool:
        """Whether marks were ever taken out.

        What is still marked by its id or group may then have lost the mark of an input.
        """
        return self.marks.has(_GAP, b"")

    def has_id(self, row_id: RowId) -> bool:
        """Tell whether a row of this id, in any form of its text, was forgotten."""
        return any(self.marks.has(ID, form) for form in forms_of(row_id))

    def has_group(self, group: Group) -> bool:
        """Tell whether a group, in any form of its text, was forgotten whole."""
        return any(self.marks.has(GROUP, form) for form in forms_of(group))

    def of_id(self, row_id: RowId) -> Tombstone | None:
        """Return what is known of when a row of this id was forgotten."""
        return self._first(ID, row_id)

    def of_group(self, group: Group) -> Tombstone | None:
        """Return what is known of when a group was forgotten."""
        return self._first(GROUP, group)

    def knows(self, row_id: RowId, content: bytes) -> bool:
        """Tell whether a row of this id or this content was forgotten."""
        return self.has_id(row_id) or self.marks.has_content(content)

    def find(self, rows: Incoming) -> list[int]:
        """Return the positions of rows that were forgotten before.

        Raises:
            StateError: If a key is missing, so that nobody can tell.
        """
        missing = self.marks.missing_keys
        if missing:
            raise StateError(
                f"Expected the keys of this memory's tombstones in {keys_folder()}, but "
                f"{listing(missing)} are not there, so rows cannot be checked against what was "
                "forgotten. Put the key files back, or pass reinstate=True to do without."
            )
        if not len(self.marks):
            return []
        return [
            position
            for position in range(len(rows))
            if self.names(rows, position) or self._has_input(rows, position)
        ]

    def names(self, rows: Incoming, position: int) -> bool:
        """Tell whether a row was forgotten by its id or by a group that was forgotten whole."""
        is_named = rows.ids is not None and self.has_id(rows.ids[position])
        return is_named or any(map(self.has_group, rows.groups[position]))

    def _has_input(self, rows: Incoming, position: int) -> bool:
        units = self._grid.units(rows.embeddings[position])
        parts = self._parts(rows.contents[position], units)
        return any(self.marks.has(CONTENT, part) for part in parts)

    def _first(self, kind: str, name: RowId) -> Tombstone | None:
        found = (self.marks.tombstone(kind, form) for form in forms_of(name))
        return next((one for one in found if one is not None), None)

    @staticmethod
    def _joined(tombstone: Tombstone, earlier: Tombstone | None) -> Tombstone:
        """Return what holds for two rows that had the same id, one after the other."""
        if earlier is None:
            return tombstone
        level = tombstone.level if earlier.level in (None, "exact") else earlier.level
        is_told = earlier.weights == tombstone.weights
        return replace(tombstone, level=level, weights=tombstone.weights if is_told else None)

    def _parts(self, content: bytes | None, units: Units) -> tuple[bytes, ...]:
        if content is not None:
            return content_parts(content)
        return (b"embedding" + units.tobytes(),)


def _is_older(tombstone: Tombstone | None, before: datetime) -> bool:
    """Tell whether a tombstone is known to be older than a time."""
    try:
        found = None if tombstone is None else datetime.fromisoformat(tombstone.time)
    except ValueError:
        return False
    if found is None:
        return False
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)) < before
