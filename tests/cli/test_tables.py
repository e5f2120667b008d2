"""``erasable tables`` as a person would type it."""

import json
import sys

import numpy as np
import pytest
from PIL import Image
from typer.main import get_command
from typer.testing import CliRunner

from erasable.bench import _exact
from erasable.bench._std_cls import FRACTIONS, REDUCTIONS
from erasable.cli import main
from erasable.cli._tables import tables_app

MODELS = [
    "parametric",
    "KNN on the twin's features",
    *(f"SPM {reduction}" for reduction in REDUCTIONS),
    "SPM prototypes, graph",
]


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    """Keep everything in a folder that goes away, and forget fewer rows one by one."""
    monkeypatch.setenv("ERASABLE_DATA", str(tmp_path / "cache" / "data"))
    monkeypatch.setattr(_exact, "_SINGLES", 10)
    monkeypatch.setattr(_exact, "_ASKED", 30)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the entry point in this process: (exit code, output, errors)."""

    def entry(*words):
        monkeypatch.setattr(sys, "argv", ["erasable", "tables", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return entry


@pytest.fixture
def photographs(tmp_path):
    """Return a folder in the layout of ImageNet: three classes of images of 24 to 72 pixels."""
    root = tmp_path / "photographs"
    rng = np.random.default_rng(0)
    for place, label in enumerate(("n01440764", "n02102040", "n02979186")):
        (root / label).mkdir(parents=True)
        for number in range(6):
            pixels = rng.integers(0, 120, size=(*rng.integers(24, 73, size=2), 3))
            pixels[..., place] += 120
            Image.fromarray(pixels.astype(np.uint8)).save(root / label / f"{number}.png")
    return root


@pytest.fixture
def vectors(tmp_path):
    """Return an .npz file of three easy classes."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    X = rng.normal(size=(240, 4)).astype(np.float32) + 3 * np.eye(4, dtype=np.float32)[y]
    path = tmp_path / "vectors.npz"
    np.savez(path, X=X, y=y, ids=[f"row-{i}" for i in range(240)])
    return path


