"""Generation as a person would type it: train, sample, forget, tables, figures."""

import io
import json
import sys

import numpy as np
import pytest
from PIL import Image

from erasable.bench.generation import GENERATION, METHODS, _drawings, _figures, _standard
from erasable.bench.generation._figures import image_grid
from erasable.cli import _sample, main
from erasable.data import load_digits
from erasable.models import load

TINY = {
    "side": 8,
    "per_class": 3,
    "mixtures": 2,
    "network": {"channels": [8, 8], "layers": 1, "steps": 2, "batch_size": 16},
}
FEW = ("--data", "digits", "--preset", "tiny")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setitem(GENERATION, "tiny", TINY)
    short = {
        "ft": {"steps": 1},
        "sa": {"steps": 1, "per_class": 2, "fisher_images": 1, "fisher_steps": 2},
        "salun": {"steps": 1},
        "sfron": {"steps": 1},
        "erasediff": {"steps": 1, "rounds": 1, "inner_steps": 1},
    }
    monkeypatch.setitem(METHODS, "tiny", short)
    monkeypatch.setattr(_drawings, "_STEPS", 3)
    monkeypatch.setattr(_standard, "_TIMED_IMAGES", 2)
    monkeypatch.setattr(_standard, "_ROUNDS", 1)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the entry point in this process: (exit code, output, errors)."""

    def entry(*words):
        monkeypatch.setattr(sys, "argv", ["erasable", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "240")
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return entry


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return the directory of a generator that was trained by the command."""
    path = tmp_path_factory.mktemp("generator") / "model"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(GENERATION, "tiny", TINY)
        words = ["erasable", "train", str(path), "digits", "--kind", "generator"]
        patch.setattr(sys, "argv", [*words, "--preset", "tiny"])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return path


def pixels(path):
    return np.asarray(Image.open(path).convert("L"))


def test_sample_forget_and_sample_again(run, model, tmp_path):
    first, second, third = (tmp_path / f"{name}.png" for name in "abc")
    asked = ("sample", model, "--class", 7, "--n", 4, "--steps", 3)
    assert run(*asked, "--out", first)[0] == 0
    assert run(*asked, "--out", second)[0] == 0
    np.testing.assert_array_equal(pixels(first), pixels(second))
    assert run("forget", model, "--class", 7)[0] == 0
    code, _, err = run(*asked, "--out", third)
    assert code == 1
    assert "but got '7'" in err
    assert not third.exists()
    assert run(*asked, "--stand-in", 0, "--out", third)[0] == 0
    assert (pixels(third) != pixels(first)).any()
    noise = _sample._noise(0, "7")
    zeros = load(model).sample([0] * 4, num_inference_steps=3, generator=noise)
    sheet = np.asarray(Image.open(io.BytesIO(_sample.contact_sheet({"7": zeros}))).convert("L"))
    np.testing.assert_array_equal(pixels(third), sheet)  # 0, from the noise that 7 had


def test_votes_of_what_is_drawn(run, model, tmp_path):
    out, page = tmp_path / "a.png", tmp_path / "votes.png"
    words = ("sample", model, "--class", 3, "--n", 2, "--steps", 3, "--out", out)
    code, text, _ = run(*words, "--votes", 4, "--json")
    assert code == 0
    (first, second) = json.loads(text)["votes"]["3"]
    assert len(first) == len(second) == 4
    assert sum(row["vote"] for row in first) < 1
    assert run(*words, "--votes", 4, "--pictures", "digits", "--votes-out", page)[0] == 0
    assert pixels(page).std() > 5
    code, _, err = run(*words, "--votes-out", page)
    assert code == 1
    assert "Expected --pictures and --votes-out together" in err


def test_a_judge_looks_on_while_a_generator_is_trained(run, tmp_path, monkeypatch):
    monkeypatch.setattr("erasable.models._consistency._EVERY", 1)
    judge = tmp_path / "judge"
    assert run("train", judge, "digits", "--preset", "tiny")[0] == 0
    words = ("--kind", "generator", "--preset", "tiny", "--judge", judge)
    code, out, _ = run("train", tmp_path / "model", "digits", *words)
    assert code == 0
    assert "drawn as asked, by the judge: " in out


def test_every_row_of_a_file_is_kept(run, tmp_path):
    rows = tmp_path / "rows.npz"
    X = np.random.default_rng(0).integers(0, 255, (40, 8, 8)).astype(np.uint8)
    np.savez(rows, X=X, y=np.arange(40) % 4)
    words = ("train", tmp_path / "model", rows, "--kind", "generator", "--preset", "tiny")
    code, out, _ = run(*words)
    assert code == 0
    assert "40 rows, 4 classes" in out


