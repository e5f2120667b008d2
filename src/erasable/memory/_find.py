"""Rows whose embedding nearly equals a query's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.memory._keys import encode_key
from erasable.memory._table import RowTable
from erasable.typing import Ints, RowId

_CHUNK = 4096
_QUERIES = 256


@dataclass(frozen=True)
class Match:
    """A row near a query.

    Attributes:
        id: Id of the row.
        distance: Euclidean distance between the two embeddings.
        relative: The same as a share of the length of the query's embedding; None if that is 0.
    """

    id: RowId
    distance: float
    relative: float | None


@dataclass(frozen=True)
class NearCopy:
    """A row that a request does not name, near to one that it does.

    Attributes:
        id: Id of the row.
        of: Id of the nearest row of the request.
        distance: Euclidean distance between the two embeddings.
        relative: The same as a share of the length of the embedding of ``of``; None if that is 0.
    """

    id: RowId
    of: RowId
    distance: float
    relative: float | None


def find_copies(
    table: RowTable, positions: Ints, *, tolerance: float, step: float
) -> tuple[NearCopy, ...]:
    """Return the other rows within ``tolerance`` of the length of some rows, nearest first.

    Args:
        table: The rows.
        positions: Where the rows lie whose copies are sought.
        tolerance: As for `find_near`.
        step: The step of the grid.
    """
    named = [table.infos[position].id for position in positions.tolist()]
    is_named = set(named)
    nearest: dict[RowId, NearCopy] = {}
    for start in range(0, len(named), _QUERIES):
        queries = table.embeddings[positions[start : start + _QUERIES]]
        matches = find_near(table, queries, tolerance=tolerance, step=step)
        for of, found in zip(named[start:], matches, strict=False):
            for match in found:
                known = nearest.get(match.id)
                is_nearer = known is None or match.distance < known.distance
                if match.id not in is_named and is_nearer:
                    nearest[match.id] = NearCopy(match.id, of, match.distance, match.relative)
    ordered = sorted(nearest.values(), key=lambda copy: (copy.distance, encode_key(copy.id)))
    return tuple(ordered)


def find_near(
    table: RowTable, queries: npt.NDArray[Any], *, tolerance: float, step: float
) -> list[list[Match]]:
    """Return, per query (queries, dim), the rows within ``tolerance`` of its length, nearest first.

    Half a grid step per coordinate is always allowed: stored rows were rounded by up to that much.
    """
    wanted = queries.astype(np.float64)
    lengths = np.linalg.norm(wanted, axis=1)
    reach = tolerance * lengths + step / 2 * np.sqrt(wanted.shape[1])
    matches: list[list[Match]] = [[] for _ in wanted]
    for start in range(0, len(table), _CHUNK):
        rows = table.embeddings[start : start + _CHUNK].astype(np.float64)
        # A cheap screen by expanded squares; its cancellation error is far below the slack.
        squares = (wanted**2).sum(1)[:, None] - 2 * wanted @ rows.T + (rows**2).sum(1)[None, :]
        slack = 1e-9 * (1 + (wanted**2).sum(1)[:, None] + (rows**2).sum(1)[None, :])
        for query, row in zip(*np.nonzero(squares <= reach[:, None] ** 2 + slack), strict=True):
            distance = float(np.linalg.norm(wanted[query] - rows[row]))
            if distance <= reach[query]:
                relative = distance / float(lengths[query]) if lengths[query] else None
                matches[query].append(Match(table.infos[start + row].id, distance, relative))
    for found in matches:
        found.sort(key=lambda match: (match.distance, encode_key(match.id)))
    return matches
