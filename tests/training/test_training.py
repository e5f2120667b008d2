"""How a network is trained: values, the learning rate of a step, and rates by group of weights."""

import copy
import functools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from torch import nn

from erasable import KNNClassifier, SPMClassifier
from erasable.errors import ArgumentError
from erasable.models import ParametricClassifier
from erasable.models._networks import ParametricNetwork
from erasable.training import (
    TRAININGS,
    CrossEntropy,
    Objective,
    StepResult,
    Training,
    as_training,
)
from training.toy import blobs, changed, images, memory_network, vectors

RANGES = {
    "momentum": (0, 1),
    "weight_decay": (0, 1),
    "warmup": (0, 1),
    "first_rate": (0, 1),
    "last_rate": (0, 1),
    "milestone_factor": (0, 1),
    "bias_rate": (0, 10**4),
    "head_rate": (0, 10**4),
    "label_smoothing": (0, 0.99),
}
COUNTS = ("support_size", "shift", "cutout")
CHOICES = ("support_sampling", "sampler", "schedule", "average", "augmentation", "edge", "flips",
           "precision")  # fmt: skip
SWITCHES = ("nesterov", "label_permutation")
KINDS = pytest.mark.parametrize("kind", [SPMClassifier, KNNClassifier, ParametricClassifier])
STANDARD = Training()
ODD = Training(momentum=0.5, milestones=[0.25, 0.5], schedule="steps", checkpoint="somewhere")


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*RANGES, "clip", *COUNTS])
@pytest.mark.parametrize("value", [-1, math.nan, "3", True])
def test_a_number_out_of_range_is_refused(name, value):
    message = rf"^Training\(\): Expected {name} .*but got {value!r}\.$"
    with pytest.raises(ArgumentError, match=message):
        Training(**{name: value})


@pytest.mark.parametrize("name", COUNTS)
def test_a_fraction_of_a_count_is_refused(name):
    with pytest.raises(ArgumentError, match=rf"Expected {name} to be an int in .*got 2\.5\."):
        Training(**{name: 2.5})


@pytest.mark.parametrize(("name", "ends"), RANGES.items())
def test_the_ends_of_a_range_are_accepted_and_what_lies_outside_is_refused(name, ends):
    low, high = ends
    assert [getattr(Training(**{name: end}), name) for end in ends] == [low, high]
    with pytest.raises(ArgumentError, match=name):
        Training(**{name: high + 0.01})


@pytest.mark.parametrize("name", [*RANGES, "cutout"])
def test_only_some_numbers_may_be_left_out(name):
    assert Training(clip=None, shift=None, support_size=None) == STANDARD
    with pytest.raises(ArgumentError, match=f"{name} .*but got None"):
        Training(**{name: None})


@pytest.mark.parametrize("name", CHOICES)
def test_an_unknown_choice_is_refused(name):
    with pytest.raises(ArgumentError, match=f"Expected {name} to be '.*', but got 'spin'"):
        Training(**{name: "spin"})


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", [1, "yes", None])
def test_a_switch_is_true_or_false(name, value):
    with pytest.raises(ArgumentError, match=f"Expected {name} to be True or False, but got"):
        Training(**{name: value})


@pytest.mark.parametrize("value", [(0.5, 1.0), (0,), 0.5, None, "half", [None]])
def test_milestones_lie_between_start_and_end(value):
    message = f"milestones between 0 and 1, but got {value!r}."
    with pytest.raises(ArgumentError, match=re.escape(message)):
        Training(milestones=value)


def test_every_problem_is_told_at_once():
    wrong = {
        **dict.fromkeys([*RANGES, "clip", *COUNTS], -1),
        **dict.fromkeys(CHOICES, "spin"),
        **dict.fromkeys(SWITCHES, 2),
        "milestones": (2,),
    }
    with pytest.raises(ArgumentError) as told:
        Training(**wrong)
    found = str(told.value)
    assert [name for name in wrong if f"Expected {name} " not in found] == []


def test_numpy_values_become_plain():
    made = Training(shift=np.int64(2), momentum=np.float32(0.5), nesterov=np.True_)
    assert made == Training(shift=2, momentum=0.5, nesterov=True)
    assert [type(value) for value in (made.shift, made.momentum, made.nesterov)] == [
        int,
        float,
        bool,
    ]


