"""Neural networks that forget on request.

A model reads its training rows from a memory at prediction time, so forgetting a row is an edit of
the memory: no weight changes. Importing the package imports nothing heavy; names are loaded when
touched.
"""

import importlib
from typing import TYPE_CHECKING, Any

from erasable._version import __version__

if TYPE_CHECKING:
    from erasable.memory import Memory
    from erasable.models import (
        KNNClassifier,
        ParametricClassifier,
        SPMClassifier,
        SPMGenerator,
        audit,
        convert,
        copy_model,
        declare,
        load,
    )
    from erasable.store import Receipt
    from erasable.training import Training

__all__ = [
    "KNNClassifier",
    "Memory",
    "ParametricClassifier",
    "Receipt",
    "SPMClassifier",
    "SPMGenerator",
    "Training",
    "__version__",
    "audit",
    "convert",
    "copy_model",
    "declare",
    "load",
]

_HOME = {
    "KNNClassifier": "erasable.models",
    "Memory": "erasable.memory",
    "ParametricClassifier": "erasable.models",
    "Receipt": "erasable.store",
    "SPMClassifier": "erasable.models",
    "SPMGenerator": "erasable.models",
    "Training": "erasable.training",
    "audit": "erasable.models",
    "convert": "erasable.models",
    "copy_model": "erasable.models",
    "declare": "erasable.models",
    "load": "erasable.models",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'erasable' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
