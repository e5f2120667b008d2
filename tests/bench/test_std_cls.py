"""The table of accuracies and test times, on a few rows and by the smallest preset."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from erasable.bench import Run, Runs, collect, run_std_cls, std_cls_page
from erasable.bench._std_cls import FRACTIONS, REDUCTIONS, Cell, with_share
from erasable.data import Dataset, Split, load_dataset
from erasable.encoders import GraphAttention
from erasable.errors import ArgumentError
from erasable.models import (
    KNNClassifier,
    ParametricClassifier,
    SPMClassifier,
    preset,
    preset_settings,
)
from erasable.training._loop import _Epoch

MODELS = [
    "KNN on the twin's features",
    *(f"SPM {reduction}" for reduction in REDUCTIONS),
    "SPM prototypes, graph",
]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Train on one thread: with several, the graph's gradients are not the same each time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def data():
    """Return a few of the digits."""
    found = load_dataset("digits")
    return replace(found, train=found.train.take(range(240)), test=found.test.take(range(90)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def done(data, runs):
    """Return the runs of two seeds."""
    return run_std_cls(data, scale="tiny", seeds=[0, 1], runs=runs)


@pytest.fixture(scope="module")
def twin(data):
    """Return the parametric model of seed 0, trained by hand."""
    model = ParametricClassifier(**preset("tiny", (1, 8, 8)), random_state=0)
    return model.fit(data.train.X, data.train.y)


@pytest.fixture(scope="module")
def spm(data):
    """Return the semi-parametric model of seed 0, trained by hand."""
    model = SPMClassifier(**preset("tiny", (1, 8, 8)), random_state=0)
    return model.fit(data.train.X, data.train.y, ids=data.train.ids, groups=data.train.groups)


def measured(run):
    """Return everything in a result that does not depend on the clock."""
    found = run.result
    cells = {(cell["model"], cell["fraction"]): cell["accuracy"] for cell in found["cells"]}
    return cells, found["history"], found["weights"]


class Asked(Runs):
    """Keeps what it is asked for, and does nothing."""

    def run(self, settings, work):
        return Run(settings, {}, 0.0, "", "")


def settings_of(data, **changes):
    options = {"scale": "tiny", "seeds": [0], "runs": Asked(None), **changes}
    return [run.settings for run in run_std_cls(data, **options)]


# -- what is measured -----------------------------------------------------------------------------


def test_every_model_is_measured_with_every_share_of_the_rows(done):
    found = [(cell["model"], cell["fraction"]) for cell in done[0].result["cells"]]
    expected = [(model, fraction) for model in MODELS for fraction in FRACTIONS]
    assert found == [("parametric", None), *expected]


def test_accuracies_are_those_of_the_plain_models(done, data, twin, spm):
    cells = measured(done[0])[0]
    assert cells["parametric", None] == twin.score(data.test.X, data.test.y)
    for reduction in REDUCTIONS:
        model = copy.copy(spm).set_params(reduction=reduction)
        for fraction in FRACTIONS:
            part = with_share(model, fraction, 0)
            assert cells[f"SPM {reduction}", fraction] == part.score(data.test.X, data.test.y)


def test_knn_reads_the_features_of_the_twin(done, data, twin):
    knn = KNNClassifier(epochs=0, random_state=0)
    knn.fit(data.train.X, data.train.y, ids=data.train.ids, init=twin)
    accuracy = measured(done[0])[0]["KNN on the twin's features", 1.0]
    assert accuracy == knn.score(data.test.X, data.test.y)


def test_the_weights_are_those_of_a_plain_fit(done, spm):
    assert done[0].result["weights"]["spm"] == spm.weights_digest


def test_times_are_there_for_every_model_and_the_twin_is_the_unit(done):
    ratios = [cell["ratio"] for cell in done[0].result["cells"]]
    assert ratios[0] == 1.0
    assert all(ratio > 0 for ratio in ratios)
    assert all(seconds > 0 for seconds in done[0].result["seconds"].values())


def test_equal_seeds_give_equal_figures_and_others_give_others(done, data, tmp_path):
    (again,) = run_std_cls(data, scale="tiny", seeds=[1], runs=Runs(tmp_path))
    assert measured(again) == measured(done[1])
    assert measured(done[0])[2] != measured(done[1])[2]


def steps_back(node):
    """Yield the names of all steps of a backward pass."""
    if node is not None:
        yield node.name()
        for before, _ in node.next_functions:
            yield from steps_back(before)


def test_a_graph_is_trained_in_the_same_bits_on_several_threads():
    rows = torch.randn(6, 8, requires_grad=True)
    encoded = GraphAttention(8)(rows, torch.tensor([0, 0, 0, 1, 1, 1]))
    assert "IndexBackward0" not in set(steps_back(encoded.grad_fn))


def test_finished_seeds_are_read_and_only_new_ones_are_run(done, data, runs):
    said = []
    found = run_std_cls(data, scale="tiny", seeds=[1, 0], runs=runs, say=said.append)
    assert found == [done[1], done[0]]
    assert said == [
        "std_cls on digits, seed 1 (1 of 2)",
        "std_cls on digits, seed 0 (2 of 2)",
    ]


def test_rows_without_groups_and_without_axes_are_measured(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)).astype(np.float32), np.arange(60) % 3
    X[:, 0] += 4 * y
    rows = Split(X, y, [f"row-{i}" for i in range(60)])
    toy = Dataset("toy", rows.take(range(45)), rows.take(range(45, 60)), "drawn")
    (found,) = run_std_cls(toy, scale="tiny", seeds=[0], runs=Runs(tmp_path))
    assert found.settings["parameters"]["encoder"] == "mlp"
    assert len(found.result["cells"]) == 1 + len(MODELS) * len(FRACTIONS)


# -- interrupted ----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["training spm", "measuring SPM rows, 10% of the rows"])
def test_an_interrupted_seed_goes_on_to_the_same_weights_and_figures(done, data, tmp_path, place):
    def stop(message):
        if message == place:
            raise KeyboardInterrupt

    runs = Runs(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_std_cls(data, scale="tiny", seeds=[0], runs=runs, say=stop)
    (scratch,) = tmp_path.glob("*.partial")
    assert (scratch / "twin" / "checkpoint.safetensors").exists()
    (resumed,) = run_std_cls(data, scale="tiny", seeds=[0], runs=runs)
    assert measured(resumed) == measured(done[0])
    assert not scratch.exists()


def test_what_was_trained_before_the_interruption_is_not_trained_again(data, tmp_path, monkeypatch):
    def stop(message):
        if message == "training graph":
            raise KeyboardInterrupt

    runs = Runs(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_std_cls(data, scale="tiny", seeds=[0], runs=runs, say=stop)
    trained, epoch = [], _Epoch.__call__

    def counted(self, *rows):
        trained.append(type(self._objective).__name__)
        return epoch(self, *rows)

    monkeypatch.setattr(_Epoch, "__call__", counted)
    run_std_cls(data, scale="tiny", seeds=[0], runs=runs)
    assert trained == ["SeparateSupport"]


# -- the settings of a run ------------------------------------------------------------------------


def test_a_run_is_defined_by_data_preset_parameters_and_seed(data):
    first, second = settings_of(data, seeds=[0, 7])
    assert first == {
        "table": "std_cls",
        "data": {k: v for k, v in data.record().items() if k != "source"},
        "preset": "tiny",
        "parameters": preset_settings("tiny", (1, 8, 8)),
        "graph": {"epochs": 1, "support_size": 64},
        "graph_encoder_lr_factor": 0.1,
        "fractions": [0.05, 0.1, 1.0],
        "seed": 0,
    }
    assert second == {**first, "seed": 7}
    assert settings_of(replace(data, train=data.train.take(range(99)))) != [first]
    assert settings_of(data, scale="laptop") != [first]


def test_data_whose_rows_changed_are_another_run(data):
    changed = replace(data, train=replace(data.train, X=1 - data.train.X))
    assert settings_of(changed) != settings_of(data)


def test_data_whose_labels_changed_are_another_run(data):
    changed = replace(data, train=replace(data.train, y=np.roll(data.train.y, 1)))
    assert settings_of(changed) != settings_of(data)


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Return a folder in the layout of ImageNet: two classes of ten images, of 24 to 72 pixels."""
    root = tmp_path_factory.mktemp("photographs")
    rng = np.random.default_rng(0)
    for place, label in enumerate(("n01440764", "n02102040")):
        (root / label).mkdir()
        for number in range(10):
            size = rng.integers(24, 73, size=2)
            pixels = rng.integers(0, 120, size=(*size, 3))
            pixels[..., place] += 120
            Image.fromarray(pixels.astype(np.uint8)).save(root / label / f"{number}.png")
    return root


