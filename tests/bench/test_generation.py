"""Tables of generation by hand-made models: what is compared with what, chosen, and kept."""

import inspect
import math
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from erasable.baselines import DivergedError
from erasable.bench import Runs
from erasable.bench.generation import (
    GENERATION,
    METHODS,
    Drawings,
    Generators,
    _generators,
    _tuning,
    forgetting_document,
    reminded_document,
    run_forgetting,
    run_reminded,
    run_standard,
    standard_document,
)
from erasable.bench.generation import _drawings as drawing
from erasable.bench.generation._cells import untouched_cell
from erasable.bench.generation._forgetting_sheets import _complete
from erasable.bench.generation._strips import as_strip, from_strip
from erasable.bench.generation._tuning import rank, score, tuning_class
from erasable.bench.generation._words import judge_note
from erasable.data import load_dataset
from erasable.errors import ArgumentError
from erasable.metrics import FeatureNetwork, frechet_distance
from erasable.models import DDPM, GMM, SPMGenerator

PER_CLASS = 6
HISTORY = [{"step": 500.0, "loss": 1.0, "consistency": 0.25}, {"step": 600.0, "loss": 1.0}]


class Pixels(FeatureNetwork):
    """Two features that tell brightness and one corner apart."""

    name = "pixels"

    def __call__(self, images):
        return np.stack([images.mean(axis=(1, 2, 3)), images[:, 0, 0, 0]], axis=1).astype(float)


class Judge:
    """Takes an image for the class that its brightness says."""

    encoder = "brightness"

    def predict(self, images):
        return np.round(images.mean(axis=(1, 2, 3)) * 9).astype(int).clip(0, 9)


class Painter:
    """Draws its classes as brightness, with noise of a size that its seed gives."""

    shown = ()

    def __init__(self, spread, *, gone=()):
        self.spread, self.gone = spread, list(gone)

    def sample(self, labels, *, generator, **options):
        rng = np.random.default_rng(generator.initial_seed())
        shown = [options.get("stand_in", 9) if label in self.gone else label for label in labels]
        level = np.array(shown)[:, None, None, None] / 9
        return (level + self.spread * rng.normal(size=(len(labels), 1, 8, 8))).clip(0, 1)

    def forget(self, classes):
        self.gone += classes
        return SimpleNamespace(level="memory")

    def remember(self, X, y, *, ids):
        assert len(X) == len(y) == len(ids)
        type(self).shown = list(ids)
        self.gone = [label for label in self.gone if label not in y]


class Painted(Generators):
    """Generators that paint instead of training."""

    trained = 0
    judge_digest = "by brightness"

    @property
    def judge(self):
        return Judge()

    def _trained(self, kind, seed, without):
        self.trained += 1
        return Painter(0.01 + seed / 1e5, gone=[] if without is None else [without])

    def training(self, kind, seed, *, without=None):
        return SimpleNamespace(result={"seconds": 5.0, "history": HISTORY})


@pytest.fixture
def drawings(tmp_path, monkeypatch):
    monkeypatch.setattr(
        Painted, "judge_run", lambda self: SimpleNamespace(result={"accuracy": 1.0})
    )
    generators = Painted(
        load_dataset("digits"), scale="tiny", runs=Runs(tmp_path), features=Pixels()
    )
    return Drawings(generators, PER_CLASS)


@pytest.fixture
def edits(monkeypatch):
    """Let edits leave a painter whose forgotten class is drawn as another one, and count them."""
    done = []

    def unlearn(original, rows, label, method, *, verbose):
        done.append((method.name, method.settings.get("learning_rate"), label))
        if method.name == "salun" and method.settings["learning_rate"] > 2e-4:
            raise DivergedError("salun has diverged")
        is_good = method.settings["learning_rate"] > 2e-4
        model = Painter(original.spread, gone=[label] if is_good else [])
        account = type("Account", (), {"seconds": 2.0})
        return type("Done", (), {"model": model, "account": account})

    monkeypatch.setattr(drawing, "unlearn_class", unlearn)
    return done