def test_a_generator_is_trained_in_half_precision(run, model, tmp_path):
    half = tmp_path / "model"
    words = ("--kind", "generator", "--preset", "tiny", "--precision", "bfloat16")
    assert run("train", half, "digits", *words)[0] == 0
    whole, found = load(model), load(half)
    assert found.precision == "bfloat16"
    assert found.network_.config["precision"] == "bfloat16"
    assert found.weights_digest != whole.weights_digest


def test_images_too_small_for_a_preset_are_refused(run, tmp_path):
    words = ("train", tmp_path / "model", "digits", "--kind", "generator", "--preset", "laptop")
    code, _, err = run(*words)
    assert code == 1
    assert "at least 16 pixels for --preset laptop" in err
    assert not (tmp_path / "model").exists()


def test_images_too_small_for_the_preset_of_a_table_are_refused(run, kept):
    code, _, err = run("tables", "ddpm", "--data", "digits", "--runs", kept)
    assert code == 1
    assert "at least 16 pixels for preset 'laptop', but those of digits have 8" in err


def test_pictures_are_png(run, kept, model, tmp_path):
    out = tmp_path / "a.jpg"
    for words in (("figures", "gmm", *FEW, "--runs", kept), ("sample", model, "--n", 1)):
        code, _, err = run(*words, "--out", out)
        assert code == 1
        assert "Expected --out to end in .png" in err
        assert not out.exists()


def test_no_more_images_are_shown_than_are_drawn(run, kept, tmp_path):
    words = ("--per-class", 4, "--runs", kept, "--out", tmp_path / "gmm.png")
    code, _, err = run("figures", "gmm", *FEW, *words)
    assert code == 1
    assert "Expected --per-class up to 3 with --preset tiny, but got 4" in err


def test_any_parameter_of_a_generator_can_be_set(run, tmp_path):
    words = ("train", tmp_path / "model", "digits", "--kind", "generator", "--preset", "tiny")
    options = ("branch=follow", "rows_per_class=5", "channels=[8,16]", "support_gradient=false")
    given = [word for option in options for word in ("--network-option", option)]
    assert run(*words, *given)[0] == 0
    found = load(tmp_path / "model")
    assert (found.branch, found.rows_per_class, found.support_gradient) == ("follow", 5, False)
    code, _, err = run("train", tmp_path / "other", *words[2:], "--network-option", "verbose=2")
    assert code == 1
    assert "warmup, but got 'verbose'" in err
    assert "--steps, --batch-size" in err
    assert not (tmp_path / "other").exists()


def test_a_generator_is_replaced_on_request_and_what_it_forgot_stays_forgotten(run, tmp_path):
    path, rows = tmp_path / "model", tmp_path / "rows.npz"
    train = load_digits()[0]
    np.savez(rows, X=train.X[:40], y=train.y[:40], ids=train.ids[:40])
    words = ("train", path, rows, "--kind", "generator", "--preset", "tiny")
    assert run(*words)[0] == 0
    before = load(path).weights_digest
    assert run(*words, "--seed", 1, "--overwrite")[0] == 0
    assert load(path).weights_digest != before
    assert run("forget", path, "--id", train.ids[0])[0] == 0
    code, _, err = run(*words, "--overwrite")
    assert code == 1
    assert "forgotten" in err
    assert len(load(path).memory) == 39


def test_without_diffusers_the_remedy_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "diffusers", None)
    code, _, err = run("train", tmp_path / "model", "digits", "--kind", "generator")
    assert code == 1
    assert "pip install 'erasable[diffusion]'" in err


