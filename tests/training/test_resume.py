import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch

from erasable.errors import StateError, StoreError
from erasable.training import CrossEntropy, InBatchMemory
from erasable.weights import weights_digest
from training.toy import RUNS, Acting, changed, plain_network, vectors

TESTS = Path(__file__).parents[1]
EVERY_RUN = pytest.mark.parametrize("name", RUNS)


def interrupt():
    raise KeyboardInterrupt


def interrupted(run, folder, at):
    """Run until a step, counted from 1; there are three per epoch."""
    with pytest.raises(KeyboardInterrupt):
        run.go(folder, objective=Acting(run.objective, at, interrupt))


def outcome(result):
    """Return what two equal runs must agree in, bit for bit."""
    network, history = result
    return weights_digest(network), history


@pytest.fixture(scope="module")
def uninterrupted():
    return {name: outcome(make().go()) for name, make in RUNS.items()}


@pytest.fixture
def checkpoint(tmp_path):
    """Return the checkpoint of a run of vectors that was interrupted in its third epoch."""
    interrupted(vectors(), tmp_path, 8)
    return tmp_path / "checkpoint.safetensors"


# -- resumed equals uninterrupted -----------------------------------------------------------------


@EVERY_RUN
@pytest.mark.parametrize("at", [1, 4, 5, 6, 12])
def test_a_resumed_run_ends_in_the_bits_of_an_uninterrupted_one(name, at, tmp_path, uninterrupted):
    interrupted(RUNS[name](), tmp_path, at)
    assert outcome(RUNS[name]().go(tmp_path)) == uninterrupted[name]


@EVERY_RUN
def test_a_run_interrupted_again_and_again_ends_in_the_same_bits(name, tmp_path, uninterrupted):
    for at in (5, 4, 2, 6):
        interrupted(RUNS[name](), tmp_path, at)
    assert outcome(RUNS[name]().go(tmp_path)) == uninterrupted[name]


@EVERY_RUN
def test_checkpoints_do_not_change_a_run(name, tmp_path, uninterrupted):
    assert outcome(RUNS[name]().go(tmp_path)) == uninterrupted[name]


@EVERY_RUN
def test_a_finished_run_gives_its_result_again(name, tmp_path, uninterrupted):
    RUNS[name]().go(tmp_path)
    assert outcome(RUNS[name]().go(tmp_path)) == uninterrupted[name]


def test_finished_epochs_are_not_repeated(tmp_path):
    run = vectors()
    interrupted(run, tmp_path, 8)
    counting = Acting(run.objective, 0, interrupt)
    run.go(tmp_path, objective=counting)
    assert counting.calls == 6


def test_a_run_without_momentum_is_resumed(tmp_path):
    run = changed(vectors(), momentum=0.0)
    interrupted(run, tmp_path, 8)
    assert outcome(run.go(tmp_path)) == outcome(run.go())


def test_a_network_with_shared_weights_is_resumed(tmp_path):
    def tied():
        network = plain_network(classes=16)
        network.append(torch.nn.Linear(16, 16, bias=False))
        network[-1].weight = network[5].weight
        return network

    run = replace(vectors(), build=tied)
    interrupted(run, tmp_path, 8)
    assert outcome(run.go(tmp_path)) == outcome(run.go())


def test_the_folder_is_made_when_first_needed(tmp_path):
    vectors().go(tmp_path / "new" / "run")
    assert [path.name for path in (tmp_path / "new" / "run").iterdir()] == [
        "checkpoint.safetensors"
    ]


def test_no_epochs_leave_no_checkpoint(tmp_path):
    run = vectors()
    replace(run, config=replace(run.config, epochs=0)).go(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "place"), [("vectors", "step"), ("images", "rename"), ("quick", "step")]
)
def test_a_killed_run_is_resumed_in_the_same_bits(name, place, tmp_path, uninterrupted):
    command = [sys.executable, "-m", "training.killed_run", name, str(tmp_path), place]
    done = subprocess.run(command, cwd=TESTS, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (-9, b"")
    with safetensors.safe_open(tmp_path / "checkpoint.safetensors", "pt") as file:
        assert file.metadata()["epochs_done"] == "2"
    assert outcome(RUNS[name]().go(tmp_path)) == uninterrupted[name]


# -- another run ----------------------------------------------------------------------------------


def other_data(run):
    inputs = run.inputs.clone()
    inputs[0, 0] += 1
    return replace(run, inputs=inputs)


def other_settings(run):
    return replace(run, config=replace(run.config, seed=1, batch_size=9))


OTHER = {
    "data": [
        other_data,
        lambda run: replace(run, classes=run.classes.roll(1)),
        lambda run: replace(run, inputs=run.inputs.reshape(36, 2, 2)),
        lambda run: replace(run, inputs=run.inputs.flip(0), classes=run.classes.flip(0)),
    ],
    "batch_size, seed": [other_settings],
    "average, clip": [lambda run: changed(run, average="lookahead", clip=1.0)],
    "milestones, schedule": [lambda run: changed(run, schedule="steps", milestones=[0.5])],
    "precision": [lambda run: changed(run, precision="bfloat16")],
    "objective": [
        lambda run: replace(run, objective=CrossEntropy()),
        lambda run: replace(run, objective=InBatchMemory(label_smoothing=0.2)),
    ],
    "first weights": [lambda run: replace(run, build=lambda: plain_network(seed=1))],
    "batch_size, data, seed": [lambda run: other_data(other_settings(run))],
}
CASES = [(names, change) for names, changes in OTHER.items() for change in changes]


@pytest.mark.parametrize(("names", "change"), CASES)
def test_the_checkpoint_of_another_run_is_refused_naming_the_difference(names, change, checkpoint):
    with pytest.raises(StateError, match=rf"it differs in {names}\. Use its settings and data"):
        change(vectors()).go(checkpoint.parent)


def test_a_refused_checkpoint_stays_as_it_was(checkpoint):
    before = checkpoint.read_bytes()
    with pytest.raises(StateError):
        other_data(vectors()).go(checkpoint.parent)
    assert checkpoint.read_bytes() == before


def test_a_refused_checkpoint_leaves_the_network_as_it_was(checkpoint):
    network = plain_network()
    with pytest.raises(StateError):
        other_data(vectors()).go(checkpoint.parent, network=network)
    assert weights_digest(network) == weights_digest(plain_network())


# -- damage ---------------------------------------------------------------------------------------


def truncated(share):
    return lambda data: data[: int(share * len(data))]


@pytest.mark.parametrize(
    "damage",
    [truncated(0), truncated(0.001), truncated(0.3), truncated(0.95), lambda data: b"x" * 99],
)
def test_a_damaged_checkpoint_is_refused(damage, checkpoint):
    checkpoint.write_bytes(damage(checkpoint.read_bytes()))
    with pytest.raises(StoreError, match=r"it is damaged \(.*Delete it to start anew\.$"):
        vectors().go(checkpoint.parent)


def test_a_checkpoint_that_was_deleted_starts_anew(checkpoint, uninterrupted):
    checkpoint.unlink()
    assert outcome(vectors().go(checkpoint.parent)) == uninterrupted["vectors"]


@pytest.mark.parametrize(
    ("meta", "found"), [(None, "None"), ({"format": "erasable.weights.1"}, "'erasable.weights.1'")]
)
def test_tensors_of_another_kind_are_refused(meta, found, tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    safetensors.torch.save_file({"weight": torch.ones(2)}, path, meta)
    with pytest.raises(StoreError) as caught:
        vectors().go(tmp_path)
    assert str(caught.value) == f"Expected erasable.checkpoint.1 in {path}, but got {found}."
