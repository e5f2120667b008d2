"""Receipts, the saved form of a model, and embeddings kept on disk."""

from erasable.store._change import Change, changing, settle
from erasable.store._copies import COPY_KINDS, Copy, CopyKind
from erasable.store._directory import ModelDirectory
from erasable.store._embeddings import EmbeddingCache
from erasable.store._key_archive import Exported, Imported, export_keys, import_keys
from erasable.store._ledger import Ledger, Remembered, without
from erasable.store._receipt import FORMAT, Basis, Level, Outcome, Receipt
from erasable.store._rows_file import RowsFile
from erasable.store._saved import ModelChangedError, Saved, SavedSource, State, changed
from erasable.store._sqlite import StoreBusyError
from erasable.store._stored_rows import StoredRows, read_stored_rows

__all__ = [
    "COPY_KINDS",
    "FORMAT",
    "Basis",
    "Change",
    "Copy",
    "CopyKind",
    "EmbeddingCache",
    "Exported",
    "Imported",
    "Ledger",
    "Level",
    "ModelChangedError",
    "ModelDirectory",
    "Outcome",
    "Receipt",
    "Remembered",
    "RowsFile",
    "Saved",
    "SavedSource",
    "State",
    "StoreBusyError",
    "StoredRows",
    "changed",
    "changing",
    "export_keys",
    "import_keys",
    "read_stored_rows",
    "settle",
    "without",
]