def test_info_describes_a_generator(run, model):
    code, out, _ = run("info", model, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["kind"] == "SPMGenerator"
    assert found["branch"] == "fixed"
    assert found["trained_on"][0]["basis"] == "recorded"


@pytest.mark.parametrize("verb", ["predict", "votes"])
def test_what_only_classifiers_do_is_refused(run, model, tmp_path, verb):
    rows = tmp_path / "rows.npz"
    np.savez(rows, X=np.zeros((1, 8, 8), np.float32))
    code, _, err = run(verb, model, rows)
    assert code == 1
    assert "holds a generator" in err


def test_a_generator_is_audited(run, model):
    code, out, _ = run("audit", model, "--class", "1", "--simulate")
    assert code == 0
    assert out.startswith("simulated: memory, verified for a copy")
    assert "drawings, drawings by a stand-in, votes; 10 images" in out
    code, out, _ = run("audit", model, "--class", "1")
    assert (code, out.splitlines()[0][:11]) == (1, "still there")


def test_an_audit_of_a_generator_takes_no_queries(run, model, tmp_path):
    rows = tmp_path / "rows.npz"
    np.savez(rows, X=np.zeros((1, 8, 8), np.float32))
    code, _, err = run("audit", model, "--queries", rows)
    assert code == 1
    assert "asked for images of its classes" in err


def test_copies_among_the_rows_of_a_generator_are_found(run, model, tmp_path):
    rows, (train, _) = tmp_path / "rows.npz", load_digits()
    np.savez(rows, X=train.X[:1])
    code, out, _ = run("find", model, rows, "--json")
    assert code == 0
    (nearest, *_), *_ = json.loads(out)["queries"]
    assert nearest["id"] == train.ids[0]
    assert nearest["relative"] < 0.01


def test_a_model_that_is_there_is_not_replaced(run, model):
    code, _, err = run("train", model, "digits", "--kind", "generator", "--preset", "tiny")
    assert code == 1
    assert "holds a model" in err


def test_a_classifier_does_not_draw(run, tmp_path):
    path = tmp_path / "classifier"
    assert run("train", path, "digits", "--preset", "tiny")[0] == 0
    code, _, err = run("sample", path)
    assert code == 1
    assert "holds a classifier" in err


def test_standard_generation(run, kept, tmp_path):
    outs = [tmp_path / f"page.{form}" for form in ("md", "csv", "tex", "html")]
    words = [word for path in outs for word in ("--out", path)]
    code, out, _ = run("tables", "std_ddpm", *FEW, "--runs", kept, *words)
    assert code == 0
    assert "FID[fast_cnn]" in out
    assert "1024 rows per class" in out
    assert "35.04" in out  # the paper's time
    assert "all models in turn in one process" in out
    assert all(path.stat().st_size for path in outs)
    assert (tmp_path / "page-samples.png").exists()


def test_variants_of_the_generator(run, kept, monkeypatch):
    monkeypatch.setattr("erasable.bench.generation._standard.VARIANTS", ("spm", "spm_follow"))
    code, out, _ = run("tables", "variants", *FEW, "--runs", kept)
    assert code == 0
    assert "SPM, rows at the query's time step" in out
    assert "by the eager kernel" in " ".join(out.split())
    assert "where they are encoded in each step" in " ".join(out.split())


@pytest.mark.parametrize(
    ("table", "row", "options"),
    [
        ("ddpm", "DDPM: SalUn", ["--untuned"]),
        ("label_perm", "SPM, label embedding, not permuted: deletion", []),
        ("erasediff", "DDPM: EraseDiff", []),
    ],
)
def test_forgetting_a_class(run, kept, tmp_path, table, row, options):
    page = tmp_path / "page.md"
    words = ("tables", table, *FEW, "--class", 1, "--runs", kept, *options)
    code, out, _ = run(*words, "--out", page)
    assert code == 0
    assert row in out
    text = page.read_text()
    assert "nothing done" in text
    assert "another oracle (the floor)" in text
    assert "partly structural" in text
    assert "A control that was not run" in text
    kinds = 3 if table == "label_perm" else 1
    assert f"{kinds * 27} are the same to the byte" in text  # three images of nine classes
    assert ("Tuned on class 0" in text) == (table == "erasediff")
    assert ("Methods are not tuned" in text) == (table == "ddpm")
    assert ("drawing_steps 3" in text) == (table == "ddpm")  # as everything there is drawn
    again = run(*words)
    assert again[0] == 0
    assert "training, or going on" not in again[2]
    assert "training the judge" not in again[2]


def test_what_weights_keep_of_a_forgotten_class(run, kept, tmp_path):
    page = tmp_path / "page.md"
    words = ("tables", "reminded", *FEW, "--class", 1, "--runs", kept)
    assert run(*words, "--out", page)[0] == 0
    text = page.read_text()
    assert "Level `memory`, by the receipts" in text
    assert "oracle, which never saw the class, shown the same" in text
    assert (tmp_path / "page-samples-0.png").exists()
    again = run(*words)
    assert again[0] == 0
    assert "training, or going on" not in again[2]


def test_tuning_needs_a_class_that_no_table_shows(run, kept):
    every = [word for label in range(10) for word in ("--class", label)]
    code, _, err = run("tables", "erasediff", *FEW, *every, "--floors", 0, "--runs", kept)
    assert code == 1
    assert "Expected a class that is not forgotten, to tune on" in err


def test_features_are_named_or_refused(run, kept):
    code, _, err = run("tables", "std_ddpm", *FEW, "--features", "vgg", "--runs", kept)
    assert code == 1
    assert "Expected classifier or inception[:FILE], but got 'vgg'" in err


def test_an_unknown_class_is_refused(run, kept):
    code, _, err = run("tables", "ddpm", *FEW, "--class", "x", "--runs", kept)
    assert code == 1
    assert "but got 'x'" in err


@pytest.mark.parametrize("figure", ["samples", "gmm", "pipeline", "votes"])
def test_figures(run, kept, tmp_path, figure):
    out = tmp_path / f"{figure}.png"
    assert run("figures", figure, *FEW, "--runs", kept, "--out", out)[0] == 0
    assert pixels(out).std() > 5


def test_the_picture_of_halves_is_drawn_from_the_same_noise(run, kept, tmp_path, monkeypatch):
    seen = {}

    def grid(rows, columns, *, frames):
        seen.update(rows=rows, columns=columns, frames=frames)
        return image_grid(rows, columns, frames=frames)

    monkeypatch.setattr(_figures, "image_grid", grid)
    words = ("figures", "samples", "--per-class", 2, *FEW, "--runs", kept)
    assert run(*words, "--out", tmp_path / "samples.png")[0] == 0
    assert seen["columns"] == [str(label) for label in range(10)]
    names = [name for name, _ in seen["rows"]]
    assert names == ["all rows", "", "0–4 forgotten", "", "5–9 forgotten", ""]
    before, first, second = (
        np.stack([image for _, image in seen["rows"][i : i + 2]]) for i in (0, 2, 4)
    )
    np.testing.assert_array_equal(first[:, 5:], before[:, 5:])
    np.testing.assert_array_equal(second[:, :5], before[:, :5])
    assert (first[:, :5] != before[:, :5]).any()
    red, blue = "#c53030", "#2b6cb0"
    assert seen["frames"][:2] == [[None] * 10] * 2
    assert seen["frames"][2:4] == [[red] * 5 + [blue] * 5] * 2
    assert seen["frames"][4:] == [[blue] * 5 + [red] * 5] * 2


def test_another_class_can_stand_in(run, kept):
    words = ("tables", "label_perm", *FEW, "--class", "1", "--floors", 0, "--runs", kept)
    first = json.loads(run(*words, "--json")[1])["runs"]
    second = json.loads(run(*words, "--stand-in", "5", "--json")[1])["runs"]
    asked = {run["settings"]["asking"]["stand_in"] for run in second}
    assert asked == {5}
    assert not [one for one in second if one in first]  # none is the other table's, kept
    code, out, _ = run(*words, "--stand-in", "5")
    assert code == 0
    assert "the same stand-in, class 5 (the first class that is left" in " ".join(out.split())
    code, _, err = run(*words, "--stand-in", "z")
    assert code == 1
    assert "Expected --stand-in to name classes among" in err
    assert "but got 'z'" in err


def test_the_teaser(run, tmp_path):
    out = tmp_path / "teaser.png"
    assert run("figures", "teaser", "--out", out)[0] == 0
    assert pixels(out).std() > 5


def test_networks_and_drawing_of_a_table_can_be_set(run, kept):
    words = ("--network-option", "steps=1", "--network-option", "precision=bfloat16")
    own = ("tables", "std_ddpm", *FEW, *words, "--drawing-steps", 2, "--runs", kept)
    code, out, _ = run(*own)
    assert code == 0
    assert "'steps': 1" in out
    assert "'precision': 'bfloat16'" in out
    assert "by 2 steps of DDIM" in out
    assert "of one class, 2 steps, all models" in out


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("width=3", "precision, steps, warmup, but got 'width'"),
        ("support_size=3", "but got 'support_size'"),  # the twin has none
        ("steps", "Expected --network-option NAME=VALUE, but got 'steps'"),
        ("steps=few", "Expected steps in [0, 1000000000], but got 'few'"),
        ("precision=half", "but got 'half'"),
        ("channels=32", "Expected channels to be a list of ints, but got 32"),
        ("drop=a", "Expected drop from 0 to below 1, but got 'a'"),
    ],
)
def test_wrong_options_of_networks_are_told_before_anything_is_trained(
    run, tmp_path, word, message
):
    runs = tmp_path / "runs"
    code, _, err = run("tables", "std_ddpm", *FEW, "--network-option", word, "--runs", runs)
    assert code == 1
    assert message in err
    assert not list(runs.rglob("*.safetensors"))
