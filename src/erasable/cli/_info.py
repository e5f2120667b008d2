"""``erasable info``."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from erasable.cli._common import AsJson, Classes, Groups, Ids, ModelPath, counted, emit, resolve
from erasable.cli._terminal import Status

if TYPE_CHECKING:
    from erasable.models import KnownCopy


def info(
    model: ModelPath,
    ids: Ids = None,
    groups: Groups = None,
    classes: Classes = None,
    as_json: AsJson = False,
) -> None:
    """Describe a model: its rows, its weights, and every place that holds something of the rows.

    Shows how the memory is read and what the weights were trained on. Copies are those the model
    knows of: embeddings kept on disk, checkpoints and pages that were made from it.

    With names, tell what is held of those rows instead: each row, the level that forgetting it
    would have and why, what remains afterwards, and how to remove that. The exit status is 3 if
    nothing is known of them, 4 if all were forgotten before.

    \b
    Examples:
      erasable info model
      erasable info model --group user-42
      erasable info model --json
    """
    from erasable.models import load

    classifier = load(model)
    memory = classifier.memory
    if ids or groups or classes:
        _tell_of_rows(classifier, resolve(memory, ids=ids, groups=groups, classes=classes), as_json)
        return
    sources = classifier.provenance_.sources
    document = {
        "kind": type(classifier).__name__,
        "rows": len(memory),
        "classes": memory.classes,
        "dim": memory.dim,
        **_network(classifier),
        "input_shape": list(classifier.input_shape_),
        "digest": memory.digest,
        "weights_digest": classifier.weights_digest,
        "tombstones": len(memory.tombstones.marks),
        "trained_on": [{"basis": s.basis, "name": s.name} for s in sources],
        "data": classifier.data_,
        "copies": [asdict(copy) for copy in classifier.copies()],
        "verified": classifier.is_verified_,
        "doubts": list(classifier.doubts_),
    }
    trained = ", ".join(f"{s.name} ({s.basis})" for s in sources) or "nothing: weights as drawn"
    lines = [
        f"{name.replace('_', ' '):15} {value}"
        for name, value in document.items()
        if name not in ("trained_on", "data", "copies", "doubts") and value is not None
    ]
    if classifier.data_ is not None:
        lines.append(f"{'data':15} {_split(classifier.data_)}")
    lines.append(f"{'trained on':15} {trained}")
    lines.append(f"{'not on record':15} {_UNRECORDED}")
    lines += [f"{'in doubt':15} {doubt}" for doubt in classifier.doubts_]
    emit(document, as_json=as_json, lines=[*lines, *map(_copy, classifier.copies())])


_UNRECORDED = "an encoder, readout, k or temperature that you chose by looking at rows yourself"


def _tell_of_rows(model: Any, named: dict[str, Any], as_json: bool) -> None:
    from erasable.models import holding

    found = holding(model, **named)
    level = "none" if found.level is None else f"{found.level} ({found.basis})"
    lines = [counted(len(found.rows), "row")]
    if found.rows or found.forgotten:
        lines += [f"level of forgetting them: {level}"]
    lines += [f"  because {reason}" for reason in found.reasons]
    lines += [
        f"row {row.id!r}: {row.label!r}, groups {list(row.groups)}, level {row.level}"
        for row in found.rows
    ]
    lines += [f"already forgotten: {sentence}" for sentence in found.forgotten]
    lines += [f"unknown: {name}" for name in found.unknown]
    for left in found.remains:
        lines += [f"remains: {left.what}", f"  in {left.where}", f"  to remove it: {left.remedy}"]
    emit(asdict(found), as_json=as_json, lines=lines)
    if not found.rows:
        raise typer.Exit(Status.ALREADY_FORGOTTEN if found.forgotten else Status.NOTHING_FOUND)


def _network(model: Any) -> dict[str, Any]:
    """Return what a network is, and how it reads the memory."""
    network, parameters = model.network_, model.get_params(deep=False)
    if not hasattr(network, "encoder"):
        names = ("channels", "layers", "branch", "labels", "rows_per_class")
        return {name: parameters[name] for name in names}
    return {
        "encoder": network.encoder.name,
        "set_encoder": None if network.set_encoder is None else network.set_encoder.name,
        **_reading(parameters),
    }


def _split(record: dict[str, Any]) -> str:
    drawn = "its own split"
    if record.get("seed") is not None:
        drawn = f"test share {record.get('test_share')}, seed {record['seed']}"
    return f"{record['name']}: {record.get('train_rows', 'unknown')} training rows, {drawn}"


def _copy(copy: "KnownCopy") -> str:
    rows = "" if copy.rows is None else f" {copy.rows} of the rows:"
    return f"{'copy':15} {copy.kind} {copy.path}:{rows} {copy.holds}"


def _reading(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that matter for how this model reads its memory."""
    relevant = {
        "prototypes": ("attention", "temperature"),
        "rows": ("attention", "temperature"),
        "neighbours": ("k", "search", "attention", "temperature"),
        "gaussian": ("temperature",),
        "knn": ("k", "search"),
    }
    reduction = parameters.get("reduction", "knn")
    names = relevant.get(reduction, ("k", "search", "attention", "temperature"))
    return {"reduction": reduction, **{name: parameters[name] for name in names}}
