"""``erasable audit``."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._common import (
    AsJson,
    Classes,
    Groups,
    Ids,
    ModelPath,
    emit,
    read_rows,
    require_file,
    resolve,
    say,
)
from erasable.cli._terminal import Status
from erasable.errors import ArgumentError

if TYPE_CHECKING:
    from erasable.memory import Memory
    from erasable.models import Audit, Differencing

_PATIENCE = 3.0


def audit(
    model: ModelPath,
    ids: Ids = None,
    groups: Groups = None,
    classes: Classes = None,
    queries: Annotated[
        str | None, typer.Option(help="Inputs to ask: an .npz file with X, or other DATA.")
    ] = None,
    simulate: Annotated[
        bool, typer.Option(help="Audit what the model would be without rows that are still there.")
    ] = False,
    missing_ok: Annotated[bool, typer.Option(help="Skip names that nothing is known of.")] = False,
    differencing: Annotated[
        bool,
        typer.Option(help="Measure instead what asking before and after a forget shows of a row."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the report to a JSON file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check that rows are gone from a model, or simulate removing them; nothing is changed.

    Without names, the model as it stands is checked, and with it that nothing is left of what was
    forgotten before. The exit status is 0 if it is verified, 1 if not or if a row is still there,
    3 if nothing is known of the names.

    \b
    Examples:
      erasable audit model
      erasable audit model --group user-42
      erasable audit model --differencing
      erasable audit model --id a17 --simulate --queries test.npz --out report.json
    """
    from erasable.models import Verdict, load
    from erasable.models import audit as audit_model
    from erasable.models import differencing as measure

    require_file(out)
    if differencing:
        if ids or groups or classes or queries or simulate or missing_ok:
            raise ArgumentError("Expected --differencing alone: it draws rows and queries itself.")
        _report(measure(load(model), on_step=_Steps()), out, as_json=as_json)
        return
    inputs = None if queries is None else read_rows(queries, "test").X
    loaded = load(model)
    found = audit_model(
        loaded,
        **_named(loaded.memory, ids, groups, classes),
        queries=inputs,
        simulate=simulate,
        missing_ok=missing_ok,
        on_step=_Steps(),
    )
    _report(found, out, as_json=as_json)
    if not found.is_verified:
        is_nothing = found.verdict is Verdict.NOTHING_FOUND
        raise typer.Exit(Status.NOTHING_FOUND if is_nothing else Status.REFUSED)


def _report(found: "Audit | Differencing", out: Path | None, *, as_json: bool) -> None:
    from erasable.files import write_atomically

    if out is not None:
        write_atomically(out, found.to_json().encode() + b"\n")
    emit(found.to_dict(), as_json=as_json, lines=str(found).split("\n"))


class _Steps:
    """Tell of steps once they take long."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def __call__(self, step: str) -> None:
        elapsed = time.perf_counter() - self._start
        if elapsed > _PATIENCE:
            say(f"{step} ({elapsed:.0f} s)")


def _named(
    memory: "Memory", ids: list[str] | None, groups: list[str] | None, classes: list[str] | None
) -> dict[str, Any]:
    """Turn words into names of rows that are live or were forgotten."""
    return {
        "ids": resolve(memory, ids=ids, groups=None, classes=None)["ids"],
        "groups": None if groups is None else [n for word in groups for n in _groups(memory, word)],
        "classes": resolve(memory, ids=None, groups=None, classes=classes)["classes"],
    }


def _groups(memory: "Memory", word: str) -> list[Any]:
    readings = resolve(memory, ids=None, groups=[word], classes=None)["groups"]
    return [
        value
        for value in readings
        if memory.table.ids_in_group(value) or memory.tombstones.has_group(value)
    ] or [word]
