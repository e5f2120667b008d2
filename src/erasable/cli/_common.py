"""What the commands share: arguments, output, and names of rows on a command line."""

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasable.cli._terminal import print_line
from erasable.errors import ArgumentError
from erasable.terminal import printable

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from erasable.data import Arrays, Dataset
    from erasable.memory import Memory

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Directory of the model.")]
DataPath = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="An .npz file with X and, as needed, y, ids, groups; a data set's name; or the path "
        "of a folder of images or of a table.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Ids = Annotated[
    list[str] | None, typer.Option("--id", metavar="ID", help="Id of a row; can be repeated.")
]
Groups = Annotated[
    list[str] | None, typer.Option("--group", metavar="GROUP", help="A group; can be repeated.")
]
Classes = Annotated[
    list[str] | None, typer.Option("--class", metavar="CLASS", help="A class; can be repeated.")
]
EncoderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder-option",
        metavar="NAME=VALUE",
        help="Option of the encoder, such as resolution=160 or width=0.25; repeatable.",
    ),
]
ReadReduction = Annotated[
    str | None,
    typer.Option(
        "--reduction",
        help="How to read the memory: prototypes, rows, neighbours or gaussian; default: as saved.",
    ),
]
ReadK = Annotated[
    int | None, typer.Option("--k", help="Number of neighbours that vote; default: as saved.")
]
ReadSearch = Annotated[
    str | None,
    typer.Option("--search", help="How neighbours are found: exact or pq; default: as saved."),
]
ReadAttention = Annotated[
    str | None,
    typer.Option(
        "--attention", help="How rows are scored: learnt or similarity; default: as saved."
    ),
]
ReadTemperature = Annotated[
    float | None,
    typer.Option("--temperature", help="What scores are divided by; default: as saved."),
]
ReadViews = Annotated[
    str | None,
    typer.Option(
        "--views", help="A prediction is a mean of: one, mirror or six; default: as saved."
    ),
]


def chosen(estimator: "BaseEstimator", **options: Any) -> dict[str, Any]:
    """Return the options that were given, to be set as parameters of an estimator.

    Raises:
        ArgumentError: If this kind of model does not have one of them.
    """
    given = {name: value for name, value in options.items() if value is not None}
    known = estimator.get_params(deep=False)
    unknown = [f"--{name.replace('_', '-')}" for name in given if name not in known]
    if unknown:
        raise ArgumentError(
            f"Expected options of {type(estimator).__name__}, but got {', '.join(unknown)}."
        )
    return given


def read_rows(data: str, split: str, *, needs_labels: bool = False) -> "Arrays":
    """Return the rows of an .npz file, or of one split of a data set.

    Args:
        data: Path of the file, or anything that `load_dataset` takes.
        split: ``train`` or ``test``, where the data has both.
        needs_labels: Refuse a file without labels.
    """
    from erasable.data import Arrays, read_arrays

    if is_arrays(data):
        return read_arrays(Path(data.removeprefix("arrays:")), needs_labels=needs_labels)
    found = load_whole(data)
    rows = found.test if split == "test" and found.test is not None else found.train
    return Arrays(rows.named, rows.y, rows.ids, rows.groups)


def load_whole(data: str) -> "Dataset":
    """Return a data set; where it has no split of its own, every row is meant for training."""
    from erasable.data import load_dataset

    return load_dataset(data, test_share=0.2 if data == "digits" else 0.0)  # these always split


def is_arrays(data: str) -> bool:
    """Tell whether DATA is an .npz file: by its name, or because it is some file but no table."""
    path = Path(data)
    is_table = path.suffix.lower() in (".csv", ".parquet") or data.startswith("table:")
    named = data.startswith("arrays:") or path.suffix.lower() == ".npz"
    return named or (path.is_file() and not is_table)


def require_file(path: Path | None) -> None:
    """Refuse, before any work is done, a place for a file that is a directory."""
    if path is not None and path.is_dir():
        raise ArgumentError(f"Expected a file to write to, but {path} is a directory.")


def require_png(path: Path | None, flag: str = "--out") -> None:
    """Refuse, before any work is done, a place for a picture that is no PNG file.

    Args:
        path: The place, if any.
        flag: What it was given by.
    """
    if path is not None and path.suffix.lower() != ".png":
        raise ArgumentError(f"Expected {flag} to end in .png, but got {path}.")
    require_file(path)


