"""A sample of the sequences that ``make attack`` draws for an hour."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from adversary.sequences import Sequences


def test_no_sequence_gets_a_false_word() -> None:
    short = settings(max_examples=15, stateful_step_count=20)
    run_state_machine_as_test(Sequences, settings=short)


@pytest.mark.slow
def test_no_longer_sequence_gets_a_false_word() -> None:
    run_state_machine_as_test(
        Sequences, settings=settings(max_examples=300, stateful_step_count=40)
    )
