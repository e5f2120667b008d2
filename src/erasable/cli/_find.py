"""``erasable find``."""

from dataclasses import asdict
from typing import Annotated

import typer

from erasable.cli._common import AsJson, DataPath, ModelPath, emit, read_rows


def find(
    model: ModelPath,
    data: DataPath,
    tolerance: Annotated[
        float, typer.Option(help="Largest distance, relative to the query's length.")
    ] = 0.01,
    as_json: AsJson = False,
) -> None:
    """Find rows that look (nearly) like the inputs of DATA: copies under other ids.

    Distances are between embeddings; beside each stands what it is in per cent of the length of the
    query's embedding, which is what --tolerance bounds. Rounding of stored rows is always allowed.

    \b
    Examples:
      erasable find model photo.npz
      erasable find model photo.npz --tolerance 0.1 --json
    """
    from erasable.models import load

    arrays = read_rows(data, "test")
    found = load(model).find(arrays.X, tolerance=tolerance)
    queries = [[asdict(match) for match in matches] for matches in found]
    lines = ["distance of embeddings, the same relative to the query's length, id"]
    for number, matches in enumerate(queries):
        lines.append(f"query {number}: {len(matches)} rows")
        for match in matches:
            relative = "–" if match["relative"] is None else f"{match['relative']:.3%}"
            lines.append(f"  {match['distance']:.5f}  {relative:>8}  {match['id']}")
    emit({"queries": queries}, as_json=as_json, lines=lines)
