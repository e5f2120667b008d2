"""Measure what somebody learns of a row who asks a model before and after it is forgotten."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from erasable.errors import ArgumentError, StateError
from erasable.memory import (
    SHRINKAGE,
    Memory,
    PrototypesView,
    canonical_order,
    copy_with_kept,
    plain,
)
from erasable.models._audit_views import Views
from erasable.models._memory_classifier import MemoryClassifier
from erasable.models._reader import Reader
from erasable.typing import Float64s, RowId

FORMAT = "erasable.differencing.1"
_STEP = 1e-2
_POOL = 512
_NEAREST = ("neighbours", "knn")

ATTACKER = (
    "Somebody who knows the weights, how rows are read, and embeddings of other inputs of the same "
    "kind, but nothing of the row. They ask for exact log probabilities of embeddings of their "
    "choice, right before and right after one row is forgotten."
)
"""Who asks."""


@dataclass(frozen=True)
class Shown:
    """What one readout shows of forgotten rows.

    Attributes:
        readout: How the memory is read.
        changed: In what share of the forgets any answer changed.
        mean: Mean of the cosines, without sign, of what was reconstructed and what the row has of
            its own: its embedding less the mean of its class's other rows. 1: all of its direction.
        least: The least of these cosines.
        largest: The largest.
    """

    readout: str
    changed: float
    mean: float
    least: float
    largest: float


@dataclass(frozen=True)
class Differencing:
    """What differences of a model's answers show of forgotten rows; print it.

    Attributes:
        rows: How many rows were forgotten, one after the other, in a copy.
        dim: Size of an embedding.
        queries: How many queries were asked before and after each, per readout.
        seed: Seed of the draw of rows.
        chance: The mean cosine of a direction drawn at random.
        readouts: What each readout shows.
        attacker: Who asks.
        format: Kind and version of this record.
    """

    rows: int
    dim: int
    queries: int
    seed: int
    chance: float
    readouts: tuple[Shown, ...]
    attacker: str = ATTACKER
    format: str = FORMAT

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)

    def to_json(self) -> str:
        """Return canonical JSON: sorted keys, no spaces, ASCII."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    def __str__(self) -> str:
        lines = [
            f"{self.rows} rows forgotten one after the other in a copy; {self.queries} queries "
            "before and after each",
            "  readout      answers changed  cosine with the row: mean, least, largest",
            *(
                f"  {one.readout:12} {one.changed:>15.0%}  "
                f"{one.mean:27.3f} {one.least:6.3f} {one.largest:8.3f}"
                for one in self.readouts
            ),
            f"  by chance    {'':15}  {self.chance:27.3f}",
            f"attacker: {self.attacker}",
            "An exact forget leaves nothing in the model. It does not hide the row from somebody "
            "who asks before and after. Votes name the row outright: its id is there before, and "
            "not after.",
        ]
        return "\n".join(lines)


