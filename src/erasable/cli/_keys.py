"""``erasable keys``."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._common import AsJson, counted, emit, say

if TYPE_CHECKING:
    from erasable.memory import KeyFile

keys_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="""List, back up, share and replace the secret keys of this host.

\b
Examples:
  erasable keys list
  erasable keys export backup.keys.json
  erasable keys import backup.keys.json
  erasable keys rotate
""",
)


@keys_app.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List the keys of this host by id; never the keys themselves.

    \b
    Examples:
      erasable keys list
      erasable keys list --json
    """
    from erasable.memory import keyring, keys_folder

    files = keyring.files()
    lines = [f"keys in {keys_folder()}"]
    if files:
        lines.append(f"  {'id':16}  {'on disk since':20}  permissions")
    for shown in map(_shown, files):
        active = "  active" if shown["is_active"] else ""
        lines.append(f"  {shown['id']}  {shown['written']}  {shown['permissions']}{active}")
    warnings = [*_warnings(files)]
    keys = {"folder": str(keys_folder()), "keys": [*map(_shown, files)], "warnings": warnings}
    emit(keys, as_json=as_json, lines=lines if files else [*lines, "  none yet"])
    for warning in warnings:
        say(f"Warning: {warning}")


@keys_app.command("export")
def export(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; it is secret.")],
    as_json: AsJson = False,
) -> None:
    """Write every key, and what is kept of models beside them, to a new file.

    The file is as secret as the keys: with it anybody can guess who was forgotten.

    \b
    Examples:
      erasable keys export backup.keys.json
    """
    from erasable.store import export_keys

    done = export_keys(out)
    models = len(done.ledgers)
    lines = [
        f"{counted(len(done.keys), 'key')} and {counted(models, 'ledger')} of models in {out}",
        "This file is secret: with it anybody can guess who was forgotten.",
    ]
    emit(asdict(done), as_json=as_json, lines=lines)
    for name in done.left_out:
        say(f"Warning: {name} is damaged and not in the file.")


@keys_app.command("import")
def import_(
    archive: Annotated[Path, typer.Argument(metavar="FILE", help="What 'keys export' wrote.")],
    as_json: AsJson = False,
) -> None:
    """Add the keys of FILE to those of this host; nothing that is there is overwritten.

    Import files of your own hosts only: whoever made FILE knows its keys.

    \b
    Examples:
      erasable keys import backup.keys.json
    """
    from erasable.store import import_keys

    done = import_keys(archive)
    lines = [
        f"{counted(len(done.keys), 'new key')}, {len(done.there)} here already",
        f"{counted(len(done.ledgers), 'new ledger')} of models, {len(done.kept)} here already",
        f"active key: {done.active}",
    ]
    emit(asdict(done), as_json=as_json, lines=lines)


@keys_app.command()
def rotate(as_json: AsJson = False) -> None:
    """Make new marks with a new key from now on; older keys stay.

    Marks that are there were made with older keys and can only be checked with them. Programs that
    run go on with the key they have until they are started again.

    \b
    Examples:
      erasable keys rotate
    """
    from erasable.memory import keyring, keys_folder

    key_id = keyring.rotate()
    older = len(keyring.files()) - 1
    lines = [f"active key: {key_id}", f"{counted(older, 'older key')} kept in {keys_folder()}"]
    if older:
        lines.append("Older marks need them. Back up the folder: erasable keys export FILE")
    emit({"active": key_id, "older": older}, as_json=as_json, lines=lines)


def _shown(file: "KeyFile") -> dict[str, Any]:
    written = datetime.fromtimestamp(file.written, UTC).isoformat(timespec="seconds")
    return {
        **asdict(file),
        "written": written.replace("+00:00", "Z"),
        "permissions": f"{file.permissions:04o}",
    }


def _warnings(files: "list[KeyFile]") -> list[str]:
    from erasable.memory import is_open, key_path, keyring, keys_folder

    folder = keys_folder()
    opened = [folder] if folder.exists() and is_open(folder) else []
    opened += [path for f in files if is_open(path := key_path(f.id))]
    readable = [f"others than the owner can read {path}; run chmod go= on it" for path in opened]
    damaged = [f"{f.id}.key does not hold the key of its name" for f in files if not f.is_sound]
    lost = ["the file 'active' names no key that is there; run erasable keys rotate"]
    return [*readable, *damaged, *(lost if keyring.is_active_lost else [])]
