"""Options that say how a model is trained and how its memory is read: each does what it names."""

import json
import sys

import numpy as np
import pytest
import safetensors.torch
from typer.testing import CliRunner

from erasable import KNNClassifier, SPMClassifier, load
from erasable.cli import app, main
from erasable.training import Training
from erasable.weights import weights_of
from models.toys import TINY, blobs, fitted, names

QUERIES = blobs(6, seed=5)


def call(*words):
    """Run a command in this process; expected errors raise."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def refused(monkeypatch, capsys):
    """Run a command that must be refused, and return its message."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["erasable", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert (ended.value.code in (1, 5), out) == (True, "")
        assert err.startswith("Error: ")
        assert err.count("\n") == 1
        return err

    return run


@pytest.fixture
def rows(tmp_path):
    X, y = blobs(40)
    np.savez(tmp_path / "rows.npz", X=X, y=y, ids=names(40))
    return tmp_path / "rows.npz"


@pytest.fixture
def queries(tmp_path):
    X, y = QUERIES
    ids = [*names(3), "q-3", "q-4", "q-5"]
    np.savez(tmp_path / "queries.npz", X=X, y=y, ids=ids)
    return tmp_path / "queries.npz"


@pytest.fixture
def spm(tmp_path):
    fitted(40).save(tmp_path / "spm")
    return tmp_path / "spm"


@pytest.fixture
def knn(tmp_path):
    X, y = blobs(40)
    KNNClassifier("identity", k=5).remember(X, y, ids=names(40)).save(tmp_path / "knn")
    return tmp_path / "knn"


@pytest.fixture
def graph(tmp_path):
    fitted(40, set_encoder="graph", support_size=8).save(tmp_path / "graph")
    return tmp_path / "graph"


def trained(path, rows, *words):
    """Train a model in a moment, and return what the command said."""
    return json.loads(call("train", path, rows, "--epochs", 1, "--json", *words))


# -- train ---------------------------------------------------------------------------------------

