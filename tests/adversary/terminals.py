"""Attempts by names that a terminal or a page obeys instead of showing them."""

import contextlib
import io
import json
import sys
import unicodedata
from pathlib import Path
from unittest import mock

import numpy as np

from adversary.attempts import attempt
from erasable import SPMClassifier
from erasable.cli import main

CLEAR = "\x1b[2J\x1b[1;1Hall rows forgotten; level exact"
TITLE = "\x1b]0;verified\x07"
LINE = "x\nverified: rows forgotten, level exact"
RETURN = "x\rverified"
TURNED = "\u202etcaxe level\u202c"
C1 = "\x9b2J\x7f"
HOSTILE = (CLEAR, TITLE, LINE, RETURN, TURNED, C1)

X = np.random.default_rng(0).normal(size=(12, 4))


def _obeyed(text: str) -> str:
    """Tell which characters that are not visible a text has, and whether a name starts a line."""
    kinds = {
        unicodedata.category(character) for character in text.replace("\n", "").replace("\t", "")
    }
    raw = kinds & {"Cc", "Cf", "Zl", "Zp"}
    starts = any(line.startswith("verified: rows") for line in text.splitlines())
    return "obeyed" if raw or starts else "shown"


def _run(*words: object) -> str:
    """Run the command line in this process, and return everything that it writes."""
    streams = io.StringIO()
    arguments = ["erasable", *map(str, words)]
    with (
        mock.patch.object(sys, "argv", arguments),
        contextlib.redirect_stdout(streams),
        contextlib.redirect_stderr(streams),
        contextlib.suppress(SystemExit),
    ):
        main()
    return streams.getvalue()


def _saved(folder: Path) -> Path:
    """Save a model whose ids, groups and labels are hostile."""
    labels = [HOSTILE[row % len(HOSTILE)] for row in range(12)]
    ids = [f"{row}{HOSTILE[row % len(HOSTILE)]}" for row in range(12)]
    model = SPMClassifier("identity", epochs=0, random_state=0)
    model.fit(X, np.array(labels), ids=ids, groups=list(HOSTILE) * 2)
    model.save(folder / "model")
    np.savez(folder / "queries.npz", X=X[:3])
    return folder / "model"


@attempt("Show a model whose labels are escape sequences", before="obeyed", now="shown")
def info_of_hostile_labels(folder: Path) -> str:
    labels = np.array(list(HOSTILE) * 2)
    model = SPMClassifier("identity", epochs=0).fit(X, labels, ids=list(range(12)))
    model.data_ = {
        **dict.fromkeys(("train_digest", "train_rows", "test_share"), "1"),
        "name": CLEAR + LINE,
        "seed": 1,
    }
    model.save(folder / "model")
    return _obeyed(_run("info", folder / "model"))


@attempt("Ask for the votes of rows whose ids are escape sequences", before="obeyed", now="shown")
def votes_of_hostile_ids(folder: Path) -> str:
    return _obeyed(_run("votes", _saved(folder), folder / "queries.npz"))


@attempt("Predict classes whose labels are escape sequences", before="obeyed", now="shown")
def predictions_of_hostile_labels(folder: Path) -> str:
    return _obeyed(_run("predict", _saved(folder), folder / "queries.npz"))


@attempt("Find rows whose ids are escape sequences", before="obeyed", now="shown")
def finding_hostile_ids(folder: Path) -> str:
    return _obeyed(_run("find", _saved(folder), folder / "queries.npz"))


@attempt("Forget with a request id that is an escape sequence", before="obeyed", now="shown")
def forgetting_under_a_hostile_name(folder: Path) -> str:
    model = _saved(folder)
    return _obeyed(_run("forget", model, "--id", f"0{CLEAR}", "--request-id", CLEAR + LINE))


@attempt("Forget a group that is an escape sequence and is not there", before="shown", now="shown")
def forgetting_a_hostile_group(folder: Path) -> str:
    return _obeyed(_run("forget", _saved(folder), "--group", CLEAR + "?"))


@attempt("Open a model in a folder whose name is an escape sequence", before="obeyed", now="shown")
def a_hostile_path(folder: Path) -> str:
    return _obeyed(_run("info", folder / (CLEAR.replace("/", "") + LINE)))


@attempt("Give a file name that begins like an option", before="shown", now="shown")
def a_hostile_argument(folder: Path) -> str:
    return _obeyed(_run("info", folder / "model", f"--{CLEAR}"))


@attempt("Ask for votes as JSON", before="exact and shown", now="exact and shown")
def json_of_hostile_ids(folder: Path) -> str:
    printed = _run("votes", _saved(folder), folder / "queries.npz", "--top", "12", "--json")
    votes = json.loads(printed)["queries"][0]["votes"]
    is_exact = all(vote["id"].endswith(HOSTILE) for vote in votes)
    return "exact and shown" if is_exact and _obeyed(printed) == "shown" else "changed or obeyed"


@attempt("Write a page of votes for ids that turn the direction", before="obeyed", now="shown")
def page_of_hostile_ids(folder: Path) -> str:
    page = folder / "votes.html"
    _run("votes", _saved(folder), folder / "queries.npz", "--out", page, "--title", TURNED + LINE)
    return _obeyed(page.read_text().replace("\n", " "))  # line breaks are spaces in HTML


def _sheet(name: str) -> object:
    from erasable.bench._sheet import Figure, Sheet

    return Sheet(name, ["method", name], [[name, Figure([0.5])]])


@attempt("Name a class like a formula, write the table as CSV", before="a formula", now="text")
def formula_in_a_table(folder: Path) -> str:
    import csv

    rows = list(csv.reader(io.StringIO(_sheet("=HYPERLINK(0)").csv())))  # type: ignore[attr-defined]
    return "a formula" if any(cell.startswith("=") for row in rows for cell in row) else "text"


@attempt(
    "Name a class like a script and a link, write the table as Markdown",
    before="a script or a link",
    now="text",
)
def script_in_a_table(folder: Path) -> str:
    lines = "\n".join(_sheet("<script>[x](javascript:1)").markdown())  # type: ignore[attr-defined]
    table = lines[lines.index("|") :]
    is_live = "<script>" in table.replace("\\<script>", "") or "](" in table
    return "a script or a link" if is_live else "text"


@attempt("Name a class like an escape sequence, show the table", before="obeyed", now="shown")
def terminal_table_of_hostile_names(folder: Path) -> str:
    from rich.console import Console

    stream = io.StringIO()
    _sheet(CLEAR + TITLE).show(Console(file=stream, width=200))  # type: ignore[attr-defined]
    return _obeyed(stream.getvalue())
