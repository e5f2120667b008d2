"""Rows that a model reads at prediction time, and that can be taken out again."""

from erasable.memory._class_graph import ClassGraph
from erasable.memory._contents import DIGEST_SIZE, content_parts, contents_of, has_forms
from erasable.memory._difference import (
    Difference,
    canonical_order,
    check_grid,
    check_rows,
    compare_memories,
    compare_rows,
    first_unequal,
)
from erasable.memory._digest import encode_row, row_lanes
from erasable.memory._find import Match, NearCopy, find_copies
from erasable.memory._gaussian import SHRINKAGE, GaussianFit, GaussianView, SecondMoments
from erasable.memory._grid import Grid
from erasable.memory._kept import compare_codes, compare_moments
from erasable.memory._keyring import (
    KeyFile,
    fits,
    is_key_id,
    is_open,
    key_path,
    keyring,
    keys_folder,
    read_key,
)
from erasable.memory._keys import (
    as_group,
    as_id,
    as_label,
    decode_key,
    encode_key,
    forms_of,
    plain,
    sort_labels,
)
from erasable.memory._live import Follower, LiveRows, Record
from erasable.memory._marks import CLASS, CONTENT, GROUP, ID, Marks, Tombstone
from erasable.memory._memory import Memory
from erasable.memory._neighbours import ExactSearch, Neighbours, Search
from erasable.memory._quantized import ProductCodes, QuantizedSearch
from erasable.memory._results import Forgotten, Row, utc_now
from erasable.memory._select import Selection, when
from erasable.memory._table import RowInfo
from erasable.memory._tombstones import Tombstones
from erasable.memory._twin import copy_with_kept, kept
from erasable.memory._views import PrototypesView, Readable, RowsView

__all__ = [
    "CLASS",
    "CONTENT",
    "DIGEST_SIZE",
    "GROUP",
    "ID",
    "SHRINKAGE",
    "ClassGraph",
    "Difference",
    "ExactSearch",
    "Follower",
    "Forgotten",
    "GaussianFit",
    "GaussianView",
    "Grid",
    "KeyFile",
    "LiveRows",
    "Marks",
    "Match",
    "Memory",
    "NearCopy",
    "Neighbours",
    "ProductCodes",
    "PrototypesView",
    "QuantizedSearch",
    "Readable",
    "Record",
    "Row",
    "RowInfo",
    "RowsView",
    "Search",
    "SecondMoments",
    "Selection",
    "Tombstone",
    "Tombstones",
    "as_group",
    "as_id",
    "as_label",
    "canonical_order",
    "check_grid",
    "check_rows",
    "compare_codes",
    "compare_memories",
    "compare_moments",
    "compare_rows",
    "content_parts",
    "contents_of",
    "copy_with_kept",
    "decode_key",
    "encode_key",
    "encode_row",
    "find_copies",
    "first_unequal",
    "fits",
    "forms_of",
    "has_forms",
    "is_key_id",
    "is_open",
    "kept",
    "key_path",
    "keyring",
    "keys_folder",
    "plain",
    "read_key",
    "row_lanes",
    "sort_labels",
    "utc_now",
    "when",
]
