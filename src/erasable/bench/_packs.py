"""Oracle packs: what oracles say of the test rows, small enough to publish and to score by."""

import hashlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.bench._families import KINDS
from erasable.bench._forecast import say_left, seconds_left
from erasable.bench._harness import Harness, require_kind
from erasable.bench._rules import forget_digest
from erasable.errors import ArgumentError, StoreError
from erasable.files import parse_json, write_atomically
from erasable.metrics import (
    floored_log,
    kl_oracle_unlearned,
    kl_unlearned_oracle,
    prediction_gap,
)
from erasable.npz import UNREADABLE, read_npz
from erasable.typing import Float64s

FORMAT = "erasable.pack.1"


@dataclass(frozen=True, eq=False)
class Pack:
    """Probabilities of oracles for one scenario.

    Attributes:
        record: Data set, forget rule and its digest, kind of model, seeds of the oracles, label
            smoothing, options of the encoder, digest of the test ids.
        classes: Columns of the probabilities.
        oracles: Probabilities of each oracle for each test row, float16, (oracles, rows, classes).
    """

    record: dict[str, Any]
    classes: list[Any]
    oracles: npt.NDArray[np.float16]

    def save(self, path: Path) -> None:
        """Write the pack to a file, completely or not at all."""
        head = {"format": FORMAT, "record": self.record, "classes": self.classes}
        stream = io.BytesIO()
        text = np.frombuffer(json.dumps(head, sort_keys=True).encode(), np.uint8)
        np.savez_compressed(stream, head=text, oracles=self.oracles)
        write_atomically(path, stream.getvalue())


def load_pack(path: Path) -> Pack:
    """Read a pack.

    Raises:
        StoreError: If the file is no pack.
    """
    try:
        arrays, _ = read_npz(path)
        head = parse_json(arrays["head"].tobytes())
        if head["format"] != FORMAT:
            raise ValueError(f"its format is {head['format']!r}")
        return Pack(head["record"], head["classes"], arrays["oracles"])
    except UNREADABLE as error:
        raise StoreError(f"Expected an oracle pack in {path}, but: {error}.") from error


def make_pack(
    harness: Harness,
    kind: str,
    rule: str,
    seeds: list[int],
    *,
    say: Callable[[str], None] = lambda _: None,
) -> Pack:
    """Train oracles that are not there yet, and pack what they say of the test rows.

    Args:
        harness: Makes and keeps models.
        kind: Kind of model.
        rule: What is forgotten; the same rows for every oracle, so a random rule needs its seed if
            there are several.
        seeds: Seeds of a table; the pack has the oracles that its floor compares, at least two.
        say: Where remarks on the progress go.
    """
    require_kind(kind)
    digests = {forget_digest(harness.train, harness.scenario(rule, seed)) for seed in seeds}
    if len(digests) > 1:
        raise ArgumentError(
            f"Expected a rule that forgets the same rows for every oracle, but got {rule!r}. Name "
            f"its seed: {rule}@0."
        )
    say_left(seconds_left(harness, [], [(kind, rule, seeds)]), say)
    ends = harness.ends(rule, seeds)
    oracles = []
    for rule_seed, seed in ends:
        harness.oracle(KINDS[kind], rule, rule_seed, seed=seed)
        logs = harness.oracle_predictions(kind, rule, rule_seed, seed=seed).test
        oracles.append(np.exp(logs.astype(np.float64)).astype(np.float16))
    record = {
        "data": harness.data_name,
        "rule": rule,
        "forget": digests.pop(),
        "kind": kind,
        "oracle_seeds": [seed for _, seed in ends],
        "test_ids": ids_digest(harness.test.ids),
        "preset": harness.scale,
        "label_smoothing": harness.label_smoothing,
        "encoder_options": harness.encoder_options,
    }
    return Pack(record, harness.classes, np.stack(oracles))


@dataclass(frozen=True, eq=False)
class OutsideAnswers:
    """What a method from elsewhere says of the test rows.

    Attributes:
        probabilities: (rows, classes).
        classes: Its columns.
        ids: Ids of the rows, to check their order by; None if they were not given.
    """

    probabilities: npt.NDArray[Any]
    classes: list[Any]
    ids: list[Any] | None = None


def load_answers(path: Path) -> OutsideAnswers:
    """Read ``probabilities``, ``classes`` and, if they are there, ``ids`` from an ``.npz`` file.

    Raises:
        StoreError: If they are not in it.
    """
    try:
        arrays, _ = read_npz(path)
        ids = arrays["ids"].tolist() if "ids" in arrays else None
        return OutsideAnswers(arrays["probabilities"], arrays["classes"].tolist(), ids)
    except UNREADABLE as error:
        raise StoreError(
            f"Expected 'probabilities' and 'classes' in {path}, but: {error}."
        ) from error


def ids_digest(ids: Sequence[Any]) -> str:
    """Return hex SHA-256 of test ids in their order: row by row, answers must be to these."""
    return hashlib.sha256(json.dumps([str(i) for i in ids]).encode()).hexdigest()


@dataclass(frozen=True)
class Score:
    """How far answers are from the oracles of a pack, on average over them.

    Attributes:
        prediction_gap: Share of test rows with another answer.
        kl_unlearned_oracle: KL divergence of the answers from the oracle's.
        kl_oracle_unlearned: The other way round.
        floor: Prediction gap between the oracles themselves; None for a single one.
    """

    prediction_gap: float
    kl_unlearned_oracle: float
    kl_oracle_unlearned: float
    floor: float | None


def score(pack: Pack, answers: OutsideAnswers) -> Score:
    """Compare answers of any method with the oracles.

    Both sides are floored at 1e-8 before a divergence is taken: half precision has no smaller
    probabilities.

    Args:
        pack: The oracles.
        answers: One row per test row, in the order of the data set.
    """
    if answers.ids is not None and ids_digest(answers.ids) != pack.record["test_ids"]:
        raise ArgumentError(
            f"Expected answers to the test rows of {pack.record['data']} in their order, but the "
            "ids are others."
        )
    classes, own = answers.classes, np.asarray(answers.probabilities, np.float64)
    wanted = (pack.oracles.shape[1], len(classes))
    if own.shape != wanted or set(map(str, classes)) != set(map(str, pack.classes)):
        raise ArgumentError(
            f"Expected probabilities of {pack.oracles.shape[1]:,} test rows over the classes "
            f"{pack.classes}, but got shape {own.shape} over {classes}."
        )
    order = [list(map(str, classes)).index(str(label)) for label in pack.classes]
    own = _normalised(own[:, order])
    oracles = [_normalised(oracle.astype(np.float64)) for oracle in pack.oracles]
    logs = floored_log(own)
    gaps = [
        (
            prediction_gap(own, oracle),
            kl_unlearned_oracle(logs, floored_log(oracle)),
            kl_oracle_unlearned(logs, floored_log(oracle)),
        )
        for oracle in oracles
    ]
    pairs = [prediction_gap(a, b) for i, a in enumerate(oracles) for b in oracles[i + 1 :]]
    hard, own_first, oracle_first = np.mean(gaps, axis=0).tolist()
    return Score(hard, own_first, oracle_first, float(np.mean(pairs)) if pairs else None)


def _normalised(probabilities: Float64s) -> Float64s:
    sums = probabilities.sum(axis=1, keepdims=True)
    if not np.isfinite(sums).all() or (probabilities < 0).any() or not (sums > 0).all():
        raise ArgumentError("Expected probabilities, but got numbers that are none.")
    return np.asarray(probabilities / sums)