def test_measures_equal_those_by_hand(drawings):
    images = drawings.draw(Painter(0.01))
    oracle = drawings.draw(Painter(0.01, gone=[3]), noise=1)
    found = drawings.measure(images, oracle, 3)
    see = Pixels()
    mine, other = see(images / 255), see(oracle / 255)
    is_three = np.repeat(np.arange(10), PER_CLASS) == 3
    assert found["ua"] == 0.0  # it still draws the class
    assert drawings.measure(oracle, None, 3)["ua"] == 1.0
    assert found["consistency"] == 1.0
    assert found["fid_oracle"] == pytest.approx(frechet_distance(mine, other))
    assert found["fid_oracle_remaining"] == pytest.approx(
        frechet_distance(mine[~is_three], other[~is_three])
    )
    assert found["fid_oracle_by_class"]["3"] > 100 * found["fid_oracle_by_class"]["4"]


def test_oracles_draw_from_noise_of_their_own(drawings):
    original, oracle = drawings.of_original("spm", 0), drawings.of_oracle("spm", 3, 0)
    kept = drawings.places(5)
    assert (original[kept] != oracle[kept]).any()


def test_what_is_not_forgotten_is_drawn_again_and_is_the_same(drawings):
    made = drawings.after_deletion("spm", 3, 0)
    assert (made.again, made.same) == (9 * PER_CLASS, 9 * PER_CLASS)
    before = drawings.of_original("spm", 0)
    is_same = (made.images == before).reshape(len(before), -1).all(axis=1)
    assert is_same.sum() == 9 * PER_CLASS


def test_where_others_changed_all_are_drawn_again(drawings, monkeypatch):
    def forget(self, classes):
        self.gone += [*classes, 4]  # a deletion that reaches too far

    monkeypatch.setattr(Painter, "forget", forget)
    made = drawings.after_deletion("spm", 3, 0)
    assert made.same == 8 * PER_CLASS
    assert (
        made.images[drawings.places(4)] != drawings.of_original("spm", 0)[drawings.places(4)]
    ).any()


def test_every_cell_is_compared_with_the_oracle_of_its_own_seed(drawings, edits):
    made = run_forgetting(drawings, [3], seeds=[0, 1], methods=("ft",), is_tuned=False, floors=1)
    for row, by_label in made.runs.items():
        seeds = [run.settings["seed"] % 1000 for run in by_label[3]]
        assert seeds == [0, 1]
        if row[1] != "retrain":
            assert [run.settings["oracle"] for run in by_label[3]] == [1000, 1001]
    assert made.floors["spm"][3].settings["and"] == 2000
    retrained = made.runs["spm", "retrain"][3][0].result
    assert retrained["fid_oracle"] == 0
    assert (retrained["ua"], retrained["ua_gap"]) == (1.0, 0.0)
    assert made.runs["spm", "untouched"][3][0].result["ua_gap"] == 1.0
    assert made.runs["spm", "deletion"][3][0].result["ua_gap"] == 0.0


def test_tuning_takes_the_setting_that_forgets_and_says_what_diverged(drawings, edits, tmp_path):
    made = run_forgetting(drawings, [3], seeds=[0], methods=("ft", "salun"), floors=0)
    chosen = {entry["method"]: entry["chosen"]["learning_rate"] for entry in made.searched}
    assert chosen == {"ft": 5e-4, "salun": 1e-4}
    assert {label for *_, label in edits[:4]} == {0}  # a class that no table shows
    salun = made.searched[1]["searched"]
    tried = [(one["settings"]["learning_rate"], one["rank"] is None) for one in salun]
    assert tried == [(1e-4, False), (5e-4, True), (2e-5, False)]  # the last is beyond the grid
    page = tmp_path / "page.md"
    forgetting_document(drawings, made, "Title", "command").write(page)
    assert "learning_rate 0.0005: diverged" in page.read_text()
    assert "as shares of doing nothing" in page.read_text()


def test_the_headline_tells_what_methods_are_tuned_by(drawings, edits):
    made = run_forgetting(drawings, [3], seeds=[0], methods=("ft",), floors=1)
    headline, *_ = forgetting_document(drawings, made, "Title", "command").sheets[0].notes
    for row in (("spm", "deletion"), ("ddpm", "ft")):
        value = made.runs[row][3][0].result["fid_oracle_remaining"]
        floor = made.floors[row[0]][3].result["fid_oracle_remaining"]
        assert f"FID_O of the other classes {value:.2f} (floor {floor:.2f})" in headline


