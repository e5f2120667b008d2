"""``erasable find``."""

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
    import numpy as np

    from erasable.models import load

    arrays = read_rows(data, "test")
    classifier = load(model)
    found = classifier.find(arrays.X, tolerance=tolerance)
    lengths = np.linalg.norm(classifier.embed(arrays.X), axis=1).tolist()
    queries = [
        [
            {
                "id": m.id,
                "distance": m.distance,
                "relative": m.distance / length if length else None,
            }
            for m in matches
        ]
        for matches, length in zip(found, lengths, strict=True)
    ]
    lines = ["distance of embeddings, the same relative to the query's length, id"]
    for number, matches in enumerate(queries):
        lines.append(f"query {number}: {len(matches)} rows")
        for match in matches:
            relative = "–" if match["relative"] is None else f"{match['relative']:.3%}"
            lines.append(f"  {match['distance']:.5f}  {relative:>8}  {match['id']}")
    emit({"queries": queries}, as_json=as_json, lines=lines)
