"""``erasable forget``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._common import AsJson, Classes, Groups, Ids, ModelPath, emit, resolve, say


def forget(
    model: ModelPath,
    ids: Ids = None,
    groups: Groups = None,
    classes: Classes = None,
    missing_ok: Annotated[bool, typer.Option(help="Skip what is not in the memory.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Only tell what would happen.")] = False,
    request_id: Annotated[str | None, typer.Option(help="Your name for the request.")] = None,
    as_json: AsJson = False,
) -> None:
    """Forget rows from the memory of a model; the receipt is printed once it is on disk.

    Everything named is forgotten, or, if something is not there, nothing.

    \b
    Examples:
      erasable forget model --group user-42
      erasable forget model --id a17 --id a18 --dry-run
      erasable forget model --class cat --request-id REQ-7 --json
    """
    from erasable.memory import keys_folder
    from erasable.models import load

    classifier = load(model)
    chosen = resolve(classifier.memory, ids=ids, groups=groups, classes=classes)
    if dry_run:
        plan = classifier.forget(**chosen, missing_ok=missing_ok, dry_run=True)
        level = "no level" if plan.level is None else f"level {plan.level} ({plan.basis})"
        lines = [f"would forget {plan.rows} rows; {level}; nothing was changed"]
        lines += plan.reasons
        lines += [f"class {label!r} would be empty" for label in plan.emptied]
        lines += [f"class {k!r}: prototype would move by {v:.2%}" for k, v in plan.drift]
        emit(asdict(plan), as_json=as_json, lines=lines)
        return
    classifier.forget(**chosen, missing_ok=missing_ok, request_id=request_id)
    *_, receipt = classifier.save(model)
    emit(receipt.to_dict(), as_json=as_json, lines=str(receipt).split("\n"))
    for copy in classifier.copies():
        if not Path(copy.path).exists():
            say(f"Note: {copy.path} is not there now. It has {copy.holds}.")
    missing = classifier.memory.tombstones.marks.missing_keys
    if missing:
        say(
            f"Note: keys {', '.join(missing)} are not in {keys_folder()}; rows added to this model "
            "cannot be checked against what was forgotten under them."
        )

    if receipt.outcome != "done":
        raise typer.Exit({"nothing found": 3, "already forgotten": 4}[receipt.outcome])
