"""``erasable train``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._common import (
    AsJson,
    EncoderOption,
    chosen,
    emit,
    in_place_of,
    is_arrays,
    named_options,
    read_rows,
    say,
)
from erasable.cli._terminal import Status
from erasable.cli._train_generator import train_generator
from erasable.errors import ArgumentError

if TYPE_CHECKING:
    from erasable.data import Arrays
    from erasable.models._memory_classifier import MemoryClassifier


def train(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Directory of the model; default: model.")
    ] = Path("model"),
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="What to train on; or give it with --data."),
    ] = None,
    data_option: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="An .npz file, a data set's name, or the path of a folder of images or a table.",
        ),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(help="Data to measure accuracy on; default: the data set's own."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="tiny, laptop, fast, accurate, paper or exact (generator: tiny, demo, laptop, "
            "paper or trial): settings for what you did not set."
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="spm: rows vote as trained; knn: nearest rows vote equally; generator: images are "
            "drawn from rows."
        ),
    ] = "spm",
    steps: Annotated[
        int | None, typer.Option(help="generator: training steps; default: the preset's.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="float32, or bfloat16: compute in half precision while training; default: the "
            "preset's."
        ),
    ] = None,
    network_option: Annotated[
        list[str] | None,
        typer.Option(
            "--network-option",
            metavar="NAME=VALUE",
            help="generator: any other parameter, such as branch=follow, labels=permuted, "
            "support_gradient=false, rows_per_class=50 or channels=[16,32]; can be repeated.",
        ),
    ] = None,
    judge: Annotated[
        Path | None,
        typer.Option(
            help="generator: a saved classifier of such images; it looks at samples meanwhile."
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="auto (default), identity, random_features, mlp, small_cnn, fast_cnn, resnet18; "
            "efficientnet_lite0, 1 or 2, which come pretrained."
        ),
    ] = None,
    encoder_option: EncoderOption = None,
    embedding_cache: Annotated[
        Path | None,
        typer.Option(help="Folder to keep embeddings in, if nothing is trained (--epochs 0)."),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(help="Start from the encoder of a saved model or a .safetensors file."),
    ] = None,
    encoder_lr_factor: Annotated[
        float, typer.Option(help="Factor on the encoder's learning rate.")
    ] = 1.0,
    reduction: Annotated[
        str | None,
        typer.Option(help="spm: prototypes (default), rows, neighbours or gaussian."),
    ] = None,
    k: Annotated[
        int | None, typer.Option(help="Neighbours that vote; default: spm 256, knn 50.")
    ] = None,
    search: Annotated[
        str | None, typer.Option(help="How neighbours are found: exact (default) or pq.")
    ] = None,
    attention: Annotated[
        str | None, typer.Option(help="spm: scores learnt (default) or similarity.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="spm: what scores are divided by; default: 1.")
    ] = None,
    set_encoder: Annotated[
        str | None,
        typer.Option(help="spm: none (default), or graph, which needs --support-size."),
    ] = None,
    support_size: Annotated[
        int | None,
        typer.Option(
            help="spm, generator: rows drawn per batch to be its memory; default: the batch itself."
        ),
    ] = None,
    support_sampling: Annotated[
        str | None, typer.Option(help="spm: uniform (default) or balanced over classes.")
    ] = None,
    sampler: Annotated[
        str | None, typer.Option(help="Batches drawn auto (default), uniform or classes.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the rows; 0 trains nothing; default: 30.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows per step; default: 128.")] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Largest learning rate; default: 0.1, generator: the preset's."),
    ] = None,
    label_smoothing: Annotated[
        float | None, typer.Option(help="Share of the target spread out; default: 0.")
    ] = None,
    augmentation: Annotated[
        str | None,
        typer.Option(help="none (default), crop, flip, crop_flip or resized_crop_flip."),
    ] = None,
    views: Annotated[
        str | None, typer.Option(help="A prediction is a mean of: one (default), mirror or six.")
    ] = None,
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
      erasable train model rows.npz --reduction neighbours --k 50
      erasable train model rows.npz --kind knn --k 20
      erasable train model rows.npz --init pretrained-model --encoder-lr-factor 0.1
      erasable train --data cifar10 --preset laptop
      erasable train model cifar10 --preset exact --embedding-cache embeddings
      erasable train model digits --kind generator --preset demo
    """
    if kind == "generator":
        others = {
            "--test": test,
            "--encoder": encoder,
            "--encoder-option": encoder_option,
            "--embedding-cache": embedding_cache,
            "--init": init,
            "--reduction": reduction,
            "--k": k,
            "--search": search,
            "--attention": attention,
            "--temperature": temperature,
            "--set-encoder": set_encoder,
            "--support-sampling": support_sampling,
            "--sampler": sampler,
            "--views": views,
            "--epochs": epochs,
            "--label-smoothing": label_smoothing,
            "--encoder-lr-factor": None if encoder_lr_factor == 1.0 else encoder_lr_factor,
        }
        _refuse([name for name, value in others.items() if value is not None], "--kind generator")
        train_generator(
            model,
            _name(data, data_option),
            preset=preset or "laptop",
            given={
                "steps": steps,
                "batch_size": batch_size,
                "learning_rate": learning_rate,
                "support_size": support_size,
                "augmentation": augmentation,
                "precision": precision,
            },
            options=network_option,
            seed=seed,
            judge=judge,
            overwrite=overwrite,
            as_json=as_json,
        )
        return
    only: dict[str, Any] = {
        "--steps": steps,
        "--judge": judge,
        "--network-option": network_option,
    }
    if kind == "knn":
        only |= {
            "--reduction": reduction,
            "--attention": attention,
            "--temperature": temperature,
            "--set-encoder": set_encoder,
            "--support-size": support_size,
            "--support-sampling": support_sampling,
        }
    _refuse([name for name, value in only.items() if value is not None], f"--kind {kind}")
    from erasable.errors import StoreRefusedError
    from erasable.store import ModelDirectory
    from erasable.training import discard_checkpoint

    is_there = ModelDirectory(model).exists
    if is_there and not overwrite:
        raise StoreRefusedError(
            f"Expected a new directory, but {model} holds a model. Use --overwrite."
        )
    whole = model.resolve()
    partial = whole.with_name(whole.name + ".partial")
    rows, held_out, record = _rows(data, data_option, test)
    settings = {} if preset is None else _preset(preset, rows)
    given_options = named_options("--encoder-option", encoder_option)
    given: dict[str, Any] = {
        "encoder": encoder,
        "encoder_options": given_options,
        "reduction": reduction,
        "k": k,
        "search": search,
        "attention": attention,
        "temperature": temperature,
        "set_encoder": set_encoder,
        "support_size": support_size,
        "support_sampling": support_sampling,
        "sampler": sampler,
        "embedding_cache": embedding_cache,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "label_smoothing": label_smoothing,
        "augmentation": augmentation,
        "precision": precision,
        "random_state": seed,
        "checkpoint": partial,
        "verbose": not as_json,
        "views": views,
    }
    if encoder is not None:
        settings.pop("encoder_options", None)  # those of the preset's own encoder
    elif encoder_option and settings.get("encoder_options"):
        given["encoder_options"] = {**settings["encoder_options"], **(given_options or {})}
    wanted = _new(kind, {**settings, **{k: v for k, v in given.items() if v is not None}})
    classifier = in_place_of(model, wanted) if is_there else wanted
    if partial.exists():
        say(f"Going on with the training in {partial}.")
    try:
        classifier.fit(
            rows.X,
            rows.y,
            ids=rows.ids,
            groups=rows.groups,
            init=init,
            encoder_lr_factor=encoder_lr_factor,
        )
    except KeyboardInterrupt:
        say(f"Stopped. Run the same command again to go on; the state is in {partial}.")
        raise typer.Exit(Status.INTERRUPTED) from None
    classifier.data_ = record
    classifier.save(model, overwrite=overwrite)
    discard_checkpoint(partial)
    accuracy = None if held_out is None else classifier.score(held_out.X, held_out.y)
    adaptation = None if init is None else classifier.adaptation_
    emit(
        {
            "model": str(model),
            "kind": type(classifier).__name__,
            "rows": len(classifier.memory),
            "classes": classifier.memory.classes,
            "digest": classifier.memory.digest,
            "weights_digest": classifier.weights_digest,
            "data": record,
            "adaptation": adaptation,
            "test_accuracy": accuracy,
        },
        as_json=as_json,
        lines=[
            f"{model}: {len(classifier.memory)} rows, {len(classifier.memory.classes)} classes",
            *([] if adaptation is None else _adapted(adaptation)),
            *([] if accuracy is None else [f"test accuracy {accuracy:.2%}"]),
        ],
    )


