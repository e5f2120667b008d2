"""``erasable train``."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._common import AsJson, DataPath, ModelPath, emit, say


def train(
    model: ModelPath,
    data: DataPath,
    test: Annotated[Path | None, typer.Option(help="An .npz file to measure accuracy on.")] = None,
    encoder: Annotated[
        str, typer.Option(help="auto, identity, random_features, mlp or small_cnn.")
    ] = "auto",
    reduction: Annotated[str, typer.Option(help="prototypes or rows.")] = "prototypes",
    epochs: Annotated[int, typer.Option(help="Passes over the rows; 0 trains nothing.")] = 30,
    batch_size: Annotated[int, typer.Option(help="Rows per step.")] = 128,
    learning_rate: Annotated[float, typer.Option(help="Largest learning rate.")] = 0.1,
    label_smoothing: Annotated[float, typer.Option(help="Share of the target spread out.")] = 0.0,
    augmentation: Annotated[str, typer.Option(help="none, crop or crop_flip.")] = "none",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    overwrite: Annotated[bool, typer.Option(help="Replace a model that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on the rows of DATA and store them in its memory.

    Interrupted with Ctrl-C, or killed, the same command goes on after the last finished epoch; the
    state is kept in MODEL.partial until then.

    \b
    Examples:
      erasable train model rows.npz --test test.npz
      erasable train model rows.npz --encoder small_cnn --epochs 20 --augmentation crop
    """
    from erasable.data import read_arrays
    from erasable.errors import StoreError
    from erasable.models import SPMClassifier, load
    from erasable.store import ModelDirectory

    is_there = ModelDirectory(model).exists
    if is_there and not overwrite:
        raise StoreError(f"Expected a new directory, but {model} holds a model. Use --overwrite.")
    rows = read_arrays(data, needs_labels=True)
    held_out = read_arrays(test, needs_labels=True) if test else None
    whole = model.resolve()
    partial = whole.with_name(whole.name + ".partial")
    # Fitting the model that is there, not a new one, keeps its tombstones: rows that were forgotten
    # from it are refused before training begins.
    classifier = (load(model) if is_there else SPMClassifier()).set_params(
        encoder=encoder,
        encoder_options=None,
        reduction=reduction,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        label_smoothing=label_smoothing,
        augmentation=augmentation,
        random_state=seed,
        checkpoint=partial,
        verbose=not as_json,
    )
    if partial.exists():
        say(f"Going on with the training in {partial}.")
    try:
        classifier.fit(rows.X, rows.y, ids=rows.ids, groups=rows.groups)
    except KeyboardInterrupt:
        say(f"Stopped. Run the same command again to go on; the state is in {partial}.")
        raise typer.Exit(130) from None
    classifier.save(model, overwrite=overwrite)
    shutil.rmtree(partial, ignore_errors=True)
    accuracy = None if held_out is None else classifier.score(held_out.X, held_out.y)
    emit(
        {
            "model": str(model),
            "rows": len(classifier.memory),
            "classes": classifier.memory.classes,
            "digest": classifier.memory.digest,
            "weights_digest": classifier.weights_digest,
            "test_accuracy": accuracy,
        },
        as_json=as_json,
        lines=[
            f"{model}: {len(classifier.memory)} rows, {len(classifier.memory.classes)} classes",
            *([] if accuracy is None else [f"test accuracy {accuracy:.2%}"]),
        ],
    )