def differencing(
    model: MemoryClassifier,
    *,
    rows: int = 20,
    seed: int = 0,
    on_step: Callable[[str], None] | None = None,
) -> Differencing:
    """Measure, for every readout, what asking before and after a forget shows of the row.

    Rows are drawn and forgotten in a copy of the memory; the model is not changed. The attacker
    asks at small steps from the origin along every coordinate. The main direction in which the
    logits change is the row's own part, seen through what reads the rows, which is undone: learnt
    weights are known, and the covariance of ``gaussian`` is estimated from embeddings of other
    rows. Where the nearest rows vote, the attacker asks at those embeddings instead, and takes
    the mean of those whose answers changed.

    The figures are what this attack achieves. A better one may achieve more; somebody who can only
    send inputs, or sees rounded answers, achieves less.

    Args:
        model: A fitted classifier with a memory of rows that are encoded each by itself.
        rows: How many rows to forget; only rows whose class has others are drawn.
        seed: Seed of the draw.
        on_step: Called with each step before it is taken.

    Raises:
        StateError: If there are not two classes with two rows.

    Examples:
        >>> from erasable import SPMClassifier
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [4.0, 5.0], [5.0, 5.5]], ["a", "a", "b", "b"]
        >>> model = SPMClassifier("identity").remember(X, y)
        >>> found = differencing(model, rows=1)
        >>> found.readouts[0].readout, round(found.readouts[0].mean, 3)
        ('prototypes', 1.0)
    """
    _check(model, rows, seed)
    subject = copy_with_kept(model.memory)
    drawn = _draw(subject, rows, seed)
    pool = _pool(subject, drawn, seed)
    attacks = [_Attack(model, subject, name, pool) for name in Views(model, []).names]
    found: dict[str, list[_Found]] = {attack.name: [] for attack in attacks}
    for number, row_id in enumerate(drawn):
        if on_step is not None:
            on_step(f"forgetting row {number + 1} of {len(drawn)} in a copy")
        own = _own_part(subject, row_id)
        before = [attack.ask() for attack in attacks]
        subject.forget(ids=[row_id])
        for attack, answers in zip(attacks, before, strict=True):
            found[attack.name].append(attack.reconstruct(answers, attack.ask(), own))
    return Differencing(
        rows=len(drawn),
        dim=subject.dim,
        queries=2 * subject.dim + len(pool),
        seed=seed,
        chance=math.sqrt(2 / (math.pi * subject.dim)),
        readouts=tuple(_shown(name, each) for name, each in found.items()),
    )


@dataclass(frozen=True)
class _Found:
    has_changed: bool
    cosine: float


class _Attack:
    """The attack on one readout.

    Args:
        model: The model.
        memory: The memory that rows are forgotten from.
        name: The readout.
        pool: Embeddings of other rows, (pool, dim).
    """

    def __init__(self, model: MemoryClassifier, memory: Memory, name: str, pool: Float64s) -> None:
        self.name = name
        self._views, self._memory = Views(model, []), memory
        self._pool = pool
        steps = _STEP * np.eye(memory.dim)
        self._queries = torch.from_numpy(np.concatenate([steps, -steps, pool]))

    def ask(self) -> Float64s:
        """Return log probabilities of every query, (queries, classes)."""
        return self._reader().log_probabilities(iter([self._queries]), None)

    def reconstruct(self, before: Float64s, after: Float64s, own: Float64s) -> _Found:
        """Compare what the answers show with what a row had of its own."""
        has_changed = bool((before != after).any())
        attack = self._among_others if self.name in _NEAREST else self._along_coordinates
        cosine = abs(_cosine(attack(before, after), own)) if has_changed else 0.0
        return _Found(has_changed, cosine)

    def _along_coordinates(self, before: Float64s, after: Float64s) -> Float64s:
        """Return the direction in which logits changed, seen through what reads the rows."""
        slopes, change = self._slopes(before), self._slopes(after) - self._slopes(before)
        if self.name != "gaussian":
            steepest = np.linalg.svd(change, full_matrices=False)[0][:, 0]
            direction: Float64s = np.linalg.lstsq(self._read, steepest, rcond=None)[0]
            return direction
        size = max((slopes**2).sum(), np.finfo(float).tiny)
        change -= slopes * (slopes * change).sum() / size  # there is one row less
        steepest = np.linalg.svd(change, full_matrices=False)[0][:, 0]
        seen: Float64s = self._spread(before) @ steepest
        return seen

    def _slopes(self, logs: Float64s) -> Float64s:
        """Return how logits, relative to their mean, rise along coordinates, (dim, classes)."""
        dim = self._memory.dim
        with np.errstate(invalid="ignore"):
            slopes: Float64s = (logs[:dim] - logs[dim : 2 * dim]) / (2 * _STEP)
        slopes[~np.isfinite(slopes)] = 0
        relative: Float64s = slopes - slopes.mean(axis=1, keepdims=True)
        return relative

    def _spread(self, answers: Float64s) -> Float64s:
        """Return the covariance within classes that other rows let expect, (dim, dim)."""
        labels, dim = answers[2 * self._memory.dim :].argmax(axis=1), self._memory.dim
        means = {label: self._pool[labels == label].mean(axis=0) for label in np.unique(labels)}
        left = self._pool - np.array([means[label] for label in labels])
        spread = left.T @ left / len(left)
        shrunk: Float64s = spread + SHRINKAGE * np.trace(spread) / dim * np.eye(dim)
        return shrunk

    def _among_others(self, before: Float64s, after: Float64s) -> Float64s:
        """Return where answers changed, from the middle of the class that changed most."""
        asked = slice(2 * self._memory.dim, None)
        change = np.abs(np.exp(after[asked]) - np.exp(before[asked]))
        weights = change.sum(axis=1)
        if not weights.any():
            return np.zeros(self._memory.dim)
        label = change.sum(axis=0).argmax()
        peers = before[asked].argmax(axis=1) == label
        around = self._pool[peers].mean(axis=0) if peers.any() else self._pool.mean(axis=0)
        direction: Float64s = weights @ self._pool / weights.sum() - around
        return direction

    def _reader(self) -> Reader:
        return self._views._reader(self._memory, self.name)

    @property
    def _read(self) -> Float64s:
        """How a query becomes a reader, (dim, dim): the weights say it."""
        unit = torch.eye(self._memory.dim, dtype=torch.float64)
        read: Float64s = self._reader().attention.readers(unit).numpy()
        return read


