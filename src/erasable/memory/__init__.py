"""Rows that a model reads at prediction time, and that can be taken out again."""

from erasable.memory._class_graph import ClassGraph
from erasable.memory._find import Match
from erasable.memory._gaussian import GaussianView
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
from erasable.memory._live import Follower, LiveRows, Record
from erasable.memory._marks import CONTENT, ID, Marks
from erasable.memory._memory import Forgotten, Memory, Row
from erasable.memory._neighbours import ExactSearch, Neighbours, Search
from erasable.memory._quantized import QuantizedSearch
from erasable.memory._select import Selection
from erasable.memory._table import RowInfo
from erasable.memory._views import PrototypesView, Readable, RowsView

__all__ = [
    "CONTENT",
    "ID",
    "ClassGraph",
    "ExactSearch",
    "Follower",
    "Forgotten",
    "GaussianView",
    "Grid",
    "LiveRows",
    "Marks",
    "Match",
    "Memory",
    "Neighbours",
    "PrototypesView",
    "QuantizedSearch",
    "Readable",
    "Record",
    "Row",
    "RowInfo",
    "RowsView",
    "Search",
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
