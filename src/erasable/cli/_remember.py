"""``erasable remember``."""

from typing import Annotated, Any

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
    from erasable.models import change

    rows = read_rows(data, "train", needs_labels=True)

    def remember_rows(classifier: Any) -> int:
        before = len(classifier.memory)
        classifier.remember(
            rows.X,
            rows.y,
            ids=rows.ids,
            groups=rows.groups,
            reinstate=reinstate,
            skip_forgotten=skip_forgotten,
        )
        return len(classifier.memory) - before

    # Encoding takes long: whoever wants to forget meanwhile must not wait.
    done = change(model, remember_rows, hold=False)
    added, memory = done.result, done.model.memory
    emit(
        {"added": added, "skipped": len(rows) - added, "digest": memory.digest},
        as_json=as_json,
        lines=[f"{added} rows added, {len(rows) - added} left out; {len(memory)} in all"],
    )
