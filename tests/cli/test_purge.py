"""``erasable purge``, and the copies that ``erasable info`` lists."""

import json
import shutil
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from erasable import SPMClassifier, load
from erasable.cli import app, main
from erasable.store import EmbeddingCache
from models.toys import blobs, fitted, names

X, LABELS = blobs(20)


def call(*words):
    """Run a command in this process; expected errors raise."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*words):
    return json.loads(call(*words, "--json"))


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "embeddings"


@pytest.fixture
def queries(tmp_path):
    path = tmp_path / "queries.npz"
    np.savez(path, X=X[:3])
    return path


@pytest.fixture
def model(tmp_path, cache):
    """Return a saved model whose rows' embeddings are also kept in a cache."""
    path = tmp_path / "model"
    keeping = SPMClassifier("identity", embedding_cache=cache)
    keeping.remember(X, LABELS, ids=names(20)).save(path)
    return path


def encode_again(cache, *rows):
    """Let another model, which knows of no forgetting, put rows into the cache."""
    other = SPMClassifier("identity").remember(X, LABELS, ids=names(20, 50))
    other.set_params(embedding_cache=cache)
    other.embed(X[list(rows)], ids=[names(20)[row] for row in rows])


def listed(path):
    """Return kind and number of rows of every copy that a model knows of, by its path."""
    copies = document("info", path)["copies"]
    return {copy["path"]: (copy["kind"], copy["rows"]) for copy in copies}


# -- purge ----------------------------------------------------------------------------------------


def test_forget_leaves_nothing_to_purge(model, cache):
    call("forget", model, "--id", names(1)[0])
    assert EmbeddingCache(cache).count() == 19
    assert call("purge", model) == "0 kept embeddings of forgotten rows removed\n"
    assert document("purge", model) == {"entries": 0, "left": []}


def test_what_came_back_is_purged_once(model, cache):
    call("forget", model, "--class", "a")
    encode_again(cache, 0, 1, 2)
    assert EmbeddingCache(cache).count() == 12
    assert call("purge", model).startswith("2 kept embeddings of forgotten rows removed\n")
    assert EmbeddingCache(cache).count() == 10
    assert document("purge", model)["entries"] == 0


def test_a_number_is_printed_as_one_document(model, cache):
    call("forget", model, "--id", names(1)[0])
    encode_again(cache, 0)
    assert document("purge", model) == {"entries": 1, "left": []}


def test_live_rows_stay_and_the_model_is_as_before(model, cache):
    call("forget", model, "--id", names(1)[0])
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    call("purge", model)
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before
    assert EmbeddingCache(cache).count() == 19


def test_pages_that_may_show_forgotten_rows_are_named_and_not_deleted(model, queries, tmp_path):
    page = tmp_path / "votes.html"
    call("votes", model, queries, "--out", page)
    call("forget", model, "--id", names(1)[0])
    told = call("purge", model).splitlines()
    assert told[0] == "0 kept embeddings of forgotten rows removed"
    assert told[1].startswith(f"left: report {page}: ")
    (left,) = document("purge", model)["left"]
    assert (left["kind"], left["path"]) == ("report", str(page))
    assert page.exists()


def test_a_model_without_copies_has_nothing_to_purge(tmp_path):
    fitted(12).save(tmp_path / "m")
    assert document("purge", tmp_path / "m") == {"entries": 0, "left": []}


def test_a_cache_that_is_gone_is_told_of(model, cache):
    shutil.rmtree(cache)
    told = CliRunner().invoke(app, ["forget", str(model), "--id", names(1)[0]])
    assert (told.exit_code, f"{cache} is not there now" in told.stderr) == (0, True)
    found = document("purge", model)
    assert found["entries"] == 0
    assert [left["path"] for left in found["left"]] == [str(cache)]
    assert "not there now" in call("info", model)


def test_a_model_that_is_not_there_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["erasable", "purge", str(tmp_path / "nothing")])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (5, "")
    assert err.startswith("Error: Expected a saved model in ")


# -- what info lists ------------------------------------------------------------------------------


def test_info_lists_the_model_and_its_cache(model, cache):
    assert listed(model) == {str(model): ("model", 20), str(cache): ("embeddings", 20)}
    lines = [line for line in call("info", model).splitlines() if line.startswith("copy ")]
    assert [line.split()[1:3] for line in lines] == [
        ["model", f"{model}:"],
        ["embeddings", f"{cache}:"],
    ]
    assert all("20 of the rows" in line for line in lines)


def test_info_counts_the_rows_that_are_left(model, cache):
    call("forget", model, "--class", "b")
    assert listed(model) == {str(model): ("model", 10), str(cache): ("embeddings", 10)}


def test_a_page_of_votes_is_listed_from_then_on(model, queries, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call("votes", model, queries, "--out", "votes.html")
    assert listed(model)[str(tmp_path / "votes.html")] == ("report", None)
    call("remember", model, _more(tmp_path))
    assert str(tmp_path / "votes.html") in listed(model)
    assert f"report {tmp_path / 'votes.html'}: a page" in call("info", model)


def test_a_page_that_is_made_twice_is_listed_once(model, queries, tmp_path):
    for _ in range(2):
        call("votes", model, queries, "--out", tmp_path / "votes.html")
    kinds = [copy["kind"] for copy in document("info", model)["copies"]]
    assert sorted(kinds) == ["embeddings", "model", "report"]


def test_a_page_that_was_deleted_is_no_longer_listed(model, queries, tmp_path):
    call("votes", model, queries, "--out", tmp_path / "votes.html")
    (tmp_path / "votes.html").unlink()
    assert str(tmp_path / "votes.html") not in listed(model)


def test_votes_that_are_printed_leave_no_copy(model, queries):
    call("votes", model, queries)
    assert {kind for kind, _ in listed(model).values()} == {"model", "embeddings"}


def test_a_page_of_votes_changes_nothing_else_of_the_model(model, queries, tmp_path):
    before = load(model).memory.digest
    call("votes", model, queries, "--out", tmp_path / "votes.html", "--reduction", "gaussian")
    assert load(model).memory.digest == before
    assert load(model).reduction == "prototypes"


def _more(folder):
    more, labels = blobs(4, seed=5)
    np.savez(folder / "more.npz", X=more, y=labels, ids=names(4, 100))
    return folder / "more.npz"