def _check(model: MemoryClassifier, rows: int, seed: int) -> None:
    if not isinstance(model, MemoryClassifier):
        raise ArgumentError(f"Expected a classifier with a memory, but got {type(model).__name__}.")
    model._require_fitted()
    if model.network_.set_encoder is not None:
        raise ArgumentError(
            "Expected rows that are encoded each by itself, but this model has a set encoder."
        )
    if type(plain(rows)) is not int or rows < 1:
        raise ArgumentError(f"Expected rows to be a positive int, but got {rows!r}.")
    if type(plain(seed)) is not int or seed < 0:
        raise ArgumentError(f"Expected seed to be an int of 0 or more, but got {seed!r}.")


def _draw(memory: Memory, count: int, seed: int) -> list[RowId]:
    """Draw rows, of each class all but one at most, whatever the order in which rows came."""
    infos, left = memory.table.infos, memory.sums.counts
    if len(left) < 2 or left.max() < 2:
        raise StateError(
            "Expected two classes, one of them with two rows, because the answer of a single class "
            "is always the same. Remember more rows first."
        )
    ranks = memory.sums.rank_of_slots()[memory.table.slots]
    spare: list[int] = (left - 1).tolist()
    drawn: list[RowId] = []
    order = np.random.default_rng(seed).permutation(canonical_order(memory.live))
    for place in order.tolist():
        if spare[ranks[place]] and len(drawn) < count:
            spare[ranks[place]] -= 1
            drawn.append(infos[place].id)
    return drawn


def _pool(memory: Memory, drawn: list[RowId], seed: int) -> Float64s:
    """Return embeddings of other rows, (≤ 512, dim)."""
    gone = set(drawn)
    order = np.random.default_rng(seed).permutation(canonical_order(memory.live)).tolist()
    others = [place for place in order if memory.table.infos[place].id not in gone]
    return memory.table.embeddings[others[:_POOL]].astype(np.float64)


def _own_part(memory: Memory, row_id: RowId) -> Float64s:
    """Return a row's embedding less the mean of its class's other rows, (dim,)."""
    [row] = memory.get([row_id])
    _, means, _ = PrototypesView(memory).without(memory.positions([row_id]))
    own: Float64s = row.embedding - means[0]
    return own


def _cosine(one: Float64s, other: Float64s) -> float:
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / lengths if lengths else 0.0


def _shown(name: str, found: list[_Found]) -> Shown:
    cosines = [one.cosine for one in found]
    changed = sum(one.has_changed for one in found) / len(found)
    return Shown(name, changed, float(np.mean(cosines)), min(cosines), max(cosines))
