"""Accuracy against the share of rows whose forgetting is exact, on a few digits."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.bench import Run, Runs, run_share, share_page, share_png
from erasable.bench._share import SHARES, _parts
from erasable.data import load_dataset
from erasable.errors import ArgumentError
from erasable.models import SPMClassifier, preset, preset_settings
from erasable.store import EmbeddingCache

LABELS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=60).map(np.array)
SHARE = st.sampled_from([*SHARES, 1.0]) | st.floats(0, 1)


# -- the parts ------------------------------------------------------------------------------------


@given(LABELS, SHARE, st.integers(0, 5))
def test_parts_are_disjoint_and_cover_every_row(labels, share, seed):
    seen, unseen = _parts(labels, share, seed)
    assert sorted([*seen.tolist(), *unseen.tolist()]) == list(range(len(labels)))


@given(LABELS, SHARE, st.integers(0, 5))
def test_parts_have_their_share_of_every_class(labels, share, seed):
    _, unseen = _parts(labels, share, seed)
    for label in np.unique(labels):
        members = int((labels == label).sum())
        assert abs(int((labels[unseen] == label).sum()) - share * members) <= 1


@given(LABELS, SHARE, st.integers(0, 5))
def test_parts_follow_from_the_seed(labels, share, seed):
    first, again = (_parts(labels, share, seed) for _ in range(2))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])


def test_another_seed_draws_other_parts():
    labels = np.repeat(np.arange(10), 20)
    drawn = {_parts(labels, 0.5, seed)[0].tobytes() for seed in range(8)}
    assert len(drawn) == 8


def test_a_larger_share_leaves_a_part_of_the_rows_trained_on_before():
    labels = np.repeat(np.arange(10), 20)
    parts = [set(_parts(labels, share, 0)[0].tolist()) for share in SHARES]
    assert all(later <= earlier for earlier, later in itertools.pairwise(parts))


@given(st.integers(2, 30), st.sampled_from(SHARES[1:]))
def test_every_class_is_in_both_parts(members, share):
    labels = np.repeat(np.arange(3), members)
    for part in _parts(labels, share, 0):
        assert set(labels[part]) == {0, 1, 2}


# -- the runs -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    found = load_dataset("digits")
    return replace(found, train=found.train.take(range(360)), test=found.test.take(range(90)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("share")


@pytest.fixture(scope="module")
def frozen(place):
    return {
        "encoder": "random_features",
        "encoder_options": {"dim": 48},
        "embedding_cache": place / "embeddings",
    }


@pytest.fixture(scope="module")
def trained(data, place):
    return run_share(data, scale="tiny", seeds=[0, 1], runs=Runs(place / "runs"))


@pytest.fixture(scope="module")
def compared(data, place, frozen):
    """Return the runs whose encoder is frozen."""
    return run_share(data, scale="tiny", seeds=[0], runs=Runs(place / "runs"), frozen=frozen)


def by_share(runs, seed=0):
    return {run.settings["exact_share"]: run.result for run in runs if run.settings["seed"] == seed}


def accuracies(model, data):
    return {
        reduction: model.set_params(reduction=reduction).score(data.test.X, data.test.y)
        for reduction in ("prototypes", "gaussian")
    }


def test_every_share_is_run_with_every_seed(trained):
    found = [(run.settings["exact_share"], run.settings["seed"]) for run in trained]
    assert found == [(share, seed) for share in SHARES for seed in (0, 1)]


@pytest.mark.parametrize("kind", ["trained", "compared"])
def test_rows_trained_on_are_forgotten_from_memory_and_others_exactly(kind, request):
    for share, found in by_share(request.getfixturevalue(kind)).items():
        seen = {"seen": "memory"} if share < 1 else {}
        unseen = {"unseen": "exact"} if share > 0 else {}
        assert found["levels"] == {**seen, **unseen}


@pytest.mark.parametrize("kind", ["trained", "compared"])
def test_rows_trained_on_are_counted(kind, request, data):
    for share, found in by_share(request.getfixturevalue(kind)).items():
        assert found["rows_seen"] == len(_parts(data.train.y, share, 0)[0])


@pytest.mark.parametrize("seed", [0, 1])
def test_without_exact_rows_it_is_a_plain_fit(trained, data, seed):
    model = SPMClassifier(**preset("tiny", (1, 8, 8)), random_state=seed)
    model.fit(data.train.X, data.train.y, ids=data.train.ids)
    assert by_share(trained, seed)[0.0]["accuracies"] == accuracies(model, data)


def test_rows_that_are_not_trained_on_are_remembered(trained, data):
    seen, unseen = (data.train.take(part) for part in _parts(data.train.y, 0.9, 0))
    model = SPMClassifier(**preset("tiny", (1, 8, 8)), random_state=0)
    model.fit(seen.X, seen.y, ids=seen.ids).remember(unseen.X, unseen.y, ids=unseen.ids)
    assert len(model.memory) == len(data.train)
    assert by_share(trained)[0.9]["accuracies"] == accuracies(model, data)


def test_with_a_frozen_encoder_all_rows_may_be_exact(compared, data, frozen):
    assert list(by_share(compared)) == [*SHARES, 1.0]
    plain = {**frozen, "embedding_cache": None}
    model = SPMClassifier(**plain, random_state=0)
    model.remember(data.train.X, data.train.y, ids=data.train.ids)
    assert by_share(compared)[1.0]["accuracies"] == accuracies(model, data)


def test_a_frozen_encoder_changes_prototypes_by_the_comparison_only(compared):
    found = by_share(compared)
    gaussian = {result["accuracies"]["gaussian"] for result in found.values()}
    assert len(gaussian) == 1  # it does not read what is trained
    assert found[0.0]["accuracies"]["prototypes"] != found[1.0]["accuracies"]["prototypes"]


def test_the_cache_of_a_frozen_encoder_holds_every_row_once(compared, data, frozen):
    cache = EmbeddingCache(frozen["embedding_cache"])
    assert cache.count() == len(data.train) + len(data.test)


def test_finished_runs_are_read(trained, data, place, monkeypatch):
    monkeypatch.setattr(SPMClassifier, "fit", lambda *_, **__: pytest.fail("trained again"))
    again = run_share(data, scale="tiny", seeds=[0, 1], runs=Runs(place / "runs"))
    assert again == trained


def test_an_interrupted_run_goes_on_to_the_same_figures(trained, data, tmp_path, monkeypatch):
    remember = SPMClassifier.remember

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(SPMClassifier, "remember", stop)
    with pytest.raises(KeyboardInterrupt):
        run_share(data, scale="tiny", seeds=[0], runs=Runs(tmp_path))
    assert len(list(tmp_path.glob("*.json"))) == 1
    assert list(tmp_path.glob("*.partial/spm/checkpoint.safetensors"))
    monkeypatch.setattr(SPMClassifier, "remember", remember)
    resumed = run_share(data, scale="tiny", seeds=[0], runs=Runs(tmp_path))
    for share, found in by_share(resumed).items():
        assert found["accuracies"] == by_share(trained)[share]["accuracies"]


def test_data_without_test_rows_is_refused(data, tmp_path):
    with pytest.raises(ArgumentError, match="Expected test rows in digits, but there are none"):
        run_share(replace(data, test=None), scale="tiny", seeds=[0], runs=Runs(tmp_path))


def test_an_unknown_preset_is_refused(data, tmp_path):
    with pytest.raises(
        ArgumentError, match="'tiny', 'laptop', 'fast', 'accurate', 'paper' and 1 more"
    ):
        run_share(data, scale="huge", seeds=[0], runs=Runs(tmp_path))


# -- the settings of a run ------------------------------------------------------------------------


class Asked(Runs):
    """Keeps what it is asked for, and does nothing."""

    def run(self, settings, work):
        return Run(settings, {}, 0.0, "", "")


def settings_of(data, **changes):
    options = {"scale": "tiny", "seeds": [0], "runs": Asked(None), **changes}
    return [run.settings for run in run_share(data, **options)]


def test_a_preset_that_changed_is_another_run(data, monkeypatch):
    before = settings_of(data)
    monkeypatch.setattr(
        "erasable.bench._share.preset_settings",
        lambda name, shape: {**preset_settings(name, shape), "epochs": 9},
    )
    assert settings_of(data) != before


def test_the_place_of_the_cache_is_no_matter(data, frozen, tmp_path):
    moved = {**frozen, "embedding_cache": tmp_path}
    assert settings_of(data, frozen=moved) == settings_of(data, frozen=frozen)


def test_a_preset_that_trains_nothing_is_refused(data):
    with pytest.raises(ArgumentError):
        settings_of(data, scale="exact")


# -- page and picture -----------------------------------------------------------------------------


def test_the_page_tells_what_was_trained_and_remembered(trained, compared):
    page = "\n".join(share_page({"scratch": trained, "frozen": compared}, "the command", "s.png"))
    assert "\n## scratch\n" in page
    assert "\n## frozen\n" in page
    assert "](s.png)" in page
    both = [by_share(trained, seed)[0.5] for seed in (0, 1)]
    values = [100 * found["accuracies"]["prototypes"] for found in both]
    figures = f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"
    assert f"\n| 50% | {both[0]['rows_seen']} | {figures} | " in page
    assert "\n| 100% | 0 | " in page
    assert "`the command`" in page
    assert "- seeds: 0, 1" in page


def test_a_page_without_a_picture_shows_none(trained):
    assert "![" not in "\n".join(share_page({"scratch": trained}, "x", None))


def test_the_picture_shows_the_figures(trained, compared):
    first = share_png({"scratch": trained, "frozen": compared})
    assert first.startswith(b"\x89PNG")
    assert share_png({"scratch": trained, "frozen": compared}) == first
    changed = {**trained[0].result, "accuracies": {"prototypes": 0.01, "gaussian": 0.02}}
    other = [replace(trained[0], result=changed), *trained[1:]]
    assert share_png({"scratch": other, "frozen": compared}) != first
