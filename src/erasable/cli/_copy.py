"""``erasable copy`` and ``erasable catch-up``."""

from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._common import AsJson, ModelPath, emit


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


def catch_up(model: ModelPath, as_json: AsJson = False) -> None:
    """Forget again, in an older copy that was put in a model's place, what was forgotten since.

    \b
    Examples:
      erasable catch-up model
      erasable catch-up model --json
    """
    from erasable.models import load

    found = load(model, replay=True)
    emit(
        {"rows": len(found.memory), "digest": found.memory.digest},
        as_json=as_json,
        lines=[f"{model} is up to date: {len(found.memory)} rows"],
    )
