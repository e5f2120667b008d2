"""What is kept of rows besides their sums, compared with the same built anew."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.memory._difference import Difference, canonical_order, first_unequal
from erasable.memory._gaussian import SecondMoments
from erasable.memory._live import LiveRows
from erasable.memory._quantized import CodeIndex, ProductCodes
from erasable.typing import Ints, RowId


def compare_moments(mine: SecondMoments, anew: LiveRows) -> Difference | None:
    """Compare second moments with those of the rows built anew."""
    theirs = anew.follower("second moments", SecondMoments).total
    place = first_unequal(mine.total, theirs)
    if place is None:
        return None
    where = f"dimensions {place[0]} and {place[1]}"
    return Difference("second moments", where, str(mine.total[place]), str(theirs[place]))


def compare_codes(mine: ProductCodes, anew: LiveRows) -> Difference | None:
    """Compare an index of codes with the one that the rows built anew give.

    Codebooks are learned from a sample of the rows. That they are, to the bit, those that the
    remaining rows give shows that no forgotten row has a share in them.
    """
    if mine._index is None:  # dropped by a change, and learned anew by the next search
        return None
    ours = mine._index
    theirs = anew.follower("codes", ProductCodes).index
    return _compare_codebooks(ours, theirs) or _compare_entries(
        _entries(ours, mine._live), _entries(theirs, anew)
    )


def _compare_codebooks(ours: CodeIndex, theirs: CodeIndex) -> Difference | None:
    left, right = ((i.sample.lists, i.sample.threshold) for i in (ours, theirs))
    if left != right:
        return Difference("codes", "lists and sample", str(left), str(right))
    for name, books in (("centroids", _centroids), ("codebooks", _codebooks)):
        place = first_unequal(books(ours), books(theirs))
        if place is not None:
            found = str(books(ours)[place]), str(books(theirs)[place])
            return Difference("codes", f"{name} at {list(place)}", *found)
    return None


def _centroids(index: CodeIndex) -> npt.NDArray[Any]:
    return index._centroids.values


def _codebooks(index: CodeIndex) -> npt.NDArray[Any]:
    import faiss

    values: npt.NDArray[Any] = faiss.vector_to_array(index.codes.pq.centroids)
    return values


@dataclass(frozen=True)
class _Entries:
    """What an index holds of rows in canonical order.

    Attributes:
        ids: The rows' ids.
        places: Each row's list, or −1 if the index does not have it, followed by the bytes of its
            code, (rows, 1 + bytes).
        strangers: Number of codes that belong to no row.
        misplaced: Ids of rows that the index takes to lie elsewhere.
    """

    ids: list[RowId]
    places: Ints
    strangers: int
    misplaced: list[RowId]


def _entries(index: CodeIndex, live: LiveRows) -> _Entries:
    import faiss

    order = canonical_order(live)
    keys = {index.key(live.table.infos[place].serial): row for row, place in enumerate(order)}
    found = np.full((len(order), 1 + index.codes.code_size), -1, np.int64)
    strangers = 0
    lists = index.codes.invlists
    for number in range(index.codes.nlist):
        size = lists.list_size(number)
        if not size:
            continue
        names = faiss.rev_swig_ptr(lists.get_ids(number), size).tolist()
        data = faiss.rev_swig_ptr(lists.get_codes(number), size * index.codes.code_size)
        rows = np.array([keys.get(name, -1) for name in names])
        strangers += int((rows < 0).sum())
        found[rows[rows >= 0], 0] = number
        found[rows[rows >= 0], 1:] = data.reshape(size, -1)[rows >= 0]
    ids = [live.table.infos[place].id for place in order]
    misplaced = [ids[row] for key, row in keys.items() if index._places[key] != order[row]]
    return _Entries(ids, found, strangers, misplaced)


def _compare_entries(ours: _Entries, theirs: _Entries) -> Difference | None:
    if ours.strangers:
        return Difference("codes", "", f"{ours.strangers} codes of no row", "none")
    if ours.misplaced:
        return Difference("codes", f"row {ours.misplaced[0]!r}", "sought elsewhere", "where it is")
    place = first_unequal(ours.places, theirs.places)
    if place is None:
        return None
    where = f"row {ours.ids[place[0]]!r}, " + ("list" if not place[1] else "code")
    return Difference("codes", where, str(ours.places[place]), str(theirs.places[place]))
