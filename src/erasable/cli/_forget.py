"""``erasable forget``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._common import (
    AsJson,
    Classes,
    Groups,
    Ids,
    ModelPath,
    counted,
    emit,
    resolve,
    say,
)
from erasable.cli._terminal import Status
from erasable.errors import ArgumentError

if TYPE_CHECKING:
    from erasable.memory import NearCopy

_SHOWN = 20
_STATUSES = {
    "nothing found": Status.NOTHING_FOUND,
    "already forgotten": Status.ALREADY_FORGOTTEN,
}


def forget(
    model: ModelPath,
    ids: Ids = None,
    groups: Groups = None,
    classes: Classes = None,
    missing_ok: Annotated[bool, typer.Option(help="Skip what is not in the memory.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Only tell what would happen.")] = False,
    near: Annotated[
        float | None,
        typer.Option(help="With --dry-run: list rows so near to these, relative to their length."),
    ] = None,
    request_id: Annotated[str | None, typer.Option(help="Your name for the request.")] = None,
    as_json: AsJson = False,
) -> None:
    """Forget rows from the memory of a model; the receipt is printed once it is on disk.

    Everything named is forgotten, or, if something is not there, nothing.

    \b
    Examples:
      erasable forget model --group user-42
      erasable forget model --id a17 --id a18 --dry-run
      erasable forget model --id a17 --dry-run --near 0.05
      erasable forget model --class cat --request-id REQ-7 --json
    """
    from erasable.memory import keys_folder
    from erasable.models import change, load

    if near is not None and not dry_run:
        raise ArgumentError(
            "Expected --near only with --dry-run: rows that are not named are listed, never "
            "forgotten."
        )
    if dry_run:
        classifier = load(model)
        chosen = resolve(classifier.memory, ids=ids, groups=groups, classes=classes)
        plan = classifier.forget(**chosen, missing_ok=missing_ok, dry_run=True, near=near)
        level = "no level" if plan.level is None else f"level {plan.level} ({plan.basis})"
        lines = [f"would forget {counted(plan.rows, 'row')}; {level}; nothing was changed"]
        lines += plan.reasons
        lines += [f"class {label!r} would be empty" for label in plan.emptied]
        lines += [f"class {k!r}: prototype would move by {v:.2%}" for k, v in plan.drift]
        lines += [] if plan.near is None else _near(plan.near)
        emit(asdict(plan), as_json=as_json, lines=lines)
        return

    def forget_named(classifier: Any) -> None:
        chosen = resolve(classifier.memory, ids=ids, groups=groups, classes=classes)
        classifier.forget(**chosen, missing_ok=missing_ok, request_id=request_id)

    done = change(model, forget_named)
    classifier, [*_, receipt] = done.model, done.receipts
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
        raise typer.Exit(_STATUSES[receipt.outcome])


def _near(copies: "tuple[NearCopy, ...]") -> list[str]:
    """Say which rows stay although they are near to rows of the request."""
    are = "is" if len(copies) == 1 else "are"
    lines = [f"{counted(len(copies), 'row')} {are} near to these and would stay:"]
    for copy in copies[:_SHOWN]:
        relative = "–" if copy.relative is None else f"{copy.relative:.3%}"
        lines.append(f"  {copy.distance:.5f}  {relative:>8}  {copy.id}  (near to {copy.of})")
    if len(copies) > _SHOWN:
        lines.append(f"  and {len(copies) - _SHOWN} more; --json lists them all")
    return lines
