"""Models that keep embeddings on disk: every row is encoded once, and forgotten there too."""

import numpy as np
import pytest
import torch
from torch import nn

from erasable import KNNClassifier, SPMClassifier, load
from erasable.errors import ArgumentError, RowIdError, StateError
from erasable.models import _embedding, parameters_of
from erasable.models._networks import evaluate
from erasable.store import EmbeddingCache
from models.toys import TINY, blobs, forget_keys, names, snapshot

QUERIES = blobs(9, seed=11)[0]
SPOT_CHECKS = 4
SEGMENT = 1024


class Doubling(nn.Module):
    """A user's network."""

    def __init__(self, factor=2.0):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, inputs):
        return torch.cat([inputs, inputs.flip(1)], 1) * self.factor


class Counter:
    """Counts the rows that are encoded to be stored or read, by whichever network."""

    rows = 0
    stops_at = None


@pytest.fixture(autouse=True)
def _counted_from_zero(monkeypatch):
    def counting(*args, **options):
        for batch in evaluate(*args, **options):
            if Counter.stops_at is not None and Counter.rows >= Counter.stops_at:
                raise KeyboardInterrupt
            Counter.rows += len(batch)
            yield batch

    monkeypatch.setattr(Counter, "rows", 0)
    monkeypatch.setattr(Counter, "stops_at", None)
    monkeypatch.setattr(_embedding, "evaluate", counting)


def counted(call):
    """Return how many rows are encoded during a call."""
    before = Counter.rows
    call()
    return Counter.rows - before


def remembering(folder, count=20, *, encoder=None, kind=SPMClassifier, **options):
    """Return a model that has remembered rows through a cache."""
    X, y = blobs(count)
    model = kind(encoder or Doubling(), embedding_cache=folder, **parameters_of(options))
    return model.remember(X, y, ids=names(count))


def keys(ids):
    return [f"s:{row_id}".encode() for row_id in ids]


def held(folder, ids=None):
    """Return how many entries a cache has, or has of these ids."""
    return EmbeddingCache(folder).count(None if ids is None else keys(ids))


