"""Predictions and the rows that decided them, as one HTML page that needs nothing beside it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from erasable._version import __version__
from erasable.bench._thumbnails import thumbnails
from erasable.errors import ArgumentError, MissingExtraError, Problems, listing
from erasable.memory import as_id, as_label, plain
from erasable.models import Votes
from erasable.terminal import in_page
from erasable.typing import Label, RowId

if TYPE_CHECKING:
    from erasable.models._memory_classifier import MemoryClassifier

Pictures = Mapping[RowId, Any] | tuple[Sequence[RowId], Any]

MEANINGS = {
    "probability": (
        "A vote is the share that a row has in the prediction, in per cent. The votes of all rows "
        "sum to 100 %, those of a class to its probability."
    ),
    "logit": (
        "A vote is the term that a row adds to the logit of its own class. It has no unit and may "
        "be negative; a logit that is larger by 1 makes its class 2.7 times as probable, compared "
        "with any other. The votes of all other rows are summed over every class."
    ),
}
READINGS = {
    "prototypes": "each class is read as the mean of its rows",
    "rows": "attention over every row",
    "neighbours": "attention over the {k} nearest rows; no other row has a vote",
    "gaussian": (
        "class means, compared in the metric of the rows' own covariance; votes are terms of the "
        "linear part of a logit, its constant belongs to no single row"
    ),
    "knn": "the {k} nearest rows have one equal vote each; no other row has one",
}


@dataclass(frozen=True)
class _Row:
    """A row behind a prediction as it is shown; ``bar``: per cent of the query's heaviest vote."""

    id: RowId
    label: str
    is_same: bool
    vote: str
    bar: float
    is_negative: bool


@dataclass(frozen=True)
class _Query:
    """A query as it is shown."""

    id: str | None
    picture: str
    prediction: str
    probability: str
    truth: str | None
    is_right: bool
    rows: list[_Row]
    rest: str
    others: int
    left_out: str | None


def votes_page(
    model: "MemoryClassifier",
    X: Any,
    *,
    y: Any = None,
    ids: Any = None,
    rows: Pictures | None = None,
    top: int = 8,
    exclude_ids: Any = None,
    limit: int = 200,
    title: str = "The rows behind each prediction",
    name: str | None = None,
) -> str:
    """Return an HTML page that shows predictions with the rows that decided them.

    The page needs no other file, no script and no network. It holds copies of pictures and ids:
    forgetting a row from the model does not reach it.

    Args:
        model: A classifier with rows in its memory.
        X: The queries, as for ``predict``.
        y: Their true labels, to be shown beside the predictions.
        ids: What to call the queries.
        rows: Pictures of rows, because a memory keeps embeddings only: images or feature vectors
            by row id, or ids and an array of them. A row without one is shown by id and label.
        top: Rows per query.
        exclude_ids: Per query the id of one row to leave out of its vote, or None.
        limit: Largest number of queries on the page; of more, the first ones are shown.
        title: Heading of the page.
        name: What to call the model, such as its path.
    """
    environment = _environment()
    _check(len(X), limit, y=y, ids=ids, exclude_ids=exclude_ids)
    shown = X[:limit]
    found = model.votes(shown, top, exclude_ids=_first(exclude_ids, limit))
    wanted = [row_id for row_id in dict.fromkeys(found.ids.ravel().tolist()) if row_id is not None]
    given = {} if rows is None else _chosen(rows, wanted)
    drawn = thumbnails([*np.asarray(shown), *given.values()])
    names = _first(ids, limit)
    queries = _queries(
        model, shown, found, drawn, y=_first(y, limit), ids=names, out=_first(exclude_ids, limit)
    )
    page: str = environment.get_template("votes.html.j2").render(
        title=_text(title),
        model=None if name is None else _text(name),
        memory=model.memory,
        kind=type(model).__name__,
        reading=_reading(model),
        meaning=MEANINGS[found.kind],
        is_signed=found.kind == "logit",
        queries=queries,
        total=len(X),
        has_labels=y is not None,
        has_exclusions=exclude_ids is not None,
        has_pictures=rows is not None,
        is_vector=np.ndim(shown) == 2,
        wanted=len(wanted),
        thumbnails=dict(zip(given, drawn[len(shown) :], strict=True)),
        strangers=_strangers(model, given, np.shape(shown)[1:]),
        version=__version__,
    )
    return page


