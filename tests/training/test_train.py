import functools
import logging
import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from erasable.errors import StateError
from erasable.training import (
    CrossEntropy,
    InBatchMemory,
    Objective,
    StepResult,
    TrainingConfig,
    train,
)
from erasable.weights import weights_digest
from training.toy import (
    RUNS,
    Acting,
    Run,
    blobs,
    changed,
    config_of,
    images,
    memory_network,
    plain_network,
    vectors,
)


class Watching(Objective):
    """An objective that keeps what it was shown."""

    def __init__(self, objective):
        self.needs_partners = objective.needs_partners
        self.seen = []
        self._objective = objective

    def __call__(self, network, batch):
        self.seen.append((batch.inputs.clone(), batch.classes.clone()))
        return self._objective(network, batch)

    def describe(self):
        return self._objective.describe()


class Fixed(Objective):
    """An objective whose loss is a constant times a sum of the network's outputs."""

    needs_partners = False

    def __init__(self, factor):
        self._factor = factor

    def __call__(self, network, batch):
        return StepResult(self._factor * network(batch.inputs).sum(), 0, len(batch.inputs))

    def describe(self):
        return f"fixed {self._factor}"


# -- learning -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows", "prototypes"])
def test_a_memory_network_overfits_a_toy_set(name):
    config = TrainingConfig(epochs=20, batch_size=12)
    network = memory_network(reduction=name)
    _, history = Run(*blobs(), InBatchMemory(), config, None).go(network=network)
    assert history[-1]["accuracy"] == 1


def test_a_parametric_network_overfits_a_toy_set():
    config = TrainingConfig(epochs=30, batch_size=12)
    run = Run(*blobs(), CrossEntropy(), config, plain_network)
    network, _ = run.go()
    assert (network(run.inputs).argmax(1) == run.classes).all()


def test_the_loss_falls():
    _, history = changed(vectors(), epochs=10).go()
    assert history[-1]["loss"] < 0.7 * history[0]["loss"]


def slow_descent(network, run):
    """Train on full batches with Nesterov momentum, written out."""
    speed = {name: torch.zeros_like(p) for name, p in network.named_parameters()}
    for step in range(run.config.epochs):
        rate = run.config.learning_rate_at(step, run.config.epochs)
        network.zero_grad()
        nn.functional.cross_entropy(network(run.inputs), run.classes).backward()
        with torch.no_grad():
            for name, p in network.named_parameters():
                decay = run.config.how.weight_decay if p.ndim > 1 else 0.0
                slope = p.grad + decay * p
                speed[name] = run.config.how.momentum * speed[name] + slope
                p -= rate * (slope + run.config.how.momentum * speed[name])
    return network


def linear_network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(4, 3)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_weights_follow_a_slow_descent(momentum):
    config = config_of(
        epochs=6, batch_size=99, momentum=momentum, weight_decay=0.1, learning_rate=0.5
    )
    run = Run(*blobs(), CrossEntropy(), config, linear_network)
    expected = slow_descent(linear_network(), run).state_dict()
    torch.testing.assert_close(run.go()[0].state_dict(), expected)


def decayed(**settings):
    """Train with a loss that has no slope; return the parameters before and after."""
    run = changed(replace(vectors(), objective=Fixed(0.0)), weight_decay=0.1, **settings)
    return run.build(), run.go()[0]


def test_matrices_decay():
    before, after = decayed()
    assert after[1].weight.norm() < before[1].weight.norm()


def test_vectors_do_not_decay():
    before, after = decayed()
    assert torch.equal(after[2].weight, before[2].weight)


def test_frozen_weights_stay_as_they_are():
    network = plain_network()
    network[1].requires_grad_(False)
    vectors().go(network=network)
    assert torch.equal(network[1].weight, plain_network()[1].weight)


def test_no_epochs_train_nothing():
    network, history = changed(vectors(), epochs=0).go()
    assert (weights_digest(network), history) == (weights_digest(plain_network()), [])


def test_a_learning_rate_of_zero_leaves_the_weights():
    network, _ = changed(vectors(), learning_rate=0).go()
    assert torch.equal(network[1].weight, plain_network()[1].weight)


# -- what the objective is shown ------------------------------------------------------------------


def shown(run):
    watching = Watching(run.objective)
    run.go(objective=watching)
    return watching.seen


def test_every_row_is_shown_once_per_epoch():
    run = changed(vectors(), epochs=1)
    seen = torch.cat([inputs for inputs, _ in shown(run)])
    assert sorted(seen.tolist()) == sorted(run.inputs.tolist())


def test_every_row_is_shown_with_its_class():
    run = changed(vectors(), epochs=2)
    known = dict(zip(map(tuple, run.inputs.tolist()), run.classes.tolist(), strict=True))
    for inputs, classes in shown(run):
        assert [known[tuple(row)] for row in inputs.tolist()] == classes.tolist()