def emit(document: dict[str, Any], *, as_json: bool, lines: Iterable[str]) -> None:
    """Print a result: as one JSON document, or as lines for a person.

    A line stays a line: line breaks and escape sequences in names are shown, not obeyed. JSON
    escapes them itself.
    """
    if as_json:
        print(json.dumps(document, default=_plain))
    else:
        for line in lines:
            print_line(line)


def say(message: str) -> None:
    """Print a remark to standard error, where it does not mix with results."""
    print(printable(message), file=sys.stderr)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def load_classifier(path: Path) -> Any:
    """Return the classifier in a directory.

    Raises:
        ArgumentError: If the model there is a generator.
    """
    from erasable.models import load

    model = load(path)
    if not hasattr(model, "predict"):
        raise ArgumentError(
            f"Expected a classifier in {path}, but it holds a generator. Use 'erasable sample'."
        )
    return model


def resolve(
    memory: "Memory", *, ids: list[str] | None, groups: list[str] | None, classes: list[str] | None
) -> dict[str, Any]:
    """Turn words of a command line into the ids, groups and labels that the memory has.

    A word is text or, if it reads as one, a number: ``7`` finds the id 7 as well as ``"7"``. Where
    both exist, ``i:7`` and ``s:7`` tell them apart. Of ids and groups that are not there any more,
    it means those that were forgotten.
    """
    from erasable.memory import encode_key

    labels = {encode_key(label) for label in memory.classes}
    return {
        "ids": None if ids is None else _ids(memory, ids),
        "groups": None if groups is None else _groups(memory, groups),
        "classes": _each(classes, lambda value: encode_key(value) in labels),
    }


def _each(words: list[str] | None, exists: Callable[[Any], bool]) -> list[Any] | None:
    return None if words is None else [_value(word, exists) for word in words]


def _ids(memory: "Memory", words: list[str]) -> list[Any]:
    """Return ids; of one that is not there every reading that was forgotten."""
    found: list[Any] = []
    for word in words:
        value = _value(word, lambda row_id: row_id in memory)
        gone = [] if value in memory else _gone(word, memory.tombstones.has_id)
        found += gone or [value]
    return found


def _groups(memory: "Memory", words: list[str]) -> list[Any]:
    """Return groups; of one that is not there every reading that was forgotten.

    If none was, every reading, so that none of them comes back.
    """
    found: list[Any] = []
    for word in words:
        value = _value(word, lambda group: bool(memory.table.ids_in_group(group)))
        if memory.table.ids_in_group(value):
            found.append(value)
        else:
            found += _gone(word, memory.tombstones.has_group) or _names(word)
    return found


def _gone(word: str, was_forgotten: Callable[[Any], bool]) -> list[Any]:
    return [name for name in _names(word) if was_forgotten(name)]


def _names(word: str) -> list[Any]:
    """Return the readings of a word that can be an id or a group."""
    return [value for value in readings(word) if type(value) in (str, int)]


def _value(word: str, exists: Callable[[Any], bool]) -> Any:
    found = [value for value in readings(word) if exists(value)]
    if len(found) > 1:
        shown = " and ".join(repr(value) for value in found)
        raise ArgumentError(
            f"Expected one meaning of {word!r}, but {shown} exist. Write 's:{word}' for the text "
            f"or 'i:{word}' for the number."
        )
    return found[0] if found else word


def readings(word: str) -> list[Any]:
    from erasable.memory import decode_key

    readings: list[Any] = [word]
    if re.fullmatch(r"0|-?[1-9][0-9]{0,99}", word):  # not 007 or 1_0, which int() would accept
        readings.append(int(word))
    else:
        with contextlib.suppress(ValueError):
            readings.append(float(word))
    if word in ("True", "False"):
        readings.append(word == "True")
    with contextlib.suppress(ArgumentError):
        readings.append(decode_key(word))
    return readings


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def in_place_of(model: Path, wanted: Any) -> Any:
    """Return what takes a model's place, so that what was forgotten from it stays forgotten.

    Fitting the model that is there, not a new one, keeps its tombstones: rows that were forgotten
    from it are refused before training begins; for one of another kind, when it is saved.

    Args:
        model: Directory of the model that is there.
        wanted: What is to be fitted.
    """
    from erasable.models import load

    there = load(model)
    if type(there) is not type(wanted):
        return wanted
    there.set_params(**wanted.get_params(deep=False))
    return there


def named_options(flag: str, words: list[str] | None) -> dict[str, Any] | None:
    """Return options from words such as ``resolution=160``; None if there are none.

    Args:
        flag: What they were given by.
        words: What was given on the command line.
    """
    if not words:
        return None
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ArgumentError(f"Expected {flag} NAME=VALUE, but got {word!r}.")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
