"""``erasable predict``."""

import io
from pathlib import Path
from typing import Annotated, Any

import typer

from erasable.cli._common import (
    AsJson,
    DataPath,
    ModelPath,
    ReadAttention,
    ReadK,
    ReadReduction,
    ReadSearch,
    ReadTemperature,
    ReadViews,
    chosen,
    emit,
    load_classifier,
    read_rows,
    require_file,
    say,
)
from erasable.terminal import printable


def predict(
    model: ModelPath,
    data: DataPath,
    out: Annotated[
        Path | None, typer.Option(help="Write labels, probabilities and classes to an .npz file.")
    ] = None,
    reduction: ReadReduction = None,
    k: ReadK = None,
    search: ReadSearch = None,
    attention: ReadAttention = None,
    temperature: ReadTemperature = None,
    views: ReadViews = None,
    as_json: AsJson = False,
) -> None:
    """Predict a label for each input of DATA; with labels in DATA, also print the accuracy.

    The memory can be read in another way than after training; the model on disk stays as it is.

    \b
    Examples:
      erasable predict model queries.npz
      erasable predict model queries.npz --out predictions.npz --json
      erasable predict model queries.npz --reduction gaussian
      erasable predict model cifar10
    """
    import numpy as np

    from erasable.files import write_atomically

    require_file(out)
    arrays = read_rows(data, "test")
    classifier = load_classifier(model)
    classifier.set_params(
        **chosen(
            classifier,
            reduction=reduction,
            k=k,
            search=search,
            attention=attention,
            temperature=temperature,
            views=views,
        )
    )
    own = sum(row_id in classifier.memory for row_id in arrays.ids or [])
    probabilities = classifier.predict_proba(arrays.X)
    labels = classifier.classes_[probabilities.argmax(axis=1)]
    if own:
        say(f"Note: {own} of the {len(arrays)} inputs are rows of this memory and vote themselves.")
    best = probabilities.max(axis=1)
    accuracy = None if arrays.y is None else float(np.mean(labels == arrays.y))
    if out is not None:
        file = io.BytesIO()
        names, classes = _plain(labels), _plain(classifier.classes_)
        np.savez(file, labels=names, probabilities=probabilities, classes=classes)
        write_atomically(out, file.getvalue())
    lines = (
        []
        if out
        else [
            f"{i}\t{printable(str(label))}\t{p:.4f}"
            for i, (label, p) in enumerate(zip(labels, best, strict=True))
        ]
    )
    if accuracy is not None:
        lines.append(f"accuracy {accuracy:.2%} of {len(arrays)}")
    emit(
        {
            "labels": labels.tolist(),
            "probabilities": best.tolist(),
            "accuracy": accuracy,
            "in_memory": own,
        },
        as_json=as_json,
        lines=lines,
    )


def _plain(labels: Any) -> Any:
    """Return labels as an array that needs no pickle: of mixed types, as text."""
    return labels.astype(str) if labels.dtype == object else labels