def files_with(folder, embedding):
    """Return the files that hold the bytes of an embedding, in either precision."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    forms = [np.asarray(embedding, dtype).tobytes() for dtype in (np.float32, np.float64)]
    return [path for path in files if any(form in path.read_bytes() for form in forms)]


def raw_embedding(row):
    return 2 * np.concatenate([row, row[::-1]])


# -- encoding once --------------------------------------------------------------------------------


def test_a_second_model_encodes_nothing_again(tmp_path):
    assert counted(lambda: remembering(tmp_path)) == 20
    assert counted(lambda: remembering(tmp_path)) <= SPOT_CHECKS


def test_the_second_model_is_the_same(tmp_path):
    first, second = remembering(tmp_path), remembering(tmp_path)
    assert first.memory.digest == second.memory.digest
    np.testing.assert_array_equal(second.predict_proba(QUERIES), first.predict_proba(QUERIES))


def test_models_of_another_class_share_the_cache(tmp_path):
    remembering(tmp_path)
    assert counted(lambda: remembering(tmp_path, kind=KNNClassifier)) <= SPOT_CHECKS


@pytest.mark.parametrize(
    "options",
    [{"normalize": "none"}, {"normalize": "layer"}, {"grid_bits": 10}, {"reduction": "neighbours"}],
)
def test_what_comes_after_the_encoder_shares_the_cache(tmp_path, options):
    remembering(tmp_path)
    expected = SPMClassifier(Doubling(), **options).remember(*blobs(20), ids=names(20))
    models = []
    assert counted(lambda: models.append(remembering(tmp_path, **options))) <= SPOT_CHECKS
    assert models[0].memory.digest == expected.memory.digest


def test_other_weights_have_entries_of_their_own(tmp_path):
    remembering(tmp_path)
    assert counted(lambda: remembering(tmp_path, encoder=Doubling(3.0))) == 20
    assert held(tmp_path) == 40


def test_only_new_rows_are_encoded(tmp_path):
    remembering(tmp_path, 20)
    assert counted(lambda: remembering(tmp_path, 30)) == 10 + SPOT_CHECKS


def test_a_row_whose_input_changed_is_encoded_anew(tmp_path):
    remembering(tmp_path)
    X, y = blobs(20)
    X[3] += 1
    model = SPMClassifier(Doubling(), embedding_cache=tmp_path)
    assert counted(lambda: model.remember(X, y, ids=names(20))) == 1 + SPOT_CHECKS
    expected = SPMClassifier(Doubling()).remember(X, y, ids=names(20))
    assert model.memory.digest == expected.memory.digest


IMAGES = np.random.default_rng(3).integers(0, 256, (300, 6, 6), dtype=np.uint8)
MODELS = {
    "identity": ({"encoder": "identity"}, *blobs(300)),
    "random features": ({"encoder": "random_features", "random_state": 0}, *blobs(300)),
    "mlp": (TINY, *blobs(300)),
    "images": (
        {"encoder_options": {"widths": [4], "dim": 8}, "random_state": 0},
        IMAGES,
        ["a", "b", "c"] * 100,
    ),
}


@pytest.mark.parametrize(("options", "X", "y"), MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier])
def test_with_and_without_a_cache_a_model_is_the_same(tmp_path, kind, options, X, y):
    expected = kind(**options).remember(X, y, ids=names(300))
    for _ in range(2):
        model = kind(**options, embedding_cache=tmp_path).remember(X, y, ids=names(300))
        assert model.memory.digest == expected.memory.digest
        np.testing.assert_array_equal(model.predict_proba(X[:9]), expected.predict_proba(X[:9]))


def test_the_cache_may_be_named_by_text(tmp_path):
    remembering(str(tmp_path / "cache"))
    assert held(tmp_path / "cache") == 20


@pytest.mark.parametrize(("verbose", "told"), [(1, True), (0, False)])
def test_progress_is_shown_on_request(tmp_path, verbose, told, capfd):
    remembering(tmp_path, verbose=verbose)
    output, errors = capfd.readouterr()
    assert output == ""
    assert ("encoding" in errors and "20/20 rows" in errors) is told


def test_rows_without_ids_are_refused(tmp_path):
    model = SPMClassifier("identity", embedding_cache=tmp_path / "cache")
    with pytest.raises(ArgumentError, match="Expected ids with embedding_cache, but got none"):
        model.remember(*blobs(4))
    assert not hasattr(model, "network_")
    assert not (tmp_path / "cache").exists()


def test_ids_may_be_numbers(tmp_path):
    model = SPMClassifier("identity", embedding_cache=tmp_path)
    model.remember(*blobs(4), ids=np.arange(4))
    assert EmbeddingCache(tmp_path).count([b"i:0", b"i:3", b"s:3"]) == 2
    model.forget(ids=[0])
    assert EmbeddingCache(tmp_path).count([b"i:0"]) == 0


def test_an_interrupted_remember_goes_on_where_it_stopped(tmp_path):
    count = SEGMENT + 100
    Counter.stops_at = SEGMENT
    with pytest.raises(KeyboardInterrupt):
        remembering(tmp_path, count)
    assert held(tmp_path) == SEGMENT
    Counter.stops_at = None
    assert counted(lambda: remembering(tmp_path, count)) == 100 + SPOT_CHECKS


def test_a_network_whose_code_changed_is_told_with_the_folder(tmp_path, monkeypatch):
    model = remembering(tmp_path)
    before, forward = snapshot(model), Doubling.forward
    monkeypatch.setattr(Doubling, "forward", lambda self, inputs: -forward(self, inputs))
    with pytest.raises(StateError, match=rf"the embeddings in {tmp_path}/\w+ to be those of this"):
        model.embed(blobs(20)[0], ids=names(20))
    assert snapshot(model) == before
    with pytest.raises(StateError, match="differently now"):
        remembering(tmp_path)
    assert held(tmp_path) == 20


# -- fit and embed --------------------------------------------------------------------------------


def test_a_fit_that_trains_nothing_uses_the_cache(tmp_path):
    X, y = blobs(20)
    model = SPMClassifier(Doubling(), embedding_cache=tmp_path, epochs=0)
    assert counted(lambda: model.fit(X, y, ids=names(20))) == 20
    assert counted(lambda: remembering(tmp_path)) <= SPOT_CHECKS


def test_a_fit_that_trains_the_encoder_writes_no_cache(tmp_path):
    SPMClassifier(**TINY, epochs=1, embedding_cache=tmp_path / "cache").fit(*blobs(20))
    assert not (tmp_path / "cache").exists()


def test_rows_remembered_after_training_are_kept_for_the_trained_encoder(tmp_path):
    model = SPMClassifier(**TINY, epochs=1, embedding_cache=tmp_path).fit(*blobs(20))
    model.remember(*blobs(5, seed=1), ids=names(5))
    again = SPMClassifier(**TINY, epochs=0, embedding_cache=tmp_path)
    again.remember(*blobs(5, seed=1), ids=names(5))
    assert held(tmp_path) == 10


def test_embeddings_of_named_inputs_are_kept(tmp_path):
    model = remembering(tmp_path)
    X = blobs(6, seed=4)[0]
    expected = model.embed(X)
    assert counted(lambda: model.embed(X, ids=names(6, 50))) == 6
    assert counted(lambda: model.embed(X, ids=names(6, 50))) <= SPOT_CHECKS
    np.testing.assert_array_equal(model.embed(X, ids=names(6, 50)), expected)


def test_a_forgotten_input_that_was_encoded_under_another_id_leaves_the_cache(tmp_path):
    X, _ = blobs(20)
    model = remembering(tmp_path)
    model.embed(X[:1], ids=["another id"])
    assert held(tmp_path, ["another id"]) == 1
    model.forget(ids=names(1))
    assert held(tmp_path, ["another id"]) == 0
    assert held(tmp_path) == 19


def test_queries_are_not_kept(tmp_path):
    model = remembering(tmp_path)
    model.predict(QUERIES)
    model.votes(QUERIES)
    model.find(QUERIES)
    model.embed(QUERIES)
    assert held(tmp_path) == 20


def test_without_a_cache_ids_change_nothing():
    model = SPMClassifier(Doubling()).remember(*blobs(4), ids=names(4))
    expected = model.embed(QUERIES)
    np.testing.assert_array_equal(model.embed(QUERIES, ids=names(9)), expected)


def test_a_wrong_number_of_ids_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="Expected 9 ids, but got 8"):
        remembering(tmp_path).embed(QUERIES, ids=names(8))


# -- forgetting -----------------------------------------------------------------------------------


def grouped(folder):
    """Return a model of rows that all have groups, the first four of them ``g``."""
    X, y = blobs(20)
    groups = ["g"] * 4 + ["h"] * 16
    model = SPMClassifier(Doubling(), embedding_cache=folder)
    return model.remember(X, y, ids=names(20), groups=groups)


@pytest.mark.parametrize(
    ("selection", "gone"),
    [
        ({"ids": names(4)}, names(4)),
        ({"groups": ["g"]}, names(4)),
        ({"classes": ["a"]}, names(20)[::2]),
    ],
)
def test_forgotten_rows_have_left_the_cache_when_forget_returns(tmp_path, selection, gone):
    model = grouped(tmp_path)
    X = blobs(20)[0]
    places = [names(20).index(row_id) for row_id in gone]
    assert all(files_with(tmp_path, raw_embedding(X[place])) for place in places)
    model.forget(**selection)
    assert held(tmp_path, gone) == 0
    assert held(tmp_path) == 20 - len(gone)
    assert not any(files_with(tmp_path, raw_embedding(X[place])) for place in places)


def test_a_dry_run_leaves_the_cache(tmp_path):
    model = remembering(tmp_path)
    model.forget(ids=names(4), dry_run=True)
    assert held(tmp_path) == 20


def test_a_forget_that_is_refused_leaves_the_cache(tmp_path):
    model = remembering(tmp_path)
    with pytest.raises(RowIdError):
        model.forget(ids=[*names(4), "unknown"])
    assert (held(tmp_path), len(model.memory)) == (20, 20)


def test_a_row_that_is_only_in_the_cache_leaves_it(tmp_path):
    model = remembering(tmp_path)
    model.embed(QUERIES[:1], ids=["elsewhere"])
    assert model.forget(ids=["elsewhere"], missing_ok=True).rows == 0
    assert held(tmp_path, ["elsewhere"]) == 0


def test_rows_leave_the_entries_of_other_models_too(tmp_path):
    remembering(tmp_path, encoder=Doubling(3.0))
    model = remembering(tmp_path)
    model.forget(ids=names(4))
    assert (held(tmp_path, names(4)), held(tmp_path)) == (0, 32)


def test_rows_leave_every_cache_that_the_model_has_used(tmp_path):
    model = remembering(tmp_path / "first")
    model.set_params(embedding_cache=tmp_path / "second")
    model.embed(blobs(20)[0], ids=names(20))
    model.set_params(embedding_cache=None)
    model.forget(ids=names(4))
    assert held(tmp_path / "first", names(4)) == held(tmp_path / "second", names(4)) == 0


def test_a_model_still_works_after_its_cache_was_deleted(tmp_path):
    model = remembering(tmp_path / "cache")
    for path in sorted((tmp_path / "cache").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "cache").rmdir()
    assert model.forget(ids=names(1)).rows == 1
    model.remember(*blobs(3, seed=5), ids=names(3, 50))
    assert held(tmp_path / "cache") == 3


@pytest.mark.parametrize("parameter", ["kept", "taken away"])
def test_a_loaded_model_clears_the_cache_that_it_used(tmp_path, parameter):
    remembering(tmp_path / "cache", encoder="identity").save(tmp_path / "model")
    model = load(tmp_path / "model")
    if parameter == "taken away":
        model.set_params(embedding_cache=None)
    model.forget(ids=names(4))
    assert held(tmp_path / "cache", names(4)) == 0


def test_a_loaded_model_goes_on_with_its_cache(tmp_path):
    remembering(tmp_path / "cache").save(tmp_path / "model")
    model = load(tmp_path / "model", encoder=Doubling())
    assert counted(lambda: model.embed(blobs(20)[0], ids=names(20))) <= SPOT_CHECKS


# -- rows that must not come to the cache ---------------------------------------------------------


@pytest.mark.parametrize("way", ["id", "content", "group"])
def test_a_refused_row_does_not_reach_the_cache(tmp_path, way):
    model = grouped(tmp_path)
    model.forget(groups=["g"])
    X, y = blobs(22)
    again = {
        "id": (X[20:21], {"ids": names(1)}),
        "content": (X[:1], {"ids": ["a copy"]}),
        "group": (X[20:21], {"ids": ["new"], "groups": ["g"]}),
    }
    inputs, options = again[way]
    with pytest.raises(RowIdError, match="forgotten before"):
        model.remember(inputs, y[:1], **options)
    assert held(tmp_path) == 16
    assert files_with(tmp_path, raw_embedding(inputs[0])) == []


def test_skipped_rows_do_not_reach_the_cache(tmp_path):
    model = remembering(tmp_path, 20)
    model.forget(ids=names(4))
    X, y = blobs(30)
    model.remember(X[:4], y[:4], ids=names(4, 100), skip_forgotten=True)
    assert (held(tmp_path), len(model.memory)) == (16, 16)
    model.remember(X[[0, 25, 1]], ["a"] * 3, ids=["p", "q", "r"], skip_forgotten=True)
    assert held(tmp_path, ["p", "q", "r"]) == held(tmp_path, ["q"]) == 1


def test_a_row_with_an_id_in_use_does_not_reach_the_cache(tmp_path):
    model = remembering(tmp_path)
    X, y = blobs(22)
    with pytest.raises(RowIdError, match="in use"):
        model.remember(X[20:], y[20:], ids=["new", *names(1)])
    assert held(tmp_path) == 20


def test_a_row_with_a_wrong_label_does_not_reach_the_cache(tmp_path):
    model = remembering(tmp_path)
    with pytest.raises(ArgumentError):
        model.remember(QUERIES[:2], ["a", None], ids=["new", "newer"])
    assert held(tmp_path) == 20


def test_without_the_keys_nothing_reaches_the_cache(tmp_path):
    model = remembering(tmp_path)
    model.forget(ids=names(1))
    forget_keys()
    with pytest.raises(StateError, match="Expected the keys"):
        model.remember(QUERIES[:1], ["a"], ids=["new"])
    assert held(tmp_path) == 19


def test_a_reinstated_row_is_kept_again(tmp_path):
    model = remembering(tmp_path)
    model.forget(ids=names(1))
    X, y = blobs(1)
    model.remember(X, y, ids=names(1), reinstate=True)
    assert held(tmp_path, names(1)) == 1


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_fit_refuses_forgotten_rows_before_the_cache(tmp_path, epochs):
    model = remembering(tmp_path, epochs=epochs)
    model.forget(ids=names(4))
    with pytest.raises(RowIdError, match="forgotten before"):
        model.fit(*blobs(20), ids=names(20))
    assert held(tmp_path, names(4)) == 0


# -- what the model must not lose sight of --------------------------------------------------------


@pytest.mark.parametrize("failure", ["interrupted", "embeddings that do not fit"])
def test_rows_that_a_failed_remember_left_in_the_cache_can_be_removed(tmp_path, failure):
    model = SPMClassifier(Doubling(), normalize="none").remember(*blobs(4), ids=names(4))
    model.set_params(embedding_cache=tmp_path)
    X, y = blobs(SEGMENT + 50, seed=3)
    if failure == "interrupted":
        Counter.stops_at = Counter.rows + SEGMENT
    else:
        X[-1] = 1e3
    with pytest.raises((KeyboardInterrupt, ArgumentError)):
        model.remember(X, y, ids=names(len(X), 100))
    Counter.stops_at = None
    assert held(tmp_path, names(1, 100)) == 1
    model.forget(ids=names(1, 100), missing_ok=True)
    assert held(tmp_path, names(1, 100)) == 0


def test_a_new_fit_still_knows_the_cache_of_the_one_before(tmp_path):
    model = SPMClassifier(**TINY, embedding_cache=tmp_path, epochs=0)
    model.fit(*blobs(8), ids=names(8))
    model.set_params(epochs=1).fit(*blobs(8, seed=3), ids=names(8, 100))
    model.forget(ids=names(1), missing_ok=True)
    assert held(tmp_path, names(1)) == 0


def test_a_loaded_model_has_the_same_cache_wherever_it_is_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    remembering("cache", encoder="identity").save("model")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    model = load(tmp_path / "model")
    model.remember(*blobs(2, seed=3), ids=names(2, 100))
    assert held(tmp_path / "cache") == 22


# -- ids and groups that can be read once ---------------------------------------------------------


@pytest.mark.parametrize("what", ["ids", "groups"])
def test_ids_and_groups_may_come_from_an_iterator(what):
    X, y = blobs(8)
    values = {"ids": names(8), "groups": ["g"] * 8}
    expected = SPMClassifier("identity").remember(X, y, **values)
    model = SPMClassifier("identity")
    model.remember(X, y, **{**values, what: (value for value in values[what])})
    assert model.memory.digest == expected.memory.digest


def test_the_groups_of_a_row_may_come_from_an_iterator():
    model = SPMClassifier("identity")
    model.remember(*blobs(2), ids=names(2), groups=[iter(["g", "h"]), iter(["h"])])
    assert [row.groups for row in model.memory.get(names(2))] == [("g", "h"), ("h",)]
