import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.errors import ArgumentError
from erasable.training import TrainingConfig

NUMBERS = ("epochs", "batch_size", "learning_rate", "momentum", "weight_decay", "warmup",
           "label_smoothing", "seed")  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "3", None, True])
def test_a_number_out_of_range_is_refused(name, value):
    with pytest.raises(ArgumentError, match=rf"^fit\(\): Expected {name} .*but got {value!r}\.$"):
        TrainingConfig(**{name: value})


@pytest.mark.parametrize("name", ["epochs", "batch_size", "seed"])
def test_a_fraction_of_a_count_is_refused(name):
    with pytest.raises(ArgumentError, match=rf"Expected {name} to be an int in .*got 2\.5\."):
        TrainingConfig(**{name: 2.5})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("batch_size", 2),
        ("learning_rate", 0),
        ("momentum", 1),
        ("weight_decay", 1.0),
        ("warmup", 0),
        ("warmup", 1),
        ("label_smoothing", 0.99),
        ("seed", 2**31),
    ],
)
def test_the_ends_of_a_range_are_accepted(name, value):
    assert getattr(TrainingConfig(**{name: value}), name) == value


@pytest.mark.parametrize(("name", "value"), [("batch_size", 1), ("label_smoothing", 1.0)])
def test_values_just_outside_are_refused(name, value):
    with pytest.raises(ArgumentError, match=name):
        TrainingConfig(**{name: value})


def test_an_unknown_augmentation_is_refused():
    with pytest.raises(ArgumentError, match="'none', 'crop', 'flip', 'crop_flip', but got 'spin'"):
        TrainingConfig(augmentation="spin")


@pytest.mark.parametrize("name", [*NUMBERS, "augmentation"])
def test_every_problem_is_told_at_once(name):
    with pytest.raises(ArgumentError, match=f"Expected {name} "):
        TrainingConfig(**dict.fromkeys(NUMBERS, -1), augmentation="blur")


def test_settings_are_plain_values():
    config = TrainingConfig(epochs=3, augmentation="crop")
    assert TrainingConfig(**config.as_dict()) == config


# -- learning rate --------------------------------------------------------------------------------


def rates(steps, **settings):
    config = TrainingConfig(**settings)
    return [config.learning_rate_at(step, steps) for step in range(steps)]


def test_the_learning_rate_rises_in_a_line_then_falls_as_a_cosine():
    fall = [0.5 * (1 + math.cos(math.pi * done / 4)) for done in range(4)]
    expected = [0.25, 0.5, 0.75, 1.0, *fall]
    assert rates(8, learning_rate=1.0, warmup=0.5) == pytest.approx(expected)


def test_half_way_down_is_half_the_learning_rate():
    assert rates(12, learning_rate=0.4, warmup=1 / 6)[7] == pytest.approx(0.2)


def test_after_the_last_step_nothing_would_be_left():
    assert TrainingConfig().learning_rate_at(50, 50) == pytest.approx(0, abs=1e-12)


def test_a_warm_up_of_one_never_falls():
    assert rates(4, learning_rate=1.0, warmup=1) == [0.25, 0.5, 0.75, 1.0]


def test_without_warm_up_the_first_step_is_the_largest():
    assert rates(4, learning_rate=1.0, warmup=0)[0] == 1.0


@given(st.integers(1, 60), st.floats(0, 1))
def test_every_learning_rate_is_positive_and_within_the_largest(steps, warmup):
    assert all(0 < rate < 0.1 + 1e-12 for rate in rates(steps, warmup=warmup))


@given(st.integers(1, 60), st.floats(0, 1))
def test_the_largest_learning_rate_is_reached(steps, warmup):
    assert max(rates(steps, warmup=warmup)) == pytest.approx(0.1)
