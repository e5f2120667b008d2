import json
import re
import sys

import numpy as np
import pytest

from erasable.bench import (
    Comparison,
    class_scenario,
    group_scenario,
    machine,
    random_scenario,
    render_table,
    run_demo,
    run_teaser,
    write_report,
)
from erasable.bench import _demo as demo_module
from erasable.data import load_digits
from erasable.errors import MissingExtraError


@pytest.fixture(scope="module")
def result():
    """Run the demo with one epoch per network: the figures mean nothing, the path is the same."""
    patch = pytest.MonkeyPatch()
    patch.setitem(demo_module._NETWORK, "epochs", 1)
    patch.setitem(demo_module._NETWORK, "encoder_options", {"widths": [8], "dim": 16})
    remarks = []
    found = run_demo(seed=0, say=remarks.append)
    patch.undo()
    assert len(remarks) == 11
    return found


@pytest.fixture(scope="module")
def page(result, tmp_path_factory):
    return write_report(result, tmp_path_factory.mktemp("out")).read_text()


def line(result, scenario, level):
    return next(x for x in result.lines if x.scenario == scenario and x.level == level)


def test_a_forgotten_class_is_wholly_forgotten_by_every_spm(result):
    for found in (line(result, "class 3", "memory"), line(result, "class 3", "exact")):
        assert found.mean("ua") == found.mean("oracle_ua") == 1


def test_the_untouched_twin_has_a_gap_where_a_class_should_be_gone(result):
    found = line(result, "class 3", "nothing forgotten")
    assert found.mean("delta_ua") > 0


def test_level_exact_has_no_gap_at_all(result):
    for found in result.lines:
        if found.level == "exact":
            assert found.mean("prediction_gap") == 0
            assert found.mean("kl_unlearned_oracle") < 1e-9


def test_the_state_after_forgetting_is_byte_for_byte_that_of_never_storing(result):
    assert len(result.proofs) == 3
    for proof in result.proofs:
        assert proof.states_equal
        assert proof.digest_after == proof.digest_without
        assert proof.largest_difference < 1e-12


def test_every_trained_line_has_a_floor_and_two_oracles(result):
    for found in result.lines:
        if found.level != "exact":
            assert found.floor is not None
            assert len(found.gaps) == 2


def test_the_left_side_of_the_claim_holds_on_every_line(result):
    assert all(found.claim["left_holds"] and found.claim["right_holds"] for found in result.lines)


def test_the_result_is_plain_data(result):
    assert json.loads(json.dumps(result.to_dict()))["counts"]["train"] == 1438


def test_no_vote_after_forgetting_is_of_a_forgotten_row(result):
    assert result.gallery
    for item in result.gallery:
        assert any(vote[3] for vote in item.before)
        assert not any(vote[3] for vote in item.after)


def test_the_table_names_scenarios_levels_and_floors(result):
    text = "\n".join(render_table(result))
    for words in ("class 3", "random 10%", "memory", "exact", "nothing forgotten", "byte for byte"):
        assert words in text


def test_the_report_needs_nothing_beside_it(page):
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)
    assert "http" not in re.sub(r"data:image/png;base64,[^\"]*", "", page)


def test_the_report_says_what_stays_in_the_weights_and_that_subjects_are_simulated(page):
    assert "does not change a weight" in page
    assert "<b>simulated</b>" in page


def test_the_report_comes_with_its_page_and_picture(result, tmp_path):
    write_report(result, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "demo.md",
        "report.html",
        "teaser.png",
    ]
    assert (tmp_path / "teaser.png").read_bytes().startswith(b"\x89PNG")
    assert "byte for byte equal" in (tmp_path / "demo.md").read_text()


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_package_is_named_with_its_extra(result, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"erasable\[bench\]"):
        write_report(result, tmp_path)
    assert not list(tmp_path.iterdir())


def test_scenarios_select_what_they_say():
    train, _ = load_digits()
    assert set(train.y[class_scenario(train, 3).is_forgotten]) == {3}
    found = random_scenario(train, 0.1, 0)
    assert found.is_forgotten.sum() == 144
    assert len(found.request["ids"]) == 144
    subject = group_scenario(train, "subject-07")
    assert {train.groups[i] for i in np.flatnonzero(subject.is_forgotten)} == {"subject-07"}


def test_random_scenarios_differ_by_seed_only():
    train, _ = load_digits()
    first, again, other = (random_scenario(train, 0.1, seed).is_forgotten for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


def test_a_model_has_no_gap_to_itself():
    train, test = load_digits()
    comparison = Comparison(class_scenario(train, 3), train, test)
    rng = np.random.default_rng(0)

    def ask(X):
        votes = rng.random((len(X), 10))
        return np.log(votes / votes.sum(axis=1, keepdims=True))

    answers = comparison.ask(ask, has_votes=True)
    found = comparison.gaps(answers, answers).to_dict()
    own = {"ua", "ra", "ta", "oracle_ua", "oracle_ra", "oracle_ta"}
    assert {name for name, value in found.items() if value != 0} <= own
    assert found["ua"] == found["oracle_ua"]


def test_forgetting_brings_the_toy_closer_to_retraining():
    figures = run_teaser(0, side=30).figures()
    assert figures["deleted_to_retrained"] < figures["before_to_retrained"] / 2


def test_the_machine_names_versions():
    assert re.search(r"threads, .* torch 2\.", machine())
