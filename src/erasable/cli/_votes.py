"""``erasable votes``."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._common import (
    AsJson,
    DataPath,
    ModelPath,
    ReadAttention,
    ReadK,
    ReadReduction,
    ReadSearch,
    ReadTemperature,
    ReadViews,
    chosen,
    emit,
    load_classifier,
    read_rows,
    require_file,
    say,
)
from erasable.errors import ArgumentError

if TYPE_CHECKING:
    from erasable.data import Arrays
    from erasable.memory import Memory
    from erasable.models import Votes

UNITS = {
    "probability": "votes: shares of the prediction; those of all rows sum to 100%",
    "logit": "votes: terms of the logit of the row's own class, without a unit; may be negative",
}


def votes(
    model: ModelPath,
    data: DataPath,
    out: Annotated[
        Path | None, typer.Option(help="Write an HTML page to this file instead of printing.")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            help="Pictures of rows, for the page: an .npz file with X and ids, or a data set."
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="Rows per query.")] = 8,
    exclude_own: Annotated[
        bool, typer.Option("--exclude-own", help="Predict each row of DATA without itself.")
    ] = False,
    limit: Annotated[int, typer.Option(help="Largest number of queries on the page.")] = 200,
    title: Annotated[
        str, typer.Option(help="Heading of the page.")
    ] = "The rows behind each prediction",
    reduction: ReadReduction = None,
    k: ReadK = None,
    search: ReadSearch = None,
    attention: ReadAttention = None,
    temperature: ReadTemperature = None,
    views: ReadViews = None,
    as_json: AsJson = False,
) -> None:
    """Show which rows decided the prediction for each input of DATA, and by how much.

    With --out as an HTML page that needs no other file. A model keeps embeddings only, so pictures
    of its rows come from the file that --rows names; they are found by id.

    \b
    Examples:
      erasable votes model queries.npz --top 3
      erasable votes model queries.npz --reduction neighbours --k 20 --json
      erasable votes model queries.npz --out votes.html --rows train.npz
      erasable votes model train.npz --exclude-own
    """
    from erasable.files import write_atomically
    from erasable.models import change

    if rows is not None and out is None:
        raise ArgumentError("Expected --out with --rows: pictures are only shown on a page.")
    require_file(out)
    arrays = read_rows(data, "train" if exclude_own else "test")
    pictures = None if rows is None else read_rows(rows, "train")
    if rows is not None and pictures is not None and pictures.ids is None:
        raise ArgumentError(f"Expected ids in {rows}, to tell which row each picture shows.")
    classifier = load_classifier(model)
    classifier.set_params(
        **chosen(
            classifier,
            reduction=reduction,
            k=k,
            search=search,
            attention=attention,
            temperature=temperature,
            views=views,
        )
    )
    own = _own_rows(data, arrays, classifier.memory) if exclude_own else None
    if out is None:
        probabilities = classifier.predict_proba(arrays.X, exclude_ids=own)
        found = classifier.votes(arrays.X, top, exclude_ids=own)
        queries = list(_documents(found, probabilities, classifier.memory.classes))
        lines = [UNITS[found.kind], *_lines(queries, found.kind)]
        emit({"kind": found.kind, "queries": queries}, as_json=as_json, lines=lines)
        return
    from erasable.bench import votes_page

    page = votes_page(
        classifier,
        arrays.X,
        y=arrays.y,
        ids=arrays.ids,
        rows=None if pictures is None or pictures.ids is None else (pictures.ids, pictures.X),
        top=top,
        exclude_ids=own,
        limit=limit,
        title=title,
        name=str(model),
    )
    write_atomically(out, page.encode())
    change(model, lambda saved: saved.note_copy("report", out))
    shown = min(limit, len(arrays))
    more = f" of {len(arrays)}; use --limit for more" if shown < len(arrays) else ""
    emit(
        {"out": str(out), "queries": len(arrays), "shown": shown},
        as_json=as_json,
        lines=[f"{out}: {shown} queries{more}"],
    )


def _own_rows(data: str, arrays: "Arrays", memory: "Memory") -> list[Any]:
    """Return each query's id if it is a row, else None."""
    if arrays.ids is None:
        raise ArgumentError(f"Expected ids in {data} with --exclude-own, but there are none.")
    own = [row_id if row_id in memory else None for row_id in arrays.ids]
    if not any(row_id is not None for row_id in own):
        say(f"Note: no id of {data} is in the memory; no row is left out.")
    return own


def _documents(found: "Votes", probabilities: Any, classes: list[Any]) -> Iterator[dict[str, Any]]:
    for query, best in enumerate(probabilities.argmax(axis=1).tolist()):
        rows = zip(found.ids[query], found.labels[query], found.weights[query], strict=True)
        yield {
            "prediction": classes[best],
            "probability": float(probabilities[query, best]),
            "votes": [
                {"id": row_id, "label": label, "weight": float(weight)}
                for row_id, label, weight in rows
                if row_id is not None
            ],
            "rest": float(found.rest[query]),
        }


def _lines(queries: list[dict[str, Any]], kind: str) -> Iterator[str]:
    form = "{:9.3%}" if kind == "probability" else "{:+9.4f}"
    for number, query in enumerate(queries):
        yield f"query {number}: {query['prediction']} ({query['probability']:.2%})"
        for vote in query["votes"]:
            yield f"  {form.format(vote['weight'])}  {vote['id']}  ({vote['label']})"
        yield f"  {form.format(query['rest'])}  all other rows"
