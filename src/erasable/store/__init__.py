"""Receipts and the saved form of a model."""

from erasable.store._directory import ModelDirectory
from erasable.store._receipt import FORMAT, Basis, Level, Receipt
from erasable.store._rows_file import RowsFile, Saved, SavedSource

__all__ = [
    "FORMAT",
    "Basis",
    "Level",
    "ModelDirectory",
    "Receipt",
    "RowsFile",
    "Saved",
    "SavedSource",
]