def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("The page needs jinja2: pip install 'erasable[bench]'.") from error
    return jinja2.Environment(
        loader=jinja2.PackageLoader("erasable.bench"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=in_page,
    )


def _check(count: int, limit: int, **columns: Any) -> None:
    problems = Problems("votes_page()")
    if type(limit) is not int or limit < 1:
        problems.note(f"Expected limit to be a positive int, but got {limit!r}.")
    for name, column in columns.items():
        if column is not None and len(column) != count:
            problems.note(f"Expected {count} {name}, one per query, but got {len(column)}.")
    problems.raise_if_any()


def _first(column: Any, limit: int) -> list[Any] | None:
    return None if column is None else [plain(value) for value in list(column)[:limit]]


def _chosen(rows: Pictures, wanted: Sequence[RowId]) -> dict[RowId, npt.NDArray[Any]]:
    """Return the pictures of the rows that are wanted, where there are any."""
    keys, inputs = (
        (list(rows), list(rows.values())) if isinstance(rows, Mapping) else (rows[0], rows[1])
    )
    names = [as_id(key) for key in keys]
    if len(names) != len(inputs):
        raise ArgumentError(f"Expected {len(inputs)} ids of pictures, but got {len(names)}.")
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise ArgumentError(f"Expected one picture per row id, but got more of {listing(doubled)}.")
    pictures = inputs if isinstance(inputs, list) else np.asarray(inputs)
    place = {name: number for number, name in enumerate(names)}
    return {name: np.asarray(pictures[place[name]]) for name in wanted if name in place}


def _strangers(
    model: "MemoryClassifier", given: dict[RowId, npt.NDArray[Any]], shape: tuple[int, ...]
) -> set[RowId]:
    """Return rows whose picture could be an input but is not, to the encoder, the stored one."""
    inputs = {k: v for k, v in given.items() if v.shape == shape and np.isfinite(v).all()}
    if not inputs:
        return set()
    found = model.find(np.stack(list(inputs.values())), tolerance=0.001)
    return {
        row_id
        for row_id, matches in zip(inputs, found, strict=True)
        if row_id not in [match.id for match in matches]
    }


def _queries(
    model: "MemoryClassifier",
    X: Any,
    found: Votes,
    drawn: list[str],
    *,
    y: list[Any] | None,
    ids: list[Any] | None,
    out: list[Any] | None,
) -> list[_Query]:
    probabilities = model.predict_proba(X, exclude_ids=out)
    best = probabilities.argmax(axis=1).tolist()
    predictions = [model.memory.classes[rank] for rank in best]
    truths = None if y is None else [as_label(label) for label in y]
    queries = []
    for place, prediction in enumerate(predictions):
        rows = _rows(found, place, prediction)
        gone = None if out is None else out[place]
        queries.append(
            _Query(
                id=None if ids is None else _text(ids[place]),
                picture=drawn[place],
                prediction=_text(prediction),
                probability=f"{probabilities[place, best[place]]:.1%}".replace("%", " %"),
                truth=None if truths is None else _text(truths[place]),
                is_right=truths is not None and truths[place] == prediction,
                rows=rows,
                rest=_vote(float(found.rest[place]), found.kind),
                others=len(model.memory) - len(rows) - (gone is not None),
                left_out=None if gone is None else _text(gone),
            )
        )
    return queries


def _rows(found: Votes, place: int, prediction: Label) -> list[_Row]:
    weights = found.weights[place]
    heaviest = max(float(np.abs(weights).max()), np.finfo(float).tiny)
    return [
        _Row(
            id=row_id,
            label=_text(label),
            is_same=(type(label), label) == (type(prediction), prediction),
            vote=_vote(weight, found.kind),
            bar=round(100 * abs(weight) / heaviest, 1),
            is_negative=weight < 0,
        )
        for row_id, label, weight in zip(
            found.ids[place], found.labels[place], weights.tolist(), strict=True
        )
        if row_id is not None
    ]


def _vote(weight: float, kind: str) -> str:
    if kind == "probability":
        return f"{100 * max(weight, 0.0):#.3g} %".replace(". %", " %")
    written = f"{weight:+,.0f}" if abs(weight) >= 100 else f"{weight:+#.3g}"
    return written.replace("-", "−")


def _reading(model: "MemoryClassifier") -> str:
    parameters = model.get_params(deep=False)
    reduction = parameters.get("reduction", "knn")
    explained = READINGS.get(reduction)
    return f"{reduction}: {explained.format(k=parameters['k'])}" if explained else str(reduction)


def _text(value: object) -> str:
    """Return a value as text that UTF-8 can hold, whatever a path or a label is made of."""
    return str(value).encode(errors="replace").decode()