def test_multiples_are_of_the_floor_of_the_class_where_it_has_one(drawings):
    options = {"seeds": [0], "methods": (), "is_tuned": False, "floors": 2}
    made = run_forgetting(drawings, [3, 5, 7], **options)
    sheet = forgetting_document(drawings, made, "Title", "command").sheets[0]
    (row,) = (row for row in sheet.rows if row[0] == "SPM: deletion")
    floors = [made.floors["spm"][label].result["fid_oracle"] for label in (3, 5)]
    mean = sum(floors) / 2
    assert [figure.floor for figure in row[1:5]] == pytest.approx([*floors, mean, mean])
    assert floors[0] != floors[1]
    assert any("without 3, 5 alone, and the mean" in note for note in sheet.notes)


def test_a_choice_at_the_end_of_what_was_tried_is_told(drawings, edits):
    made = run_forgetting(drawings, [3], seeds=[0], methods=("ft",), floors=0)

    def told():
        facts = forgetting_document(drawings, made, "Title", "command").facts
        return next(fact for fact in facts if fact.startswith("Tuned on"))

    assert "last value tried" not in told()
    (entry,) = made.searched
    best = entry["chosen"]["learning_rate"]
    entry["searched"] = [
        one for one in entry["searched"] if one["settings"]["learning_rate"] <= best
    ]
    assert told().endswith(", the last value tried for learning_rate")


def test_a_model_with_an_embedding_is_told_to_be_asked_for_the_forgotten_class(drawings):
    options = {"seeds": [0], "methods": (), "is_tuned": False, "floors": 0}
    kinds = ("spm", "spm_plain")
    with_one = run_forgetting(drawings, [3], kinds=kinds, **options)
    notes = forgetting_document(drawings, with_one, "Title", "command").sheets[0].notes
    assert any("told the number of the *forgotten* class" in note for note in notes)
    without = run_forgetting(drawings, [3], **options)
    notes = forgetting_document(drawings, without, "Title", "command").sheets[0].notes
    assert not any("told the number" in note for note in notes)


def test_a_trial_says_that_its_figures_say_nothing(drawings, monkeypatch):
    made = run_forgetting(drawings, [3], seeds=[0], methods=(), is_tuned=False, floors=0)
    told = forgetting_document(drawings, made, "Title", "command").introduction
    assert "trial" not in told
    monkeypatch.setattr(drawings.generators, "scale", "trial")
    assert "no figure here says anything of a method" in (
        forgetting_document(drawings, made, "Title", "command").introduction
    )


def test_a_class_that_an_empty_image_is_taken_for_is_named_where_it_is_forgotten(drawings):
    options = {"seeds": [0], "methods": (), "is_tuned": False, "floors": 0}

    def notes(label):
        made = run_forgetting(drawings, [label], **options)
        return forgetting_document(drawings, made, "Title", "command").sheets[0].notes

    assert any("all black, the judge takes for 0" in note for note in notes(0))  # by brightness
    assert not any("all black" in note for note in notes(3))


def test_the_oracle_that_tuning_is_by_counts_as_a_run(drawings, edits):
    made = run_forgetting(drawings, [3], seeds=[0], methods=("ft",), floors=0)
    assert made.searched[0]["untouched"] in made.every
    assert made.searched[0]["untouched"].settings["without"] == 0


def test_all_models_of_a_scale_have_one_kernel(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        _generators,
        "get_kernels",
        lambda *, work, device: asked.append(work) or SimpleNamespace(name="compiled"),
    )
    kernels = {}
    for scale in ("tiny", "demo", "laptop", "paper"):
        generators = Generators(load_dataset("digits"), scale="tiny", runs=Runs(tmp_path))
        generators.scale = scale  # digits have too few pixels for the larger ones
        kernels[scale] = generators.kernel
    assert kernels == {"tiny": "eager", "demo": "eager", "laptop": "compiled", "paper": "compiled"}
    assert asked == [math.inf] * 2  # whatever the work of a call is


