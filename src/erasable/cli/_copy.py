"""``erasable copy`` and ``erasable catch-up``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._common import AsJson, ModelPath, counted, emit


def copy(
    model: ModelPath,
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A new directory.")],
    as_json: AsJson = False,
) -> None:
    """Make a second model of a model, which is forgotten from by itself.

    Copying the files by other means does not make a second model: the older of the two is refused
    as soon as the other one changes.

    \b
    Examples:
      erasable copy model experiment
      erasable copy model /backup/branch --json
    """
    from erasable.models import copy_model

    place = copy_model(model, new)
    emit(
        {"model": str(model), "new": str(place.path), "identity": place.identity},
        as_json=as_json,
        lines=[f"{place.path}: a model of its own. Rows must be forgotten from both."],
    )


def catch_up(
    model: ModelPath,
    dry_run: Annotated[bool, typer.Option(help="Only tell what would be forgotten.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forget again, in an older copy that was put in a model's place, what was forgotten since.

    It goes by ids, groups and inputs, so a row with the very input of a forgotten one goes, too.

    \b
    Examples:
      erasable catch-up model --dry-run
      erasable catch-up model
      erasable catch-up model --json
    """
    from erasable.models import catch_up, forgotten_since

    done = None if dry_run else catch_up(model)
    since = forgotten_since(model) if done is None else done.result
    receipts = () if done is None else done.receipts
    if since is None:
        nothing = f"Nothing is known to be newer than {model}; nothing was changed."
        emit({"revisions": 0, "named": [], "alike": []}, as_json=as_json, lines=[nothing])
        return
    would = "would forget" if dry_run else "forgot"
    lines = [
        f"{model} {'is' if dry_run else 'was'} {counted(since.revisions, 'revision')} old; "
        f"{would} {counted(len(since.ids), 'row')} again"
    ]
    lines += [f"  {row_id}" for row_id in since.named]
    lines += [f"  {row_id}  (has the very input of a forgotten row)" for row_id in since.alike]
    if since.has_gap:
        lines += ["Tombstones were taken out, so rows that were forgotten since may still be here."]
    lines += [line for receipt in receipts for line in str(receipt).split("\n")]
    document = {**asdict(since), "receipts": [receipt.to_dict() for receipt in receipts]}
    emit(document, as_json=as_json, lines=lines)
