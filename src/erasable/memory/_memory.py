"""The memory: rows that a model reads at prediction time, and that can be taken out again."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from erasable.errors import ArgumentError, Problems, RowIdError, StateError, listing
from erasable.memory._classes import ClassSums
from erasable.memory._digest import LtHash, encode_row, row_lanes
from erasable.memory._find import Match, find_near
from erasable.memory._grid import Grid
from erasable.memory._incoming import (
    MAX_ROWS,
    Incoming,
    as_list,
    check_embeddings,
    check_incoming,
    round_to_grid,
)
from erasable.memory._keys import as_id, encode_key, plain, sort_labels
from erasable.memory._live import LiveRows, Record
from erasable.memory._marks import Marks, Tombstone
from erasable.memory._results import Forgotten, Row, incoming_again, utc_now
from erasable.memory._select import Selection, select
from erasable.memory._table import RowInfo, RowTable
from erasable.memory._tombstones import Tombstones
from erasable.typing import Float32s, Ints, Label, RowId, Units

_CHUNK = 16_384


class Memory:
    """Rows with a permanent id, a label, groups and an embedding on a grid.

    Every view of the memory (`RowsView`, `PrototypesView`) reads the live rows or sums that follow
    each change, so nothing derived from a row outlives `forget`. A forgotten row leaves only keyed
    marks, its *tombstones*, which make a later `add` of the same id, of the same content, or of a
    row of a forgotten group fail.

    Args:
        dim: Size of an embedding.
        grid: The grid embeddings are rounded to on entry.
        tombstones: Marks of rows forgotten elsewhere, to be refused here too.

    Examples:
        >>> memory = Memory(2)
        >>> memory.add([[0.0, 1.0], [1.0, 0.0]], ["cat", "dog"], ids=["a", "b"])
        ['a', 'b']
        >>> memory.forget(ids=["a"]).emptied
        ('cat',)
        >>> len(memory), memory.classes
        (1, ['dog'])
    """

    def __init__(
        self, dim: int, *, grid: Grid | None = None, tombstones: Marks | None = None
    ) -> None:
        if type(dim) is not int or dim < 1:
            raise ArgumentError(f"Expected dim to be a positive int, but got {dim!r}.")
        self._dim = dim
        self._grid = grid or Grid()
        self._live = LiveRows(dim, self._grid)
        self._hash = LtHash()
        self._tombstones = Tombstones(self._grid, Marks() if tombstones is None else tombstones)
        self._next_id = 0
        self._next_serial = 0

    # -- reading ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.table)

    def __contains__(self, row_id: object) -> bool:
        found = plain(row_id)
        return type(found) in (str, int) and bool(self.table.ids_named(found))

    def __iter__(self) -> Iterator[Row]:
        """Yield rows in canonical order: by encoded id, whatever order they came in."""
        return (self._row(position) for position in self._canonical_positions())

    def __repr__(self) -> str:
        return f"Memory(rows={len(self)}, classes={len(self.classes)}, dim={self._dim})"

    @property
    def dim(self) -> int:
        """Size of an embedding."""
        return self._dim

    @property
    def grid(self) -> Grid:
        """The grid embeddings lie on."""
        return self._grid

    @property
    def classes(self) -> list[Label]:
        """Labels of live rows, sorted (bool, int, float, str; then by value)."""
        with self._live.lock.reading():
            return self.sums.labels

    @property
    def digest(self) -> str:
        """Hex SHA-256 that is equal for equal sets of rows, whatever their history."""
        with self._live.lock.reading():
            return self._hash.hexdigest()

    @property
    def tombstones(self) -> Tombstones:
        """Keyed marks of forgotten rows; no prediction reads them."""
        return self._tombstones

    @property
    def live(self) -> LiveRows:
        """The live rows, for views."""
        return self._live

    @property
    def table(self) -> RowTable:
        """The live rows by position, for views and the store."""
        return self._live.table

    @property
    def sums(self) -> ClassSums:
        """The exact per-class sums, for views."""
        return self._live.sums

    def get(self, ids: Sequence[RowId]) -> list[Row]:
        """Return copies of rows.

        Raises:
            RowIdError: If an id is not in the memory.
        """
        with self._live.lock.reading():
            return [self._row(int(position)) for position in self.positions(ids)]

    def positions(self, ids: Sequence[RowId]) -> Ints:
        """Return where rows lie until the next change, (ids,)."""
        wanted = as_list(ids, "ids")
        found = [self._place(row_id) for row_id in wanted]
        unknown = [row_id for row_id, place in zip(wanted, found, strict=True) if place is None]
        if unknown:
            raise RowIdError(f"Expected ids of this memory, but it has no {listing(unknown)}.")
        return np.array(found, np.int64)

    def find(self, embeddings: Any, *, tolerance: float = 0.01) -> list[list[Match]]:
        """Find rows whose embedding nearly equals a query's, for instance copies under other ids.

        Args:
            embeddings: Queries, (queries, dim).
            tolerance: Largest distance to count, relative to the query's length.

        Returns:
            For each query its matches, nearest first.
        """
        problems = Problems("find()")
        if not 0 <= tolerance < np.inf:
            problems.note(f"Expected tolerance to be 0 or more, but got {tolerance!r}.")
        queries = check_embeddings(embeddings, self._dim, problems)
        if queries is not None:
            round_to_grid(queries, self._grid, problems)
        problems.raise_if_any()
        assert queries is not None  # noqa: S101 - otherwise a problem was noted
        with self._live.lock.reading():
            return find_near(self.table, queries, tolerance=tolerance, step=self._grid.step)

    def subset(self, fraction: float, seed: int) -> "Memory":
        """Return a new memory with about ``fraction`` of each class, at least one row of each.

        The draw depends on the rows and the seed, not on the order in which rows came.
        """
        if not 0 < fraction <= 1:
            raise ArgumentError(f"Expected fraction in (0, 1], but got {fraction!r}.")
        if type(plain(seed)) is not int or seed < 0:
            raise ArgumentError(f"Expected seed to be an int of 0 or more, but got {seed!r}.")
        by_class: dict[int, list[int]] = {}
        for position in self._canonical_positions():
            by_class.setdefault(self.table.infos[position].slot, []).append(position)
        rng = np.random.default_rng(seed)
        chosen: list[int] = []
        for slot in self.sums.order.tolist():
            members = by_class[slot]
            size = max(1, round(fraction * len(members)))
            chosen += sorted(rng.permutation(members)[:size].tolist())
        part = Memory(self._dim, grid=self._grid, tombstones=self._tombstones.marks.copy())
        part.restore(self.table.embeddings[chosen], [self.record(p) for p in chosen])
        return part

    def canonical_state(self) -> Iterator[bytes]:
        """Yield the bytes that define the memory: configuration, classes, counts, sums, rows by id.

        Two memories with equal states are the same memory. Tombstones and generated-id counters lie
        outside.
        """
        settings = {"format": "erasable.memory.1", "dim": self._dim, "grid": self._grid.bits}
        classes = [encode_key(label) for label in self.classes]
        yield json.dumps({**settings, "classes": classes}, sort_keys=True).encode()
        yield self.sums.counts.astype("<i8").tobytes()
        yield self.sums.sums.astype("<i8").tobytes()
        for position in self._canonical_positions():
            units = self._grid.units(self.table.embeddings[position])
            yield self._encode(self.table.infos[position], units)

    # -- changing --------------------------------------------------------------------------------

    def add(
        self,
        embeddings: Any,
        labels: Any,
        *,
        ids: Any = None,
        groups: Any = None,
        contents: Sequence[bytes | None] | None = None,
        reinstate: bool = False,
        skip_forgotten: bool = False,
    ) -> list[RowId]:
        """Store rows; all of them or, if anything is wrong, none.

        Args:
            embeddings: Embeddings, (rows, dim).
            labels: One label per row: str, int, float or bool.
            ids: One new id per row; counted up if not given.
            groups: Per row None, one group, or a list of groups.
            contents: Per row a digest of the input it was made from; without it, a forgotten row is
                recognised by its embedding.
            reinstate: Accept rows that were forgotten before, and lift their tombstones. A
                forgotten *group* stays refused: each further row of it must be reinstated too.
            skip_forgotten: Leave out rows that were forgotten before.

        Returns:
            The ids of the rows stored.

        Raises:
            ErasableError: One error that names every problem; nothing was stored.
        """
        problems = Problems("add()")
        if reinstate and skip_forgotten:
            problems.note("Expected reinstate or skip_forgotten, but got both.")
        rows = check_incoming(
            problems,
            self._grid,
            self._dim,
            embeddings=embeddings,
            labels=labels,
            ids=ids,
            groups=groups,
            contents=contents,
        )
        with self._live.lock.changing():
            kept = self._admitted(
                rows, problems, reinstate=reinstate, skip_forgotten=skip_forgotten
            )
            rows = rows if len(kept) == len(rows) else rows.keep(kept)
            return self._store(rows.in_one_form(), reinstate=reinstate)

    def admissible(
        self,
        labels: Any,
        *,
        ids: Any = None,
        groups: Any = None,
        contents: Sequence[bytes],
        reinstate: bool = False,
        skip_forgotten: bool = False,
    ) -> list[int]:
        """Return which rows `add` would store, by their places, before they are encoded.

        Takes what `add` takes, except embeddings, and raises what it would raise.
        """
        problems = Problems("add()")
        if reinstate and skip_forgotten:
            problems.note("Expected reinstate or skip_forgotten, but got both.")
        rows = check_incoming(
            problems,
            self._grid,
            1,
            embeddings=np.zeros((len(contents), 1), np.float32),
            labels=labels,
            ids=ids,
            groups=groups,
            contents=contents,
        )
        with self._live.lock.reading():
            return self._admitted(
                rows, problems, reinstate=reinstate, skip_forgotten=skip_forgotten
            )

    def forget(
        self, *, ids: Any = None, groups: Any = None, classes: Any = None, missing_ok: bool = False
    ) -> Forgotten:
        """Take out every row with one of the ids, groups or classes, and refuse it from now on.

        Raises:
            RowIdError: If something named is not in the memory and ``missing_ok`` is False; nothing
                was forgotten.
        """
        with self._live.lock.changing():
            return self.drop(
                self.select(ids=ids, groups=groups, classes=classes, missing_ok=missing_ok)
            )

    def select(
        self, *, ids: Any = None, groups: Any = None, classes: Any = None, missing_ok: bool = False
    ) -> Selection:
        """Resolve what `forget` would take out, without taking it out."""
        with self._live.lock.reading():
            return select(self, ids=ids, groups=groups, classes=classes, missing_ok=missing_ok)

    def drop(self, selection: Selection, tombstone: Tombstone | None = None) -> Forgotten:
        """Forget the rows of a selection made by `select` on the memory as it is now.

        Args:
            selection: The selection.
            tombstone: What to keep of when that was, and at which level; the time, if not given.
        """
        with self._live.lock.writing():
            gone = [row_id for row_id in selection.ids if self.table.position(row_id) is None]
            if gone:
                raise RowIdError(f"Expected live rows, but these have gone since: {listing(gone)}.")
            before, emptied = self.digest, []
            tombstone = tombstone or Tombstone(utc_now())
            # First: if this is interrupted, a group is refused before all its rows have gone, not
            # accepted after.
            for group in selection.groups:
                if group not in selection.forgotten_groups:  # what is known of then stays
                    self._tombstones.bury_group(group, tombstone)
            for start in range(0, len(selection.ids), _CHUNK):
                emptied += self._take_out(selection.ids[start : start + _CHUNK], tombstone)
            return Forgotten(tuple(selection.ids), tuple(sort_labels(emptied)), before, self.digest)

    def drop_tombstones(self, *, before: datetime | None) -> int:
        """Drop tombstones made before a time, or all with None; return how many marks went.

        What they refused can then be stored again, and nobody can tell that it was forgotten. Save
        the model, so that they leave its file and the ledger beside its keys, too.
        """
        with self._live.lock.writing():
            return self._tombstones.drop(before=before)

    def recognised(self, marks: Marks) -> dict[RowId, bool]:
        """Return the live rows that tombstones from elsewhere, unknown here, are about.

        Returns:
            By id: whether the row was named (its id or group was forgotten), or only has the input
            of a row that was.

        Raises:
            StateError: If a key of those tombstones is missing, so that nobody can tell.
        """
        mine = set(self._tombstones.marks)
        news = Marks(mark for mark in marks if mark not in mine)
        records = [self.record(position) for position in range(len(self))]
        rows = incoming_again(self.table.embeddings, records)
        tombstones = Tombstones(self._grid, news)
        return {records[place].id: tombstones.names(rows, place) for place in tombstones.find(rows)}

    def respect(self, marks: Marks) -> None:
        """Take over tombstones from elsewhere.

        Raises:
            RowIdError: If a live row is among them; nothing was taken over.
        """
        with self._live.lock.changing():
            self._require_strangers(marks)
            with self._live.lock.writing():
                self._tombstones.marks.update(marks)

    def _require_strangers(self, marks: Marks) -> None:
        found = self.recognised(marks)
        if found:
            raise RowIdError(
                f"{len(found)} of {len(self)} rows were forgotten before (same id, content or a "
                f"forgotten group): {listing(found)}. Forget them here too first."
            )

    # -- for the store ---------------------------------------------------------------------------

    @property
    def next_id(self) -> int:
        """Where the counter of generated ids stands."""
        return self._next_id

    def record(self, position: int) -> Record:
        """Return everything about the row at a position except its embedding."""
        return self._live.record(position)

    def restore(self, embeddings: Float32s, records: Sequence[Record], *, next_id: int = 0) -> None:
        """Put rows back as they were saved, into an empty memory, without asking the tombstones."""
        if len(self):
            raise StateError("Expected an empty memory to restore into, but it has rows.")
        rows = incoming_again(embeddings, records)
        self._store(rows, serials=[record.serial for record in records])
        self._next_id = max(self._next_id, next_id)

    # -- inside ----------------------------------------------------------------------------------

    def _store(
        self, rows: Incoming, *, reinstate: bool = False, serials: list[int] | None = None
    ) -> list[RowId]:
        ids = self._new_ids(len(rows)) if rows.ids is None else rows.ids
        if serials is None:
            serials = list(range(self._next_serial, self._next_serial + len(rows)))
        records = list(map(Record, ids, rows.labels, rows.groups, rows.contents, serials))
        self._next_serial = max(self._next_serial, max(serials, default=-1) + 1)
        self._live.append(
            rows.embeddings,
            records,
            settle=lambda infos: self._settle(rows, infos, reinstate=reinstate),
            unsettle=self._unsettle(reinstate=reinstate),
        )
        return ids

    def _unsettle(self, *, reinstate: bool) -> Callable[[], None]:
        """Return what puts digest and tombstones back as they are now."""
        digest, marks = self._hash.copy(), self._tombstones.marks
        former = marks.copy() if reinstate else marks

        def put_back() -> None:
            self._hash, self._tombstones.marks = digest, former

        return put_back

    def _settle(self, rows: Incoming, infos: list[RowInfo], *, reinstate: bool) -> None:
        """Count new rows into the digest, and lift their tombstones if they are back."""
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            units = self._grid.units(rows.embeddings[part])
            for info, row in zip(infos[part], units, strict=True):
                self._hash.add(self._encode(info, row))
                if reinstate:
                    self._tombstones.lift(info.id, info.content, row)

    def _take_out(self, ids: list[RowId], tombstone: Tombstone) -> list[Label]:
        positions = self.table.positions(ids)
        infos = [self.table.infos[position] for position in positions]
        units = self._grid.units(self.table.embeddings[positions])
        # What takes time, and may be interrupted, comes before anything changes; a tombstone of a
        # row that is still there does no harm.
        lanes = [row_lanes(self._encode(info, row)) for info, row in zip(infos, units, strict=True)]
        for info, row in zip(infos, units, strict=True):
            self._tombstones.bury(info.id, info.content, row, tombstone)
        self._hash.subtract(lanes)
        return self._live.remove(infos, units)

    def _admitted(
        self, rows: Incoming, problems: Problems, *, reinstate: bool, skip_forgotten: bool
    ) -> list[int]:
        """Return the places of the rows to store, or raise if anything is wrong."""
        if problems:
            self._note_taken(rows, problems)
            problems.raise_if_any()
        forgotten = [] if reinstate else self._tombstones.find(rows)
        kept = list(range(len(rows)))
        if skip_forgotten and forgotten:
            kept = sorted(set(kept) - set(forgotten))
            forgotten = []
        self._note_taken(rows.keep(kept), problems)
        self._note_refused(rows, forgotten, problems)
        problems.raise_if_any()
        return kept

    def _note_taken(self, rows: Incoming, problems: Problems) -> None:
        taken = [row_id for row_id in rows.ids or [] if row_id in self]
        problems.note_items(taken, "Expected new ids, but these are in use", kind=RowIdError)

    def _note_refused(self, rows: Incoming, forgotten: list[int], problems: Problems) -> None:
        if forgotten:
            problems.note(
                f"{len(forgotten)} of {len(rows)} rows were forgotten before (same id, content "
                "or a forgotten group). Leave them out, for which add and remember have "
                "skip_forgotten=True, or store them again with reinstate=True.",
                kind=RowIdError,
            )
        if len(self) + len(rows) > MAX_ROWS:
            problems.note(f"Expected at most {MAX_ROWS} rows, but got {len(self) + len(rows)}.")

    def _new_ids(self, count: int) -> list[RowId]:
        ids: list[RowId] = []
        while len(ids) < count:
            candidate = self._next_id
            self._next_id += 1
            is_free = candidate not in self
            if is_free and not self._tombstones.has_id(candidate):
                ids.append(candidate)
        return ids

    def _encode(self, info: RowInfo, units: Units) -> bytes:
        label = self.sums.label_at(info.slot)
        return encode_row(info.id, label, info.groups, bits=self._grid.bits, units=units.tobytes())

    def _row(self, position: int) -> Row:
        record = self.record(position)
        embedding = self.table.embeddings[position].copy()
        return Row(record.id, record.label, record.groups, embedding)

    def _place(self, row_id: Any) -> int | None:
        """Return where the row of exactly this id lies, else one of this name in another form."""
        name = as_id(row_id)
        exact = self.table.position(plain(row_id))
        named = self.table.ids_named(name)
        return exact if exact is not None or not named else self.table.position(named[0])

    def _canonical_positions(self) -> list[int]:
        infos = self.table.infos
        return sorted(range(len(infos)), key=lambda position: encode_key(infos[position].id))