PARAMETERS = {
    "reduction": ("neighbours", "neighbours"),
    "k": (7, 7),
    "search": ("pq", "pq"),
    "attention": ("similarity", "similarity"),
    "temperature": (2.5, 2.5),
    "support_size": (9, 9),
    "sampler": ("classes", "classes"),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_an_option_of_training_becomes_a_parameter(tmp_path, rows, name):
    word, value = PARAMETERS[name]
    trained(tmp_path / "m", rows, f"--{name.replace('_', '-')}", word)
    found = load(tmp_path / "m").get_params()
    assert found.get(name, found.get(f"training__{name}")) == value


@pytest.mark.parametrize("sampling", ["uniform", "balanced"])
def test_the_sampling_of_the_support_can_be_chosen(tmp_path, rows, sampling):
    trained(tmp_path / "m", rows, "--support-size", 8, "--support-sampling", sampling)
    assert load(tmp_path / "m").training.support_sampling == sampling


@pytest.mark.parametrize("reduction", ["prototypes", "rows", "neighbours", "gaussian"])
def test_every_reduction_can_be_trained(tmp_path, rows, reduction):
    found = trained(tmp_path / "m", rows, "--reduction", reduction, "--test", rows)
    assert found["kind"] == "SPMClassifier"
    assert found["test_accuracy"] > 0.5


def test_without_options_the_parameters_are_those_of_the_library(tmp_path, rows):
    call("train", tmp_path / "m", rows, "--epochs", 1, "--json")
    made = SPMClassifier(epochs=1, training=Training()).get_params(deep=False)
    differ = {k for k, v in load(tmp_path / "m").get_params(deep=False).items() if v != made[k]}
    assert differ <= {"encoder", "encoder_options", "normalize", "random_state"}


def test_a_set_encoder_can_be_trained(tmp_path, rows):
    trained(tmp_path / "m", rows, "--set-encoder", "graph", "--support-size", 8)
    assert load(tmp_path / "m").network_.set_encoder.name == "graph"


@pytest.mark.parametrize("encoder", ["small_cnn", "fast_cnn", "resnet18"])
def test_encoders_of_images_can_be_chosen(tmp_path, encoder):
    X = np.random.default_rng(0).random((4, 8, 8), np.float32)
    np.savez(tmp_path / "images.npz", X=X, y=[0, 1, 0, 1])
    words = ("--encoder", encoder, "--epochs", 0, "--json")
    call("train", tmp_path / "m", tmp_path / "images.npz", *words)
    assert load(tmp_path / "m").network_.encoder.name == encoder


def test_nearest_neighbours_can_be_trained(tmp_path, rows):
    found = trained(tmp_path / "m", rows, "--kind", "knn", "--k", 3, "--search", "pq")
    model = load(tmp_path / "m")
    assert (found["kind"], type(model), model.k) == ("KNNClassifier", KNNClassifier, 3)


def test_a_model_can_be_replaced_by_one_of_another_kind(spm, rows):
    trained(spm, rows, "--kind", "knn", "--overwrite")
    assert type(load(spm)) is KNNClassifier


@pytest.mark.parametrize("kind", ["spm", "knn"])
def test_what_was_forgotten_stays_forgotten_in_a_model_of_any_kind(refused, spm, rows, kind):
    model = load(spm)
    model.forget(ids=names(1))
    model.save(spm)
    words = ("--kind", kind, "--overwrite", "--epochs", 1, "--json")
    assert "1 of 40 rows were forgotten before" in refused("train", spm, rows, *words)
    assert load(spm).memory.digest == model.memory.digest


def test_replacing_a_model_takes_nothing_over_from_its_parameters(tmp_path, rows):
    fitted(40, reduction="rows", temperature=3.0, k=2).save(tmp_path / "m")
    trained(tmp_path / "m", rows, "--overwrite")
    model = load(tmp_path / "m")
    assert (model.reduction, model.temperature, model.k) == ("prototypes", 1.0, 256)


def test_weights_can_come_from_a_saved_model(tmp_path, spm, rows):
    found = json.loads(call("train", tmp_path / "m", rows, "--init", spm, "--epochs", 0, "--json"))
    encoders = [load(path).network_.encoder.state_dict() for path in (spm, tmp_path / "m")]
    assert all((encoders[0][name] == encoders[1][name]).all() for name in encoders[0])
    assert found["adaptation"]["before"] == load(spm).score(*blobs(40))
    assert 0 <= found["adaptation"]["after"] <= 1


def test_the_accuracy_before_and_after_is_printed(tmp_path, spm, rows):
    text = call("train", tmp_path / "m", rows, "--init", spm, "--epochs", 1)
    assert "accuracy on these rows before, of the model in --init: 100.00%" in text
    assert "accuracy on these rows after, each without its own vote: " in text


def test_without_init_there_is_no_before(tmp_path, rows):
    assert trained(tmp_path / "m", rows)["adaptation"] is None


def test_weights_can_come_from_a_file(tmp_path, rows):
    encoder = SPMClassifier(random_state=7).remember(*blobs(4)).network_.encoder
    file = tmp_path / "encoder.safetensors"
    safetensors.torch.save_file(weights_of(encoder), file)
    found = json.loads(call("train", tmp_path / "m", rows, "--init", file, "--epochs", 0, "--json"))
    assert found["adaptation"]["before"] is None
    saved = load(tmp_path / "m").network_.encoder.state_dict()
    assert all((saved[name] == value).all() for name, value in encoder.state_dict().items())


def test_an_encoder_can_be_held_still(tmp_path, spm, rows):
    words = ("--init", spm, "--encoder-lr-factor", 0, "--learning-rate", 0.1)
    trained(tmp_path / "m", rows, *words)
    before, after = (load(path).network_.encoder for path in (spm, tmp_path / "m"))
    weights = [dict(encoder.named_parameters()) for encoder in (before, after)]
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])


TRAIN_REFUSED = {
    "kind": (("--kind", "svm"), "--kind spm, knn or generator"),
    "reduction": (("--reduction", "mean"), "'prototypes'"),
    "knn as a reduction": (("--reduction", "knn"), "KNNClassifier"),
    "k": (("--k", 0), "k to be a positive int"),
    "search": (("--search", "fast"), "search"),
    "attention": (("--attention", "none"), "'similarity'"),
    "temperature": (("--temperature", 0), "temperature"),
    "set encoder": (("--set-encoder", "tree", "--support-size", 8), "'graph'"),
    "set encoder alone": (("--set-encoder", "graph"), "support_size"),
    "support size": (("--support-size", 1), "support_size"),
    "support sampling": (("--support-size", 8, "--support-sampling", "x"), "'balanced'"),
    "sampler": (("--sampler", "x"), "sampler"),
    "encoder": (("--encoder", "magic"), "'resnet18'"),
    "rate": (("--encoder-lr-factor", -1), "encoder_lr_factor"),
    "no init": (("--init", "nowhere"), "nowhere"),
    "neighbours by prototypes": (("--kind", "knn", "--reduction", "rows"), "--reduction"),
    "neighbours with support": (
        ("--kind", "knn", "--support-size", 4, "--set-encoder", "graph"),
        "--set-encoder, --support-size",
    ),
}


