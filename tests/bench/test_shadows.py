"""Many models that forget, against many that never knew."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from erasable.bench import _row_sums
from erasable.bench._exact_shadows import ExactShadows, _require_same_bytes
from erasable.bench._row_sums import RowSums, States
from erasable.bench._shadow_sets import WORLDS, Margins, ShadowMaker, ShadowSets, Unlearned
from erasable.bench._shadows import Progress, shadow_margins
from erasable.data import Split, load_digits
from erasable.errors import ArgumentError, StateError, StoreError
from erasable.memory import Grid, Memory
from erasable.metrics import klom, margins, u_lira
from erasable.models import SPMClassifier

PARTS = ("forget", "retain", "validation")


def digits(rows=300, forget=20, watch=15, validation=25):
    """Return digits as embeddings: pixels of the first rows, some forgotten, some watched."""
    train, test = load_digits()
    flat = [Split(part.X.reshape(len(part), -1), part.y, part.ids) for part in (train, test)]
    order = np.random.default_rng(0).permutation(rows)
    is_forgotten, is_watched = np.zeros((2, rows), bool)
    is_forgotten[order[:forget]] = True
    is_watched[order[forget : forget + watch]] = True
    asked = flat[1].take(np.arange(validation))
    return ShadowSets(flat[0].take(np.arange(rows)), asked, is_forgotten, is_watched)


def model(**options):
    return SPMClassifier(encoder="identity", random_state=0, **options)


def assert_same(first, second):
    for world in ("before", *WORLDS):
        for part in PARTS:
            one, other = (getattr(getattr(found, world), part) for found in (first, second))
            np.testing.assert_array_equal(one, other, err_msg=f"{world}, {part}")


@pytest.fixture(scope="module")
def sets():
    return digits()


class Counted(ShadowMaker):
    """Margins drawn from the rows held; counts the models it is asked for."""

    level = "exact"

    def __init__(self, sets, *, is_equal=True, fail_at=None):
        self.sets, self.built, self.is_equal, self.fail_at = sets, 0, is_equal, fail_at

    def identity(self):
        return {"kind": "counted"}

    def unlearn(self, holds):
        if self.fail_at is not None and self.built >= self.fail_at:
            raise KeyboardInterrupt
        self.built += len(holds)
        after = self.build(holds)
        flags = np.full(len(holds), self.is_equal)
        return Unlearned(self.build(holds | self.sets.is_forgotten), after, flags, ~flags)

    def build(self, holds):
        queries = len(self.sets.queries)
        seeds = [int.from_bytes(np.packbits(own).tobytes()[:8], "big") for own in holds]
        found = [np.random.default_rng(seed).normal(size=queries) for seed in seeds]
        return Margins.of(self.sets, np.stack(found))


# -- the rows of a shadow ------------------------------------------------------------------------


def test_a_shadow_holds_the_watched_rows_and_half_of_the_others_and_none_that_is_forgotten(sets):
    holds = sets.draw("oracle", 3, seed=0)
    assert holds[sets.is_watched].all()
    assert not holds[sets.is_forgotten].any()
    assert holds[sets.others].sum() == len(sets.others) // 2


def test_a_draw_depends_on_seed_world_and_number_and_on_nothing_else(sets):
    draws = [
        sets.draw(world, index, seed=seed).tobytes()
        for world in WORLDS
        for index in range(3)
        for seed in (0, 1)
    ]
    assert len(set(draws)) == len(draws)
    np.testing.assert_array_equal(
        sets.draw("oracle", 1, seed=0), digits().draw("oracle", 1, seed=0)
    )


def test_over_many_draws_each_row_is_held_by_half(sets):
    share = np.mean([sets.draw("unlearned", index, seed=0) for index in range(400)], axis=0)
    assert np.abs(share[sets.others] - 0.5).max() < 0.13


# -- sums against the library --------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"reduction": "prototypes"},
        {"reduction": "prototypes", "attention": "similarity", "temperature": 0.5},
        {"reduction": "prototypes", "normalize": "layer", "grid_bits": 10, "scale": "none"},
        {"reduction": "gaussian"},
        {"reduction": "gaussian", "normalize": "layer", "temperature": 3.0},
    ],
    ids=str,
)
def test_every_model_and_margin_is_that_of_the_library_to_the_last_bit(sets, options, tmp_path):
    found = shadow_margins(ExactShadows(model(**options), sets), tmp_path, shadows=3, chunk=2)
    for index in range(3):
        for world, column in (("unlearned", "before"), ("oracle", "oracle")):
            holds = sets.draw(world, index, seed=0)
            part = sets.train.where(holds | sets.is_forgotten if column == "before" else holds)
            built = model(**options).remember(part.X, part.y, ids=part.ids)
            assert_margins(built, sets, getattr(found, column), index)
            if column == "before":
                assert built.forget(ids=sets.train.where(sets.is_forgotten).ids).level == "exact"
                assert_margins(built, sets, found.unlearned, index)


def assert_margins(built, sets, found, index):
    asked = [
        (sets.train.where(sets.is_forgotten), found.forget),
        (sets.train.where(sets.is_watched), found.retain),
        (sets.validation, found.validation),
    ]
    X = np.concatenate([part.X for part, _ in asked])
    labels = np.concatenate([part.y for part, _ in asked])
    logs = built.predict_log_proba(X, classes=list(range(10)))
    expected = np.concatenate([values[index] for _, values in asked])
    np.testing.assert_array_equal(margins(logs, labels=labels), expected)


def test_the_states_of_all_models_equal_those_built_without_the_rows(sets, tmp_path):
    record = shadow_margins(ExactShadows(model(), sets), tmp_path, shadows=7, chunk=3).record
    assert (record.equal_states, record.checked, record.shadows) == (7, 3, 7)
    assert (record.rows, record.forget, record.retain, record.validation) == (300, 20, 15, 25)
    assert record.rows_per_model == 15 + 265 // 2
    assert record.level == "exact"
    assert record.seconds > 0
    assert "numpy" in record.machine


def test_digests_and_sums_are_those_of_a_memory(sets):
    rows = RowSums(sets.train, np.asarray, Grid())
    holds = sets.draw("oracle", 0, seed=0)
    part = sets.train.where(holds)
    memory = Memory(64)
    memory.add(part.X, part.y.tolist(), ids=part.ids)
    states = rows.states(holds[None])
    assert states.digest(0) == memory.digest
    np.testing.assert_array_equal(states.sums[0], memory.sums.sums)
    np.testing.assert_array_equal(states.counts[0], memory.sums.counts)


def test_moments_are_sums_of_outer_products(sets):
    rows = RowSums(sets.train, np.asarray, Grid())
    holds = sets.draw("oracle", 0, seed=0)
    units = np.rint(sets.train.X[holds].astype(np.float64) * 2**14).astype(np.int64)
    np.testing.assert_array_equal(rows.moments(holds), units.T @ units)


def test_rows_read_in_parts_give_the_same_sums(sets, monkeypatch):
    holds = np.stack([sets.draw("oracle", index, seed=0) for index in range(2)])
    whole = RowSums(sets.train, np.asarray, Grid())
    monkeypatch.setattr(_row_sums, "_CHUNK", 7)
    parts = RowSums(sets.train, np.asarray, Grid())
    assert parts.states(holds).equals(whole.states(holds)).all()
    np.testing.assert_array_equal(parts.moments(holds[0]), whole.moments(holds[0]))


@pytest.mark.parametrize("name", ["counts", "sums", "lanes"])
def test_states_that_differ_in_one_number_are_not_equal(sets, name):
    states = RowSums(sets.train, np.asarray, Grid()).states(np.ones((2, 300), bool))
    changed = getattr(states, name).copy()
    changed.reshape(2, -1)[1, -1] += 1
    assert states.equals(states).tolist() == [True, True]
    assert states.equals(replace(states, **{name: changed})).tolist() == [True, False]


@pytest.mark.parametrize(("name", "word"), [("lanes", "digest"), ("sums", "margins")])
def test_sums_that_are_not_the_librarys_stop_the_run(sets, tmp_path, monkeypatch, name, word):
    right = RowSums.states

    def wrong(self, holds):
        states = right(self, holds)
        return replace(states, **{name: getattr(states, name) + 1})

    monkeypatch.setattr(RowSums, "states", wrong)
    with pytest.raises(StateError, match=f"to the last bit, but not so: {word}"):
        shadow_margins(ExactShadows(model(), sets), tmp_path, shadows=1)
    assert list(tmp_path.iterdir()) == []


def test_a_forget_that_leaves_something_behind_is_counted(sets, monkeypatch):
    monkeypatch.setattr(States, "minus", lambda self, gone: self)
    maker = ExactShadows(model(), sets)
    maker._unchecked["unlearn"] = 0  # the library would stop the run
    assert not maker.unlearn(sets.draw("unlearned", 0, seed=0)[None]).is_equal.any()


def test_models_of_different_rows_are_not_the_same_bytes(sets):
    first, second = (
        model().remember(part.X, part.y, ids=part.ids)
        for part in (sets.train.take(range(9)), sets.train.take(range(8)))
    )
    _require_same_bytes(first, first)
    with pytest.raises(StateError, match="byte for byte, but it is not"):
        _require_same_bytes(first, second)


def test_an_encoder_of_unknown_origin_is_not_exact(sets, tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 8))
    maker = ExactShadows(SPMClassifier(encoder=network, random_state=0), sets)
    with pytest.raises(StateError, match="Expected forgetting at level exact, but it is 'memory'"):
        shadow_margins(maker, tmp_path, shadows=1)


def test_a_frozen_encoder_that_was_only_drawn_is_exact(sets, tmp_path):
    drawn = SPMClassifier(encoder="random_features", random_state=0)
    assert shadow_margins(ExactShadows(drawn, sets), tmp_path, shadows=2).record.equal_states == 2


def test_memory_mapped_inputs_and_labels_of_text_are_read(sets, tmp_path):
    np.save(tmp_path / "X.npy", sets.train.X)
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    names = np.array([f"digit {label}" for label in range(10)])
    train = Split(X, names[sets.train.y], list(range(300)))
    named = replace(
        sets, train=train, validation=replace(sets.validation, y=names[sets.validation.y])
    )
    found = shadow_margins(ExactShadows(model(), named), tmp_path / "out", shadows=2)
    plain = shadow_margins(ExactShadows(model(), sets), tmp_path / "plain", shadows=2)
    assert_same(found, plain)


# -- what the numbers say ------------------------------------------------------------------------


def test_the_attack_finds_rows_that_are_held_and_not_those_forgotten(sets, tmp_path):
    found = shadow_margins(ExactShadows(model(), sets, checked=1), tmp_path, shadows=200)
    held = u_lira(found.before.forget, found.oracle.forget)
    gone = u_lira(found.unlearned.forget, found.oracle.forget)
    assert held.accuracy.value > 0.6
    assert not held.accuracy.is_near(0.5)
    assert gone.accuracy.is_near(0.5)
    assert gone.auc.is_near(0.5)
    second = found.second_oracle.forget
    gap = klom(found.unlearned.forget, found.oracle.forget, second_oracle=second)
    assert gap.mean == pytest.approx(gap.floor.mean, rel=0.25)
    assert klom(found.before.forget, found.oracle.forget).mean > 1.5 * gap.floor.mean


def test_a_forgotten_class_has_no_margin_in_either_world(sets, tmp_path):
    is_three = sets.train.y == 3
    whole = replace(sets, is_forgotten=is_three, is_watched=sets.is_watched & ~is_three)
    found = shadow_margins(ExactShadows(model(), whole), tmp_path, shadows=10)
    assert np.isfinite(found.before.forget).all()
    assert (found.unlearned.forget == -np.inf).all()
    assert (found.oracle.forget == -np.inf).all()
    assert found.record.equal_states == 10
    assert u_lira(found.unlearned.forget, found.oracle.forget).accuracy.value == 0.5


# -- going on ------------------------------------------------------------------------------------


def test_a_run_that_was_interrupted_goes_on_and_ends_as_if_it_had_not_been(sets, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        shadow_margins(Counted(sets, fail_at=4), tmp_path / "a", shadows=9, chunk=2)
    again = Counted(sets)
    resumed = shadow_margins(again, tmp_path / "a", shadows=9, chunk=2)
    assert again.built == 5
    assert_same(resumed, shadow_margins(Counted(sets), tmp_path / "b", shadows=9, chunk=2))


KILLED = """
import os, sys
sys.path.insert(0, sys.argv[2])
from bench.test_shadows import Counted, digits
from erasable.bench._shadows import shadow_margins
shadow_margins(Counted(digits()), sys.argv[1], shadows=6, chunk=2,
               progress=lambda at: os.kill(os.getpid(), 9) if at.done == 4 else None)
