"""A trained classifier that becomes one that forgets."""

import numpy as np
import pytest
import safetensors.torch
import torch
from sklearn.exceptions import NotFittedError
from torch import nn

from erasable import ParametricClassifier, SPMClassifier, convert, declare, load
from erasable.encoders import cut
from erasable.errors import ArgumentError, StateError
from models.toys import TINY, blobs, names

CLASSES = ("a", "b", "c")


def twin(**options):
    X, y = blobs(90, classes=CLASSES)
    return ParametricClassifier(**{**TINY, "epochs": 8, **options}).fit(X, y)


def images(count=90, seed=0):
    """Return small images (count, 8, 8) with a bright corner per class, and class indices."""
    rng = np.random.default_rng(seed)
    places = np.arange(count) % 3
    X = 0.2 * rng.random((count, 8, 8)).astype(np.float32)
    for place, (row, column) in enumerate([(0, 0), (0, 4), (4, 0)]):
        X[places == place, row : row + 4, column : column + 4] += 0.5
    return X, places


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(4),
        nn.Flatten(),
        nn.Linear(32, 16),
        nn.ReLU(),
        nn.Linear(16, 3),
    )


@pytest.fixture(scope="module")
def trained():
    """Return a plain torch classifier of `images`, trained with plain torch."""
    with torch.random.fork_rng(devices=[]):
        model = network()
        X, y = images()
        inputs, labels = torch.from_numpy(X)[:, None], torch.from_numpy(y)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(40):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    return model.eval()


def converted(model, **options):
    X, y = images()
    return convert(model, "6", **options).remember(X, y.tolist(), ids=names(90))


def level(model, ids):
    plan = model.forget(ids=ids, dry_run=True)
    return plan.level, plan.basis


# -- a classifier of this library ------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["gaussian", "prototypes"])
def test_a_converted_classifier_is_nearly_as_good_as_its_head(reduction):
    source = twin()
    model = convert(source, reduction=reduction).remember(*blobs(90, classes=CLASSES))
    X, y = blobs(200, classes=CLASSES, seed=1)
    assert model.score(X, y) > source.score(X, y) - 0.03


def test_a_converted_classifier_reads_by_discriminants_and_holds_no_rows():
    model = convert(twin())
    assert isinstance(model, SPMClassifier)
    assert (model.reduction, model.epochs) == ("gaussian", 0)
    assert not hasattr(model, "memory_")


def test_a_converted_classifier_embeds_as_the_source_did():
    source = twin()
    X, y = blobs(90, classes=CLASSES)
    model = convert(source).remember(X, y)
    with torch.no_grad():
        embed = nn.Sequential(source.network_.encoder, source.network_.norm)
        expected = embed(torch.from_numpy(X))
    np.testing.assert_allclose(model.embed(X), expected, atol=1e-4)


@pytest.mark.parametrize("normalize", ["layer", "none"])
def test_the_normalisation_is_taken_over(normalize):
    assert convert(twin(normalize=normalize)).normalize == normalize


def test_rows_of_its_training_are_forgotten_from_memory_only():
    X, y = blobs(90, classes=CLASSES)
    model = convert(twin()).remember(X, y, ids=names(90))
    assert level(model, names(1)) == ("memory", "recorded")


def test_rows_it_never_saw_are_exact():
    model = convert(twin()).remember(*blobs(9, classes=CLASSES, seed=7), ids=names(9, 500))
    assert level(model, names(9, 500)) == ("exact", "recorded")


def test_the_source_is_copied():
    source = twin()
    before = [value.clone() for value in source.network_.state_dict().values()]
    model = convert(source).remember(*blobs(90, classes=CLASSES))
    with torch.no_grad():
        next(model.encoder_.parameters()).add_(1)
    after = source.network_.state_dict().values()
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_further_parameters_reach_the_classifier():
    model = convert(twin(), reduction="neighbours", k=7, temperature=2.0)
    assert (model.reduction, model.k, model.temperature) == ("neighbours", 7, 2.0)


# -- any torch network -----------------------------------------------------------------------------


def test_a_converted_network_is_nearly_as_good_as_its_head(trained):
    X, y = images(300, seed=1)
    with torch.no_grad():
        head = (trained(torch.from_numpy(X)[:, None]).argmax(1).numpy() == y).mean()
    assert head > 0.9
    assert converted(trained).score(X, y.tolist()) > head - 0.03


def test_a_converted_network_forgets(trained):
    model = converted(trained)
    model.forget(classes=[1])
    assert model.classes_.tolist() == [0, 2]
    assert set(model.predict(images(30, seed=2)[0])) <= {0, 2}


def test_a_network_of_unknown_origin_may_have_seen_everything(trained):
    assert level(converted(trained), names(1)) == ("memory", "unknown")


def test_a_declared_network_is_exact_on_the_users_word():
    model = converted(declare(network(), "public data"))
    assert level(model, names(90)) == ("exact", "declared")


def test_a_network_changed_since_it_was_declared_may_have_seen_everything():
    model = declare(network(), "public data")
    with torch.no_grad():
        model[7].bias.add_(1)
    assert level(converted(model), names(1)) == ("memory", "unknown")


def test_a_saved_model_is_loaded_into_a_network_cut_alike(trained, tmp_path):
    model = converted(trained)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model", encoder=cut(network(seed=1), "6"))
    X, _ = images(20, seed=3)
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-9)


def test_a_declared_level_survives_saving(tmp_path):
    converted(declare(network(), "public data")).save(tmp_path / "model")
    again = load(tmp_path / "model", encoder=cut(network(seed=1), "6"))
    assert level(again, names(90)) == ("exact", "declared")


def test_without_the_network_a_saved_model_is_not_loaded(trained, tmp_path):
    converted(trained).save(tmp_path / "model")
    with pytest.raises(StateError, match=r"Expected load\(path, encoder=network\)"):
        load(tmp_path / "model")


def test_the_heads_weights_are_not_saved(trained, tmp_path):
    converted(trained).save(tmp_path / "model")
    (path,) = (tmp_path / "model").glob("*.safetensors")
    saved = safetensors.torch.load_file(path)
    head = trained[7]
    assert not any(value.shape == head.weight.shape for value in saved.values())
    raw = b"".join(file.read_bytes() for file in (tmp_path / "model").iterdir())
    assert head.weight.detach().numpy().tobytes() not in raw
    assert trained[5].weight.detach().numpy().tobytes() in raw


# -- refusals --------------------------------------------------------------------------------------


def test_a_classifier_of_this_library_needs_no_layer():
    with pytest.raises(ArgumentError, match="Expected no layer with a ParametricClassifier"):
        convert(twin(epochs=1), "encoder")


def test_a_torch_network_needs_a_layer():
    with pytest.raises(ArgumentError, match="but got Sequential and layer=None"):
        convert(network())


def test_an_unknown_layer_is_refused():
    with pytest.raises(ArgumentError, match="Expected the name of a layer, but got 'head'"):
        convert(network(), "head")


def test_a_classifier_that_was_never_fitted_is_refused():
    with pytest.raises(NotFittedError):
        convert(ParametricClassifier())


@pytest.mark.parametrize("wrong", [3, "model.pt", None])
def test_what_is_no_model_is_refused(wrong):
    with pytest.raises(ArgumentError, match=f"but got {type(wrong).__name__} and layer='6'"):
        convert(wrong, "6")
