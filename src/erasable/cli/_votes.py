"""``erasable votes``."""

from typing import Annotated

import typer

from erasable.cli._common import AsJson, DataPath, ModelPath, emit


def votes(
    model: ModelPath,
    data: DataPath,
    top: Annotated[int, typer.Option(help="Rows per query.")] = 5,
    reduction: Annotated[
        str | None, typer.Option(help="Read the memory by prototypes or rows; default: as trained.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which rows decided the prediction for each input of DATA, and by how much.

    \b
    Examples:
      erasable votes model queries.npz --top 3
      erasable votes model queries.npz --reduction rows --json
    """
    from erasable.data import read_arrays
    from erasable.models import load

    arrays = read_arrays(data)
    classifier = load(model)
    if reduction is not None:
        classifier.set_params(reduction=reduction)
    labels = classifier.predict(arrays.X).tolist()
    found = classifier.votes(arrays.X, top=top)
    queries = [
        {
            "prediction": labels[query],
            "votes": [
                {"id": row_id, "label": label, "weight": float(weight)}
                for row_id, label, weight in zip(
                    found.ids[query], found.labels[query], found.weights[query], strict=True
                )
            ],
            "rest": float(found.rest[query]),
        }
        for query in range(len(labels))
    ]
    lines = []
    for number, query in enumerate(queries):
        lines.append(f"query {number}: {query['prediction']}")
        lines += [f"  {v['weight']:+.4f}  {v['id']}  ({v['label']})" for v in query["votes"]]
        lines.append(f"  {query['rest']:+.4f}  all other rows")
    emit({"kind": found.kind, "queries": queries}, as_json=as_json, lines=lines)