@pytest.mark.parametrize(("words", "message"), TRAIN_REFUSED.values(), ids=TRAIN_REFUSED.keys())
def test_options_of_training_that_make_no_sense_are_refused(
    refused, tmp_path, rows, words, message
):
    found = refused("train", tmp_path / "new", rows, "--epochs", 1, "--json", *words)
    assert message in found
    assert not (tmp_path / "new").exists()


def test_a_file_of_other_weights_is_refused(refused, tmp_path, rows):
    encoder = SPMClassifier(**TINY).remember(*blobs(4)).network_.encoder
    safetensors.torch.save_file(weights_of(encoder), tmp_path / "other.safetensors")
    message = refused("train", tmp_path / "m", rows, "--init", tmp_path / "other.safetensors")
    assert "fit the encoder" in message


def test_a_model_of_other_inputs_is_refused_as_a_start(refused, tmp_path, rows):
    SPMClassifier("identity").remember(np.eye(3), [0, 1, 0]).save(tmp_path / "other")
    assert "(3,)" in refused("train", tmp_path / "m", rows, "--init", tmp_path / "other")


# -- reading -------------------------------------------------------------------------------------

READ = {
    "reduction": {"reduction": "rows"},
    "k": {"reduction": "neighbours", "k": 3},
    "search": {"reduction": "neighbours", "k": 3, "search": "pq"},
    "attention": {"reduction": "rows", "attention": "similarity"},
    "temperature": {"temperature": 4.0},
    "gaussian": {"reduction": "gaussian"},
}


def as_words(options):
    return [word for name, value in options.items() for word in (f"--{name}", value)]


@pytest.mark.parametrize("options", READ.values(), ids=READ.keys())
def test_predict_reads_the_memory_as_it_is_told(spm, queries, options):
    document = json.loads(call("predict", spm, queries, "--json", *as_words(options)))
    expected = load(spm).set_params(**options).predict_proba(QUERIES[0]).max(axis=1)
    np.testing.assert_allclose(document["probabilities"], expected)


@pytest.mark.parametrize("options", READ.values(), ids=READ.keys())
def test_votes_reads_the_memory_as_it_is_told(spm, queries, options):
    document = json.loads(call("votes", spm, queries, "--json", "--top", 2, *as_words(options)))
    expected = load(spm).set_params(**options).votes(QUERIES[0], top=2)
    weights = [[vote["weight"] for vote in query["votes"]] for query in document["queries"]]
    np.testing.assert_allclose(weights, expected.weights)
    assert document["kind"] == expected.kind


@pytest.mark.parametrize("command", ["predict", "votes"])
def test_reading_differently_changes_no_byte_of_the_model(spm, queries, command):
    before = {path.name: path.read_bytes() for path in spm.iterdir()}
    call(command, spm, queries, "--reduction", "rows", "--temperature", 2)
    assert {path.name: path.read_bytes() for path in spm.iterdir()} == before


def test_the_number_of_neighbours_can_be_chosen(knn, queries):
    words = ("--k", 3, "--search", "pq", "--json")
    document = json.loads(call("predict", knn, queries, *words))
    expected = load(knn).set_params(k=3).predict_proba(QUERIES[0]).max(axis=1)
    np.testing.assert_allclose(document["probabilities"], expected)


READ_REFUSED = {
    "reduction": (("--reduction", "mean"), "'prototypes'"),
    "knn": (("--reduction", "knn"), "KNNClassifier"),
    "k": (("--reduction", "neighbours", "--k", 0), "k to be a positive int"),
    "search": (("--reduction", "neighbours", "--search", "fast"), "search"),
    "attention": (("--attention", "none"), "'similarity'"),
    "temperature": (("--temperature", "-1"), "temperature"),
}


@pytest.mark.parametrize("command", ["predict", "votes"])
@pytest.mark.parametrize(("words", "message"), READ_REFUSED.values(), ids=READ_REFUSED.keys())
def test_readings_that_there_are_not_are_refused(refused, spm, queries, command, words, message):
    assert message in refused(command, spm, queries, *words)


@pytest.mark.parametrize("command", ["predict", "votes"])
@pytest.mark.parametrize("option", ["--reduction", "--attention", "--temperature"])
def test_options_of_another_kind_of_model_are_refused(refused, knn, queries, command, option):
    assert f"KNNClassifier, but got {option}" in refused(command, knn, queries, option, "1")


# -- predict, find, info -------------------------------------------------------------------------


def test_predictions_are_written_to_the_very_file_that_was_named(spm, queries, tmp_path):
    call("predict", spm, queries, "--out", tmp_path / "predictions")
    with np.load(tmp_path / "predictions", allow_pickle=False) as file:
        assert sorted(file) == ["classes", "labels", "probabilities"]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("command", ["predict", "votes"])
