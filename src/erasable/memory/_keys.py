"""Plain values for ids, labels and groups, and their injective text form.

Text can be written in several ways that look the same: "é" is one character (NFC), or "e" and an
accent (NFD, as on a Mac). Ids and groups name people and rows, so they are stored as NFC and looked
up in any form. Labels are handed back by predictions and stay as they were given.
"""

import math
import sys
import unicodedata
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from erasable.errors import ArgumentError
from erasable.typing import Group, Label, RowId

Name = TypeVar("Name", bound=Label)

_RANK: dict[type, int] = {bool: 0, int: 1, float: 2, str: 3}


def plain(value: Any) -> Any:
    """Turn a numpy scalar into the Python value it stands for; leave everything else alone."""
    return value.item() if isinstance(value, np.generic) else value


def as_label(value: Any) -> Label:
    """Return the label as a plain Python value.

    Raises:
        ArgumentError: If it is not a finite str, int, float or bool.
    """
    label = plain(value)
    if type(label) not in _RANK:
        raise ArgumentError(f"Expected a label of type str, int, float or bool, but got {label!r}.")
    if isinstance(label, float) and not math.isfinite(label):
        raise ArgumentError(f"Expected a finite label, but got {label!r}.")
    _require_encodable(label)
    # −0.0 and 0.0 are one class; which of them came first must not show.
    return cast(Label, label + 0.0 if isinstance(label, float) else label)


def as_id(value: Any, *, noun: str = "row id") -> RowId:
    """Return an id (or, with ``noun="group"``, a group) as a plain Python value.

    Raises:
        ArgumentError: If it is not a str or int (a bool is not an int here).
    """
    found = plain(value)
    if type(found) not in (str, int):
        raise ArgumentError(f"Expected a {noun} of type str or int, but got {found!r}.")
    _require_encodable(found)
    return cast(RowId, found)


def as_group(value: Any) -> Group:
    """Return the group as a plain Python value."""
    return as_id(value, noun="group")


def in_one_form(name: Name) -> Name:
    """Return an id or group as new rows have it: text as NFC.

    Examples:
        >>> in_one_form("e\u0301") == "\u00e9"
        True
    """
    return cast(Name, unicodedata.normalize("NFC", name)) if isinstance(name, str) else name


def forms_of(name: Label) -> tuple[bytes, ...]:
    """Return the keys of every form that an id or group may have been marked in, as bytes.

    The first is the one for new marks. Earlier versions marked names as they were typed.

    Examples:
        >>> len(forms_of("user-42")), len(forms_of("Zo\u00e9"))
        (1, 2)
    """
    forms: list[Label] = [in_one_form(name), name]
    if isinstance(name, str):
        forms.append(unicodedata.normalize("NFD", name))
    return tuple(dict.fromkeys(encode_key(form).encode() for form in forms))


def encode_key(value: Label) -> str:
    """Write an id, label or group so that different values, and types, never collide.

    Examples:
        >>> [encode_key(value) for value in ("1", 1, 1.0, True)]
        ['s:1', 'i:1', 'f:0x1.0000000000000p+0', 'b:1']
    """
    if isinstance(value, bool):
        return f"b:{int(value)}"
    if isinstance(value, int):
        return f"i:{value}"
    if isinstance(value, float):
        return f"f:{(value + 0.0).hex()}"
    return f"s:{value}"


def decode_key(text: str) -> Label:
    """Read back what `encode_key` wrote."""
    try:
        value = _READERS[text[:2]](text[2:])
    except (KeyError, ValueError):
        value = None
    if value is not None and encode_key(value) == text:
        return value
    raise ArgumentError(f"Expected a key such as 's:cat' or 'i:3', but got {text!r}.")


_READERS: dict[str, Callable[[str], Label]] = {
    "s:": str,
    "i:": int,
    "f:": float.fromhex,
    "b:": lambda text: bool(int(text)),
}


def sort_labels(labels: list[Label]) -> list[Label]:
    """Order labels by type (bool, int, float, str), then by value; never by first use."""
    return sorted(labels, key=lambda label: (_RANK[type(label)], label))


def _require_encodable(value: Any) -> None:
    try:
        encode_key(value).encode()
    except UnicodeEncodeError:
        raise ArgumentError(
            f"Expected text that UTF-8 can hold, but got {value!r} with a lone surrogate."
        ) from None
    except ValueError:  # Python refuses to write it, in this message too
        limit = sys.get_int_max_str_digits()
        raise ArgumentError(
            f"Expected an int of at most {limit} digits, but got a longer one."
        ) from None
