"""``erasable remember``."""

from typing import Annotated

import typer

from erasable.cli._common import AsJson, DataPath, ModelPath, emit, read_rows


def remember(
    model: ModelPath,
    data: DataPath,
    reinstate: Annotated[
        bool, typer.Option(help="Also store rows that were forgotten before.")
    ] = False,
    skip_forgotten: Annotated[
        bool, typer.Option(help="Leave out rows that were forgotten before.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Store the rows of DATA in the memory of a model, of new classes too, without training.

    \b
    Examples:
      erasable remember model more.npz
      erasable remember model nightly-import.npz --skip-forgotten
      erasable remember model photos/
    """
    from erasable.models import load

    rows = read_rows(data, "train", needs_labels=True)
    classifier = load(model)
    before = len(classifier.memory)
    classifier.remember(
        rows.X,
        rows.y,
        ids=rows.ids,
        groups=rows.groups,
        reinstate=reinstate,
        skip_forgotten=skip_forgotten,
    )
    classifier.save(model)
    added = len(classifier.memory) - before
    emit(
        {"added": added, "skipped": len(rows) - added, "digest": classifier.memory.digest},
        as_json=as_json,
        lines=[f"{added} rows added, {len(rows) - added} left out; {before + added} in all"],
    )