def test_a_directory_is_no_file_to_write_to(refused, spm, queries, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "is a directory" in refused(command, spm, queries, "--out", tmp_path)
    assert "is a directory" in refused(command, spm, queries, "--out", ".")


def test_find_tells_distances_relative_to_the_query(spm, rows):
    model, (X, _) = load(spm), blobs(40)
    document = json.loads(call("find", spm, rows, "--tolerance", 0.3, "--json"))
    lengths = np.linalg.norm(model.embed(X), axis=1)
    assert any(len(query) > 1 for query in document["queries"])
    for query, length in zip(document["queries"], lengths, strict=True):
        for match in query:
            assert match["relative"] == pytest.approx(match["distance"] / length)
            assert match["relative"] < 0.301


def test_find_explains_its_columns(spm, rows):
    first, second, third = call("find", spm, rows).splitlines()[:3]
    assert first == "distance of embeddings, the same relative to the query's length, id"
    assert second.startswith("query 0: ")
    assert third.split()[1].endswith("%")


def test_a_query_without_length_has_no_relative_distance(tmp_path):
    path = tmp_path / "m"
    SPMClassifier("identity").remember(np.zeros((1, 2)), ["a"], ids=["zero"]).save(path)
    np.savez(tmp_path / "zero.npz", X=np.zeros((1, 2)))
    document = json.loads(call("find", path, tmp_path / "zero.npz", "--json"))
    assert document["queries"] == [[{"id": "zero", "distance": 0.0, "relative": None}]]
    assert "–" in call("find", path, tmp_path / "zero.npz")


INFO = {
    "prototypes": ({"attention", "temperature"}, {"k", "search"}),
    "rows": ({"attention", "temperature"}, {"k", "search"}),
    "neighbours": ({"k", "search", "attention", "temperature"}, set()),
    "gaussian": ({"temperature"}, {"k", "search", "attention"}),
}


@pytest.mark.parametrize("reduction", INFO)
def test_info_tells_what_matters_for_the_reduction(tmp_path, reduction):
    shown, not_shown = INFO[reduction]
    fitted(8, reduction=reduction, k=3, epochs=1).save(tmp_path / "m")
    document = json.loads(call("info", tmp_path / "m", "--json"))
    assert (document["kind"], document["reduction"]) == ("SPMClassifier", reduction)
    assert shown <= set(document)
    assert not not_shown & set(document)


def test_info_tells_the_neighbours_that_vote(knn):
    lines = dict(line.split(maxsplit=1) for line in call("info", knn).splitlines())
    assert (lines["kind"], lines["reduction"], lines["k"]) == ("KNNClassifier", "knn", "5")
    assert "attention" not in lines


def test_info_tells_of_a_set_encoder_only_where_there_is_one(spm, graph):
    assert json.loads(call("info", graph, "--json"))["set_encoder"] == "graph"
    assert json.loads(call("info", spm, "--json"))["set_encoder"] is None
    assert "set encoder     graph\n" in call("info", graph)
    assert "set encoder" not in call("info", spm)


# -- votes ---------------------------------------------------------------------------------------


def test_votes_tells_its_units_first(spm, queries):
    lines = call("votes", spm, queries, "--top", 1).splitlines()
    assert lines[0].startswith("votes: terms of the logit of the row's own class")
    lines = call("votes", spm, queries, "--top", 1, "--reduction", "rows").splitlines()
    assert lines[0] == "votes: shares of the prediction; those of all rows sum to 100%"
    assert lines[1].startswith("query 0: a (")
    shares = [float(line.split("%")[0]) for line in lines[2:4]]
    assert sum(shares) == pytest.approx(100, abs=0.01)


def test_votes_tells_the_probability_of_the_prediction(spm, queries):
    document = json.loads(call("votes", spm, queries, "--json"))
    best = load(spm).predict_proba(QUERIES[0]).max(axis=1)
    np.testing.assert_allclose([query["probability"] for query in document["queries"]], best)


def test_no_row_is_listed_where_none_is_left(tmp_path, queries):
    fitted(2, reduction="rows").save(tmp_path / "m")
    text = call("votes", tmp_path / "m", queries, "--top", 9, "--exclude-own")
    assert "None" not in text
    first = json.loads(call("votes", tmp_path / "m", queries, "--exclude-own", "--json"))
    assert [len(query["votes"]) for query in first["queries"]] == [1, 1, 2, 2, 2, 2]


def test_a_querys_own_row_can_be_left_out(spm, queries):
    document = json.loads(call("votes", spm, queries, "--exclude-own", "--top", 3, "--json"))
    own = [*names(3), None, None, None]
    expected = load(spm).votes(QUERIES[0], top=3, exclude_ids=own)
    ids = [[vote["id"] for vote in query["votes"]] for query in document["queries"]]
    assert ids == expected.ids.tolist()
    assert all(row_id not in found for row_id, found in zip(own, ids, strict=True))


def test_own_rows_that_are_not_there_are_remarked_on(spm, tmp_path, capsys, monkeypatch):
    np.savez(tmp_path / "other.npz", X=QUERIES[0], ids=names(6, 500))
    monkeypatch.setattr(
        sys, "argv", ["erasable", "votes", str(spm), str(tmp_path / "other.npz"), "--exclude-own"]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, "no row is left out" in capsys.readouterr().err) == (0, True)


def test_own_rows_need_ids(refused, spm, tmp_path):
    np.savez(tmp_path / "other.npz", X=QUERIES[0])
    message = refused("votes", spm, tmp_path / "other.npz", "--exclude-own")
    assert "Expected ids in " in message


def test_own_rows_cannot_be_left_out_of_a_graph(refused, graph, queries):
    assert "Expected --exclude-own only" in refused("votes", graph, queries, "--exclude-own")


def test_the_page_is_that_of_the_library(spm, queries, rows, tmp_path):
    from erasable.bench._votes_page import votes_page

    out = tmp_path / "deep" / "votes.html"
    words = ("--out", out, "--rows", rows, "--top", 4, "--title", "Why?", "--exclude-own")
    assert call("votes", spm, queries, *words) == f"{out}: 6 queries\n"
    own = [*names(3), None, None, None]
    expected = votes_page(
        load(spm),
        QUERIES[0],
        y=np.array(QUERIES[1]),
        ids=[*names(3), "q-3", "q-4", "q-5"],
        rows=(names(40), blobs(40)[0]),
        top=4,
        exclude_ids=own,
        title="Why?",
        name=str(spm),
    )
    assert out.read_text() == expected
    assert [path.name for path in out.parent.iterdir()] == ["votes.html"]


def test_a_page_can_be_read_in_another_way(knn, queries, tmp_path):
    call("votes", knn, queries, "--out", tmp_path / "votes.html", "--k", 4)
    page = (tmp_path / "votes.html").read_text()
    assert "the 4 nearest rows" in page
    assert page.count("25.0 %") == 4 * 6


def test_a_page_of_too_many_queries_is_cut_and_says_so(spm, queries, tmp_path):
    out = tmp_path / "votes.html"
    text = call("votes", spm, queries, "--out", out, "--limit", 2)
    assert text == f"{out}: 2 queries of 6; use --limit for more\n"
    assert out.read_text().count("<article>") == 2
    document = json.loads(call("votes", spm, queries, "--out", out, "--limit", 2, "--json"))
    assert document == {"out": str(out), "queries": 6, "shown": 2}


def test_pictures_without_a_page_are_refused(refused, spm, queries, rows):
    assert "Expected --out with --rows" in refused("votes", spm, queries, "--rows", rows)


PAGE_REFUSED = {
    "top": (("--top", 0), "top"),
    "limit": (("--limit", 0), "limit"),
    "no pictures": (("--rows", "nowhere.npz"), "there is no nowhere.npz"),
    "reduction": (("--reduction", "mean"), "'prototypes'"),
}


@pytest.mark.parametrize(("words", "message"), PAGE_REFUSED.values(), ids=PAGE_REFUSED.keys())
def test_a_page_that_cannot_be_made_leaves_the_old_one(
    refused, spm, queries, tmp_path, words, message
):
    (tmp_path / "votes.html").write_text("old")
    found = refused("votes", spm, queries, "--out", tmp_path / "votes.html", *words)
    assert message in found
    assert (tmp_path / "votes.html").read_text() == "old"


def test_pictures_without_ids_are_refused(refused, spm, queries, tmp_path):
    np.savez(tmp_path / "pictures.npz", X=blobs(40)[0])
    words = ("--out", tmp_path / "votes.html", "--rows", tmp_path / "pictures.npz")
    assert "Expected ids in " in refused("votes", spm, queries, *words)
    assert not (tmp_path / "votes.html").exists()


def test_a_page_needs_a_place_that_can_be_written(refused, spm, queries, tmp_path):
    (tmp_path / "file").write_text("mine")
    refused("votes", spm, queries, "--out", tmp_path / "file" / "votes.html")
    assert (tmp_path / "file").read_text() == "mine"
