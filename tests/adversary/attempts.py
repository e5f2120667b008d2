"""What an attempt is: a function that tries to get a false word out of a model.

It tries to get ``exact``, ``verified`` or "forgotten" while something of a row remains, and returns
in a few words what it got. To add one, write a function in the module of its area and decorate it.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Attempt:
    """One way to be told something false.

    Attributes:
        area: The module that it stands in.
        name: Name of the function.
        story: What is done, in one sentence.
        before: What it got from the first version that it was tried on.
        now: What it must get.
        run: The function; it is given an empty folder.
        is_slow: Whether it takes more than a few seconds.
    """

    area: str
    name: str
    story: str
    before: str
    now: str
    run: Callable[[Path], str]
    is_slow: bool = False


ATTEMPTS: list[Attempt] = []


def attempt(
    story: str, *, before: str, now: str, is_slow: bool = False
) -> Callable[[Callable[[Path], str]], Callable[[Path], str]]:
    """Add a function to the attempts.

    Args:
        story: What is done, in one sentence.
        before: What it got from the first version that it was tried on.
        now: What it must get.
        is_slow: Whether it takes more than a few seconds.
    """

    def add(run: Callable[[Path], str]) -> Callable[[Path], str]:
        area = run.__module__.rpartition(".")[2]
        ATTEMPTS.append(Attempt(area, run.__name__, story, before, now, run, is_slow))
        return run

    return add


def outcome(call: Callable[[], object]) -> str:
    """Return what a call returns as text, or ``refused`` if the library refuses it."""
    from erasable.errors import ErasableError

    try:
        return str(call())
    except ErasableError:
        return "refused"


def load_areas() -> None:
    """Import every module of attempts, so that all of them are known."""
    import adversary

    for module in pkgutil.iter_modules(adversary.__path__):
        if not module.name.startswith(("test_", "attempts", "__")):
            importlib.import_module(f"adversary.{module.name}")


def table() -> str:
    """Return every attempt as Markdown, by area."""
    lines: list[str] = []
    for area in sorted({one.area for one in ATTEMPTS}):
        lines += ["", f"## {area.capitalize()}", "", "| attempt | before | now |", "|---|---|---|"]
        lines += [
            f"| {_cell(one.story)} | {_cell(one.before)} | {_cell(one.now)} |"
            for one in ATTEMPTS
            if one.area == area
        ]
    return "\n".join(lines[1:]) + "\n"


def _cell(text: str) -> str:
    shown = text.encode("ascii", "backslashreplace").decode() if not text.isprintable() else text
    return shown.replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
