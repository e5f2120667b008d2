"""Receipts, the saved form of a model, and embeddings kept on disk."""

from erasable.store._copies import COPY_KINDS, Copy, CopyKind
from erasable.store._directory import ModelDirectory
from erasable.store._embeddings import EmbeddingCache
from erasable.store._key_archive import Exported, Imported, export_keys, import_keys
from erasable.store._receipt import FORMAT, Basis, Level, Outcome, Receipt
from erasable.store._rows_file import RowsFile, Saved, SavedSource
from erasable.store._stored_rows import StoredRows, read_stored_rows

__all__ = [
    "COPY_KINDS",
    "FORMAT",
    "Basis",
    "Copy",
    "CopyKind",
    "EmbeddingCache",
    "Exported",
    "Imported",
    "Level",
    "ModelDirectory",
    "Outcome",
    "Receipt",
    "RowsFile",
    "Saved",
    "SavedSource",
    "StoredRows",
    "export_keys",
    "import_keys",
    "read_stored_rows",
]