def test_changed_values_are_checked_and_leave_the_rest():
    assert ODD.changed(clip=1.0) == Training(**{**ODD.get_params(), "clip": 1.0})
    with pytest.raises(ArgumentError, match="Expected momentum"):
        ODD.changed(momentum=2)
    with pytest.raises(ArgumentError, match="parameters of Training, but got 'speed'"):
        ODD.changed(speed=2)


@pytest.mark.parametrize("name", ["", "Fast", None, 3, ["fast"]])
def test_an_unknown_name_of_a_training_is_refused(name):
    with pytest.raises(ArgumentError, match="'standard', 'fast', 'accurate' or a Training"):
        as_training(name)


def test_the_trainings_with_a_name():
    assert list(TRAININGS) == ["standard", "fast", "accurate"]
    assert as_training("standard") == STANDARD
    assert as_training("accurate") == as_training("fast").changed(cutout=8)
    assert as_training(ODD) is ODD


# -- as a parameter of a classifier ---------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("given", ["fast", ODD])
def test_clone_keeps_it(kind, given):
    assert clone(kind(training=given)).training == given


@KINDS
@pytest.mark.parametrize("given", ["fast", ODD])
def test_one_value_of_it_can_be_set(kind, given):
    model = kind(training=given).set_params(training__momentum=0.25, epochs=3)
    assert model.training == as_training(given).changed(momentum=0.25)
    assert model.epochs == 3


def test_its_values_are_listed_among_the_parameters():
    found = SPMClassifier(training=ODD).get_params()
    assert {name: found[f"training__{name}"] for name in ODD.get_params()} == ODD.get_params()


def test_a_training_and_a_value_of_it_are_set_at_once():
    model = SPMClassifier().set_params(training__clip=3.0, training="fast")
    assert model.training == as_training("fast").changed(clip=3.0)


@KINDS
@pytest.mark.parametrize(
    "wrong",
    [{"training__momentum": 2}, {"training__speed": 1}, {"training": "slow"}, {"training": 3}],
)
def test_all_values_are_set_or_none(kind, wrong):
    model = kind("mlp", epochs=0, training=ODD).fit(*blobs(12))
    before = model.get_params()
    with pytest.raises(ArgumentError):
        model.set_params(epochs=9, training__clip=1.0, **wrong)
    assert model.get_params() == before


@KINDS
def test_fit_refuses_an_unknown_name(kind):
    model = kind("mlp", training="slow")
    with pytest.raises(ArgumentError, match="Expected training to be"):
        model.fit(*blobs(12))
    assert not hasattr(model, "network_")


@KINDS
def test_a_grid_search_reaches_into_it(kind):
    X, y = load_iris(return_X_y=True)
    grid = {"training__weight_decay": [0.0, 0.5]}
    search = GridSearchCV(kind(epochs=1, random_state=0), grid, cv=2).fit(X[::3], y[::3])
    assert search.best_estimator_.training == STANDARD.changed(
        **{name.removeprefix("training__"): value for name, value in search.best_params_.items()}
    )


# -- learning rate --------------------------------------------------------------------------------


def rates(steps, rate=1.0, **settings):
    return [Training(**settings).rate_at(rate, step, steps) for step in range(steps)]


def test_the_learning_rate_rises_in_a_line_then_falls_as_a_cosine():
    fall = [0.5 * (1 + math.cos(math.pi * done / 4)) for done in range(4)]
    assert rates(8, warmup=0.5) == pytest.approx([0.25, 0.5, 0.75, 1.0, *fall])


@given(st.integers(1, 60), st.floats(0, 1), st.floats(0, 10))
def test_the_standard_learning_rate_has_the_bits_of_its_formula(steps, warmup, rate):
    rise = max(1, round(warmup * steps))
    for step, found in enumerate(rates(steps, rate, warmup=warmup)):
        done = (step - rise) / max(1, steps - rise)
        fall = rate * 0.5 * (1 + math.cos(math.pi * done))
        assert found == (rate * (step + 1) / rise if step < rise else fall)


def test_half_way_down_is_half_the_learning_rate():
    assert rates(12, 0.4, warmup=1 / 6)[7] == pytest.approx(0.2)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize("last", [0.0, 0.25])
def test_after_the_last_step_the_last_rate_would_be_left(schedule, last):
    training = Training(schedule=schedule, last_rate=last)
    assert training.rate_at(2.0, 50, 50) == pytest.approx(2 * last, abs=1e-12)


