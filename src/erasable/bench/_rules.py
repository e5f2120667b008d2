"""Forget rules as people write them: ``class:3``, ``random:10%``, a sequence of requests."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.bench._scenarios import Scenario
from erasable.data import Split
from erasable.errors import ArgumentError, listing
from erasable.files import parse_json, read_bounded

THEN = ">"
"""What stands between the requests of a sequence."""

_LONGEST = 2**28
_FORMS = (
    "class:LABEL, classes:LABEL,LABEL,…, random:10%, random:500@SEED, group:NAME, ids:FILE, or "
    f"several with {THEN!r} between them"
)


def scenario(train: Split, rule: str, *, seed: int = 0) -> Scenario:
    """Return what a rule forgets, all of its requests together.

    Args:
        train: Training rows.
        rule: For example ``class:3``, ``classes:0,1,2``, ``random:10%``, ``random:500@7`` with its
            own seed, ``group:subject-07``, ``ids:FILE`` with a JSON list or one id per line, or a
            sequence such as ``class:3 > random:1%``.
        seed: Seed of random rows whose rule names none.
    """
    requests = sequence(train, rule, seed=seed)
    is_forgotten = requests[-1].is_forgotten
    if len(requests) == 1:
        return requests[0]
    ids = [train.ids[i] for i in np.flatnonzero(is_forgotten)]
    is_class = all(request.is_class for request in requests)
    return Scenario(stages(rule)[-1], {"ids": ids}, is_forgotten, is_class=is_class)


def sequence(train: Split, rule: str, *, seed: int = 0) -> list[Scenario]:
    """Return the requests of a rule, one after the other.

    Each names only rows that the ones before it left; its ``is_forgotten`` marks all that are gone
    after it.

    Args:
        train: Training rows.
        rule: As for `scenario`.
        seed: Seed of random rows.
    """
    done: list[Scenario] = []
    gone = np.zeros(len(train), bool)
    for number, part in enumerate(_requests(rule)):
        kind, _, what = part.partition(":")
        if kind not in _KINDS or not what:
            raise ArgumentError(f"Expected a rule such as {_FORMS}, but got {rule!r}.")
        hit, is_class = _KINDS[kind](train, what.strip(), ~gone, seed + number)
        fresh = hit & ~gone
        if not fresh.any():
            raise ArgumentError(f"Expected {part!r} to forget rows, but there are none left.")
        gone = gone | fresh
        if gone.all():
            raise ArgumentError(f"Expected {rule!r} to leave rows, but it forgets all of them.")
        request = _request(train, kind, what, fresh)
        done.append(Scenario(part, request, gone, is_class=is_class))
    return done


def stages(rule: str) -> list[str]:
    """Return the rule up to each of its requests: what is gone after the first, and so on."""
    parts = _requests(rule)
    return [f" {THEN} ".join(parts[: count + 1]) for count in range(len(parts))]


def classes_rule(labels: Sequence[Any]) -> str:
    """Return the rule that forgets some classes, whatever they are called."""
    if len(labels) == 1:
        return f"class:{labels[0]}"
    words = [str(label) for label in labels]
    has_commas = any("," in word for word in words)
    return "classes:" + (json.dumps(words) if has_commas else ",".join(words))


def _requests(rule: str) -> list[str]:
    """Split a rule where a new request begins; labels may have the sign in them, too."""
    kinds = "|".join(_KINDS)
    return [part.strip() for part in re.split(rf"{THEN}(?=\s*(?:{kinds}):)", rule)]


def forget_digest(train: Split, found: Scenario) -> str:
    """Return hex SHA-256 of the sorted ids that a scenario forgets: two rules can mean the same."""
    ids = [train.ids[i] for i in np.flatnonzero(found.is_forgotten)]
    return hashlib.sha256(json.dumps(sorted(map(str, ids))).encode()).hexdigest()


Bools = npt.NDArray[np.bool_]
Hit = tuple[Bools, bool]


def _classes(train: Split, what: str, left: Bools, seed: int) -> Hit:
    by_text: dict[str, list[Any]] = {}
    for label in np.unique(train.y).tolist():
        by_text.setdefault(str(label), []).append(label)
    wanted = _listed(what)
    unknown = [text for text in wanted if text not in by_text]
    if unknown:
        raise ArgumentError(
            f"Expected classes among {listing(by_text)}, but got {listing(unknown)}."
        )
    labels = [label for text in wanted for label in by_text[text]]
    return np.isin(train.y, labels), True


def _class(train: Split, what: str, left: Bools, seed: int) -> Hit:
    return _classes(train, json.dumps([what]), left, seed)


def _listed(what: str) -> list[str]:
    """Return words with commas between them, or of a JSON list."""
    if what.startswith("["):
        try:
            found = parse_json(what)
        except ValueError as error:
            raise ArgumentError(f"Expected a JSON list of classes, but {error}.") from error
        return [str(one) for one in found]
    return [text.strip() for text in what.split(",")]


def _random(train: Split, what: str, left: Bools, seed: int) -> Hit:
    amount, at, own = what.partition("@")
    number = amount.removesuffix("%")
    try:
        count = round(float(number) / 100 * len(train)) if amount.endswith("%") else int(number)
        seed = int(own) if at else seed
    except (ValueError, OverflowError):
        count = 0
    if not 0 < count < len(train) or seed < 0:
        raise ArgumentError(
            f"Expected a share such as 10% or a number of rows below {len(train):,}, with @SEED if "
            f"need be, but got {what!r}."
        )
    order = np.random.default_rng(seed).permutation(len(train))
    hit = np.zeros(len(train), bool)
    hit[order[left[order]][:count]] = True
    return hit, False


def _group(train: Split, what: str, left: Bools, seed: int) -> Hit:
    if train.groups is None:
        raise ArgumentError("Expected a data set with groups, but this one has none.")
    hit = np.array([what in _names(group) for group in train.groups], bool)
    if not hit.any():
        raise ArgumentError(f"Expected a group of the data set, but got {what!r}.")
    return hit, False


def _names(group: Any) -> list[str]:
    if group is None:
        return []
    return [str(name) for name in group] if isinstance(group, (list, tuple)) else [str(group)]


def _ids(train: Split, what: str, left: Bools, seed: int) -> Hit:
    try:
        text = read_bounded(Path(what), limit=_LONGEST).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"Expected a file of ids in {what}, but: {error}.") from error
    try:
        listed = parse_json(text)
    except ValueError:
        listed = [line.strip() for line in text.splitlines() if line.strip()]
    if not isinstance(listed, list):
        raise ArgumentError(f"Expected a list of ids in {what}, but got {type(listed).__name__}.")
    wanted = {str(row_id) for row_id in listed}
    known = [str(row_id) for row_id in train.ids]
    unknown = wanted - set(known)
    if unknown:
        raise ArgumentError(
            f"Expected ids of training rows in {what}, but not: {listing(sorted(unknown))}."
        )
    return np.array([row_id in wanted for row_id in known], bool), False


_KINDS: dict[str, Callable[[Split, str, Bools, int], Hit]] = {
    "class": _class,
    "classes": _classes,
    "random": _random,
    "group": _group,
    "ids": _ids,
}


def _request(train: Split, kind: str, what: str, fresh: Bools) -> dict[str, Any]:
    """Return the arguments of ``forget``: classes and groups by name, others row by row."""
    if kind in ("class", "classes"):
        return {"classes": np.unique(train.y[fresh]).tolist()}
    if kind == "group":
        return {"groups": [what]}
    return {"ids": [train.ids[i] for i in np.flatnonzero(fresh)]}
