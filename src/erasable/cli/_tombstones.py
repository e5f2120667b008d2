"""``erasable tombstones``."""

from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from erasable.cli._common import AsJson, ModelPath, counted, emit
from erasable.errors import ArgumentError

tombstones_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="""List or drop what forgetting leaves behind: the marks that refuse a row's return.

\b
Examples:
  erasable tombstones list model
  erasable tombstones expire model --days 365
  erasable tombstones drop model --all
""",
)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell how many would go.")]


@tombstones_app.command("list")
def list_tombstones(model: ModelPath, as_json: AsJson = False) -> None:
    """List the tombstones of MODEL by time, level and key; whose they are, nobody can read.

    \b
    Examples:
      erasable tombstones list model
      erasable tombstones list model --json
    """
    from erasable.memory import keyring
    from erasable.models import load

    entries = load(model).memory.tombstones.entries()
    lines = [f"{counted(len(entries), 'tombstone')} in {model}"]
    for entry, number in Counter(entries).items():
        is_here = keyring.get(entry.key_id) is not None
        level = f"level {entry.level or 'unknown'}"
        key = f"key {entry.key_id}{'' if is_here else ', which is not on this host'}"
        lines.append(
            f"  {counted(number, 'tombstone'):>18}  {entry.time or 'time unknown'}  {level}  {key}"
        )
    emit({"tombstones": [asdict(entry) for entry in entries]}, as_json=as_json, lines=lines)


@tombstones_app.command()
def drop(
    model: ModelPath,
    before: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Drop those made before, such as 2026-01-31."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Drop all of them.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Drop tombstones of MODEL; the rows that they refused may then come back.

    Those of which no time is known, from models of earlier versions, go only with --all.

    \b
    Examples:
      erasable tombstones drop model --before 2026-01-31
      erasable tombstones drop model --all
    """
    if (before is None) is not everything:
        raise ArgumentError("Expected either --before TIME or --all.")
    _drop(model, None if before is None else _time(before), dry_run=dry_run, as_json=as_json)


@tombstones_app.command()
def expire(
    model: ModelPath,
    days: Annotated[float, typer.Option(help="How long tombstones are kept.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Drop tombstones of MODEL that are older than --days; run it from a scheduler.

    The rows that they refused may then come back: choose a time after which no backup and no import
    brings them.

    \b
    Examples:
      erasable tombstones expire model --days 365
      erasable tombstones expire model --days 365 --dry-run
    """
    if not 0 <= days < timedelta.max.days:
        raise ArgumentError(f"Expected --days of 0 or more, but got {days}.")
    now = datetime.now(UTC)
    oldest = datetime.min.replace(tzinfo=UTC)
    before = now - timedelta(days=days) if days < (now - oldest).days else oldest
    _drop(model, before, dry_run=dry_run, as_json=as_json)


def _drop(model: Path, before: datetime | None, *, dry_run: bool, as_json: bool) -> None:
    from erasable.models import change, load

    def drop(found: Any) -> tuple[int, Any]:
        return found.memory.drop_tombstones(before=before), found.memory.tombstones.entries()

    dropped, left = drop(load(model))
    if dropped and not dry_run:
        dropped, left = change(model, drop).result
    undated = sum(entry.time is None for entry in left)
    what = "would be dropped; nothing was changed" if dry_run else "dropped"
    lines = [f"{counted(dropped, 'tombstone')} {what}; {len(left)} left"]
    if dropped:
        may = "could then" if dry_run else "can now"
        lines.append(f"Rows that they refused {may} be stored again, without a word.")
    if undated:
        lines.append(
            f"Of {counted(undated, 'tombstone')} no time is known: they go only with 'drop --all'."
        )
    document = {"dropped": dropped, "left": len(left), "undated": undated, "dry_run": dry_run}
    emit(document, as_json=as_json, lines=lines)


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentError(
            f"Expected --before as a date or time, such as 2026-01-31, but got {text!r}."
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
