"""What an audit found, for people and for programs."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from erasable.memory import Difference
from erasable.store import Basis, Level

FORMAT = "erasable.audit.2"

LIMITS = (
    "older copies of the model, and copies of the rows, that it does not know of: backups, "
    "exports, logs",
    "rows under other ids whose input is not the same: see find",
    "rows that were forgotten under keys that are not on this host",
)
"""What no audit can see."""


class Verdict(StrEnum):
    """What an audit comes to."""

    EXACT_VERIFIED = "exact_verified"
    """Nothing of the rows is left in the model: not in its memory, and the weights never saw them.
    """

    CERTIFIED_VERIFIED = "certified_verified"
    """Nothing is left in the memory; the weights saw the rows under a privacy guarantee."""

    MEMORY_VERIFIED = "memory_verified"
    """Nothing is left in the memory; what the weights learnt from the rows is not verified."""

    STILL_THERE = "still_there"
    """Rows that were asked about are in the memory."""

    NOTHING_FOUND = "nothing_found"
    """Nothing is known of the rows that were asked about, so there is nothing to verify of them."""

    FAILED = "failed"
    """The model is not what it would be without the rows; the first difference says where."""


@dataclass(frozen=True)
class Audit:
    """What an audit compared and found.

    Attributes:
        format: Kind and version of this record.
        time: When it was made, UTC, ISO 8601.
        verdict: What it comes to.
        level: The level at which the request is, was or would be honoured; None if nothing was
            found.
        basis: How the level is known; None likewise.
        is_named: Whether rows were asked about, not the model as it stands.
        live: Rows that were named and are in the memory.
        simulated: Whether those were forgotten in a copy of the memory, and the copy was audited.
        forgotten_before: Number of ids and groups that were named and had been forgotten before.
        not_found: Number of ids, groups and classes that were named and that nothing is known of.
        rows: Rows that were left, and built anew from their stored embeddings.
        canonical_digest: Hex SHA-256 of the model's canonical state without the rows; None if the
            rows contradict themselves.
        rebuilt_digest: The same of the state built anew.
        memory_digest: The memory's digest without the rows, as in a receipt's ``digest_after``.
        weights_digest: Digest of the weights.
        views: Ways of reading the memory whose answers were compared.
        kept: What the model keeps of its rows besides their sums, and was compared.
        queries: Number of queries that were answered.
        images: Number of images that were drawn, by a generator.
        largest_difference: The largest difference between log probabilities; 0 is bit for bit.
        sources: What the weights were trained on, as far as is known.
        first_difference: Where the states differ first.
        not_verified: What the audit could not verify, one sentence each.
        seconds: How long it took.
        limits: What no audit can see.
    """

    format: str
    time: str
    verdict: Verdict
    level: Level | None
    basis: Basis | None
    is_named: bool
    live: int
    simulated: bool
    forgotten_before: int
    not_found: int
    rows: int
    canonical_digest: str | None
    rebuilt_digest: str | None
    memory_digest: str
    weights_digest: str
    views: tuple[str, ...]
    kept: tuple[str, ...]
    queries: int
    images: int
    largest_difference: float
    sources: tuple[str, ...]
    first_difference: Difference | None
    not_verified: tuple[str, ...]
    seconds: float
    limits: tuple[str, ...] = LIMITS

    @property
    def is_verified(self) -> bool:
        """Whether the rows are gone, or would be, and no difference was found."""
        return self.verdict.endswith("_verified")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {**asdict(self), "verdict": str(self.verdict)}

    def to_json(self) -> str:
        """Return canonical JSON: sorted keys, no spaces, ASCII."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    def __str__(self) -> str:
        lines = [_headline(self), *(f"  {line}" for line in _details(self))]
        lines += [f"not verified: {sentence}" for sentence in self.not_verified]
        lines += [f"cannot be seen: {sentence}" for sentence in self.limits]
        return "\n".join(lines)


def _headline(audit: Audit) -> str:
    if audit.verdict is Verdict.FAILED:
        return f"failed: {audit.first_difference}"
    if audit.verdict is Verdict.STILL_THERE:
        are = "1 row was" if audit.live == 1 else f"{audit.live:,} rows were"
        return f"still there: {are} not forgotten"
    if audit.verdict is Verdict.NOTHING_FOUND:
        return "nothing found: nothing is known of what was named"
    rows = "these rows" if audit.is_named else "forgotten rows"
    if audit.simulated:
        return f"simulated: {audit.level}, verified for a copy; the model still holds these rows"
    if audit.verdict is Verdict.EXACT_VERIFIED:
        return "exact: verified"
    return (
        f"{audit.level}: {rows} no longer vote (verified); what the weights learnt is not verified"
    )


def _details(audit: Audit) -> list[str]:
    lines = [*_named(audit), f"rows             {audit.rows:,}, built anew from stored embeddings"]
    ours, theirs = audit.canonical_digest, audit.rebuilt_digest
    if ours is None:
        lines = _named(audit)
    elif ours == theirs:
        lines += [f"canonical state  equal byte for byte, SHA-256 {ours}"]
    else:
        lines += [f"canonical state  SHA-256 {ours}, built anew {theirs}"]
    if audit.kept:
        lines += [f"kept of rows     {', '.join(audit.kept)}: equal"]
    if audit.views:
        rounding = f"within {audit.largest_difference:.1e}, and bit for bit once loaded afresh"
        equal = rounding if audit.largest_difference else "equal bit for bit"
        asked = f"{audit.images} images" if audit.images else f"{audit.queries} queries"
        lines += [f"answers          {equal}: {', '.join(audit.views)}; {asked}"]
    elif audit.is_verified:
        lines += ["answers          none: no row is left"]
    return [*lines, f"weights          {_weights(audit)}"]


def _named(audit: Audit) -> list[str]:
    counts = {
        "forgotten        {:,} rows, in a copy of the memory": audit.live * audit.simulated,
        "still there      {:,} of the rows that were named": audit.live * (not audit.simulated),
        "forgotten before {:,} of the ids and groups that were named": audit.forgotten_before,
        "not found        {:,} of the names: nothing is known of them": audit.not_found,
    }
    return [words.format(count) for words, count in counts.items() if count]


def _weights(audit: Audit) -> str:
    trained = ", ".join(audit.sources) or "nothing"
    rows = "these rows" if audit.is_named else "any row"
    if audit.level == "exact" and audit.basis == "declared":
        return f"never saw {rows}, on the word that they were trained on {trained} and nothing else"
    if audit.level == "exact":
        return f"never saw {rows} ({audit.basis}); trained on: {trained}"
    is_seen = audit.is_named and audit.level is not None
    seen = f"saw, or may have seen, these rows ({audit.basis}); " if is_seen else ""
    return f"{seen}trained on: {trained}"