def test_images_of_another_size_are_another_run(photographs):
    first, second = (load_dataset(photographs, resolution=pixels) for pixels in (24, 48))
    assert settings_of(first) != settings_of(second)


def test_a_folder_of_images_is_measured(photographs, tmp_path):
    folder = load_dataset(photographs, resolution=24)
    (found,) = run_std_cls(folder, scale="tiny", seeds=[0], runs=Runs(tmp_path))
    assert found.settings["parameters"]["encoder"] == "fast_cnn"
    cells = measured(found)[0]
    assert cells["SPM gaussian", 1.0] > 0.5
    page = "\n".join(std_cls_page([found], "erasable tables std_cls"))
    assert "paper:" not in page


# -- refusals -------------------------------------------------------------------------------------


def test_data_without_test_rows_is_refused(data, runs):
    with pytest.raises(ArgumentError, match="Expected test rows in digits, but there are none"):
        run_std_cls(replace(data, test=None), scale="tiny", seeds=[0], runs=runs)


@pytest.mark.parametrize("scale", ["exact", "huge", ""])
def test_a_preset_that_trains_nothing_or_is_unknown_is_refused(data, runs, scale):
    with pytest.raises(
        ArgumentError,
        match="Expected preset 'tiny', 'laptop', 'fast', 'accurate', 'paper', but got",
    ):
        run_std_cls(data, scale=scale, seeds=[0], runs=runs)