def test_the_order_differs_from_epoch_to_epoch():
    seen = shown(changed(vectors(), batch_size=99, epochs=2))
    assert not torch.equal(seen[0][0], seen[1][0])


def test_a_memory_of_many_classes_is_shown_partners():
    run = Run(
        torch.randn(80, 4, generator=torch.Generator().manual_seed(0)),
        torch.arange(80) % 20,
        InBatchMemory(),
        TrainingConfig(epochs=1, batch_size=16),
        memory_network,
    )
    lonely = sum((classes.unique(return_counts=True)[1] == 1).sum() for _, classes in shown(run))
    assert lonely <= 8


@pytest.mark.parametrize("mode", [True, False])
def test_steps_run_in_training_mode(mode):
    modes = set()

    class Noting(nn.Linear):
        def forward(self, inputs):
            modes.add(self.training)
            return super().forward(inputs)

    vectors().go(network=nn.Sequential(Noting(4, 3)).train(mode))
    assert modes == {True}


def test_another_seed_gives_another_order():
    orders = [shown(changed(vectors(), epochs=1, seed=seed))[0][0].tolist() for seed in (0, 1)]
    assert orders[0] != orders[1]


@pytest.mark.parametrize(
    "settings", [{"epochs": 2, "batch_size": 99}, {"epochs": 1, "batch_size": 18}]
)
def test_what_a_network_draws_differs_from_step_to_step(settings):
    drawn = []

    class Drawing(nn.Linear):
        def forward(self, inputs):
            drawn.append(torch.rand(()).item())
            return super().forward(inputs)

    changed(vectors(), **settings).go(network=Drawing(4, 3))
    assert drawn[0] != drawn[1]


def test_the_network_is_left_in_eval_mode():
    assert not vectors().go()[0].training


def test_images_are_augmented():
    run = changed(images(), epochs=1)
    seen = torch.cat([inputs for inputs, _ in shown(run)]).flatten(1).tolist()
    assert sorted(seen) != sorted(run.inputs.flatten(1).tolist())


def test_images_are_shown_as_they_are_without_augmentation():
    run = changed(images(), epochs=1, augmentation="none")
    seen = torch.cat([inputs for inputs, _ in shown(run)]).flatten(1).tolist()
    assert sorted(seen) == sorted(run.inputs.flatten(1).tolist())


def numberings(run):
    """Return per step which number each class was shown under."""
    known = dict(zip(map(tuple, run.inputs.tolist()), run.classes.tolist(), strict=True))
    return [
        {(known[tuple(row)], label) for row, label in zip(rows.tolist(), labels, strict=True)}
        for rows, labels in ((inputs, classes.tolist()) for inputs, classes in shown(run))
    ]


def permuted():
    rows = functools.partial(memory_network, reduction="rows")
    run = replace(vectors(), objective=InBatchMemory(), build=rows)
    return changed(run, label_permutation=True, epochs=30, batch_size=99)


def test_permuted_labels_are_one_number_per_class():
    for numbering in numberings(permuted()):
        assert [sorted(column) for column in zip(*numbering, strict=True)] == [[0, 1, 2]] * 2


def test_permuted_labels_change_from_step_to_step():
    assert len({frozenset(numbering) for numbering in numberings(permuted())}) == 6


