"""What holds for every method: nothing to do changes nothing, and the original is never touched."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from erasable.baselines import (
    Budget,
    DivergedError,
    Method,
    SGDMethod,
    WeightMethod,
    get_method,
    methods,
    register_method,
    unlearn,
)
from erasable.data import load_digits
from erasable.errors import ArgumentError, RowIdError
from erasable.models import KNNClassifier, ParametricClassifier, SPMClassifier
from erasable.training import Training
from erasable.weights import weights_digest

WEIGHTS = [name for name, kind in methods().items() if issubclass(kind, WeightMethod)]
ITERATIVE = [name for name, kind in methods().items() if issubclass(kind, SGDMethod)]
STEPPING = [name for name in WEIGHTS if name != "mute"]  # that one has no steps
ONE = Budget(epochs=1)


def state(network):
    return weights_digest(network)


def edited(problem, name, *, budget=ONE, **settings):
    small = {"batch_size": 64} if name in ITERATIVE else {"samples": 5} if name == "iu" else {}
    method = get_method(name, **{**small, **settings})
    return unlearn(
        method, problem.network, forget=problem.forget, retain=problem.retain, budget=budget
    )


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_original_is_never_changed_and_the_copy_is(problem, name):
    before = state(problem.network)
    found = edited(problem, name)
    assert state(problem.network) == before
    assert not problem.network.training
    assert found.model is not problem.network
    assert state(found.model) != before
    assert not any(module.training for module in found.model.modules())


@pytest.mark.parametrize("name", STEPPING)
def test_a_step_of_length_zero_is_the_identity(problem, name):
    zero = {"learning_rate": 0.0} if name in ITERATIVE else {"alpha": 0.0}
    found = edited(problem, name, **zero)
    assert state(found.model) == state(problem.network)


@pytest.mark.parametrize("name", ITERATIVE)
def test_no_epochs_are_the_identity(problem, name):
    found = edited(problem, name, budget=Budget(epochs=0))
    assert state(found.model) == state(problem.network)
    assert state(edited(problem, name, budget=None, epochs=0).model) == state(problem.network)


@pytest.mark.parametrize("name", sorted(methods()))
def test_nothing_to_forget_is_the_identity(problem, name):
    nothing = problem.forget.take([])
    found = unlearn(name, problem.network, forget=nothing, retain=problem.retain)
    assert state(found.model) == state(problem.network)
    assert found.model is not problem.network


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_seed_decides_everything_and_the_callers_random_state_stays(problem, name):
    torch.manual_seed(5)
    expected = torch.random.get_rng_state()
    first, again, other = (edited(problem, name, seed=seed) for seed in (1, 1, 2))
    assert state(first.model) == state(again.model)
    assert (state(first.model) == state(other.model)) == (name not in STEPPING)
    assert torch.equal(torch.random.get_rng_state(), expected)


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_outputs_are_those_of_the_original(problem, name):
    found = edited(problem, name)
    assert found.model(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    assert [p.shape for p in found.model.parameters()] == [
        p.shape for p in problem.network.parameters()
    ]


@pytest.mark.parametrize("name", WEIGHTS)
def test_time_is_accounted_for_part_by_part(problem, name):
    found = edited(problem, name)
    assert found.account.seconds == pytest.approx(sum(found.account.parts.values()))
    assert all(seconds > 0 for seconds in found.account.parts.values())
    assert found.method == name
    assert found.settings["seed"] == 0
    assert found.is_complete


@pytest.mark.parametrize("name", ITERATIVE)
def test_frozen_batch_normalisation_keeps_its_statistics(problem, name):
    frozen = edited(problem, name, batch_norm="frozen", learning_rate=1e-3)
    free = edited(problem, name, batch_norm="train", learning_rate=1e-3)
    for module, original in zip(frozen.model.modules(), problem.network.modules(), strict=True):
        if isinstance(module, nn.BatchNorm2d):
            assert torch.equal(module.running_mean, original.running_mean)
            assert torch.equal(module.running_var, original.running_var)
    assert frozen.figures["batch_norm_drift"] == 0
    assert free.figures["batch_norm_drift"] > 0


def test_drift_of_statistics_shows_that_only_the_forget_set_was_seen(problem):
    """GA sees the forget set only, FT the rest: the first drifts further."""
    budget = Budget(epochs=5)  # in one, the statistics of so few batches move little
    ga, ft = (edited(problem, name, learning_rate=1e-6, budget=budget) for name in ("ga", "ft"))
    assert ga.figures["batch_norm_drift"] > 2 * ft.figures["batch_norm_drift"]


@pytest.mark.parametrize("name", ITERATIVE)
def test_a_budget_of_seconds_stops_the_work(problem, name):
    found = edited(problem, name, budget=Budget(epochs=10_000, seconds=0.3))
    assert not found.is_complete
    assert found.account.parts["epochs"] < 5
    assert not found.model.training


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_budget_of_nothing_is_refused(problem, seconds):
    with pytest.raises(ArgumentError, match="to be more than 0"):
        edited(problem, "ft", budget=Budget(seconds=seconds))


@pytest.mark.parametrize("name", ["ga", "ft", "salun", "l1_sparse"])
def test_divergence_is_no_score(problem, name):
    before = state(problem.network)
    with pytest.raises(DivergedError, match=f"{name} has diverged"):
        edited(problem, name, learning_rate=1e30, budget=Budget(epochs=5))
    assert state(problem.network) == before


def test_divergence_of_a_single_step_is_no_score(problem):
    with pytest.raises(DivergedError, match="iu has diverged"):
        edited(problem, "iu", alpha=1e300)


# -- models ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def estimators(problem):
    rows = problem.retain.take(range(150))
    gone = problem.forget.take(range(15))
    X, y = np.concatenate([rows.X, gone.X]), np.concatenate([rows.y, gone.y])
    ids = [*rows.ids, *gone.ids]
    shared = {"encoder": "small_cnn", "epochs": 2, "batch_size": 64, "random_state": 0}
    shared["encoder_options"] = {"widths": [8, 8], "dim": 16}
    twin = ParametricClassifier(**shared).fit(X, y)
    spm = SPMClassifier(**shared).fit(X, y, ids=ids)
    knn = KNNClassifier(**shared).fit(X, y, ids=ids)
    return twin, spm, knn, gone, rows


def test_a_parametric_classifier_is_edited_as_its_network(estimators):
    twin, _, _, gone, rows = estimators
    before = twin.predict_log_proba(rows.X)
    method = get_method("ga", learning_rate=0.1)
    found = unlearn(method, twin, forget=gone, retain=rows)
    assert isinstance(found.model, ParametricClassifier)
    np.testing.assert_array_equal(twin.predict_log_proba(rows.X), before)
    assert not np.array_equal(found.model.predict_log_proba(rows.X), before)
    assert found.model.classes_.tolist() == twin.classes_.tolist()


@pytest.mark.parametrize("place", [1, 2])
def test_deletion_forgets_from_a_copy(estimators, place):
    model, gone, rows = estimators[place], *estimators[3:]
    found = unlearn("deletion", model, forget=gone, retain=rows)
    assert len(model.memory.positions(gone.ids)) == len(gone)
    with pytest.raises(RowIdError):
        found.model.memory.positions(gone.ids[:1])
    assert len(found.model.memory.positions(rows.ids)) == len(found.model.memory)
    assert list(found.account.parts) == ["edit"]
    assert found.model.weights_digest == model.weights_digest


@pytest.mark.parametrize("place", [0, 1, 2])
def test_retrain_never_sees_the_forget_set(estimators, place):
    model, gone, rows = estimators[place], *estimators[3:]
    found = unlearn(get_method("retrain", seed=7), model, forget=gone, retain=rows)
    assert type(found.model) is type(model)
    if place:
        assert len(found.model.memory.positions(rows.ids)) == len(found.model.memory)
    else:
        assert found.model.classes_.tolist() == model.classes_.tolist()
    assert found.model.random_state == 7


def test_what_does_not_fit_together_is_refused(problem, estimators):
    twin, spm, _, gone, rows = estimators
    rest = {"forget": gone, "retain": rows}
    with pytest.raises(ArgumentError, match="forgets by 'deletion'"):
        unlearn("ga", spm, **rest)
    with pytest.raises(ArgumentError, match="Expected a model with forget"):
        unlearn("deletion", twin, **rest)
    with pytest.raises(ArgumentError, match="train an oracle of it yourself"):
        unlearn("retrain", problem.network, **rest)
    with pytest.raises(RowIdError, match="some are both"):
        unlearn("ga", twin, forget=gone, retain=gone)
    odd = copy.copy(gone)
    object.__setattr__(odd, "y", np.full(len(gone), 77))
    with pytest.raises(ArgumentError, match="among the 10 outputs"):
        unlearn("ga", problem.network, forget=odd, retain=rows)


def test_labels_of_a_network_can_be_named(problem):
    names = [f"digit {i}" for i in range(10)]
    renamed = []
    for rows in (problem.forget, problem.retain):
        other = copy.copy(rows)
        object.__setattr__(other, "y", np.array([names[label] for label in rows.y]))
        renamed.append(other)
    plain = edited(problem, "ft", learning_rate=0.1)
    method = get_method("ft", batch_size=64, learning_rate=0.1)
    forget, retain = renamed
    named = unlearn(
        method, problem.network, forget=forget, retain=retain, classes=names, budget=ONE
    )
    assert state(named.model) == state(plain.model)


# -- the registry ---------------------------------------------------------------------------------


def test_every_method_has_its_own_name_and_a_grid_of_its_own_settings():
    for name, kind in methods().items():
        assert kind.name == name
        settings = kind().settings
        for setting, values in kind.grid().items():
            assert setting in settings
            assert len(set(values)) == len(values) > 1
            for value in values:
                kind(**{setting: value})


def test_unknown_names_and_settings_are_refused():
    with pytest.raises(ArgumentError, match="Expected a method among"):
        get_method("nope")
    with pytest.raises(ArgumentError, match="Expected settings of ga"):
        get_method("ga", nope=1)
    with pytest.raises(ArgumentError, match="already registered"):
        register_method(methods()["ga"])


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("ga", {"epochs": -1}, "epochs to be an int ≥ 0"),
        ("ga", {"batch_size": 1}, "batch_size to be an int ≥ 2"),
        ("ga", {"learning_rate": -1.0}, "learning_rate to be a number ≥ 0"),
        ("ga", {"learning_rate": float("nan")}, "learning_rate to be a number ≥ 0"),
        ("ga", {"batch_norm": "off"}, "batch_norm 'train', 'frozen'"),
        ("salun", {"share": 0.0}, "share in"),
        ("iu", {"variant": "odd"}, "variant 'exact', 'released'"),
        ("iu", {"samples": 0}, "at least one sample"),
        ("iu", {"damping": 0.0}, "positive damping"),
    ],
)
def test_settings_out_of_range_are_refused(name, settings, message):
    with pytest.raises(ArgumentError, match=message):
        get_method(name, **settings)


def test_other_packages_add_methods_by_entry_point(monkeypatch):
    from erasable.baselines import _registry

    class Other(Method):
        name = "other"

    class Entry:
        def load(self):
            return Other

    monkeypatch.setattr(_registry, "_METHODS", dict(_registry._METHODS))
    monkeypatch.setattr(_registry, "entry_points", lambda group: [Entry()])
    _registry._load_others.cache_clear()
    assert list(methods())[-1] == "other"
    _registry._load_others.cache_clear()


@pytest.mark.parametrize(
    ("epochs", "share", "expected"),
    [(10, 0.1, 10), (10, 0.25, 4), (10, 0.9, 1), (10, 1.0, 1), (3, 0.1, 3), (0, 0.5, 0)],
)
def test_a_budget_of_passes_gives_each_method_as_many_rows(epochs, share, expected):
    assert Budget(passes=1).allowed(epochs, share) == expected
    assert Budget().allowed(epochs, share) == epochs


def test_passes_decide_how_many_epochs_are_run(problem):
    assert edited(problem, "ft", budget=Budget(passes=1)).figures["epochs"] == 1
    assert edited(problem, "ga", budget=Budget(passes=1)).figures["epochs"] > 1
    with pytest.raises(ArgumentError, match="passes to be more than 0"):
        Budget(passes=0)


@pytest.mark.parametrize("name", ["ga", "ft", "salun", "munba", "l1_sparse", "be", "bs", "iu"])
def test_a_single_row_can_be_forgotten(problem, name):
    one, rest = problem.forget.take([0]), problem.forget.take(range(1, len(problem.forget)))
    retain = problem.retain.take(range(64))
    found = unlearn(name, problem.network, forget=one, retain=retain, budget=ONE)
    assert found.is_complete
    assert len(rest)


def test_an_edit_trains_as_the_original_was_trained(problem):
    rows = problem.retain.take(range(80))
    gone = problem.forget.take(range(20))
    seen = []
    for training in ("standard", Training(label_smoothing=0.2), "fast"):  # which smooths by 0.2
        twin = ParametricClassifier(epochs=1, training=training, random_state=0)
        twin.fit(rows.X, rows.y, classes=list(range(10)))
        twin.network_ = copy.deepcopy(problem.network)
        done = unlearn("ft", twin, forget=gone, retain=rows, budget=ONE)
        weights = torch.cat([p.flatten() for p in done.model.network_.parameters()])
        seen.append(weights)
    assert not any(torch.equal(one, other) for one, other in itertools.combinations(seen, 2))


def test_both_sets_count_for_the_budget_of_a_bargain(problem):
    half = problem.retain.take(range(100)), problem.retain.take(range(100, 200))
    found = unlearn(
        "munba", problem.network, forget=half[0], retain=half[1], budget=Budget(passes=1)
    )
    assert found.figures["epochs"] == 1


@pytest.mark.parametrize(("reduction", "fits"), [("gaussian", 2), ("prototypes", 0)])
def test_the_time_of_deletion_counts_a_fit_that_it_makes_necessary(reduction, fits, monkeypatch):
    train, _ = load_digits()
    rows = train.take(range(200))
    model = SPMClassifier(encoder="identity", epochs=0, reduction=reduction, random_state=0)
    model.fit(rows.X.reshape(200, -1), rows.y, ids=rows.ids)
    flat = replace(rows, X=rows.X.reshape(200, -1))
    asked = []
    predict = SPMClassifier.predict
    monkeypatch.setattr(SPMClassifier, "predict", lambda m, X: asked.append(X) or predict(m, X))
    unlearn("deletion", model, forget=flat.take([0]), retain=flat.take(range(1, 200)))
    assert len(asked) == fits  # once before, so that only what the deletion costs is counted
