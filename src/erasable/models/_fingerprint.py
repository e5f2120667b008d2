"""A digest of everything in a network that encoding could have written to, weights included or not.

Weights are what torch registers. A network of somebody else's code may keep what it saw anywhere:
in attributes, hooks, closures, on its class, in a global of its module. All of that is read.
"""

import hashlib
import random
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from erasable.models._stateless import RECORD

_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, type(...))
_NAMED = (
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
)
_CONTAINERS = (list, tuple, set, frozenset, dict, deque)
_TRANSIENT = frozenset({"training", RECORD, "_compiled_call_impl"})
_PACKAGES = frozenset({"torch", "erasable", "diffusers", "numpy", *sys.stdlib_module_names})


class UnreadableError(Exception):
    """Say that a network holds something whose state cannot be read."""


def fingerprint(network: nn.Module, *, has_code: bool = True) -> str:
    """Return hex SHA-256 over a network's parts and all that they hold, except registered weights.

    Args:
        network: The network.
        has_code: Whether the code of its methods counts, which differs between versions of Python.

    Raises:
        UnreadableError: If it holds something whose state cannot be read.
    """
    return _read(network, has_code=has_code).digest.hexdigest()


def held_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Return the tensors and arrays that a network holds where torch does not look.

    Raises:
        UnreadableError: If it holds something whose state cannot be read.
    """
    found = _read(network, has_code=False).tensors
    return {f"hidden tensor {place}": one for place, one in enumerate(found)}


def _read(network: nn.Module, *, has_code: bool) -> "_Reader":
    reader = _Reader(network, has_code=has_code)
    try:
        reader.module(network)
    except RecursionError:
        raise UnreadableError("values nested too deeply to be read") from None
    return reader


@final
class _Reader:
    """Feed values to a digest, each object once."""

    def __init__(self, network: nn.Module, *, has_code: bool) -> None:
        self.digest = hashlib.sha256(b"erasable.network.1")
        self._has_code = has_code
        tensors = (*network.parameters(), *network.buffers())
        self._weights = {id(tensor) for tensor in tensors}  # their digest is kept beside
        self.tensors: list[Tensor] = []
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # an id is only an object's own while the object lives

    def module(self, module: nn.Module) -> None:
        """Read a module: its class, and everything in it but its mode."""
        self._kind(type(module))
        if type(module).__name__ == "OptimizedModule":  # of torch.compile: the rest is its cache
            self.value(vars(module)["_modules"])
            return
        for name, value in vars(module).items():
            if name.endswith("_hooks") and isinstance(value, dict):
                self._say(name)
                self._items(value.values())  # their keys count up in each process
            elif name not in _TRANSIENT:
                self._say(name)
                self.value(value)

    def value(self, value: Any) -> None:
        """Read any value."""
        if isinstance(value, _PLAIN):
            self._say(f"{type(value).__name__} {value!r}")
            return
        if id(value) in self._seen:
            self._say(f"seen {self._seen[id(value)]}")
            return
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)
        self._say(f"{type(value).__module__}.{type(value).__qualname__}")
        self._object(value)

    def _object(self, value: Any) -> None:
        for kinds, read in _READERS:
            if isinstance(value, kinds):
                read(self, value)
                return
        self._other(value)

    def _tensor(self, tensor: Tensor) -> None:
        if id(tensor) in self._weights:
            return
        self._say(f"{tensor.dtype} {tuple(tensor.shape)}")
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
            raise UnreadableError(f"a tensor of the layout {tensor.layout}")
        self.tensors.append(tensor)
        flat = tensor.detach().cpu().contiguous().flatten()
        self.digest.update(flat.view(torch.uint8).numpy().data)

    def _array(self, array: np.ndarray[Any, Any]) -> None:
        self._say(f"{array.dtype} {array.shape}")
        if array.dtype.hasobject:
            self._items(array.tolist())
        else:
            self.digest.update(np.ascontiguousarray(array).tobytes())
            if array.dtype.kind == "f" and array.ndim:
                self.tensors.append(torch.from_numpy(np.array(array, np.float64)))

    def _container(self, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                self.value(key)
                self.value(item)
        elif isinstance(value, (set, frozenset)):
            self._items(sorted(value, key=repr))
        else:
            self._items(value)
        if hasattr(value, "__dict__"):
            self.value(vars(value))

    def _items(self, items: Iterable[Any]) -> None:
        for item in items:
            self.value(item)
        self._say("end")

    def _function(self, function: FunctionType) -> None:
        self._say(f"{function.__module__}.{function.__qualname__}")
        self.value(function.__defaults__)
        self.value(function.__kwdefaults__)
        self._items(cell.cell_contents for cell in function.__closure__ or () if _is_full(cell))
        if not _is_known(function.__module__):
            self._code(function.__code__, function)
            self.value(vars(function))

    def _code(self, code: CodeType, function: FunctionType) -> None:
        """Read code, and what it names in its module: values that a call could change."""
        if self._has_code:
            self.digest.update(code.co_code)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant, function)
            elif self._has_code:
                self.value(constant)
        for name in code.co_names:
            found = function.__globals__.get(name)
            if isinstance(found, ModuleType) and not _is_known(found.__name__):
                for inner in code.co_names:
                    self._shared(inner, vars(found).get(inner), found.__name__)
            else:
                self._shared(name, found, function.__module__)

    def _shared(self, name: str, value: Any, module: str) -> None:
        """Read a value that a function finds by its name, if it belongs to the same code."""
        is_data = isinstance(value, (*_CONTAINERS, *_PLAIN, Tensor, np.ndarray, nn.Module))
        home = getattr(value, "__module__", None) or type(value).__module__
        is_near = home == module or home == "types"  # types.SimpleNamespace
        if value is not None and (is_data or is_near):
            self._say(name)
            self.value(value)

    def _kind(self, kind: type) -> None:
        """Read a class: of code that is not known, also its attributes and methods."""
        for owner in kind.__mro__:
            self._say(f"class {owner.__module__}.{owner.__qualname__}")
            if _is_known(owner.__module__) or id(owner) in self._seen:
                continue
            self._seen[id(owner)] = len(self._seen)
            for name, value in list(vars(owner).items()):
                if not (name.startswith("__") and name.endswith("__")) or name == "__call__":
                    self._say(name)
                    self._of_class(value)

    def _of_class(self, value: Any) -> None:
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = (value.fget, value.fset)
        is_slot = type(value).__name__ in ("member_descriptor", "getset_descriptor", "_abc_data")
        if not is_slot:
            self.value(value)

    def _other(self, value: Any) -> None:
        """Read an object by what it holds, or by what a copy of it would need."""
        self._kind(type(value))
        if type(value).__name__ in ("lock", "RLock", "_local"):
            return
        try:
            held = value.__reduce_ex__(4)
        except Exception as error:  # whatever the code of a stranger raises
            raise UnreadableError(f"a value of the type {type(value).__name__}") from error
        if isinstance(held, str):
            self._say(held)
            return
        _, arguments, *state = held
        self.value(arguments)
        for part in state:
            self.value(list(part) if hasattr(part, "__next__") else part)

    def _say(self, text: str) -> None:
        data = text.encode(errors="surrogatepass")
        self.digest.update(f"{len(data)}:".encode())
        self.digest.update(data)


_READERS: tuple[tuple[Any, Callable[[_Reader, Any], None]], ...] = (
    (Tensor, _Reader._tensor),
    ((np.ndarray, np.generic), lambda reader, value: reader._array(np.asarray(value))),
    (nn.Module, _Reader.module),
    (_CONTAINERS, _Reader._container),
    (FunctionType, _Reader._function),
    (type, _Reader._kind),
    (MethodType, lambda reader, value: reader._items((value.__func__, value.__self__))),
    (BuiltinFunctionType, lambda reader, value: reader._say(value.__qualname__)),
    (_NAMED, lambda reader, value: reader._say(repr(value))),
    (ModuleType, lambda reader, value: reader._say(value.__name__)),
    (torch.Generator, lambda reader, value: reader._tensor(value.get_state())),
    (random.Random, lambda reader, value: reader.value(value.getstate())),
    (weakref.ref, lambda reader, value: reader.value(value())),
)


def _is_known(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in _PACKAGES


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True
