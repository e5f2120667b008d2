"""What a forget request is answered with."""

import json
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

Level = Literal["exact", "certified", "memory"]
"""How far a forget reaches: see the page on levels in the documentation."""

Basis = Literal["recorded", "declared", "unknown"]
"""How the level is known: seen by the library, stated by the user, or not at all."""

FORMAT = "erasable.receipt.1"


@dataclass(frozen=True)
class Receipt:
    """A record of one forget request.

    Attributes:
        format: Kind and version of this record.
        request_id: The caller's name for the request, or a generated one.
        time: When it was done, UTC, ISO 8601.
        rows: How many rows were forgotten from the memory.
        digest_before: Digest of the memory before.
        digest_after: Digest of the memory after; that of a memory with the same stored rows that
            never held the forgotten ones.
        weights_digest: Digest of the weights, which forgetting does not touch.
        level: ``exact``: the weights never saw the rows. ``memory``: they did, or may have; the
            rows no longer vote, but the weights still carry what they learnt.
        basis: How the level is known.
        signature: Filled in by a store that signs.
    """

    format: str
    request_id: str
    time: str
    rows: int
    digest_before: str
    digest_after: str
    weights_digest: str
    level: Level
    basis: Basis
    signature: str | None = None

    @classmethod
    def new(
        cls,
        *,
        request_id: str | None,
        rows: int,
        digest_before: str,
        digest_after: str,
        weights_digest: str,
        level: Level,
        basis: Basis,
    ) -> "Receipt":
        """Return a receipt in the present format, of now, with a generated id if none is given."""
        return cls(
            format=FORMAT,
            request_id=request_id or uuid.uuid4().hex,
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            rows=rows,
            digest_before=digest_before,
            digest_after=digest_after,
            weights_digest=weights_digest,
            level=level,
            basis=basis,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)

    def to_json(self) -> str:
        """Return canonical JSON: sorted keys, no spaces, ASCII."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
