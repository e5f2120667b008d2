"""What a forget request is answered with."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from erasable.errors import StoreError
from erasable.files import parse_json
from erasable.terminal import printable

Level = Literal["exact", "certified", "memory"]
"""How far a forget reaches: see the page on levels in the documentation."""

Basis = Literal["recorded", "declared", "unknown"]
"""How the level is known: seen by the library, stated by the user, or not at all."""

Outcome = Literal["done", "nothing found", "already forgotten"]
"""What a request came to."""

FORMAT = "erasable.receipt.2"

_MEANING = {
    "exact": "the weights never saw these rows; the model is what it would be without them",
    "certified": "the weights depend on these rows only within a privacy guarantee",
    "memory": "no prediction reads these rows; the weights may still carry what they learnt",
    None: "nothing was found, so there is no level",
}


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """A record of one forget request; print it.

    Attributes:
        request_id: The caller's name for the request, or a generated one.
        time: When it was done, UTC, ISO 8601.
        outcome: ``done``: rows were forgotten. ``already forgotten``: all that was found had been
            forgotten before. ``nothing found``: nothing is known of what was named.
        rows: How many rows were forgotten from the memory.
        already_forgotten: How many of the ids and groups had been forgotten before.
        unknown: How many of the ids, groups and classes nothing is known of.
        level: ``exact``: the weights never saw the rows. ``memory``: they did, or may have; the
            rows no longer vote, but the weights still carry what they learnt. None where nothing
            was found.
        basis: How the level is known; None where there is no level.
        digest_before: Digest of the memory before.
        digest_after: Digest of the memory after; that of a memory with the same stored rows that
            never held the forgotten ones.
        weights_digest: Digest of the weights, which forgetting does not touch.
        model: Kind of the model.
        library_version: Version of the library that carried the request out.
        input_kind: What the model takes, in words.
        saved: Whether the change is on disk; see `save`, which returns the receipts that are.
        notes: What the level leaves open, one sentence each.
        format: Kind and version of this record.
    """

    request_id: str
    time: str
    outcome: Outcome
    rows: int
    already_forgotten: int
    unknown: int
    level: Level | None
    basis: Basis | None
    digest_before: str
    digest_after: str
    weights_digest: str
    model: str
    library_version: str
    input_kind: str
    saved: bool = False
    notes: tuple[str, ...] = ()
    format: str = FORMAT

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)

    def to_json(self) -> str:
        """Return canonical JSON: sorted keys, no spaces, ASCII."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Receipt":
        """Read a receipt back.

        Raises:
            StoreError: If the text is not a receipt of this format, exactly as `to_json` wrote it.
        """
        try:
            values = parse_json(text)
            if values["format"] != FORMAT or set(values) != {field.name for field in fields(cls)}:
                raise ValueError(f"format {values['format']!r}")
            receipt = cls(**{**values, "notes": tuple(values["notes"])})
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"Expected a receipt in the format {FORMAT!r}, but: {error}."
            ) from None
        if receipt.to_json() != text:
            raise StoreError("Expected a receipt as to_json() wrote it, but the text differs.")
        return receipt

    def __str__(self) -> str:
        """Return a table for a person."""
        level = "none" if self.level is None else f"{self.level} ({self.basis})"
        lines = {
            "request": self.request_id,
            "time": self.time,
            "outcome": self.outcome,
            "rows forgotten": f"{self.rows:,}",
            "forgotten before": f"{self.already_forgotten:,}" if self.already_forgotten else "",
            "unknown": f"{self.unknown:,}" if self.unknown else "",
            "level": level,
            "which means": _MEANING[self.level],
            "model": f"{self.model} ({self.input_kind}), erasable {self.library_version}",
            "on disk": "yes" if self.saved else "no: call save()",
            "memory before": self.digest_before,
            "memory after": self.digest_after,
            "weights": self.weights_digest,
        }
        found = [(name, value) for name, value in lines.items() if value]
        found += [("note", note) for note in self.notes]
        return "\n".join(f"{name:17}{printable(value)}" for name, value in found)
