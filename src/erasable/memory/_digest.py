"""A digest of the set of rows that follows additions and removals in constant time.

LtHash16: each row becomes 1,024 lanes of 16 bits by an extendable hash; the state is their
    lane-wise sum.
The order of rows does not matter, and adding or subtracting one row never looks at the others.
Finding two sets with one state is as hard as a short-vector problem in that lattice; with fewer
lanes it is not.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from erasable.memory._keys import encode_key
from erasable.typing import Group, Label, RowId

_LANES = 1024
_LANE = np.dtype("<u2")
_DOMAIN = b"erasable.row.1"
_LENGTH = struct.Struct("<I")


def encode_row(
    row_id: RowId, label: Label, groups: Sequence[Group], *, bits: int, units: bytes
) -> bytes:
    """Write a row so that different rows never give the same bytes.

    Args:
        row_id: The row's id.
        label: The row's label; the user's value, not a class index.
        groups: The row's groups, in any order.
        bits: The grid the embedding lies on.
        units: The embedding in grid units, little-endian int32.
    """
    names = sorted([encode_key(group).encode() for group in groups])
    fields = [_DOMAIN, encode_key(row_id).encode(), encode_key(label).encode()]
    fields += [_LENGTH.pack(len(names)), *names, _LENGTH.pack(bits), units]
    parts: list[bytes] = []
    for field in fields:
        parts += (_LENGTH.pack(len(field)), field)
    return b"".join(parts)


class LtHash:
    """Sum of row hashes; the empty set is all zeros."""

    def __init__(self) -> None:
        self._state: npt.NDArray[np.uint16] = np.zeros(_LANES, _LANE)
        self._hex: str | None = None

    def copy(self) -> "LtHash":
        """Return an independent copy."""
        twin = LtHash()
        twin._state = self._state.copy()
        return twin

    def add(self, encoded: bytes) -> None:
        """Include a row."""
        self._state += row_lanes(encoded)
        self._hex = None

    def subtract(self, lanes: Iterable[npt.NDArray[np.uint16]]) -> None:
        """Take rows out whose hashes (`row_lanes`) are at hand."""
        for row in lanes:
            self._state -= row
        self._hex = None

    def hexdigest(self) -> str:
        """Return SHA-256 of the state, the only form that leaves the process.

        The difference of two raw states would be the fingerprint of the rows between them.
        """
        if self._hex is None:
            self._hex = hashlib.sha256(self._state.tobytes()).hexdigest()
        return self._hex


def row_lanes(encoded: bytes) -> npt.NDArray[np.uint16]:
    """Return the hash of an encoded row as lanes, (1024,)."""
    return np.frombuffer(hashlib.shake_128(encoded).digest(2 * _LANES), _LANE)
