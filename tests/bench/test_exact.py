"""Level exact on real data, with a frozen encoder and few shadow models."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from erasable.bench import ExactSettings, ExactShadows, Runs, _exact, exact_page, run_exact
from erasable.bench._exact import DRAWS
from erasable.bench._std_cls import FRACTIONS, REDUCTIONS, with_share
from erasable.data import load_dataset
from erasable.errors import ArgumentError, ErasableError
from erasable.models import KNNClassifier, SPMClassifier, read_embedded
from erasable.store import EmbeddingCache

SHADOWS = 20
OPTIONS = {"dim": 64}
STAGES = [
    *(f"accuracy {reduction}" for reduction in REDUCTIONS),
    "forget",
    "shadows prototypes",
    "shadows gaussian",
]


def some(rows, tests):
    """Return a few of the digits."""
    found = load_dataset("digits")
    return replace(found, train=found.train.take(range(rows)), test=found.test.take(range(tests)))


@pytest.fixture(scope="module", autouse=True)
def few_single_rows():
    """Forget fewer rows one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_exact, "_SINGLES", 25)
        yield


@pytest.fixture(scope="module")
def data():
    return some(300, 100)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("exact")


@pytest.fixture(scope="module")
def settings(place):
    return ExactSettings(
        "random_features",
        OPTIONS,
        cache=place / "embeddings",
        shadows=SHADOWS,
        shadow_reductions=("prototypes", "gaussian"),
    )


@pytest.fixture(scope="module")
def done(data, settings, place):
    return run_exact(data, settings, runs=Runs(place / "runs"))


@pytest.fixture(scope="module")
def plain(data):
    """Return a model that remembers the same rows, without a cache."""
    model = SPMClassifier("random_features", encoder_options=OPTIONS, random_state=0)
    return model.remember(data.train.X, data.train.y, ids=data.train.ids)


def test_every_stage_is_run(done):
    assert list(done) == STAGES


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_accuracies_are_those_of_a_model_that_remembers_and_predicts(done, data, plain, reduction):
    model = copy.copy(plain).set_params(reduction=reduction)
    found = done[f"accuracy {reduction}"].result["accuracies"]
    for fraction in FRACTIONS:
        seeds = DRAWS if fraction < 1 else (0,)
        parts = [with_share(model, fraction, seed) for seed in seeds]
        accuracies = [float(np.mean(part.predict(data.test.X) == data.test.y)) for part in parts]
        assert found[str(fraction)] == accuracies


def test_times_of_reading_are_there(done):
    for reduction in REDUCTIONS:
        seconds = done[f"accuracy {reduction}"].result["seconds"]
        assert sorted(seconds) == sorted(map(str, FRACTIONS))
        assert min(seconds.values()) > 0


def test_forgetting_is_exact_and_an_audit_says_so(done):
    found = done["forget"].result
    assert found["levels"] == [["exact", "recorded"]]
    assert found["audit"]["verdict"] == "exact_verified"
    assert found["audit"]["text"].startswith("simulated: exact, verified for a copy;")
    assert "equal byte for byte" in found["audit"]["text"]
    assert 0 < found["median_ms"] <= found["p99_ms"]


def test_the_class_that_is_forgotten_is_all_that_is_left_of_it(done, data):
    order = np.random.default_rng(0).permutation(len(data.train))
    left = np.delete(data.train.y, order[:25])
    assert done["forget"].result["class"]["rows"] == int((left == left.min()).sum())


@pytest.mark.parametrize("reduction", ["prototypes", "gaussian"])
def test_every_model_that_forgot_equals_one_that_never_knew(done, reduction):
    found = done[f"shadows {reduction}"].result
    record = found["record"]
    assert (record["shadows"], record["equal_states"], record["level"]) == (20, 20, "exact")
    assert record["checked"] > 0
    before, after = (found[f"u_lira {name}"] for name in ("before", "unlearned"))
    assert before["auc"] > after["auc"]
    assert after["accuracy"] == pytest.approx(0.5, abs=0.1)
    assert {name.split()[0] for name in found} == {"u_lira", "klom", "record"}


def test_nothing_is_removed_from_the_cache(done, data, settings):
    assert EmbeddingCache(settings.cache).count() == len(data.train) + len(data.test)


def test_rows_are_encoded_once_for_all_stages(done, data, settings, tmp_path, monkeypatch):
    computed = []
    encode = EmbeddingCache.encode

    def counted(self, encoder, ids, contents, compute, **options):
        def counting(places):
            computed.append(len(places))
            return compute(places)

        return encode(self, encoder, ids, contents, counting, **options)

    monkeypatch.setattr(EmbeddingCache, "encode", counted)
    fewer = replace(settings, reductions=("prototypes",), shadow_reductions=("prototypes",))
    found = run_exact(data, fewer, runs=Runs(tmp_path))
    assert max(computed) == 4  # known rows, to see that the encoder is still the same
    name = "accuracy prototypes"
    assert found[name].result["accuracies"] == done[name].result["accuracies"]
    assert (
        found["shadows prototypes"].result["u_lira before"]["auc"]
        == (done["shadows prototypes"].result["u_lira before"]["auc"])
    )


def test_finished_stages_are_read_without_a_model(done, data, settings, place, monkeypatch):
    monkeypatch.setattr(SPMClassifier, "remember", lambda *_, **__: pytest.fail("encoded again"))
    assert run_exact(data, settings, runs=Runs(place / "runs")) == done


