"""``erasable purge``."""

from dataclasses import asdict

from erasable.cli._common import AsJson, ModelPath, emit


def purge(model: ModelPath, as_json: AsJson = False) -> None:
    """Remove what is left of forgotten rows in the embedding caches that a model has used.

    Forgetting a row removes it there already; this finds entries that came back or that a crash
    left behind. Reports and checkpoints that may show forgotten rows are named, not deleted.

    \b
    Examples:
      erasable purge model
      erasable purge model --json
    """
    from erasable.models import load

    done = load(model).purge()
    emit(
        asdict(done),
        as_json=as_json,
        lines=[
            f"{done.entries} kept embeddings of forgotten rows removed",
            *(f"left: {copy.kind} {copy.path}: {copy.holds}" for copy in done.left),
        ],
    )
