"""Files of rows with a wrong byte in them: read, or refused in words."""

import io

import numpy as np
import pytest

from erasable.data import read_arrays
from erasable.errors import ArgumentError


def survives(path):
    """Tell whether a file is read; it may be refused, but never in any other way."""
    try:
        read_arrays(path)
    except ArgumentError:
        return False
    return True


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_changed_byte_is_read_or_refused_in_words(tmp_path, save):
    buffer = io.BytesIO()
    save(buffer, X=np.arange(6.0).reshape(3, 2), y=["a", "b", "c"])
    data, path = buffer.getvalue(), tmp_path / "rows.npz"
    outcomes = set()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 0x15
        path.write_bytes(changed)
        outcomes.add(survives(path))
    assert False in outcomes


def test_single_values_are_refused(tmp_path):
    np.savez(tmp_path / "rows.npz", X=5.0, groups="g")
    with pytest.raises(ArgumentError, match="'X' is a single value"):
        read_arrays(tmp_path / "rows.npz")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="cannot be read"):
        read_arrays(tmp_path)