COMMANDS = sorted(get_command(tables_app).commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples(command):
    found = CliRunner().invoke(tables_app, [command, "--help"])
    examples = found.stdout.split("Examples:\n")[1].split("\n\n")[0].splitlines()
    assert len(examples) > 1
    assert all(line.strip().startswith(f"erasable tables {command}") for line in examples)


def test_without_a_table_the_tables_are_shown(run):
    _, out, err = run()
    assert all(command in out + err for command in COMMANDS)


# -- std_cls --------------------------------------------------------------------------------------


def test_a_folder_of_images_makes_a_page(run, photographs, tmp_path):
    words = ("std_cls", "--data", photographs, "--resolution", 72, "--preset", "tiny", "--seeds", 1)
    page = tmp_path / "page.md"
    code, out, err = run(*words, "--runs", tmp_path / "runs", "--out", page)
    assert (code, out) == (0, f"Page: {page}\n")
    assert "training graph" in err
    text = page.read_text()
    assert all(f"\n| {model} |" in text for model in MODELS)
    assert "| model | 5% | 10% | 100% | time / twin |" in text
    assert "efficientnet_lite0" in text
    assert "'resolution': 32" in text
    assert "paper:" not in text
    assert f"`erasable tables std_cls --data {photographs}" in text
    assert "- seeds: 0\n" in text
    assert "torch" in text.split("## How it was run")[1]


def test_finished_runs_are_kept_where_asked_and_read_again(run, vectors, tmp_path):
    words = ("std_cls", "--data", vectors, "--preset", "tiny", "--seeds", 2)
    where = ("--runs", tmp_path / "runs", "--json")
    first = json.loads(run(*words, *where)[1])
    assert len(list((tmp_path / "runs").iterdir())) == 2
    code, out, err = run(*words, *where)
    assert (code, json.loads(out)) == (0, first)
    assert "training" not in err
    assert [found["settings"]["seed"] for found in first["runs"]] == [0, 1]
    assert len(first["runs"][0]["result"]["cells"]) == 1 + 6 * len(FRACTIONS)


def test_without_a_file_the_page_is_printed(run, vectors, tmp_path):
    words = ("std_cls", "--data", vectors, "--preset", "tiny", "--seeds", 1)
    code, out, _ = run(*words, "--runs", tmp_path / "runs")
    assert code == 0
    assert out.startswith(f"# std_cls on {vectors}\n")
    assert f"`erasable tables std_cls --data {vectors} --preset tiny --seeds 1 --runs" in out


def refused(found):
    code, out, err = found
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith("Error: Expected ")
    assert "Traceback" not in err
    return err


def test_what_cannot_be_run_is_refused_in_words(run, vectors, tmp_path):
    assert "'nothing'" in refused(run("std_cls", "--data", "nothing"))
    where = ("--data", vectors, "--runs", tmp_path / "runs")
    assert "'accurate', 'paper'" in refused(run("std_cls", *where, "--preset", "exact"))
    assert "no resolution" in refused(run("std_cls", *where, "--resolution", 24))
    one = tmp_path / "one.npz"
    np.savez(one, X=np.eye(2), y=[0, 1])
    assert "Expected test rows" in refused(run("std_cls", "--data", one, "--preset", "tiny"))


@pytest.mark.parametrize("command", ["std_cls", "share", "gap"])
def test_no_seeds_are_refused_in_words(run, vectors, tmp_path, command):
    words = ("--data", vectors, "--preset", "tiny", "--seeds", 0, "--runs", tmp_path / "runs")
    code, _, message = run(command, *words)
    assert code == 2
    assert "--seeds" in message


@pytest.mark.parametrize(
    "words",
    [
        ("std_cls", "--preset", "tiny", "--out", "folder"),
        ("exact", "--encoder", "identity", "--shadows", 0, "--out", "folder"),
        ("exact", "--encoder", "identity", "--encoder", "identity:x", "--shadows", 0),
        ("share", "--preset", "tiny", "--frozen", "identity:x"),
        ("gap", "--preset", "tiny", "--rows", 3, "--out", "folder"),
        ("gap", "--preset", "tiny", "--rows", 1000),
    ],
)
def test_what_cannot_be_done_is_told_before_any_work(run, vectors, tmp_path, words, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    seeds = () if words[0] == "exact" else ("--seeds", 1)
    code, *_ = run(*words, *seeds, "--data", vectors, "--runs", tmp_path / "runs")
    assert code == 1
    assert not (tmp_path / "runs").exists()


# -- exact ----------------------------------------------------------------------------------------


def test_exact_makes_a_page_of_every_encoder(run, vectors, tmp_path):
    words = ("exact", "--data", vectors, "--encoder", "identity", "--encoder", "random_features")
    where = ("--runs", tmp_path / "runs", "--embedding-cache", tmp_path / "embeddings")
    page = tmp_path / "page.md"
    code, out, _ = run(*words, "--shadows", 20, *where, "--out", page)
    assert (code, out) == (0, f"Page: {page}\n")
    text = page.read_text()
    assert "\n## identity\n" in text
    assert "\n## random_features\n" in text
    assert text.count("simulated: exact, verified") == 2
    assert "20 of 20" in text
    assert len(list((tmp_path / "runs").iterdir())) == 2 * (len(REDUCTIONS) + 2)
    assert (tmp_path / "embeddings").is_dir()


def test_exact_without_attacks_prints_one_document(run, vectors, tmp_path):
    words = ("exact", "--data", vectors, "--encoder", "identity", "--shadows", 0, "--json")
    code, out, _ = run(*words, "--runs", tmp_path / "runs")
    assert code == 0
    found = json.loads(out)["runs"]
    assert list(found["identity"]) == [*(f"accuracy {name}" for name in REDUCTIONS), "forget"]
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["data"]
    assert (tmp_path / "cache" / "data" / "embeddings").is_dir()


def test_a_resolution_that_is_no_number_is_refused(run, vectors, tmp_path):
    words = ("exact", "--data", vectors, "--runs", tmp_path / "runs")
    assert "'efficientnet_lite0:large'" in refused(
        run(*words, "--encoder", "efficientnet_lite0:large")
    )


# -- share ----------------------------------------------------------------------------------------


def test_share_makes_a_page_and_a_picture(run, vectors, tmp_path):
    words = ("share", "--data", vectors, "--preset", "tiny", "--seeds", 1, "--frozen", "identity")
    page = tmp_path / "share.md"
    code, out, _ = run(*words, "--runs", tmp_path / "runs", "--out", page)
    assert (code, out) == (0, f"Page: {page}\n")
    assert (tmp_path / "share.png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert "](share.png)" in text
    assert "\n## The whole network is trained (preset tiny)\n" in text
    assert "\n## identity, frozen; only the comparison is trained\n" in text
    assert len(list((tmp_path / "runs").glob("*.json"))) == 5 + 6


def test_share_prints_one_document(run, vectors, tmp_path):
    words = ("share", "--data", vectors, "--preset", "tiny", "--seeds", 1, "--json")
    code, out, _ = run(*words, "--runs", tmp_path / "runs")
    assert code == 0
    (found,) = json.loads(out)["runs"].values()
    assert [one["settings"]["exact_share"] for one in found] == [0.0, 0.5, 0.75, 0.9, 0.95]


# -- gap ------------------------------------------------------------------------------------------


def test_gap_makes_a_page(run, vectors, tmp_path):
    page = tmp_path / "gap.md"
    words = ("gap", "--data", vectors, "--preset", "tiny", "--seeds", 1, "--rows", 12)
    code, out, _ = run(*words, "--runs", tmp_path / "runs", "--out", page)
    assert (code, out) == (0, f"Page: {page}\n")
    assert "| temperature 2 |" in page.read_text()