def test_a_model_that_forgot_a_class_and_its_oracle_are_shown_other_rows_of_it(drawings):
    oracle = drawings.generators.model("spm", 1000, without=3)
    made = run_reminded(drawings, [3], seeds=[0])
    found = made[3][0].result
    real = drawings._of_real()
    of_three = real[0][real[1] == 3]
    for sort, seed in (("original", 0), ("reminded", 0), ("oracle", 1000)):
        drawn = drawings.draw(Painter(0.01 + seed / 1e5), [3])  # from the same noise
        fid = frechet_distance(Pixels()(drawn / 255), of_three)
        assert found[sort]["fid"] == pytest.approx(fid)
        assert found[sort]["consistency"] == 1.0  # without the rows they would draw a nine
    assert found["level"] == "memory"
    assert drawings.generators.model("spm", 1000, without=3) is not oracle  # that one was changed
    shown = drawings.generators.test.y == 3
    assert Painter.shown == [drawings.generators.test.ids[i] for i in np.flatnonzero(shown)]
    page = reminded_document(drawings, made, "command")
    assert page.sheets[2].texts()[0][2:] == ["3: 100.0 %"] * 3
    assert "draws it in 100.0 % of the cases, its oracle in 100.0 %" in page.sheets[0].notes[0]
    assert "from the same noise by every model, the oracle too" in page.sheets[0].notes[2]


def test_what_a_reminded_model_draws_instead_is_told(drawings, monkeypatch):
    monkeypatch.setattr(Painter, "remember", lambda self, X, y, *, ids: None)  # rows are ignored
    found = run_reminded(drawings, [3], seeds=[0])[3][0].result
    assert found["original"]["consistency"] == 1.0
    for sort in ("reminded", "oracle"):
        assert found[sort]["consistency"] == 0.0
        assert found[sort]["answers"] == {"9": 1.0}


def test_a_diverged_edit_is_named_and_not_done_again(drawings, edits, monkeypatch):
    monkeypatch.setitem(METHODS["tiny"], "salun", {"steps": 1, "learning_rate": 1e-2})
    options = {"seeds": [0], "methods": ("ft", "salun"), "is_tuned": False, "floors": 0}
    made = run_forgetting(drawings, [3], **options)
    assert made.failures == {"salun, 3, seed 0": "salun has diverged"}
    assert ("ddpm", "salun") not in made.runs
    assert _complete(made) == [("ddpm", "ft")]
    count = len(edits)
    assert run_forgetting(drawings, [3], **options).failures == made.failures
    assert len(edits) == count


def test_nothing_is_made_twice(drawings, edits):
    options = {"seeds": [0], "methods": ("ft",), "is_tuned": False}
    run_forgetting(drawings, [3, 5], **options)
    count = drawings.generators.trained
    again = Drawings(drawings.generators, PER_CLASS)
    run_forgetting(again, [3, 5], **options)
    assert drawings.generators.trained == count


def test_a_page_needs_figures_only(drawings, edits, tmp_path):
    options = {"seeds": [0], "methods": ("ft",), "is_tuned": False, "floors": 1}
    standard = run_standard(drawings, seeds=[0], sizes=(10, 20))
    run_forgetting(drawings, [3, 5], **options)
    count, edited = drawings.generators.trained, len(edits)
    shutil.rmtree(tmp_path / "samples")
    again = Drawings(drawings.generators, PER_CLASS)
    made = run_forgetting(again, [3, 5], **options)
    forgetting_document(again, made, "Title", "command").write(tmp_path / "a.md")
    assert run_standard(again, seeds=[0], sizes=(10, 20)) == standard
    standard_document(again, standard, "command", "Title").write(tmp_path / "b.md")
    assert (drawings.generators.trained, len(edits)) == (count, edited)
    assert (
        "in training, by few images, seed 0: 25 % at 500 steps" in (tmp_path / "b.md").read_text()
    )


def test_images_of_few_rows_are_compared_with_those_of_the_most(drawings, monkeypatch):
    sample = Painter.sample

    def darker(self, labels, *, rows_per_class=0, **options):
        return sample(self, labels, **options) * (1 - rows_per_class / 100)

    monkeypatch.setattr(Painter, "sample", darker)
    found = run_standard(drawings, seeds=[0], sizes=(10, 20))
    (run,) = found["difference"]
    few, many = drawings.of_original("ddpm", 0), drawings.of_original("spm", 0, rows_per_class=20)
    by_hand = np.abs(few.astype(float) - many.astype(float)).mean() / 255
    assert run.result["differences"]["ddpm"] == pytest.approx(by_hand)
    assert by_hand > run.result["differences"]["spm 10"] > run.result["differences"]["spm 20"] == 0
    (sheet,) = standard_document(drawings, found, "command", "Title").sheets
    assert "pixels unlike SPM, 20 rows, %" in sheet.header