def test_the_learning_rate_falls_in_a_line():
    found = rates(6, schedule="linear", warmup=1 / 3, last_rate=0.2)
    assert found == pytest.approx([0.5, 1.0, 1.0, 0.8, 0.6, 0.4])


def test_the_learning_rate_falls_at_milestones():
    settings = {"schedule": "steps", "warmup": 0.2, "milestones": (0.5, 0.8)}
    found = rates(10, **settings, milestone_factor=0.5)
    assert found == pytest.approx([0.5, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25])


def test_a_constant_learning_rate_stays_after_the_warm_up():
    assert rates(4, 0.3, schedule="constant", warmup=0.5, last_rate=0.1) == [0.15, 0.3, 0.3, 0.3]


@pytest.mark.parametrize("schedule", ["cosine", "linear", "steps", "constant"])
def test_the_warm_up_starts_from_the_first_rate(schedule):
    found = rates(8, schedule=schedule, warmup=0.5, first_rate=0.2)
    assert found[:4] == pytest.approx([0.4, 0.6, 0.8, 1.0])


def test_a_warm_up_of_one_never_falls():
    assert rates(4, warmup=1) == [0.25, 0.5, 0.75, 1.0]


def test_without_warm_up_the_first_step_is_the_largest():
    assert rates(4, warmup=0)[0] == 1.0


SHAPES = st.fixed_dictionaries(
    {
        "schedule": st.sampled_from(["cosine", "linear", "steps", "constant"]),
        "warmup": st.floats(0, 1),
        "first_rate": st.floats(0, 1),
        "last_rate": st.floats(0, 1),
        "milestones": st.lists(st.floats(0.01, 0.99), max_size=3),
    }
)


@given(st.integers(1, 60), SHAPES)
def test_every_learning_rate_is_positive_and_within_the_largest(steps, settings):
    assert all(0 < rate < 0.1 + 1e-12 for rate in rates(steps, 0.1, **settings))


@given(st.integers(1, 60), SHAPES)
def test_the_largest_learning_rate_is_reached(steps, settings):
    assert max(rates(steps, 0.1, **settings)) == pytest.approx(0.1)


# -- rates by group of weights --------------------------------------------------------------------


def moved(run, **settings):
    """Return which parameters a training changes, by name."""
    run = changed(run, epochs=2, **settings)
    before = dict(run.build().named_parameters())
    after = dict(run.go()[0].named_parameters())
    return {name for name in before if not torch.equal(before[name], after[name])}


def vote_run():
    network = functools.partial(
        memory_network, (2, 4, 4), "small_cnn", reduction="rows", widths=[4]
    )
    return replace(images(), build=network)


def twin_run():
    def build():
        network = vote_run().build()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return ParametricNetwork(network.encoder, network.norm, 3)

    return changed(
        replace(images(), objective=CrossEntropy(), build=build), label_permutation=False
    )


HEADS = {"fusion": vote_run, "head": twin_run}


def norm_biases(network):
    return {
        f"{name}.bias"
        for name, module in network.named_modules()
        if isinstance(module, (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm))
    }


@pytest.mark.parametrize(("head", "make"), HEADS.items())
def test_a_head_rate_of_zero_leaves_what_reads_embeddings_alone(head, make):
    every = moved(make())
    own = {name for name in every if name.startswith(f"{head}.")}
    assert len(own) == 2
    assert moved(make(), head_rate=0.0) == every - own


@pytest.mark.parametrize("make", HEADS.values())
def test_a_bias_rate_of_zero_leaves_the_biases_of_normalisation_alone(make):
    every = moved(make())
    biases = norm_biases(make().build())
    assert biases
    assert moved(make(), bias_rate=0.0) == every - biases


@pytest.mark.parametrize(
    ("name", "place"), [("head_rate", "fusion."), ("bias_rate", "norm biases")]
)
def test_a_rate_scales_the_first_step_of_its_group_alone(name, place):
    def steps(factor):
        settings = {"epochs": 1, "batch_size": 36, "momentum": 0.0, "learning_rate": 0.01}
        run = changed(vote_run(), **settings, **{name: factor})
        before = dict(run.build().named_parameters())
        return {key: value - before[key] for key, value in run.go()[0].named_parameters()}

    whole, half = steps(1.0), steps(0.5)
    biases = norm_biases(vote_run().build())
    for key, step in whole.items():
        is_inside = key in biases if name == "bias_rate" else key.startswith(place)
        expected = 0.5 * step if is_inside else step
        torch.testing.assert_close(half[key], expected, rtol=1e-3, atol=1e-7)


