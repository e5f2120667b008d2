from dataclasses import FrozenInstanceError
from inspect import signature
from time import perf_counter

import pytest

from erasable.metrics import ForgetTime, time_forget


class Clock:
    """A clock that moves only when told to."""

    def __init__(self):
        self.now = 100.0
        self.log = []

    def __call__(self):
        return self.now

    def work(self, name, seconds):
        self.now += seconds
        self.log.append(name)
        return name


def test_the_edit_alone_is_timed():
    clock = Clock()
    receipt, taken = time_forget(lambda: clock.work("edit", 0.25), clock=clock)
    assert receipt == "edit"
    assert taken == ForgetTime(edit_seconds=0.25, reencode_seconds=0.0)


def test_reencoding_is_timed_apart_and_runs_after_the_edit():
    clock = Clock()
    receipt, taken = time_forget(
        lambda: clock.work("edit", 0.25), lambda: clock.work("reencode", 4.0), clock=clock
    )
    assert receipt == "edit"
    assert taken == ForgetTime(edit_seconds=0.25, reencode_seconds=4.0)
    assert clock.log == ["edit", "reencode"]


def test_the_total_is_both_together():
    assert ForgetTime(0.25, 4.0).total == 4.25
    assert ForgetTime(0.25).total == 0.25


def test_an_error_of_the_edit_is_passed_on_and_nothing_is_reencoded():
    clock = Clock()
    with pytest.raises(ZeroDivisionError):
        time_forget(lambda: 1 / 0, lambda: clock.work("reencode", 1.0), clock=clock)
    assert clock.log == []


def test_the_default_clock_is_the_monotonic_one_with_the_best_resolution():
    assert signature(time_forget).parameters["clock"].default is perf_counter


def test_the_times_cannot_be_edited():
    with pytest.raises(FrozenInstanceError):
        ForgetTime(1.0).edit_seconds = 2.0