def test_each_class_is_finished_with_its_floor_before_the_next(drawings, edits, monkeypatch):
    wanted = []
    model = drawings.generators.model

    def noted(kind, seed, *, without=None):
        wanted.append((kind, seed, without))
        return model(kind, seed, without=without)

    monkeypatch.setattr(drawings.generators, "model", noted)
    run_forgetting(drawings, [3, 5], seeds=[0], methods=(), is_tuned=False, floors=1)
    assert wanted.index(("spm", 2000, 3)) < wanted.index(("spm", 1000, 5))


def test_tables_of_forgetting_read_as_many_rows_as_the_preset_says(drawings, monkeypatch):
    asked = []
    sample = Painter.sample

    def noted(self, labels, **options):
        asked.append(options.get("rows_per_class"))
        return sample(self, labels, **options)

    monkeypatch.setattr(Painter, "sample", noted)
    monkeypatch.setattr(drawings.generators, "settings", {**GENERATION["tiny"], "read": 7})
    made = run_forgetting(drawings, [3], seeds=[0], methods=(), is_tuned=False, floors=1)
    assert set(asked) == {7}
    cell = made.runs["spm", "deletion"][3][0]
    assert (cell.result["again"], cell.result["same"]) == (9 * PER_CLASS, 9 * PER_CLASS)
    assert cell.settings["options"] == {"rows_per_class": 7}


def test_another_default_of_a_model_is_another_run(drawings, monkeypatch):
    generators = drawings.generators
    for kind, model in (("ddpm", DDPM), ("spm", SPMGenerator), ("gmm", GMM)):
        before = generators.run_settings("training", kind, 0)
        given = {"drop": 0.25} if kind != "gmm" else {"variance_floor": 0.5}
        monkeypatch.setattr(_generators, model.__name__, changed(model, **given))
        after = generators.run_settings("training", kind, 0)
        assert {**after["parameters"], **before["parameters"]} == before["parameters"]
        assert after != before


def changed(model, **defaults):
    """Return a class with other defaults."""

    class Changed:
        __signature__ = inspect.signature(model).replace(
            parameters=[
                parameter.replace(default=defaults.get(name, parameter.default))
                for name, parameter in inspect.signature(model).parameters.items()
            ]
        )

    return Changed


def test_images_are_drawn_in_calls_of_one_size(drawings, monkeypatch):
    monkeypatch.setattr(drawing, "_AT_ONCE", 4)
    sizes = []
    sample = Painter.sample

    def noted(self, labels, **options):
        sizes.append((len(labels), options.get("class_numbers")))
        return sample(self, labels, **options)

    monkeypatch.setattr(Painter, "sample", noted)
    assert len(drawings.draw(Painter(0.01), [3], class_numbers=7)) == PER_CLASS
    assert sizes == [(4, [7] * 4), (2, [7] * 2)]


def test_a_training_is_noted_when_its_model_is_made_and_needs_no_model_then(tmp_path):
    words = {"scale": "tiny", "runs": Runs(tmp_path), "network": {"steps": 1}}
    generators = Generators(load_dataset("digits"), **words)
    noted = generators.training("ddpm", 0)
    assert (noted.result["seconds"] > 0, len(noted.result["history"])) == (True, 1)
    again = Generators(load_dataset("digits"), **words)
    shutil.rmtree(tmp_path / "weights")
    assert again.training("ddpm", 0) == noted
    assert not (tmp_path / "weights").exists()


def test_several_judges_are_told(drawings):
    runs = [SimpleNamespace(result={"judged_by": name}) for name in ("a", "b", "a")]
    assert "2 of them judged here" in judge_note(drawings, runs)
    assert "judged here" not in judge_note(drawings, runs[::2])


