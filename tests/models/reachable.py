"""Everything that can be reached from an object, with the way there."""

import array
import functools
import gc
import types
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

_ENDS = (type, types.ModuleType, types.BuiltinFunctionType, torch.dtype, torch.device, np.dtype)
_PLAIN = (str, int, float, bool, bytes, bytearray, complex, type(None), np.generic, PurePath)


def reachable(root: object) -> Iterator[tuple[str, Any]]:
    """Yield everything that can be reached, each object once, with the way there from its class."""
    seen: dict[int, object] = {}  # objects stay alive, so that no id is used twice
    todo: list[tuple[str, Any]] = [(type(root).__name__, root)]
    while todo:
        path, found = todo.pop()
        if isinstance(found, _ENDS):
            continue
        if not isinstance(found, _PLAIN):
            if id(found) in seen:
                continue
            seen[id(found)] = found
        yield path, found
        todo += _next(path, found)


def as_bytes(found: Any) -> bytes:
    """Return what a leaf holds, memory that it only has a window on included; else nothing."""
    if isinstance(found, torch.Tensor):
        found = found.detach().cpu()
        return b"" if found.layout != torch.strided else bytes(found.untyped_storage())
    if isinstance(found, np.ndarray):
        whole = found
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        return b"" if whole.dtype == object else whole.tobytes() + found.tobytes()
    if isinstance(found, array.array):
        return found.tobytes()
    if isinstance(found, (str, PurePath)):
        return str(found).encode(errors="surrogatepass")
    if type(found).__module__.startswith("faiss"):
        return _of_index(found)
    if isinstance(found, (bytes, bytearray, memoryview)):
        return bytes(found)
    return b""


def _of_index(found: Any) -> bytes:
    import faiss

    if not isinstance(found, faiss.Index):
        return b""
    return bytes(faiss.serialize_index(found).tobytes())


def _next(path: str, found: Any) -> list[tuple[str, Any]]:
    if isinstance(found, _PLAIN) or type(found).__module__.startswith("faiss"):
        return []
    if isinstance(found, dict):
        keys = [(f"{path}[key]", key) for key in found]
        named = all(isinstance(key, str) for key in found) and path.endswith("__")
        return keys + [(f"{path}.{k}" if named else f"{path}[]", v) for k, v in found.items()]
    if isinstance(found, (list, tuple, set, frozenset)):
        return [(f"{path}[]", value) for value in found]
    if isinstance(found, np.ndarray):
        return [(f"{path}[]", v) for v in found.ravel()] if found.dtype == object else []
    if isinstance(found, torch.Tensor):
        return [(f"{path}.grad", found.grad)] if found.is_leaf and found.grad is not None else []
    if isinstance(found, types.FunctionType):
        cells = [cell.cell_contents for cell in found.__closure__ or () if cell != types.CellType()]
        return [(f"{path}.<closure>", value) for value in [*cells, *(found.__defaults__ or ())]]
    if isinstance(found, types.MethodType):
        return [(path, found.__self__), (path, found.__func__)]
    if isinstance(found, functools.partial):
        return [(path, part) for part in (found.func, found.args, found.keywords)]
    if hasattr(found, "__dict__"):
        name = type(found).__name__
        return [(f"{name}.{attribute}", value) for attribute, value in vars(found).items()]
    return [(f"{path}.<{type(found).__name__}>", value) for value in gc.get_referents(found)]
