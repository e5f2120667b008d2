"""Data sets with stable row ids."""

from erasable.data._arrays import Arrays, read_arrays
from erasable.data._cache import data_folder
from erasable.data._describe import describe_dataset, known_datasets
from erasable.data._digits import load_digits
from erasable.data._get import get_dataset
from erasable.data._lazy import LazyImages
from erasable.data._load import load_dataset
from erasable.data._named import NamedFeatures
from erasable.data._shrink import in_bytes, shrunk
from erasable.data._specs import KNOWN_NAMES
from erasable.data._split import Dataset, Split
from erasable.data._table import Columns

__all__ = [
    "KNOWN_NAMES",
    "Arrays",
    "Columns",
    "Dataset",
    "LazyImages",
    "NamedFeatures",
    "Split",
    "data_folder",
    "describe_dataset",
    "get_dataset",
    "in_bytes",
    "known_datasets",
    "load_dataset",
    "load_digits",
    "read_arrays",
    "shrunk",
]