@pytest.mark.parametrize("channels", [1, 3])
def test_images_survive_as_text(channels):
    images = np.random.default_rng(0).integers(0, 256, (4, channels, 5, 6)).astype(np.uint8)
    assert (from_strip(as_strip(images), 4) == images).all()


def test_another_sampler_or_number_of_images_is_another_run(drawings, monkeypatch):
    first = drawings.of_original("spm", 0)
    fewer = Drawings(drawings.generators, 3).of_original("spm", 0)
    assert len(fewer) < len(first)
    monkeypatch.setitem(drawing.SAMPLER, "seed", 999)
    assert (drawings.of_original("spm", 0) != first).any()


def test_images_are_drawn_in_as_many_steps_as_asked_and_kept_apart(drawings, monkeypatch):
    taken, sample = [], Painter.sample

    def noted(self, labels, **options):
        taken.append(options["num_inference_steps"])
        return sample(self, labels, **options)

    monkeypatch.setattr(Painter, "sample", noted)
    drawings.of_original("spm", 0)
    Drawings(drawings.generators, PER_CLASS, steps=7).of_original("spm", 0)
    assert set(taken) == {50, 7}


def test_tuning_draws_in_the_steps_of_the_table(drawings, monkeypatch):
    taken = set()
    monkeypatch.setattr(
        Painter,
        "sample",
        lambda self, labels, **options: (
            taken.add(options["num_inference_steps"]) or np.zeros((len(labels), 1, 8, 8))
        ),
    )
    monkeypatch.setattr(_tuning, "edited_cell", lambda few, *_: untouched_cell(few, "ddpm", 1, 0))
    few = Drawings(drawings.generators, PER_CLASS, steps=7)
    _tuning.tune_method(few, "ft", 1, lambda _: None)
    assert taken == {7}


def test_a_score_of_one_is_doing_nothing():
    nothing = {"ua_gap": 0.8, "fid_oracle_remaining": 4.0}
    assert score(nothing, nothing) == 1.0
    assert score({"ua_gap": 0.0, "fid_oracle_remaining": 0.0}, nothing) == 0.0
    assert score({"ua_gap": 0.0, "fid_oracle_remaining": 8.0}, nothing) == 1.0
    assert math.isfinite(score(nothing, {"ua_gap": 0.0, "fid_oracle_remaining": 0.0}))


def test_forgetting_at_a_price_ranks_before_doing_next_to_nothing():
    nothing = {"ua_gap": 1.0, "fid_oracle_remaining": 0.5}
    little = {"ua_gap": 0.99, "fid_oracle_remaining": 0.4}
    costly = {"ua_gap": 0.01, "fid_oracle_remaining": 2.0}
    clean = {"ua_gap": 0.01, "fid_oracle_remaining": 0.2}
    assert score(little, nothing) < score(costly, nothing)
    ranked = sorted([nothing, little, costly, clean], key=lambda found: rank(found, nothing))
    assert ranked == [clean, costly, little, nothing]


def test_a_setting_that_forgets_nothing_is_not_chosen_if_another_forgets(drawings, monkeypatch):
    def edited(few, method, *_):
        ua_gap, distance = (0.0, 9.0) if method.learning_rate >= 5e-4 else (1.0, 0.1)
        untouched = untouched_cell(few, "ddpm", 1, 0)
        found = {"ua_gap": ua_gap, "fid_oracle_remaining": distance}
        return replace(untouched, result={**untouched.result, **found})

    monkeypatch.setattr(_tuning, "edited_cell", edited)
    said = []
    entry = _tuning.tune_method(drawings, "sfron", 1, said.append)
    assert entry["chosen"]["learning_rate"] >= 5e-4
    assert any(line.endswith("does not forget") for line in said)


def test_a_class_to_tune_on_is_one_that_no_table_shows():
    assert tuning_class([0, 1, 2], [0, 2]) == 1
    with pytest.raises(ArgumentError, match="not forgotten, to tune on"):
        tuning_class([0, 1], [0, 1])


def test_one_class_is_too_few(tmp_path):
    data = load_dataset("digits")
    one = replace(data, train=data.train.where(data.train.y == 1))
    with pytest.raises(ArgumentError, match="at least two classes"):
        Generators(one, scale="tiny", runs=Runs(tmp_path))
