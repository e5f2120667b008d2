"""``erasable find``."""

from typing import Annotated

import typer

from erasable.cli._common import AsJson, DataPath, ModelPath, emit


def find(
    model: ModelPath,
    data: DataPath,
    tolerance: Annotated[
        float, typer.Option(help="Largest distance, relative to the query's length.")
    ] = 0.01,
    as_json: AsJson = False,
) -> None:
    """Find rows that look (nearly) like the inputs of DATA: copies under other ids.

    \b
    Examples:
      erasable find model photo.npz
      erasable find model photo.npz --tolerance 0.1 --json
    """
    from erasable.data import read_arrays
    from erasable.models import load

    arrays = read_arrays(data)
    found = load(model).find(arrays.X, tolerance=tolerance)
    queries = [[{"id": m.id, "distance": m.distance} for m in matches] for matches in found]
    lines = []
    for number, matches in enumerate(found):
        lines.append(f"query {number}: {len(matches)} rows")
        lines += [f"  {match.distance:.5f}  {match.id}" for match in matches]
    emit({"queries": queries}, as_json=as_json, lines=lines)
