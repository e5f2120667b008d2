"""What the estimators accept, what they refuse, and that a refusal changes nothing."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from erasable import ParametricClassifier, SPMClassifier
from erasable.errors import ArgumentError, ErasableError, RowIdError, StateError
from models.toys import TINY, blobs, fitted, names, own_network, snapshot

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (20, 6, 5), dtype=np.uint8)
COLOURS = RNG.random((20, 6, 5, 3)).astype(np.float32)
LABELS = ["a", "b"] * 10


def plain(images, **options):
    """Return an untrained model of images, flattened."""
    return SPMClassifier("identity", **options).remember(images, LABELS)


# -- images ---------------------------------------------------------------------------------------


def test_images_without_channels_gain_one():
    assert plain(BYTES).input_shape_ == (1, 6, 5)


def test_channels_may_come_last():
    assert plain(COLOURS).input_shape_ == (3, 6, 5)


def test_channels_may_come_first():
    assert plain(COLOURS.transpose(0, 3, 1, 2)).input_shape_ == (3, 6, 5)


def test_channels_first_and_last_are_the_same_images():
    first, last = plain(COLOURS.transpose(0, 3, 1, 2)), plain(COLOURS)
    assert first.memory.digest == last.memory.digest


def test_a_model_of_channels_first_reads_channels_last():
    model = plain(COLOURS.transpose(0, 3, 1, 2))
    expected = model.predict_proba(COLOURS.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(model.predict_proba(COLOURS), expected)


def test_where_both_could_be_channels_the_second_axis_is():
    images = RNG.random((20, 3, 5, 4))
    assert plain(images).input_shape_ == (3, 5, 4)


def test_bytes_are_scaled_to_one():
    scaled = plain(BYTES.astype(np.float32) / np.float32(255))
    assert plain(BYTES).memory.digest == scaled.memory.digest


def test_bytes_of_feature_vectors_are_scaled_to_one():
    flat = BYTES.reshape(20, 30)
    scaled = plain(flat.astype(np.float32) / np.float32(255))
    assert plain(flat).memory.digest == scaled.memory.digest


def test_other_integers_are_not_scaled():
    assert plain(BYTES.astype(np.int64) % 60).embed(np.full((1, 6, 5), 7))[0, 0] == 7


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_of_any_size_are_the_same_images(dtype):
    images = (BYTES % 8).astype(dtype) / 8
    assert plain(images).memory.digest == plain(images.astype(np.float32)).memory.digest


def test_a_tensor_is_taken_like_an_array():
    assert plain(torch.from_numpy(COLOURS)).memory.digest == plain(COLOURS).memory.digest


@pytest.mark.parametrize("images", [BYTES, COLOURS, COLOURS.transpose(0, 3, 1, 2)])
def test_a_network_of_images_trains_on_each_form(images):
    model = SPMClassifier(encoder_options={"widths": [4], "dim": 8}, epochs=1).fit(images, LABELS)
    assert model.encoder_.name == "small_cnn"
    assert model.predict_proba(images).shape == (20, 2)


def test_a_twin_trains_on_images():
    twin = ParametricClassifier(encoder_options={"widths": [4], "dim": 8}, epochs=1)
    assert twin.fit(BYTES, LABELS).predict_proba(BYTES).shape == (20, 2)


def test_the_users_images_are_not_changed():
    images, before = COLOURS.copy(), COLOURS.copy()
    SPMClassifier(encoder_options={"widths": [4], "dim": 8}, epochs=1).fit(images, LABELS)
    np.testing.assert_array_equal(images, before)


# -- refusals, each of which changes nothing ------------------------------------------------------


def _bad(value):
    X = blobs(4)[0].astype(np.float64)
    X[2, 1] = value
    return X


REFUSED = {
    "NaN": (_bad(np.nan), ArgumentError),
    "infinity": (_bad(np.inf), ArgumentError),
    "too large for float32": (_bad(1e300), ArgumentError),
    "a wrong number of features": (np.zeros((4, 3)), ArgumentError),
    "images instead of vectors": (np.zeros((4, 2, 2)), ArgumentError),
    "one axis": (np.zeros(4), ArgumentError),
    "no rows": (np.zeros((0, 4)), ArgumentError),
    "text": (np.array([["x"] * 4] * 4), ArgumentError),
    "complex numbers": (np.zeros((4, 4), complex), ArgumentError),
}
refused = pytest.mark.parametrize(("X", "kind"), REFUSED.values(), ids=REFUSED.keys())


@refused
@pytest.mark.parametrize("call", ["predict", "votes", "find", "embed"])
def test_a_query_that_is_refused_changes_nothing(call, X, kind):
    model = fitted()
    before = snapshot(model)
    with pytest.raises(kind):
        getattr(model, call)(X)
    assert snapshot(model) == before


@refused
def test_rows_that_are_refused_change_nothing(X, kind):
    model = fitted()
    before = snapshot(model)
    with pytest.raises(kind):
        model.remember(X, ["a"] * len(X), ids=names(len(X), 100))
    assert snapshot(model) == before


@pytest.mark.parametrize("images", [np.full((2, 6, 5), np.nan), np.full((2, 6, 5), 1e300)])
def test_images_that_are_not_finite_are_refused(images):
    with pytest.raises(ArgumentError, match="Expected finite inputs"):
        plain(BYTES).predict(images)


def test_no_images_are_refused():
    with pytest.raises(ArgumentError, match="at least one image"):
        plain(BYTES).predict(np.zeros((0, 6, 5)))


def test_images_of_another_size_are_refused_with_both_shapes():
    with pytest.raises(ArgumentError, match=r"\(n, 1, 6, 5\), but got \(2, 1, 7, 5\)"):
        plain(BYTES).predict(np.zeros((2, 7, 5)))


def test_images_of_text_are_refused():
    with pytest.raises(ArgumentError, match="Expected images to be numbers"):
        plain(BYTES).predict(np.full((2, 6, 5), "x"))


FAILING_ROWS = {
    "an id in use": ({"ids": names(4)}, RowIdError),
    "too few ids": ({"ids": ["p"]}, ArgumentError),
    "an id that is a float": ({"ids": [0.5, "q", "r", "s"]}, ArgumentError),
    "too few groups": ({"groups": ["g"]}, ArgumentError),
    "too few labels": ({"y": ["a"]}, ArgumentError),
    "no labels": ({"y": None}, ArgumentError),
    "a label that is None": ({"y": ["a", None, "b", "a"]}, ArgumentError),
    "a label that is NaN": ({"y": [1.0, 2.0, np.nan, 1.0]}, ArgumentError),
    "regression targets": ({"y": [0.1, 0.2, 0.3, 0.4]}, ArgumentError),
    "labels with two columns": ({"y": np.zeros((4, 2))}, ArgumentError),
    "both ways with forgotten rows": (
        {"reinstate": True, "skip_forgotten": True},
        ArgumentError,
    ),
}


@pytest.mark.parametrize(
    ("options", "kind"), FAILING_ROWS.values(), ids=[f"because of {k}" for k in FAILING_ROWS]
)
def test_a_remember_that_fails_changes_nothing(options, kind):
    model = fitted()
    model.predict(blobs(2)[0])
    before = snapshot(model)
    X, y = blobs(4, seed=5)
    arguments = {"y": y, "ids": names(4, 100), **options}
    with pytest.raises(kind):
        model.remember(X, **arguments)
    assert snapshot(model) == before


FAILING_FITS = {
    "NaN": ({"X": _bad(np.nan)}, {}),
    "a repeated id": ({"ids": ["p", "p", "q", "r"]}, {}),
    "a wrong number of labels": ({"y": ["a"]}, {}),
    "a bad setting": ({}, {"batch_size": 1}),
    "an unknown encoder": ({}, {"encoder": "magic", "encoder_options": None}),
    "options of another encoder": ({}, {"encoder_options": {"widths": [3]}}),
    "an unknown normalisation": ({}, {"normalize": "magic"}),
    "an unknown scale": ({}, {"scale": -1}),
    "a wild grid": ({}, {"grid_bits": 99}),
    "an unknown reduction": ({}, {"reduction": "magic"}),
    "embeddings that leave the grid": (
        {"X": np.eye(4) * 1e6},
        {"encoder": "identity", "encoder_options": None, "epochs": 0},
    ),
}


@pytest.mark.parametrize(
    ("arguments", "settings"), FAILING_FITS.values(), ids=[f"because of {k}" for k in FAILING_FITS]
)
@pytest.mark.parametrize("is_fitted", [True, False])
def test_a_fit_that_fails_changes_nothing(is_fitted, arguments, settings):
    model = fitted() if is_fitted else SPMClassifier(**TINY, epochs=3)
    X, y = blobs(4, seed=5)
    if is_fitted:
        expected = model.predict_proba(X)
    before = model.get_params(), vars(model).keys()
    with pytest.raises(ErasableError):
        model.set_params(**settings).fit(**{"X": X, "y": y, "ids": names(4, 100), **arguments})
    model.set_params(**before[0])
    assert vars(model).keys() == before[1]
    if is_fitted:
        np.testing.assert_array_equal(model.predict_proba(X), expected)


WRONG_PARAMETERS = {
    "an unknown name after a known one": {"k": 3, "magic": 1},
    "an unknown part of a parameter": {"k": 3, "encoder__magic": 1},
    "an unknown reduction": {"k": 3, "reduction": "magic"},
    "no neighbours": {"reduction": "neighbours", "k": 0},
    "an unknown search": {"k": 3, "reduction": "neighbours", "search": "magic"},
    "a wild temperature": {"k": 3, "temperature": -1.0},
    "a wild grid": {"k": 3, "grid_bits": 99},
    "a batch of nothing": {"k": 3, "batch_size": 0},
    "an unknown normalisation": {"k": 3, "normalize": "magic"},
}


@pytest.mark.parametrize(
    "wrong", WRONG_PARAMETERS.values(), ids=[f"because of {k}" for k in WRONG_PARAMETERS]
)
def test_parameters_that_are_refused_change_nothing(wrong):
    model = fitted()
    model.predict(blobs(2)[0])
    before = snapshot(model)
    with pytest.raises(ArgumentError):
        model.set_params(**wrong)
    assert snapshot(model) == before


def test_an_unknown_parameter_changes_nothing_of_an_unfitted_model():
    model = SPMClassifier("identity")
    before = model.get_params()
    with pytest.raises(ArgumentError, match="magic"):
        model.set_params(k=3, magic=1)
    assert model.get_params() == before


def test_setting_parameters_draws_no_random_number():
    state = np.random.RandomState(0)
    model = SPMClassifier(**{**TINY, "random_state": state}, epochs=0).fit(*blobs(4))
    expected = copy.deepcopy(state).rand()
    model.set_params(k=3)
    assert state.rand() == expected


def test_training_that_diverges_says_so_and_leaves_the_model_unfitted():
    network = nn.Linear(4, 8)
    with torch.no_grad():
        network.weight.fill_(1e38)
    model = SPMClassifier(network, normalize="none", epochs=1)
    before = dict(vars(model))
    with pytest.raises(StateError, match="diverged"):
        model.fit(*blobs(40))
    assert vars(model) == before


def test_a_first_remember_that_fails_leaves_the_model_unfitted():
    model = SPMClassifier("identity")
    before = dict(vars(model))
    with pytest.raises(ArgumentError):
        model.remember([[1e6, 0.0]], ["a"])
    assert vars(model) == before


def test_an_interrupted_fit_changes_nothing():
    class Interrupting(nn.Linear):
        def forward(self, inputs):
            if self.training:
                raise KeyboardInterrupt
            return super().forward(inputs)

    model = fitted()
    before = model.memory.digest, model.weights_digest
    model.set_params(encoder=Interrupting(4, 3), encoder_options=None)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*blobs(40, seed=3), ids=names(40, 100))
    assert (model.memory.digest, model.weights_digest) == before


# -- networks of the user -------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["fit", "remember"])
@pytest.mark.parametrize("is_training", [True, False])
def test_the_users_network_is_never_changed(call, is_training):
    network = nn.Sequential(nn.BatchNorm1d(4), own_network()).train(is_training)
    before = copy.deepcopy(network.state_dict())
    model = SPMClassifier(network, epochs=2)
    getattr(model, call)(*blobs(40))
    model.predict(blobs(4)[0])
    assert model.encoder is network
    assert network.training is is_training
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_a_network_that_returns_images_is_refused_with_the_remedy():
    with pytest.raises(ArgumentError, match=r"\(n, dim\).*nn.Flatten"):
        SPMClassifier(nn.Conv2d(1, 2, 3)).remember(BYTES, LABELS)


def test_a_network_for_other_inputs_is_refused():
    with pytest.raises(ArgumentError, match=r"accept inputs of shape \(n, 4\)"):
        SPMClassifier(nn.Linear(5, 3)).remember(*blobs(4))


def test_the_callers_random_state_is_left_alone():
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002 - the legacy state is what must not move
    expected = torch.rand(1), np.random.rand()  # noqa: NPY002
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    fitted().predict(blobs(4)[0])
    assert (torch.rand(1), np.random.rand()) == expected  # noqa: NPY002


# -- labels, ids and groups -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["a", "b"], str),
        ([3, -1], int),
        ([True, False], bool),
        ([1.0, 2.0], float),
        (np.array([3, -1], np.int8), int),
        (np.array(["a", "b"], object), str),
    ],
)
def test_labels_keep_their_type(labels, kind):
    model = SPMClassifier("identity").remember([[0.0, 5.0], [5.0, 0.0]], labels)
    predicted = model.predict([[0.0, 5.0], [5.0, 0.0]]).tolist()
    assert predicted == list(labels)
    assert {type(label) for label in predicted} == {kind}


def test_labels_of_mixed_types_keep_theirs():
    labels = [1, "1", True, 1.0]
    model = SPMClassifier("identity").remember(8 * np.eye(4), labels)
    predicted = model.predict(8 * np.eye(4)).tolist()
    assert [(type(label), label) for label in predicted] == [(type(v), v) for v in labels]


def test_labels_of_mixed_types_can_be_trained_on():
    X, _ = blobs(40, classes=("a", "b", "c"))
    labels = [(1, "1", True)[i % 3] for i in range(40)]
    model = SPMClassifier(**TINY, epochs=5).fit(X, labels)
    assert [(type(c), c) for c in model.classes_] == [(bool, True), (int, 1), (str, "1")]


def test_the_twin_takes_labels_of_mixed_types():
    X, _ = blobs(40, classes=("a", "b", "c"))
    labels = [(1, "1", True)[i % 3] for i in range(40)]
    twin = ParametricClassifier(**TINY, epochs=1).fit(X, labels)
    assert [(type(c), c) for c in twin.classes_] == [(bool, True), (int, 1), (str, "1")]


def test_the_twin_refuses_a_wrong_number_of_labels():
    with pytest.raises(ArgumentError, match="Expected 4 labels, but got 1"):
        ParametricClassifier(**TINY).fit(blobs(4)[0], ["a"])


def test_ids_are_counted_up_if_not_given():
    model = SPMClassifier(**TINY, epochs=0).fit(*blobs(4))
    model.remember(*blobs(2, seed=1))
    assert sorted(row.id for row in model.memory) == [0, 1, 2, 3, 4, 5]


def test_groups_may_come_from_an_iterator():
    X, y = blobs(8)
    groups = (["one", "two"] if i else None for i in range(8))
    model = SPMClassifier(**TINY, epochs=1).fit(X, y, ids=names(8), groups=groups)
    assert [row.groups for row in model.memory.get(names(2))] == [(), ("one", "two")]


def test_a_new_class_can_be_remembered_without_training():
    model = fitted()
    before = model.weights_digest
    model.remember(np.full((3, 4), -9.0) + np.eye(3, 4), ["new"] * 3, ids=names(3, 100))
    assert model.predict(np.full((1, 4), -9.0)).tolist() == ["new"]
    assert model.weights_digest == before


def test_column_names_are_checked():
    pandas = pytest.importorskip("pandas")
    X, y = blobs(8)
    model = SPMClassifier("identity").remember(pandas.DataFrame(X, columns=list("pqrs")), y)
    with pytest.raises(ArgumentError, match="feature names"):
        model.predict(pandas.DataFrame(X, columns=list("pqrx")))
