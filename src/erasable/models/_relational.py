"""Rows as a set encoder turns them out, following a memory.

A set encoder mixes rows on purpose, so the trial that other encoders must pass does not apply to
it, and neither does it make a row exact or not. The memory keeps rows as the encoder of single
inputs turned them out. What is kept here is computed from them, and forgetting a row encodes its
neighbours again without it: the result is that of a memory which never had the row. So the level is
that of the weights, the set encoder's own among them, like any other weights in the record.
"""

import copy
from collections.abc import Sequence
from typing import final

import numpy as np
import torch

from erasable.encoders import GraphAttention, SetEncoder
from erasable.errors import StateError
from erasable.memory import ClassGraph, Follower, LiveRows, Memory, RowInfo
from erasable.typing import Float32s, RowId

_CHUNK = 1024


def relational_rows(memory: Memory, set_encoder: SetEncoder) -> LiveRows:
    """Return the rows of a memory as a set encoder turns them out, kept up to date."""
    if not isinstance(set_encoder, GraphAttention):
        raise StateError(f"Expected a graph encoder, but got {type(set_encoder).__name__}.")
    return memory.live.follower(
        "graph",
        lambda live: GraphRows(live, set_encoder),
        is_current=lambda rows: rows.fits(set_encoder),
    ).rows


@final
class GraphRows(Follower):
    """Every row of a memory after attending to its neighbours.

    A change of the memory encodes anew exactly the rows that are new or whose neighbours changed.
    The encoder runs in float64, so the order and size of these batches do not show on the grid.

    Args:
        live: The memory's rows.
        encoder: The graph encoder; copied.

    Attributes:
        rows: The encoded rows.
        encoded: Ids of the rows that the last change encoded.
    """

    def __init__(self, live: LiveRows, encoder: GraphAttention) -> None:
        self._live = live
        self._encoder = copy.deepcopy(encoder).cpu().double().eval()
        self._graph = ClassGraph(live, encoder.neighbours)
        self.rows = LiveRows(live.dim, live.grid)
        self.encoded: tuple[RowId, ...] = ()
        self._encode([info.id for info in live.table.infos])

    def fits(self, encoder: GraphAttention) -> bool:
        """Tell whether the rows were encoded with these very weights."""
        pairs = zip(self._encoder.parameters(), encoder.parameters(), strict=True)
        return all(torch.equal(mine, theirs.detach().cpu().double()) for mine, theirs in pairs)

    def add(self, infos: Sequence[RowInfo], embeddings: Float32s) -> None:
        """Encode new rows, and those that now have one as a neighbour."""
        self._encode(self._graph.added(infos))

    def remove(self, infos: Sequence[RowInfo], embeddings: Float32s) -> None:
        """Drop rows, and encode those that had one as a neighbour without it."""
        affected = self._graph.removed(infos)
        self._drop([info.id for info in infos])
        self._encode(affected)

    def _drop(self, ids: list[RowId]) -> None:
        table = self.rows.table
        places = table.positions(ids)
        infos = [table.infos[place] for place in places]
        self.rows.remove(infos, self.rows.grid.units(table.embeddings[places]))

    def _encode(self, ids: list[RowId]) -> None:
        self.encoded = tuple(ids)
        for start in range(0, len(ids), _CHUNK):
            part = ids[start : start + _CHUNK]
            embeddings = self._heard(part)
            self._drop([row_id for row_id in part if self.rows.table.position(row_id) is not None])
            places = self._live.table.positions(part)
            self.rows.append(embeddings, [self._live.record(place) for place in places])

    def _heard(self, ids: list[RowId]) -> Float32s:
        table = self._live.table
        graph = np.full((len(ids), self._encoder.neighbours), -1)
        for place, row_id in enumerate(ids):
            mine = table.positions(self._graph.neighbours(row_id))
            graph[place, : len(mine)] = mine
        rows = torch.from_numpy(table.embeddings[table.positions(ids)]).double()
        around = torch.from_numpy(table.embeddings[graph.clip(min=0)]).double()
        with torch.no_grad():
            heard = self._encoder.attend(rows, around, torch.from_numpy(graph >= 0))
        rounded, not_finite, too_large = self._live.grid.round(heard.numpy())
        if not_finite or too_large:
            raise StateError(
                f"Expected encoded rows within ±{self._live.grid.bound}, but "
                f"{len(not_finite) + len(too_large)} are not. Use fewer grid_bits."
            )
        return rounded
