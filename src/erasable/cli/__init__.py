"""The command line: thin commands, no logic."""

import re
import sys

import typer

from erasable import __version__
from erasable.cli._audit import audit
from erasable.cli._bench import bench_app
from erasable.cli._copy import catch_up, copy
from erasable.cli._data import data_app
from erasable.cli._demo import demo
from erasable.cli._figures import figures_app
from erasable.cli._find import find
from erasable.cli._forget import forget
from erasable.cli._generation import ddpm, erasediff, label_perm, reminded, std_ddpm, variants
from erasable.cli._info import info
from erasable.cli._keys import keys_app
from erasable.cli._predict import predict
from erasable.cli._purge import purge
from erasable.cli._remember import remember
from erasable.cli._sample import sample
from erasable.cli._tables import tables_app
from erasable.cli._terminal import guard, print_error, status_of
from erasable.cli._tombstones import tombstones_app
from erasable.cli._train import train
from erasable.cli._unlearning import cls_cifar, cls_imagenet, cls_random, gnn, sequence, tradeoff
from erasable.cli._votes import votes
from erasable.errors import ErasableError

app = typer.Typer(
    name="erasable",
    help="Neural networks that forget on request.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (demo, train, predict, votes, forget, remember, find, sample, info, audit, purge):
    app.command()(command)
app.command()(copy)
app.command()(catch_up)
for table in (cls_cifar, cls_random, cls_imagenet, gnn, sequence, tradeoff):
    tables_app.command(table.__name__)(table)
for drawn in (std_ddpm, ddpm, label_perm, erasediff, reminded, variants):
    tables_app.command(drawn.__name__)(drawn)
app.add_typer(data_app, name="data")
app.add_typer(tables_app, name="tables")
app.add_typer(bench_app, name="bench")
app.add_typer(figures_app, name="figures")
app.add_typer(keys_app, name="keys")
app.add_typer(tombstones_app, name="tombstones")


def _show_version(value: bool) -> None:
    if value:
        print(f"erasable {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Neural networks that forget on request."""


def in_words_of_the_command_line(message: str) -> str:
    """Name options instead of the keyword arguments that the library's messages name."""
    options = r"\b(missing_ok|skip_forgotten|reinstate|overwrite)=True"
    message = re.sub(options, lambda found: "--" + found[1].replace("_", "-"), message)
    message = message.replace("exclude_ids", "--exclude-own")
    return re.sub(r"^(add|audit|forget|fit|find|votes_page)\(\): ", "", message)


def main() -> None:
    """Run the command line; expected errors end it with their message and the status they mean."""
    guard()
    try:
        app()
    except (ErasableError, OSError) as error:
        print_error(in_words_of_the_command_line(str(error)))
        sys.exit(status_of(error))
