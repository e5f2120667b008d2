"""The tables of the unlearning benchmark, and ``erasable bench``, as a person would type them."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from erasable.bench import load_pack
from erasable.cli import main

SMALL = ("--data", "digits", "--preset", "tiny")
FEW = (*SMALL, "--seeds", "1", "--published", "--method", "ga", "--kind", "spm")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return a folder of runs that all tests share: originals and oracles are trained once."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def run(monkeypatch, capsys, kept):
    """Run the entry point in this process: (exit code, output, errors)."""

    def entry(*words, keeps=True):
        folder = ["--runs", str(kept)] if keeps else []
        monkeypatch.setattr(sys, "argv", ["erasable", *map(str, words), *folder])
        monkeypatch.setenv("COLUMNS", "240")
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return entry


def test_a_table_is_shown_and_written_in_every_form(run, tmp_path):
    outs = [tmp_path / f"page.{form}" for form in ("md", "csv", "tex", "html")]
    words = [word for path in outs for word in ("--out", path)]
    code, out, err = run("tables", "cls_cifar", *FEW, "--classes", 1, *words)
    assert code == 0
    assert "One class forgotten" in out
    assert "5 classes forgotten" in out
    assert "SPM deletion: PG_H" in out
    assert "in all; interrupted, the same command goes on." in err
    assert all(path.stat().st_size for path in outs)
    assert (tmp_path / "page-floor.png").exists()
    assert "Command: erasable tables cls_cifar" in outs[0].read_text()


def test_random_rows(run):
    code, out, _ = run("tables", "cls_random", *FEW, "--share", 10)
    assert code == 0
    assert "Random 10 % forgotten" in out
    assert "50 %" not in out


def test_requests_in_sequence(run):
    code, out, _ = run("tables", "sequence", *FEW, "--rule", "class:0 > random:5%")
    assert code == 0
    assert "after 2: random:5%" in out


def test_the_graph_encoder(run):
    code, out, _ = run("tables", "gnn", *SMALL, "--seeds", 1)
    assert code == 0
    assert "with a graph set encoder" in out


def test_the_same_weights_read_in_other_ways(run):
    words = ("--seeds", 1, "--classes", 1, "--halves", 0, "--published", "--method", "mute")
    kinds = ("--kind", "spm_gaussian", "--kind", "spm", "--kind", "spm_neighbours")
    code, out, _ = run("tables", "cls_cifar", *SMALL, *words, *kinds)
    assert code == 0
    names = ("SPM", "SPM by neighbours", "SPM by gaussian")
    places = [out.index(f"{name}: Deletion") for name in names]
    assert places == sorted(places)
    assert "KNN" not in out


def test_a_folder_in_the_layout_of_imagenet(run, tmp_path):
    rng = np.random.default_rng(0)
    for place, label in enumerate(("n01440764", "n02102040", "n02979186")):
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(8):
            pixels = rng.integers(0, 120, size=(24, 24, 3))
            pixels[..., place] += 120
            path = tmp_path / "images" / label / f"{number}.png"
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    words = ("--data", tmp_path / "images", "--preset", "tiny", "--resolution", 16)
    code, out, _ = run(
        "tables", "cls_imagenet", *words, "--classes", 2, "--method", "ga", "--kind", "spm"
    )
    assert code == 0
    assert "One class forgotten" in out
    assert "paper:" not in out  # for 1,000 classes


def test_tables_as_json(run):
    code, out, _ = run("tables", "cls_random", *FEW, "--share", 10, "--json")
    assert code == 0
    found = json.loads(out)
    assert {r["settings"]["what"] for r in found["runs"]} == {
        "cell",
        "floor",
        "original",
        "oracle",
        "untouched",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--method", "gaa"), "Expected methods among 'mute', 'ga'"),
        (("--kind", "tree"), "Expected kinds among 'knn'"),
        (("--out", "page.pdf"), "Expected a file that ends in 'md'"),
        (("--preset", "exact"), "Expected preset 'tiny'"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_trained(run, kept, words, message):
    before = sorted(kept.iterdir())
    code, _, err = run("tables", "cls_cifar", *SMALL, *words)
    assert code == 1
    assert message in err
    assert sorted(kept.iterdir()) == before


def test_tuning_says_what_it_chose(run):
    code, out, err = run("bench", "tune", "ga", *SMALL)  # the last class, whatever its name
    assert code == 0
    assert "ga on class:9: {'learning_rate': " in out
    assert err.count("mean gap") >= 5  # the grid; more if the best one is at its end


def test_a_pack_scores_its_own_oracles(run, tmp_path):
    pack, own = tmp_path / "pack.npz", tmp_path / "own.npz"
    words = ("bench", "pack", *SMALL, "--rule", "class:0", "--seeds", 2, "--out", pack)
    code, out, _ = run(*words)
    assert code == 0
    assert "2 oracles without class:0" in out
    found = load_pack(pack)
    np.savez(own, probabilities=found.oracles[0].astype(float), classes=found.classes)
    blind = tmp_path / "blind.npz"
    np.savez(blind, probabilities=np.eye(10)[[0] * found.oracles.shape[1]], classes=found.classes)
    code, out, _ = run("bench", "score", blind, own, "--pack", pack, "--json", keeps=False)
    assert code == 0
    first, second = json.loads(out)["ranking"]
    assert (first["predictions"], second["predictions"]) == (str(own), str(blind))
    assert first["prediction_gap"] == pytest.approx(first["floor"] / 2)
    assert second["prediction_gap"] > first["prediction_gap"]
    code, out, _ = run("bench", "score", own, "--pack", pack, keeps=False)
    assert "2 parametric oracles of preset tiny, label smoothing 0; PG_H between them" in out
    assert f"1. {own}: PG_H" in out
    assert "0.5 × floor" in out


def test_labels_are_smoothed_and_halves_left_out_on_request(run, tmp_path):
    page = tmp_path / "page.md"
    words = ("--classes", 1, "--halves", 0, "--label-smoothing", 0.2, "--out", page)
    code, _, _ = run("tables", "cls_cifar", *FEW, *words)
    assert code == 0
    assert "Preset: tiny; label smoothing 0.2" in page.read_text()
    assert "5 classes forgotten" not in page.read_text()


def test_the_encoder_of_all_networks_has_the_options_asked_for(run, tmp_path):
    page, pack = tmp_path / "page.md", tmp_path / "pack.npz"
    own = ("--encoder-option", "width=0.05", "--encoder-option", "precision=bfloat16")
    words = ("--classes", 1, "--halves", 0, *own, "--out", page)
    code, _, _ = run("tables", "cls_cifar", *FEW, *words)
    assert code == 0
    expected = "Preset: tiny; label smoothing 0; encoder fast_cnn, precision bfloat16, width 0.05"
    assert expected in page.read_text()
    code, _, _ = run("bench", "pack", *SMALL, "--rule", "class:3", *own, "--out", pack)
    assert code == 0
    assert load_pack(pack).record["encoder_options"] == {"width": 0.05, "precision": "bfloat16"}


def test_a_wrong_option_of_the_encoder_is_told_before_anything_is_trained(run):
    words = ("--classes", 1, "--halves", 0, "--encoder-option")
    code, _, err = run("tables", "cls_cifar", *FEW, *words, "width")
    assert code == 1
    assert "Expected --encoder-option NAME=VALUE, but got 'width'." in err
    code, _, err = run("tables", "cls_cifar", *FEW, *words, "breadth=2")
    assert code == 1
    assert "Expected options of the encoder 'fast_cnn'" in err


def test_muting_single_rows_is_refused(run):
    code, _, err = run("tables", "cls_random", *SMALL, "--method", "mute")
    assert code == 1
    assert "Expected methods that forget single rows, but 'mute' only forget whole classes." in err


def test_a_pack_of_one_seed_has_the_two_oracles_of_a_floor(run, tmp_path):
    pack = tmp_path / "pack.npz"
    words = ("bench", "pack", *SMALL, "--rule", "random:10%", "--seeds", 1, "--out", pack)
    code, out, _ = run(*words)
    assert code == 0
    assert "2 oracles without random:10%" in out
    assert load_pack(pack).record["oracle_seeds"] == [1000, 2000]
    code, _, err = run("bench", "pack", *SMALL, "--rule", "random:10%", "--out", pack)
    assert code == 1
    assert "Name its seed: random:10%@0." in err


def test_no_pack_is_no_pack(run, tmp_path):
    (tmp_path / "pack.npz").write_bytes(b"no")
    np.savez(tmp_path / "own.npz", probabilities=np.ones((1, 2)), classes=[0, 1])
    words = (tmp_path / "own.npz", "--pack", tmp_path / "pack.npz")
    code, _, err = run("bench", "score", *words, keeps=False)
    assert code == 5
    assert "Expected an oracle pack" in err


def test_a_run_that_was_killed_twice_gives_the_same_table(tmp_path):
    """Times aside, which are measured anew."""
    words = ["-m", "erasable", "tables", "cls_random", *FEW, "--share", "10"]

    def start(name):
        where = ["--runs", str(tmp_path / name), "--out", str(tmp_path / f"{name}.csv")]
        return subprocess.Popen([sys.executable, *words, *where], stderr=subprocess.DEVNULL)

    assert start("whole").wait() == 0
    finished = 0
    for _ in range(2):  # each time after one more piece of work was finished
        process = start("killed")
        while len(list((tmp_path / "killed").glob("*.json"))) <= finished:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        finished = len(list((tmp_path / "killed").glob("*.json")))
    assert not (tmp_path / "killed.csv").exists()
    assert start("killed").wait() == 0
    tables = [_untimed(tmp_path / f"{name}.csv") for name in ("whole", "killed")]
    assert tables[0] == tables[1]
    assert len(tables[0]) > 40


def _untimed(path):
    with path.open() as file:
        return [row for row in csv.reader(file) if not row[2].startswith("seconds")]