# -- gradients and the running mean ---------------------------------------------------------------


def first_step(**settings):
    """Return how far one step without momentum or decay moves the weights."""
    own = {"epochs": 1, "batch_size": 36, "momentum": 0.0, "weight_decay": 0.0, "warmup": 0.0}
    run = changed(vectors(), learning_rate=1.0, **own, **settings)
    before = nn.utils.parameters_to_vector(run.build().parameters())
    return nn.utils.parameters_to_vector(run.go()[0].parameters()) - before


def test_a_gradient_is_cut_to_its_largest_norm():
    free = first_step()
    cut = first_step(clip=0.01)
    assert cut.norm().item() == pytest.approx(0.01, rel=1e-2)
    torch.testing.assert_close(cut / cut.norm(), free / free.norm(), rtol=1e-3, atol=1e-5)


def test_a_gradient_within_the_largest_norm_stays():
    torch.testing.assert_close(first_step(clip=1e6), first_step())


def test_without_nesterov_momentum_is_plain():
    run = changed(
        replace(vectors(), objective=CrossEntropy(), build=lambda: nn.Linear(4, 3)),
        epochs=5,
        batch_size=99,
        nesterov=False,
        momentum=0.9,
        weight_decay=0.0,
    )
    torch.manual_seed(0)
    network = run.build()
    slow = copy.deepcopy(network)
    speed = [torch.zeros_like(p) for p in slow.parameters()]
    for step in range(5):
        slow.zero_grad()
        nn.functional.cross_entropy(slow(run.inputs), run.classes).backward()
        with torch.no_grad():
            for p, v in zip(slow.parameters(), speed, strict=True):
                v.mul_(0.9).add_(p.grad)
                p -= run.config.learning_rate_at(step, 5) * v
    run.go(network=network)
    torch.testing.assert_close(network.state_dict(), slow.state_dict())


def test_lookahead_puts_weights_back_every_five_steps():
    """Written out: w ← w - rate; after five steps, and the last, mean ← lerp(mean, w)."""
    run = replace(vectors(), objective=Falling(), build=lambda: nn.Linear(4, 1, bias=False))
    run = changed(
        run, epochs=12, batch_size=99, average="lookahead", schedule="constant", warmup=0.0,
        momentum=0.0, weight_decay=0.0, learning_rate=0.5,
    )  # fmt: skip
    network = run.build()
    nn.init.zeros_(network.weight)
    run.go(network=network)
    fast = mean = 0.0
    for step in range(1, 13):
        fast -= 0.5
        if step % 5 == 0 or step == 12:
            kept = 0.95**5 * (step / 12) ** 3 if step > 5 else 0.0
            fast = mean = kept * mean + (1 - kept) * fast
    torch.testing.assert_close(network.weight, torch.full((1, 4), mean))


@pytest.mark.parametrize("steps", range(1, 6))
def test_lookahead_leaves_a_training_of_few_steps_as_it_is(steps):
    found = []
    for average in ("none", "lookahead"):
        network = nn.Linear(4, 1, bias=False)
        nn.init.zeros_(network.weight)
        run = replace(vectors(), objective=Falling())
        changed(run, epochs=steps, batch_size=99, average=average).go(network=network)
        found.append(network.weight)
    assert torch.equal(*found)
    assert found[0].abs().sum() > 0


def test_without_lookahead_the_last_weights_stay():
    run = replace(vectors(), objective=Falling(), build=lambda: nn.Linear(4, 1, bias=False))
    settings = {"schedule": "constant", "warmup": 0.0, "momentum": 0.0, "weight_decay": 0.0}
    run = changed(run, epochs=12, batch_size=99, learning_rate=0.5, **settings)
    network = run.build()
    nn.init.zeros_(network.weight)
    run.go(network=network)
    torch.testing.assert_close(network.weight, torch.full((1, 4), -6.0))


class Falling(Objective):
    """The sum of the weights, whose gradient is one everywhere."""

    needs_partners = False

    def __call__(self, network, batch):
        return StepResult(network(torch.ones(1, 4)).sum(), 0, len(batch.inputs))

    def describe(self):
        return "falling"