def _refuse(options: list[str], kind: str) -> None:
    if options:
        raise ArgumentError(f"Expected options of {kind}, but got {', '.join(options)}.")


def _name(data: str | None, data_option: str | None) -> str:
    if (data is None) == (data_option is None):
        raise ArgumentError("Expected what to train on once: as DATA or with --data.")
    return str(data or data_option)


def _rows(
    data: str | None, data_option: str | None, test: str | None
) -> "tuple[Arrays, Arrays | None, dict[str, Any] | None]":
    """Return rows to train on, rows to measure on if there are any, and the record of a split."""
    from erasable.data import Arrays, load_dataset

    name = _name(data, data_option)
    held_out = None if test is None else read_rows(test, "test", needs_labels=True)
    if is_arrays(name) or held_out is not None:
        return read_rows(name, "train", needs_labels=True), held_out, None
    found = load_dataset(name)
    splits = [
        None if split is None else Arrays(split.named, split.y, split.ids, split.groups)
        for split in (found.train, found.test)
    ]
    assert splits[0] is not None  # noqa: S101 - a data set has rows
    return splits[0], splits[1], found.record()


def _preset(name: str, rows: "Arrays") -> dict[str, Any]:
    from erasable.models import preset_settings
    from erasable.training import input_shape

    return preset_settings(name, input_shape(rows.X))


def _new(kind: str, settings: dict[str, Any]) -> "MemoryClassifier":
    from erasable.models import KNNClassifier, SPMClassifier, parameters_of

    kinds: dict[str, type[MemoryClassifier]] = {"spm": SPMClassifier, "knn": KNNClassifier}
    if kind not in kinds:
        raise ArgumentError(f"Expected --kind spm, knn or generator, but got {kind!r}.")
    classifier = kinds[kind]()
    classifier.set_params(**chosen(classifier, **parameters_of(settings)))
    return classifier


def _adapted(accuracies: dict[str, float | None]) -> list[str]:
    """Say what training made of weights that came from elsewhere."""
    words = {
        "before": "accuracy on these rows before, of the model in --init",
        "after": "accuracy on these rows after, each without its own vote",
    }
    return [
        f"{words[name]}: {value:.2%}" for name, value in accuracies.items() if value is not None
    ]
