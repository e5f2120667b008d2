"""The benchmark on a few digits: every cell once, kept, resumed, and failures told."""

from dataclasses import replace

import numpy as np
import pytest

from erasable.baselines import get_method
from erasable.bench._evaluation import Evaluation
from erasable.bench._families import READINGS, family_settings
from erasable.bench._forecast import seconds_left
from erasable.bench._harness import Cell, Harness
from erasable.bench._predictions import Predictions, load_predictions, predict_all
from erasable.bench._references import ORACLES
from erasable.bench._rules import scenario
from erasable.bench._runs import Runs
from erasable.data import load_dataset
from erasable.errors import ArgumentError, StoreError
from erasable.models import SPMClassifier, preset

RULE = "class:3"


@pytest.fixture(scope="module")
def data():
    found = load_dataset("digits")
    return replace(found, train=found.train.take(range(240)), test=found.test.take(range(200)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def harness(data, folder):
    return Harness(data, scale="tiny", runs=Runs(folder))


@pytest.fixture(scope="module")
def cells(harness):
    kinds = {"parametric": "ga", "knn": "deletion", "spm": "deletion", "sisa": "deletion"}
    return {
        kind: harness.cell(Cell(kind, get_method(name), RULE, 0)) for kind, name in kinds.items()
    }


@pytest.mark.parametrize("kind", ["parametric", "knn", "spm", "sisa"])
def test_a_cell_holds_every_metric(cells, kind):
    found = cells[kind].result
    assert {"test", "test_remaining", "test_forgotten"} <= set(found["compare"])
    assert {"ua", "ra", "ta"} <= set(found["compare"]["values"])
    assert ("ra_left_out" in found["compare"]["values"]) == (kind in ("knn", "spm"))
    assert set(found["attacks"]) == {"confidence", "entropy", "modified_entropy", "svc"}
    assert found["seconds"] > 0
    assert found["seconds_reencoding"] >= found["seconds"]
    assert found["is_complete"]


@pytest.mark.parametrize("kind", ["knn", "spm"])
def test_deletion_of_a_class_leaves_none_of_it(cells, kind):
    assert cells[kind].result["compare"]["values"]["ua"] == 1.0
    assert cells[kind].result["compare"]["oracle"]["ua"] == 1.0


def test_parts_of_the_test_rows_add_up(data, cells):
    found = cells["spm"].result["compare"]
    share = float(np.mean(data.test.y == 3))
    whole = (1 - share) * found["test_remaining"]["prediction_gap"]
    whole += share * found["test_forgotten"]["prediction_gap"]
    assert found["test"]["prediction_gap"] == pytest.approx(whole)


def test_finished_cells_are_never_redone(data, folder, cells, monkeypatch):
    from erasable.bench import _harness, _references

    monkeypatch.setattr(_harness, "unlearn", None)
    monkeypatch.setattr(_references, "trained", None)
    again = Harness(data, scale="tiny", runs=Runs(folder))
    found = again.cell(Cell("spm", get_method("deletion"), RULE, 0))
    assert found == cells["spm"]


def test_originals_and_oracles_are_shared(folder, cells):
    """Four kinds of three families: three originals and three oracles."""
    assert len(list((folder / "weights").iterdir())) == 6
    assert len(list((folder / "predictions").iterdir())) == 4


def test_an_original_is_asked_once(harness, data, folder, cells, monkeypatch):
    from erasable.bench import _references

    first = harness.original_answers("spm", 0)
    monkeypatch.setattr(_references, "predict_all", None)
    monkeypatch.setattr(_references, "trained", None)
    again = Harness(data, scale="tiny", runs=Runs(folder)).original_answers("spm", 0)
    assert again.has_votes
    for name in ("train", "test", "left_out"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))


def test_the_floor_is_between_two_oracles(harness, cells):
    found = harness.floor("spm", RULE, [0, 1])
    (pair,) = found.result["pairs"]
    assert pair["test"]["prediction_gap"] > 0
    assert pair["values"]["ua"] == pair["oracle"]["ua"] == 1.0


def test_random_forget_sets_have_oracles_of_their_own_in_the_floor(harness):
    assert harness.pairs("random:10%", [0, 1]) == [
        ((0, ORACLES), (0, 2 * ORACLES)),
        ((1, 1 + ORACLES), (1, 1 + 2 * ORACLES)),
    ]
    assert harness.pairs(RULE, [0, 1, 2])[0] == ((0, ORACLES), (1, 1 + ORACLES))
    assert len(harness.pairs(RULE, [0, 1, 2])) == 3
    assert harness.pairs(RULE, [0]) == [((0, ORACLES), (0, 2 * ORACLES))]


def test_a_method_that_diverges_is_a_cell_with_its_reason(harness):
    found = harness.cell(Cell("parametric", get_method("ga", learning_rate=1e30), RULE, 0))
    assert "diverged" in found.result["failed"]


def test_gaps_by_class_are_the_gap(data, cells):
    found = cells["spm"].result["compare"]
    counts = [int((data.test.y == label).sum()) for label in range(10)]
    whole = np.average(found["by_class"], weights=counts)
    assert found["test"]["prediction_gap"] == pytest.approx(whole)


@pytest.mark.parametrize("kind", ["parametric", "spm", "knn"])
def test_the_claim_bounds_the_gap(cells, kind):
    found = cells[kind].result["compare"]
    assert 0 <= found["claim"]["margin"] <= 1
    bound = found["claim"]["bound"]
    assert bound is None or bound >= found["test"]["prediction_gap"]


def test_a_graph_set_encoder_is_adapted_from_the_model_without(harness, folder, cells):
    before = set((folder / "weights").iterdir())
    made = harness.original("gnn", 0)
    assert made.models["gnn"].network_.set_encoder is not None
    assert made.seconds > harness.original("spm", 0).seconds
    assert len(set((folder / "weights").iterdir()) - before) == 1  # the base was there
    found = harness.cell(Cell("gnn", get_method("deletion"), RULE, 0)).result
    assert found["compare"]["values"]["ua"] == 1.0


@pytest.mark.parametrize("kind", sorted(READINGS))
def test_another_reading_has_the_weights_and_the_rows_of_the_prototypes(harness, folder, kind):
    spm = harness.original("spm", 0).models["spm"]
    before = set((folder / "weights").iterdir())
    other = harness.original(kind, 0).models[kind]
    assert set((folder / "weights").iterdir()) == before  # nothing was trained
    assert other.weights_digest == spm.weights_digest
    assert other.memory.digest == spm.memory.digest
    assert (spm.reduction, other.reduction) == ("prototypes", READINGS[kind])


@pytest.mark.parametrize("kind", sorted(READINGS))
def test_deletion_from_one_reading_leaves_all_originals_whole(harness, kind):
    kinds = ("spm", *READINGS)
    originals = [harness.original(name, 0).models[name] for name in kinds]
    harness.cell(Cell(kind, get_method("deletion"), "class:6", 0))
    assert [len(model.memory) for model in originals] == [len(harness.train)] * len(kinds)


def test_what_runs_of_older_kinds_are_found_by_stays():
    known = {kind: family_settings(kind, "laptop") for kind in ("twin", "spm", "gnn", "sisa")}
    assert known == {
        "twin": {"k": 50},
        "spm": {},
        "gnn": {"graph": [1, 512], "encoder_lr_factor": 0.1},
        "sisa": {"shards": 5, "slices": 2},
    }


def test_a_reading_is_found_by_what_it_depends_on():
    assert family_settings("spm_neighbours", "tiny") == {"reduction": "neighbours", "k": 256}
    assert family_settings("spm_gaussian", "tiny") == {"reduction": "gaussian", "shrinkage": 0.1}


def test_a_training_that_readings_share_is_forecast_once(harness, monkeypatch):
    monkeypatch.setattr(harness, "seconds_per_pass", lambda: 1.0)
    one, both = (
        seconds_left(harness, [], [(kind, "class:8", [0]) for kind in kinds])
        for kinds in (("spm",), ("spm", "spm_gaussian"))
    )
    assert both - one == pytest.approx(1.0)  # asking two oracles more, not training them


@pytest.mark.parametrize("kind", sorted(READINGS))
def test_another_reading_is_compared_with_oracles_that_are_read_alike(harness, data, kind):
    run = harness.cell(Cell(kind, get_method("deletion"), RULE, 0))
    assert run.result["compare"]["values"]["ua"] == 1.0
    oracle = harness.oracle_predictions(kind, RULE, 0)
    rows = harness.parts(harness.scenario(RULE, 0))[1]
    alone = SPMClassifier(**preset("tiny", (1, 8, 8)), random_state=ORACLES)
    alone.fit(rows.X, rows.y, ids=rows.ids).set_params(reduction=READINGS[kind])
    expected = alone.predict_log_proba(data.test.X, classes=harness.classes)
    np.testing.assert_allclose(np.exp(oracle.test), np.exp(expected), atol=1e-6)


@pytest.mark.parametrize("kind", ["parametric", "spm", "sisa"])
def test_requests_of_a_sequence_come_one_after_the_other(harness, kind):
    rule = "class:3 > random:5%"
    method = get_method("ga" if kind == "parametric" else "deletion")
    steps = harness.sequence(Cell(kind, method, rule, 0)).result["steps"]
    assert len(steps) == 2
    alone = harness.cell(Cell(kind, method, "class:3", 0)).result
    assert steps[0]["compare"] == alone["compare"]
    both = harness.cell(Cell(kind, method, rule, 0)).result
    if kind != "parametric":  # deletions compose
        assert steps[1]["compare"] == both["compare"]


def test_muted_classes_stay_muted_in_a_sequence(harness):
    rule = "class:3 > class:4"
    steps = harness.sequence(Cell("parametric", get_method("mute"), rule, 0)).result["steps"]
    for step, gone in zip(steps, ([3], [3, 4]), strict=True):
        given = step["compare"]["answers"]["unlearned"]
        assert sorted(map(int, given)) == gone
        assert all(counts[column] == 0 for counts in given.values() for column in gone)


def test_what_a_method_is_not_for_is_refused():
    with pytest.raises(ArgumentError, match=r"Expected a kind of model.*'tree'"):
        Cell("tree", get_method("deletion"), RULE, 0)
    with pytest.raises(ArgumentError, match="got ga for spm"):
        Cell("spm", get_method("ga"), RULE, 0)
    with pytest.raises(ArgumentError, match="got deletion for parametric"):
        Cell("parametric", get_method("deletion"), RULE, 0)


def test_other_rows_under_the_same_rule_are_another_floor(harness, data, tmp_path):
    path = tmp_path / "ids.txt"
    rule = f"ids:{path}"
    for count in (3, 5):
        path.write_text("\n".join(map(str, data.train.ids[:count])))
        harness._scenarios.clear()
        harness.floor("parametric", rule, [0])
    wanted = f'"rule": "{rule}"'
    kept = [p for p in harness._runs.folder.glob("*.json") if wanted in p.read_text()]
    assert len(kept) == 2


def test_results_are_plain_json(folder, cells):
    for path in folder.glob("*.json"):
        assert "NaN" not in path.read_text()
        assert "Infinity" not in path.read_text()


def test_a_graph_model_does_not_pretend_to_leave_a_row_out(harness, data):
    model = harness.original("gnn", 0).models["gnn"]
    found = predict_all(model, data.train, data.test, harness.classes)
    assert (found.left_out, found.has_votes) == (None, True)


def test_a_sequence_ends_where_a_method_diverges(harness):
    method = get_method("ga", learning_rate=1e30)
    found = harness.sequence(Cell("parametric", method, "class:3 > class:4", 0)).result
    assert found["steps"] == []
    assert "diverged" in found["failed"]


def test_an_untouched_original_still_knows_the_class(harness):
    found = harness.untouched("spm", RULE, 0).result["compare"]
    assert found["values"]["ua"] < found["oracle"]["ua"]


def test_lost_predictions_of_an_oracle_are_made_again(harness, folder, cells):
    before = harness.oracle_predictions("spm", RULE, 0)
    for path in (folder / "predictions").iterdir():
        path.unlink()
    after = harness.oracle_predictions("spm", RULE, 0)
    np.testing.assert_array_equal(before.test, after.test)
    np.testing.assert_array_equal(before.train, after.train)


def test_a_preset_that_does_not_train_is_refused(data, tmp_path):
    with pytest.raises(ArgumentError, match="Expected preset 'tiny'"):
        Harness(data, scale="exact", runs=Runs(tmp_path))


def test_labels_are_not_smoothed_whatever_the_preset_says(data, tmp_path):
    """Networks trained on smoothed labels do not know which classes are alike."""
    assert preset("laptop", (1, 8, 8))["training"].label_smoothing > 0
    plain = Harness(data, scale="laptop", runs=Runs(tmp_path))
    assert plain.settings("original", "spm", 0)["parameters"]["label_smoothing"] == 0
    smooth = Harness(data, scale="laptop", runs=Runs(tmp_path), label_smoothing=0.1)
    assert smooth.settings("original", "spm", 0)["parameters"]["label_smoothing"] == 0.1


def test_options_of_the_encoder_stand_beside_the_presets_and_set_runs_apart(data, tmp_path):
    plain = Harness(data, scale="tiny", runs=Runs(tmp_path))
    half = Harness(
        data, scale="tiny", runs=Runs(tmp_path), encoder_options={"precision": "bfloat16"}
    )
    assert half.encoder_options == {**plain.encoder_options, "precision": "bfloat16"}
    assert half.original_run("parametric", 0) != plain.original_run("parametric", 0)
    twins = [one.original("twin", 0).models["parametric"] for one in (plain, half)]
    assert [twin.training.precision for twin in twins] == ["auto", "bfloat16"]


# -- predictions and metrics ----------------------------------------------------------------------


def test_predictions_survive_being_kept(tmp_path):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(4, 3)).astype(np.float32) for _ in range(3)]
    for kept in (Predictions(*arrays, has_votes=True), Predictions(*arrays[:2])):
        kept.save(tmp_path / "p.npz")
        found = load_predictions(tmp_path / "p.npz")
        assert found.has_votes == kept.has_votes
        np.testing.assert_array_equal(found.test, kept.test)
    (tmp_path / "p.npz").write_bytes((tmp_path / "p.npz").read_bytes()[:100])
    with pytest.raises(StoreError, match="Delete it"):
        load_predictions(tmp_path / "p.npz")
    with pytest.raises(FileNotFoundError):
        load_predictions(tmp_path / "none.npz")


def test_predictions_are_those_that_a_model_gives_by_itself(harness, data):
    for family, kind in (("twin", "parametric"), ("twin", "knn"), ("spm", "spm")):
        model = harness.original(family, 0).models[kind]
        found = predict_all(model, data.train, data.test, harness.classes)
        np.testing.assert_allclose(
            np.exp(found.test), model.predict_proba(data.test.X), rtol=1e-5, atol=1e-7
        )
        if found.left_out is not None:
            alone = model.predict_proba(data.train.X, exclude_ids=data.train.ids)
            np.testing.assert_allclose(np.exp(found.left_out), alone, rtol=1e-5, atol=1e-7)


def test_a_model_equal_to_its_oracle_has_no_gap(harness, data):
    found = scenario(data.train, RULE)
    evaluation = Evaluation(found, data.train, data.test, harness.classes)
    answers = harness.oracle_predictions("spm", RULE, 0)
    same = evaluation.compare(answers, answers)
    assert same["test"] == {
        "prediction_gap": 0,
        "kl_unlearned_oracle": 0,
        "kl_oracle_unlearned": 0,
    }
    assert set(same["deltas"].values()) == {0}
