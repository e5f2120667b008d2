"""``erasable predict``."""

from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._common import AsJson, DataPath, ModelPath, emit


def predict(
    model: ModelPath,
    data: DataPath,
    out: Annotated[
        Path | None, typer.Option(help="Write labels, probabilities and classes to an .npz file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict a label for each input of DATA; with labels in DATA, also print the accuracy.

    \b
    Examples:
      erasable predict model queries.npz
      erasable predict model queries.npz --out predictions.npz --json
    """
    import numpy as np

    from erasable.data import read_arrays
    from erasable.models import load

    arrays = read_arrays(data)
    classifier = load(model)
    probabilities = classifier.predict_proba(arrays.X)
    labels = classifier.classes_[probabilities.argmax(axis=1)]
    best = probabilities.max(axis=1)
    accuracy = None if arrays.y is None else float(np.mean(labels == arrays.y))
    if out is not None:
        names = labels.astype(str) if labels.dtype == object else labels
        classes = classifier.classes_
        classes = classes.astype(str) if classes.dtype == object else classes
        np.savez(out, labels=names, probabilities=probabilities, classes=classes)
    lines = (
        []
        if out
        else [
            f"{i}\t{label}\t{p:.4f}" for i, (label, p) in enumerate(zip(labels, best, strict=True))
        ]
    )
    if accuracy is not None:
        lines.append(f"accuracy {accuracy:.2%} of {len(arrays)}")
    emit(
        {"labels": labels.tolist(), "probabilities": best.tolist(), "accuracy": accuracy},
        as_json=as_json,
        lines=lines,
    )