# -- cells ----------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9))
def test_mean_and_spread_of_a_cell_are_those_of_numpy(accuracies):
    cell = Cell("SPM", 1.0, accuracies, accuracies)
    assert cell.mean == pytest.approx(np.mean(accuracies), abs=1e-12)
    assert cell.spread == pytest.approx(np.std(accuracies, ddof=1), abs=1e-9)


def test_a_single_seed_has_no_spread():
    assert Cell("SPM", 1.0, [0.5], [1.0]).spread is None


def test_cells_collect_the_seeds_in_the_order_of_the_runs(done):
    cells = collect(done)
    assert [(cell.model, cell.fraction) for cell in cells] == [
        ("parametric", None),
        *((model, fraction) for model in MODELS for fraction in FRACTIONS),
    ]
    for cell in cells:
        key = cell.model, cell.fraction
        assert cell.accuracies == [measured(run)[0][key] for run in done]
        assert len(cell.ratios) == 2
    assert collect(done[::-1])[0].accuracies == cells[0].accuracies[::-1]


# -- a share of the rows --------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_a_share_leaves_the_model_itself_alone(spm, data, reduction, fraction):
    model = copy.copy(spm).set_params(reduction=reduction)
    before = model.memory, model.memory.digest, model.predict_proba(data.test.X)
    part = with_share(model, fraction, 0)
    part.predict(data.test.X)
    assert model.memory is before[0]
    assert model.memory.digest == before[1]
    np.testing.assert_array_equal(model.predict_proba(data.test.X), before[2])


def test_a_share_reads_the_drawn_rows_with_the_same_weights(spm, data):
    part = with_share(spm, 0.1, 3)
    assert part.memory.digest == spm.memory.subset(0.1, 3).digest
    assert part.weights_digest == spm.weights_digest
    counts = {label: int((data.train.y == label).sum()) for label in range(10)}
    assert len(part.memory) == sum(round(0.1 * count) for count in counts.values())


def _means(model):
    """Return the mean embedding of each class that a model reads, (classes, dim)."""
    rows = model.memory.get([info.id for info in model.memory.table.infos])
    labels = [row.label for row in rows]
    embeddings = np.stack([row.embedding for row in rows])
    return np.stack([embeddings[np.array(labels) == label].mean(0) for label in sorted({*labels})])


def test_prototypes_of_a_share_are_the_means_of_its_rows(spm, data):
    similar = copy.copy(spm).set_params(attention="similarity")
    part = with_share(similar, 0.05, 0)
    scores = part.embed(data.test.X).astype(np.float64) @ _means(part).T
    np.testing.assert_array_equal(part.predict(data.test.X), scores.argmax(axis=1))


def test_all_of_the_rows_are_no_draw(spm):
    assert with_share(spm, 1.0, 0).memory is spm.memory
    draws = {with_share(spm, 0.1, seed).memory.digest for seed in range(3)}
    assert len(draws) == 3
    assert with_share(spm, 0.1, 2).memory.digest in draws


# -- the page -------------------------------------------------------------------------------------


def test_the_page_tells_figures_command_seeds_data_and_machine(done, data):
    page = "\n".join(std_cls_page(done, "erasable tables std_cls --data digits"))
    for model in ("parametric", *MODELS):
        assert f"\n| {model} |" in page
    for cell in collect(done):
        assert f"{100 * cell.mean:.2f} ± {100 * cell.spread:.2f}" in page
    assert "| model | 5% | 10% | 100% | time / twin |" in page
    assert "`erasable tables std_cls --data digits`" in page
    assert "- seeds: 0, 1" in page
    assert f"- {done[0].machine}" in page
    assert data.train.contents_digest[:16] in page
    assert "Level of forgetting: `memory`" in page
    assert "paper:" not in page


def test_figures_of_the_paper_stand_beside_its_data_set_only(data, tmp_path):
    named = replace(data, name="cifar10")
    found = run_std_cls(named, scale="tiny", seeds=[0], runs=Runs(tmp_path))
    page = "\n".join(std_cls_page(found, "x"))
    assert "| paper: 5% / 10% / 100% | paper: time / ResNet |" in page
    lines = {line.split(" | ")[0]: line for line in page.splitlines() if line.startswith("| ")}
    assert lines["| parametric"].endswith("| 94.9 | 1.00 |")
    assert lines["| SPM prototypes"].endswith("| 94.5 / 94.5 / 94.5 | 1.00 |")
    assert lines["| SPM neighbours"].endswith("| 94.1 / 94.1 / 94.1 | 3.00 |")
    assert lines["| SPM gaussian"].endswith("|  |  |")


def test_the_page_is_the_same_from_runs_that_were_kept(data, tmp_path):
    named = replace(data, name="again")
    first, again = (
        run_std_cls(named, scale="tiny", seeds=[0], runs=Runs(tmp_path)) for _ in range(2)
    )
    assert list(std_cls_page(again, "x")) == list(std_cls_page(first, "x"))
