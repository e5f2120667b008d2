import json
import math

import pytest

from erasable.errors import ArgumentError
from erasable.training import Training, TrainingConfig

NUMBERS = ("epochs", "batch_size", "learning_rate", "encoder_lr_factor", "seed")


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
    ("name", "value"), [("epochs", 0), ("batch_size", 2), ("learning_rate", 0), ("seed", 2**31)]
)
def test_the_ends_of_a_range_are_accepted(name, value):
    assert getattr(TrainingConfig(**{name: value}), name) == value


def test_values_just_outside_are_refused():
    with pytest.raises(ArgumentError, match="batch_size"):
        TrainingConfig(batch_size=1)


@pytest.mark.parametrize("name", NUMBERS)
def test_every_problem_is_told_at_once(name):
    with pytest.raises(ArgumentError, match=f"Expected {name} "):
        TrainingConfig(**dict.fromkeys(NUMBERS, -1))


def test_settings_are_plain_values():
    settings = TrainingConfig(
        epochs=3, how=Training(augmentation="crop", milestones=(0.5,))
    ).as_dict()
    assert json.loads(json.dumps(settings)) == settings
    own = {name: settings.pop(name) for name in NUMBERS}
    assert TrainingConfig(**own, how=Training(**settings)) == TrainingConfig(
        epochs=3, how=Training(augmentation="crop", milestones=(0.5,))
    )


def test_settings_leave_out_what_no_weight_depends_on():
    plain = TrainingConfig().as_dict()
    assert TrainingConfig().trained(checkpoint="somewhere", verbose=True).as_dict() == plain


def test_training_in_another_way_leaves_the_rest():
    config = TrainingConfig(epochs=3, how=Training(momentum=0.5))
    other = config.trained(clip=2.0)
    assert (other.epochs, other.how) == (3, Training(momentum=0.5, clip=2.0))
    assert config.how == Training(momentum=0.5)
