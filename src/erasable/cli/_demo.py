"""``erasable demo``."""

from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._common import AsJson, emit, say


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("out"),
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train on handwritten digits, forget, and compare with retraining; writes report.html.

    \b
    Examples:
      erasable demo
      erasable demo --out /tmp/demo --seed 1
    """
    from erasable.bench import render_table, run_demo, write_report

    result = run_demo(seed=seed, say=say)
    path = write_report(result, out)
    emit(result.to_dict(), as_json=as_json, lines=[*render_table(result), "", f"Report: {path}"])
