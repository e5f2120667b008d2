"""``erasable info``."""

from erasable.cli._common import AsJson, ModelPath, emit


def info(model: ModelPath, as_json: AsJson = False) -> None:
    """Describe a model: rows, classes, digests, and what its weights were trained on.

    \b
    Examples:
      erasable info model
      erasable info model --json
    """
    from erasable.models import load

    classifier = load(model)
    memory, encoder = classifier.memory, classifier.network_.encoder
    sources = classifier.provenance_.sources
    document = {
        "rows": len(memory),
        "classes": memory.classes,
        "dim": memory.dim,
        "encoder": encoder.name,
        "reduction": classifier.reduction,
        "input_shape": list(classifier.input_shape_),
        "digest": memory.digest,
        "weights_digest": classifier.weights_digest,
        "tombstones": len(memory.tombstones.marks),
        "trained_on": [{"basis": s.basis, "name": s.name} for s in sources],
    }
    trained = ", ".join(f"{s.name} ({s.basis})" for s in sources) or "nothing: weights as drawn"
    lines = [f"{name:15} {value}" for name, value in document.items() if name != "trained_on"]
    emit(document, as_json=as_json, lines=[*lines, f"{'trained on':15} {trained}"])