"""


def test_a_process_that_was_killed_leaves_whole_chunks(sets, tmp_path):
    tests = os.path.dirname(os.path.dirname(__file__))
    command = [sys.executable, "-c", KILLED, str(tmp_path / "a"), tests]
    assert subprocess.run(command, check=False).returncode == -9
    (tmp_path / "a" / ".chunk-000004.safetensors.0.tmp").write_bytes(b"half")
    again = Counted(sets)
    resumed = shadow_margins(again, tmp_path / "a", shadows=6, chunk=2)
    assert again.built == 2
    assert_same(resumed, shadow_margins(Counted(sets), tmp_path / "b", shadows=6, chunk=2))


def test_more_shadows_go_on_from_those_there_are_and_fewer_are_the_first_of_them(sets, tmp_path):
    shadow_margins(Counted(sets), tmp_path, shadows=5, chunk=2)
    maker = Counted(sets)
    more = shadow_margins(maker, tmp_path, shadows=8, chunk=2)
    assert maker.built == 4  # the last chunk had one of two
    assert more.before.forget.shape == (8, 20)
    maker = Counted(sets)
    fewer = shadow_margins(maker, tmp_path, shadows=3, chunk=2)
    assert maker.built == 0
    np.testing.assert_array_equal(fewer.oracle.retain, more.oracle.retain[:3])
    assert fewer.record.shadows == 3


def test_states_that_are_not_equal_are_counted(sets, tmp_path):
    record = shadow_margins(Counted(sets, is_equal=False), tmp_path, shadows=3).record
    assert (record.equal_states, record.checked) == (0, 3)


def test_progress_tells_what_is_done_and_how_long_the_rest_may_take(sets, tmp_path):
    told: list[Progress] = []
    shadow_margins(Counted(sets), tmp_path, shadows=5, chunk=2, progress=told.append)
    assert [at.done for at in told] == [2, 4, 5]
    assert {at.total for at in told} == {5}
    assert told[0].seconds_left > 0
    assert told[-1].seconds_left == 0
    told.clear()
    shadow_margins(Counted(sets), tmp_path, shadows=5, chunk=2, progress=told.append)
    assert {at.seconds_left for at in told} == {None}


@pytest.mark.parametrize("changed", ["seed", "chunk"])
def test_results_of_another_run_are_refused(sets, tmp_path, changed):
    options = {"shadows": 4, "seed": 0, "chunk": 2}
    shadow_margins(Counted(sets), tmp_path, **options)
    with pytest.raises(StateError, match=f"differ in '{changed}'. Choose another folder"):
        shadow_margins(Counted(sets), tmp_path, **options | {changed: 3})


def test_results_of_other_rows_are_refused(sets, tmp_path):
    shadow_margins(ExactShadows(model(), sets), tmp_path, shadows=1)
    moved = replace(sets, train=replace(sets.train, X=sets.train.X + 0.5))
    with pytest.raises(StateError, match="differ in 'queries', 'rows'"):
        shadow_margins(ExactShadows(model(), moved), tmp_path, shadows=1)


def test_results_of_other_watched_rows_are_refused(sets, tmp_path):
    shadow_margins(ExactShadows(model(), sets), tmp_path, shadows=1)
    other = replace(sets, is_watched=np.roll(sets.is_watched, 1) & ~sets.is_forgotten)
    with pytest.raises(StateError, match="differ in 'is_watched'"):
        shadow_margins(ExactShadows(model(), other), tmp_path, shadows=1)


def test_results_of_another_model_are_refused(sets, tmp_path):
    shadow_margins(ExactShadows(model(), sets), tmp_path, shadows=1)
    with pytest.raises(StateError, match="differ in 'model'"):
        shadow_margins(ExactShadows(model(reduction="gaussian"), sets), tmp_path, shadows=1)


def test_a_damaged_file_is_named(sets, tmp_path):
    shadow_margins(Counted(sets), tmp_path, shadows=2)
    file = tmp_path / "chunk-000000.safetensors"
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(StoreError, match=r"chunk-000000\.safetensors, but they are damaged"):
        shadow_margins(Counted(sets), tmp_path, shadows=2)


def test_a_file_of_another_kind_is_refused(sets, tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(1)}, tmp_path / "chunk-000000.safetensors")
    with pytest.raises(StateError, match=r"format erasable\.chunk\.1"):
        shadow_margins(Counted(sets), tmp_path, shadows=2)


def test_the_record_is_plain(sets, tmp_path):
    record = shadow_margins(ExactShadows(model(), sets), tmp_path, shadows=1).record
    assert json.loads(json.dumps(record.identity)) == record.identity


# -- refusals ------------------------------------------------------------------------------------


def test_counts_out_of_range_are_refused_all_at_once(sets, tmp_path):
    with pytest.raises(ArgumentError) as caught:
        shadow_margins(Counted(sets), tmp_path, shadows=0, seed=-1, chunk=1.5)
    assert str(caught.value) == (
        "shadow_margins(): Expected shadows to be an int of 1 or more, but got 0. "
        "Expected seed to be an int of 0 or more, but got -1. "
        "Expected chunk to be an int of 1 or more, but got 1.5."
    )


@pytest.mark.parametrize("mask", [np.zeros(300, bool), np.ones(3, bool), [True] * 300, True])
def test_a_forget_set_that_is_none_is_refused(sets, mask):
    with pytest.raises(ArgumentError, match="'is_forgotten' to be an array of 300 booleans"):
        replace(sets, is_forgotten=mask)


def test_rows_that_are_forgotten_and_watched_are_refused(sets):
    with pytest.raises(ArgumentError, match="forgotten or watched, but got as both"):
        replace(sets, is_watched=sets.is_forgotten)


def test_nothing_left_to_draw_halves_of_is_refused(sets):
    with pytest.raises(ArgumentError, match=r"neither forgotten nor watched.*but got 0"):
        replace(sets, is_watched=~sets.is_forgotten)


def test_validation_rows_of_an_unknown_class_are_refused(sets):
    odd = replace(sets.validation, y=np.full(25, 77))
    with pytest.raises(ArgumentError, match="validation labels of training rows, but also got: 77"):
        replace(sets, validation=odd)


def test_no_validation_rows_are_refused(sets):
    with pytest.raises(ArgumentError, match="at least one validation row"):
        replace(sets, validation=sets.validation.take([]))


@pytest.mark.parametrize("options", [{"reduction": "rows"}, {"set_encoder": "graph"}])
def test_a_model_that_reads_more_than_sums_is_refused(sets, options):
    with pytest.raises(ArgumentError, match="Expected a model that reads sums"):
        ExactShadows(model(**options), sets)


def test_no_check_at_all_is_refused(sets):
    with pytest.raises(ArgumentError, match="Expected checked to be a positive int, but got 0"):
        ExactShadows(model(), sets, checked=0)


@pytest.mark.parametrize("value", [np.nan, 1e6])
def test_embeddings_off_the_grid_are_refused_with_their_row(sets, tmp_path, value):
    X = sets.train.X.copy()
    X[5, 0] = value
    with pytest.raises(ArgumentError, match=r"first in row 5|contains NaN"):
        shadow_margins(
            ExactShadows(model(), replace(sets, train=replace(sets.train, X=X))), tmp_path
        )
