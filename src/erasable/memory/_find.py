"""Rows whose embedding nearly equals a query's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.memory._keys import encode_key
from erasable.memory._table import RowTable
from erasable.typing import RowId

_CHUNK = 4096


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
