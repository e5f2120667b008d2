"""Rows that a model reads at prediction time, and that can be taken out again."""

from erasable.memory._find import Match
from erasable.memory._grid import Grid
from erasable.memory._keyring import keyring, keys_folder
from erasable.memory._keys import (
    as_group,
    as_id,
    as_label,
    decode_key,
    encode_key,
    plain,
    sort_labels,
)
from erasable.memory._marks import CONTENT, ID, Marks
from erasable.memory._memory import Forgotten, Memory, Record, Row
from erasable.memory._select import Selection
from erasable.memory._views import PrototypesView, RowsView

__all__ = [
    "CONTENT",
    "ID",
    "Forgotten",
    "Grid",
    "Marks",
    "Match",
    "Memory",
    "PrototypesView",
    "Record",
    "Row",
    "RowsView",
    "Selection",
    "as_group",
    "as_id",
    "as_label",
    "decode_key",
    "encode_key",
    "keyring",
    "keys_folder",
    "plain",
    "sort_labels",
]
