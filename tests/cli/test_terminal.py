"""What the command line writes to a terminal, and the status that it ends with."""

import logging
import sys
import unicodedata
import warnings

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from erasable import SPMClassifier, cli
from erasable.cli import main
from erasable.cli._common import emit, say
from erasable.cli._terminal import Status, print_error, status_of
from erasable.errors import (
    AlreadyForgottenError,
    ArgumentError,
    NothingFoundError,
    RowIdError,
    StateError,
    StoreError,
    StoreRefusedError,
)
from erasable.terminal import in_page, printable, printable_lines

TEXT = st.text(st.characters(codec="utf-8"))


@given(TEXT)
def test_printable_text_has_no_character_that_is_not_visible(text):
    kinds = {unicodedata.category(character) for character in printable(text)}
    assert not kinds & {"Cc", "Cf", "Cn", "Co", "Zl", "Zp"}


@given(TEXT)
def test_printable_text_stays_as_it_is(text):
    assert printable(printable(text)) == printable(text)


def test_lone_surrogates_are_shown():
    assert printable("\udc80") == "\\udc80"


@given(st.lists(TEXT))
def test_printable_lines_keep_their_number(lines):
    text = "\n".join(lines)
    assert printable_lines(text).count("\n") == text.count("\n")


def test_a_page_keeps_what_is_no_text():
    assert in_page(3) == 3


def test_a_line_stays_one_line(capsys):
    emit({}, as_json=False, lines=["a\nb\x1b[0m"])
    say("c\nd\x1b[0m")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("a\\nb\\x1b[0m\n", "c\\nd\\x1b[0m\n")


def test_further_lines_of_an_error_are_indented(capsys):
    print_error("one\ntwo\x1b")
    assert capsys.readouterr().err == "Error: one\n  two\\x1b\n"


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (ArgumentError, Status.REFUSED),
        (RowIdError, Status.REFUSED),
        (NothingFoundError, Status.NOTHING_FOUND),
        (AlreadyForgottenError, Status.ALREADY_FORGOTTEN),
        (StateError, Status.REFUSED),
        (StoreError, Status.DAMAGED),
        (StoreRefusedError, Status.REFUSED),
        (PermissionError, Status.REFUSED),
    ],
)
def test_an_error_has_the_status_of_its_kind(kind, status):
    assert status_of(kind("x")) == status


@pytest.fixture
def run(monkeypatch, capsys):
    def run_words(*words):
        monkeypatch.setattr(sys, "argv", ["erasable", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr()

    return run_words


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """Put back what `guard` changes for the rest of the process."""
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    monkeypatch.setattr(logging.getLogger(), "handlers", logging.getLogger().handlers[:])


@pytest.fixture
def model(tmp_path):
    fitted = SPMClassifier("identity", epochs=0).fit(np.eye(3), [0, 1, 2], ids=["a", "b", "c"])
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def test_what_is_done_ends_with_0(run, model):
    assert run("info", model)[0] == Status.DONE


def test_what_is_refused_ends_with_1(run, model):
    assert run("forget", model, "--id", "a", "--id", "nobody")[0] == Status.REFUSED


@pytest.mark.parametrize("words", [["nothing"], ["info"], ["info", "m", "--nothing"]])
def test_wrong_usage_ends_with_2(run, words):
    status, shown = run(*words)
    assert status == Status.USAGE
    assert "Usage: " in shown.err
    assert "Error: " in shown.err


def test_what_is_damaged_ends_with_5(run, model):
    (model / "rows.sqlite").write_bytes(b"nothing")
    status, shown = run("info", model)
    assert (status, shown.err.startswith("Error: Expected")) == (Status.DAMAGED, True)


def test_help_and_version_end_with_0(run):
    assert run("--help")[0] == 0
    assert run("--version")[0] == 0


@pytest.mark.parametrize("verb", ["forget", "audit"])
def test_a_request_that_finds_nothing_ends_with_3_with_and_without_leave_to_skip(run, model, verb):
    for leave in ((), ("--missing-ok",)):
        assert run(verb, model, "--id", "nobody", *leave)[0] == Status.NOTHING_FOUND
    assert run(verb, model, "--id", "nobody", "--id", "a")[0] == Status.REFUSED


def test_a_request_that_was_honoured_before_ends_with_4_with_and_without_leave_to_skip(run, model):
    run("forget", model, "--id", "a")
    for leave in ((), ("--missing-ok",)):
        assert run("forget", model, "--id", "a", *leave)[0] == Status.ALREADY_FORGOTTEN


def test_a_command_can_end_with_a_status_of_its_own(run, monkeypatch):
    ending = typer.Typer()

    @ending.command()
    def ends():
        raise typer.Exit(Status.NOTHING_FOUND)

    monkeypatch.setattr(cli, "app", ending)
    assert run()[0] == Status.NOTHING_FOUND


def test_warnings_and_the_log_are_printable(run, monkeypatch):
    def loud():
        sys.stderr.write(warnings.formatwarning("\x1b[2J", UserWarning, "file", 1))
        logging.getLogger("erasable").warning("%s", "\x1b[3J")
        sys.exit()

    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(cli, "app", loud)
    _, shown = run()
    assert "\\x1b[3J" in shown.err
    assert "\x1b" not in shown.err