def test_permuted_labels_train_the_same_network():
    run = permuted()
    plain = changed(run, label_permutation=False)
    losses = [[epoch["loss"] for epoch in each.go()[1]] for each in (run, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


# -- what comes back ------------------------------------------------------------------------------


def test_the_history_has_one_entry_per_epoch():
    assert len(vectors().go()[1]) == 4


def test_the_history_has_loss_accuracy_and_queries_left_out():
    assert set(vectors().go()[1][0]) == {"loss", "accuracy", "left_out"}


def test_the_history_has_the_mean_loss_of_the_queries():
    run = changed(
        replace(vectors(), build=linear_network), epochs=1, learning_rate=0, batch_size=11
    )
    expected = nn.functional.cross_entropy(
        linear_network()(run.inputs), run.classes, label_smoothing=0.1
    )
    assert run.go()[1][0]["loss"] == pytest.approx(expected.item(), rel=1e-5)


def test_the_history_has_the_share_of_correct_queries():
    run = changed(
        replace(vectors(), build=linear_network), epochs=1, learning_rate=0, batch_size=11
    )
    is_correct = linear_network()(run.inputs).argmax(1) == run.classes
    assert run.go()[1][0]["accuracy"] == pytest.approx(is_correct.double().mean().item())


def with_singles():
    """Return a run in which 3 of 23 rows have a class of their own."""
    inputs, classes = blobs(23, 2)
    classes[:3] = torch.tensor([2, 3, 4])
    config = TrainingConfig(epochs=2, batch_size=23)
    return Run(inputs, classes, InBatchMemory(), config, memory_network)


def test_the_history_counts_queries_without_a_partner():
    assert [epoch["left_out"] for epoch in with_singles().go()[1]] == [3, 3]


def test_queries_without_a_partner_are_logged(caplog):
    caplog.set_level(logging.INFO, logger="erasable")
    with_singles().go()
    assert caplog.messages[0] == "epoch 1: 3 queries had no partner of their class"


def test_nothing_is_printed(capfd):
    vectors().go()
    assert capfd.readouterr() == ("", "")


def test_a_verbose_run_shows_its_progress(capsys):
    run = changed(vectors(), epochs=2)
    train(
        run.build(),
        run.objective,
        inputs=run.inputs,
        classes=run.classes,
        config=run.config,
        device="cpu",
        verbose=True,
    )
    assert "epoch 2/2" in capsys.readouterr().err


# -- randomness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", RUNS.values())
def test_the_same_seed_gives_the_same_bits(make):
    assert weights_digest(make().go()[0]) == weights_digest(make().go()[0])


def test_another_seed_gives_other_weights():
    other = changed(vectors(), seed=6)
    assert weights_digest(other.go()[0]) != weights_digest(vectors().go()[0])


def test_the_callers_random_state_does_not_matter():
    torch.manual_seed(1)
    first = weights_digest(vectors().go()[0])
    torch.manual_seed(2)
    assert weights_digest(vectors().go()[0]) == first


@pytest.mark.parametrize("make", RUNS.values())
def test_the_callers_torch_state_is_left_as_it_was(make):
    before = torch.get_rng_state()
    make().go()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_callers_torch_state_is_left_as_it_was_by_a_failure():
    before = torch.get_rng_state()
    with pytest.raises(StateError):
        replace(vectors(), objective=Fixed(math.nan)).go()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_callers_numpy_and_python_states_are_left_as_they_were():
    before = (str(np.random.get_state()), random.getstate())  # noqa: NPY002 - the global state
    images().go()
    assert (str(np.random.get_state()), random.getstate()) == before  # noqa: NPY002 - the same


# -- divergence -----------------------------------------------------------------------------------


def test_a_loss_that_is_not_a_number_is_an_error_that_says_what_to_do():
    with pytest.raises(StateError) as caught:
        replace(vectors(), objective=Fixed(math.nan)).go()
    assert str(caught.value) == (
        "Expected a finite loss, but it was nan in epoch 1: training has diverged. Use a smaller "
        "learning rate."
    )


class Told(Fixed):
    """One loss after the other, whatever the weights."""

    def __init__(self, losses):
        super().__init__(0.0)
        self._losses = iter(losses)

    def __call__(self, network, batch):
        result = super().__call__(network, batch)
        return replace(result, loss=0 * result.loss + next(self._losses))


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        ([1, 1000, 1000], "a loss below 21, 10 times that of the beginning, but it was 667"),
        ([5, 5, 5, 5, 5, 600], "a loss below 50, 10 times that of the beginning, but it was 203.3"),
    ],
)
def test_a_loss_far_above_that_of_the_beginning_is_an_error(losses, told):
    with pytest.raises(StateError, match=told):
        replace(vectors(), objective=Told(losses)).go()


def test_a_loss_that_begins_high_and_falls_is_none():
    losses = [900, 800, 700, *[100] * 9]
    assert replace(vectors(), objective=Told(losses)).go()[1][-1]["loss"] == 100


def test_too_large_a_learning_rate_is_noticed():
    run = Run(*blobs(), Fixed(-1.0), config_of(learning_rate=1000, weight_decay=1), lambda: None)
    with pytest.raises(StateError, match="training has diverged"):
        run.go(network=nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)))


@pytest.mark.parametrize("name", ["rows", "prototypes"])
def test_a_nan_among_the_inputs_of_a_memory_is_noticed(name):
    inputs, classes = blobs()
    inputs[5, 1] = math.nan
    run = Run(
        inputs,
        classes,
        InBatchMemory(),
        TrainingConfig(epochs=1),
        memory_network,
    )
    with pytest.raises(StateError, match="it was nan in epoch 1"):
        run.go(network=memory_network(reduction=name))


def test_a_diverged_epoch_is_not_saved(tmp_path):
    def blow_up():
        with torch.no_grad():
            network[1].weight.fill_(math.nan)

    run = vectors()
    network = run.build()
    with pytest.raises(StateError, match="in epoch 2"):
        run.go(tmp_path, objective=Acting(run.objective, 5, blow_up), network=network)
    resumed, _ = run.go(tmp_path)
    assert weights_digest(resumed) == weights_digest(run.go()[0])