@pytest.mark.parametrize(
    "changes", [{"encoder": "identity", "options": {}}, {"options": {"dim": 16}}]
)
def test_another_encoder_is_another_run(done, data, settings, place, changes):
    runs = Runs(place / "runs")
    few = replace(settings, reductions=("prototypes",), shadows=0, **changes)
    found = run_exact(data, few, runs=runs)["accuracy prototypes"]
    assert found.settings["encoder"] == few.encoder
    assert found.result != done["accuracy prototypes"].result


def test_the_place_of_the_cache_does_not_matter(done, data, settings, place, monkeypatch, tmp_path):
    monkeypatch.setattr(SPMClassifier, "remember", lambda *_, **__: pytest.fail("encoded again"))
    moved = replace(settings, cache=tmp_path)
    assert run_exact(data, moved, runs=Runs(place / "runs")) == done


def test_without_shadows_nothing_is_attacked(data, settings, tmp_path):
    few = replace(settings, reductions=(), shadows=0)
    assert list(run_exact(data, few, runs=Runs(tmp_path))) == ["forget"]


def test_an_interrupted_attack_goes_on_from_its_shadows(settings, tmp_path, monkeypatch):
    data, runs = some(120, 40), Runs(tmp_path)
    few = replace(settings, reductions=(), shadows=60, shadow_reductions=("prototypes",))

    def stop(message):
        if message.startswith("50 of 60 shadow models"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_exact(data, few, runs=runs, say=stop)
    assert sorted(path.name for path in tmp_path.glob("*.partial/*")) == ["seconds", "shadows"]
    built, unlearn = [], ExactShadows.unlearn

    def counted(self, holds):
        built.append(len(holds))
        return unlearn(self, holds)

    monkeypatch.setattr(ExactShadows, "unlearn", counted)
    found = run_exact(data, few, runs=runs)
    assert found["shadows prototypes"].result["record"]["shadows"] == 60
    assert built == [10]
    assert not list(tmp_path.glob("*.partial"))


# -- reading embedded queries ---------------------------------------------------------------------


@pytest.mark.parametrize("reduction", [*REDUCTIONS, "knn"])
def test_queries_that_are_embedded_already_are_answered_as_their_inputs(data, plain, reduction):
    if reduction == "knn":
        model = KNNClassifier("random_features", encoder_options=OPTIONS, random_state=0)
        model.remember(data.train.X, data.train.y, ids=data.train.ids)
    else:
        model = copy.copy(plain).set_params(reduction=reduction)
    found = read_embedded(model, model.embed(data.test.X))
    np.testing.assert_array_equal(found, model.predict_log_proba(data.test.X))


@pytest.mark.parametrize("shape", [(0, 64), (2, 63), (64,)])
def test_embedded_queries_that_do_not_fit_are_refused_in_words(plain, shape):
    with pytest.raises(ErasableError):
        read_embedded(plain, np.zeros(shape))


def test_embedded_queries_to_an_empty_memory_are_refused_in_words(data):
    model = SPMClassifier("identity").remember([[1.0], [2.0]], ["a", "b"])
    model.forget(classes=["a", "b"])
    with pytest.raises(ErasableError):
        read_embedded(model, np.zeros((2, 1)))


# -- refusals -------------------------------------------------------------------------------------


def test_data_without_test_rows_is_refused(data, settings, tmp_path):
    with pytest.raises(ArgumentError, match="Expected test rows in digits, but there are none"):
        run_exact(replace(data, test=None), settings, runs=Runs(tmp_path))
    assert not list(tmp_path.iterdir())


def test_an_unknown_encoder_is_refused_with_the_known_ones(data, settings, tmp_path):
    with pytest.raises(ArgumentError, match="'random_features'"):
        run_exact(data, replace(settings, encoder="magic"), runs=Runs(tmp_path))


@pytest.mark.parametrize("changes", [{"shadow_reductions": ("rows",)}, {"shadows": 5}])
def test_attacks_that_cannot_be_run_are_refused_before_any_work(data, settings, tmp_path, changes):
    with pytest.raises(ArgumentError, match=r"Expected (shadows|to attack)"):
        run_exact(data, replace(settings, **changes), runs=Runs(tmp_path))
    assert not list(tmp_path.glob("*.json"))


def test_few_rows_are_enough(settings, tmp_path):
    few = replace(settings, reductions=("prototypes",), shadows=0)
    assert run_exact(some(24, 10), few, runs=Runs(tmp_path))["forget"].result["levels"]


# -- the page -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(done):
    return "\n".join(exact_page({"random_features": done}, "erasable tables exact"))


def test_the_page_tells_accuracies_forgetting_audit_and_attacks(done, data, page):
    assert page.startswith("# Level exact on digits\n")
    assert "300 rows; test accuracy in percent on 100 test rows" in page
    for reduction in REDUCTIONS:
        found = done[f"accuracy {reduction}"].result["accuracies"]
        few = found["0.05"]
        figures = f"{100 * np.mean(few):.2f} ± {100 * np.std(few, ddof=1):.2f}"
        assert f"\n| {reduction} | {figures} | " in page
        assert f" | {100 * found['1.0'][0]:.2f} | " in page
    assert "Level: exact on the basis recorded." in page
    assert done["forget"].result["audit"]["text"] in page
    assert "Attacks on `prototypes`, 20 shadow models per world" in page
    assert "Attacks on `gaussian`, 20 shadow models per world" in page
    assert "never holding the rows: 20 of 20;" in page
    assert "`erasable tables exact`" in page
    assert f"- {done['forget'].machine}" in page


def test_the_page_counts_the_rows_that_were_audited(page):
    assert "Audit of 150 rows" in page  # at most half of them
