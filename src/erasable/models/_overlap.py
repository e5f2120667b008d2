"""Whether a source that somebody names is the data at hand."""

import re
from functools import cache

from erasable.data import KNOWN_NAMES
from erasable.typing import RowId

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SHORTEST = 4  # letters of a name that may be found in another one


def is_row_of(source: str, row_id: RowId) -> bool:
    """Tell whether a row's id says that it is of the data set that a source names."""
    name = data_of(row_id)
    return name is not None and names_data(source, name)


def data_of(row_id: RowId) -> str | None:
    """Return the data set that an id names, if it does.

    Ids of the known data sets, and of files, begin with the name of where the rows come from.
    """
    name, slash, _ = row_id.partition("/") if isinstance(row_id, str) else ("", "", "")
    return name if slash else None


@cache
def names_data(source: str, data: str) -> bool:
    """Tell whether a source and a data set have, in whatever spelling, one name.

    Args:
        source: What somebody wrote: ``"CIFAR-10, training rows"``.
        data: Name of a known data set, or the path of files: the last two parts count.

    Examples:
        >>> names_data("CIFAR-10, training rows", "cifar10")
        True
        >>> names_data("CIFAR-100", "cifar10"), names_data("Fashion-MNIST", "mnist")
        (False, False)
    """
    end = "/".join(re.split(r"[/\\]", data)[-2:])
    if not _known_names(source).isdisjoint(_known_names(end)):
        return True
    if _known_names(source) or _known_names(end):
        return False
    return _holds(source, "".join(_words(end))) or _holds(end, "".join(_words(source)))


def _known_names(text: str) -> set[str]:
    """Return the known data sets that a text names; a longer name hides one inside it."""
    words, found = _words(text), set()
    for name in sorted(KNOWN_NAMES, key=len, reverse=True):
        wanted = "".join(_words(name))
        for start, end in _runs(words, wanted):
            found.add(name)
            words[start:end] = [" "] * (end - start)
    return found


def _holds(text: str, wanted: str) -> bool:
    return len(wanted) >= _SHORTEST and bool(_runs(_words(text), wanted))


def _runs(words: list[str], wanted: str) -> list[tuple[int, int]]:
    """Return where neighbouring words make up a name."""
    places = range(len(words))
    runs = [(start, end + 1) for start in places for end in places[start:]]
    return [(start, end) for start, end in runs if "".join(words[start:end]) == wanted]


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
