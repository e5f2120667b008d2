"""What a model says of every row, once; all metrics are computed from it."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.data import Split
from erasable.errors import StoreError
from erasable.files import write_atomically
from erasable.models import read_embedded
from erasable.npz import UNREADABLE, read_npz

Float32s = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Natural logs of class probabilities; one column per class of the original.

    Attributes:
        train: Of every training row, forgotten ones included, (rows, classes).
        test: Of every test row, (rows, classes).
        left_out: Of every training row when it may not read itself, (rows, classes); None for
            models without a memory, where there is no such thing, and for those that encode rows
            among their neighbours, where a row also speaks through others.
        has_votes: Whether they are votes of rows, which can be zero.
    """

    train: Float32s
    test: Float32s
    left_out: Float32s | None = None
    has_votes: bool = False

    def save(self, path: Path) -> None:
        """Write them to a file, completely or not at all."""
        arrays = {name: value for name, value in vars(self).items() if value is not None}
        stream = io.BytesIO()
        np.savez(stream, **arrays)
        write_atomically(path, stream.getvalue())


def load_predictions(path: Path) -> Predictions:
    """Read predictions from a file.

    Raises:
        StoreError: If the file is damaged.
    """
    try:
        arrays, _ = read_npz(path)
        found: dict[str, Any] = {**arrays, "has_votes": bool(arrays["has_votes"])}
        return Predictions(**found)
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        raise StoreError(f"Expected predictions in {path}, but: {error}. Delete it.") from error


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embeddings of every row by one encoder, to be read by any memory over it.

    Attributes:
        train: Of the training rows, (rows, dim).
        test: Of the test rows, (rows, dim).
    """

    train: npt.NDArray[Any]
    test: npt.NDArray[Any]


def predict_all(
    model: Any,
    train: Split,
    test: Split,
    classes: Sequence[Any],
    *,
    embedded: Embedded | None = None,
) -> Predictions:
    """Ask a model for everything; each row is encoded once.

    Args:
        model: A classifier of this library, or anything with ``predict_log_proba`` and
            ``classes_``.
        train: Training rows, forgotten ones included.
        test: Test rows.
        classes: Columns of the answers.
        embedded: Embeddings of the rows by the model's own encoder, if they are known.
    """
    if not hasattr(model, "memory"):
        logs = [_aligned(model, split.X, classes) for split in (train, test)]
        return Predictions(logs[0].astype(np.float32), logs[1].astype(np.float32))
    if embedded is None:
        embedded = Embedded(model.embed(train.X), model.embed(test.X))
    own = _own_ids(model, train)
    included, fresh = (
        read_embedded(model, part, classes=classes) for part in (embedded.train, embedded.test)
    )
    alone: Float32s | None = None
    if model.network_.set_encoder is None:
        others = read_embedded(model, embedded.train, classes=classes, exclude_ids=own)
        alone = others.astype(np.float32)
    answers = Predictions(included.astype(np.float32), fresh.astype(np.float32), alone)
    return replace(answers, has_votes=True)


def _own_ids(model: Any, train: Split) -> list[Any]:
    """Return each row's id if the memory holds it, else None."""
    held = {record.id for record in map(model.memory.record, range(len(model.memory)))}
    return [row_id if row_id in held else None for row_id in train.ids]


def _aligned(model: Any, X: Any, classes: Sequence[Any]) -> npt.NDArray[Any]:
    logs = model.predict_log_proba(X)
    own = model.classes_.tolist()
    if own == list(classes):
        return np.asarray(logs)
    found = np.full((len(logs), len(classes)), -np.inf)
    for column, label in enumerate(classes):
        if label in own:
            found[:, column] = logs[:, own.index(label)]
    return found
