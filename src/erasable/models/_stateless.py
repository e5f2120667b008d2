"""Which networks are known to be a function of one input, by what they are made of.

A network is known if every part of it has exactly a type listed here, with settings under which it
encodes each input by itself, and if nothing was put into it that its constructor does not put
there: no hook, no replaced method, no attribute. What is not known may learn from the rows that it
encodes, wherever torch does not look.
"""

import dis
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from erasable.encoders import (
    MLP,
    EfficientNetLite0,
    EfficientNetLite1,
    EfficientNetLite2,
    Encoder,
    FastCNN,
    Identity,
    ModuleEncoder,
    RandomFeatures,
    ResNet18,
    SmallCNN,
)
from erasable.encoders._cut import Cut, _leave
from erasable.encoders._usage import Spare
from erasable.models._networks import EmbeddingNorm, SPMNetwork

OWN_ENCODERS: tuple[type[Encoder], ...] = (
    Identity,
    RandomFeatures,
    MLP,
    SmallCNN,
    FastCNN,
    ResNet18,
    EfficientNetLite0,
    EfficientNetLite1,
    EfficientNetLite2,
)
RECORD = "_erasable_provenance"
"""Attribute of a network that holds what is known of its weights."""

_Check = Callable[[Any], bool]


def _always(part: Any) -> bool:
    return True


def _one_axis(part: Any) -> bool:
    """Tell whether a layer works along one axis that is not that of the rows."""
    return isinstance(part.dim, int) and (part.dim >= 1 or part.dim == -1)


def _has_statistics(part: Any) -> bool:
    return part.running_mean is not None and part.running_var is not None


def _layers(*names: str) -> dict[type, _Check]:
    return {getattr(nn, name): _always for name in names}


def _sizes(name: str) -> list[str]:
    return [f"{name}{dimensions}d" for dimensions in (1, 2, 3)]


_LAYERS: dict[type, _Check] = {
    **_layers("Identity", "Linear", "Sequential", "ModuleList", "ModuleDict"),
    **_layers(*_sizes("Conv"), *_sizes("ConvTranspose")),
    **_layers("GroupNorm", "LayerNorm", "RMSNorm", "LocalResponseNorm"),
    **_layers("Dropout", *_sizes("Dropout"), "AlphaDropout", "FeatureAlphaDropout"),
    **_layers("ReLU", "ReLU6", "GELU", "SiLU", "Mish", "ELU", "CELU", "SELU", "LeakyReLU", "PReLU"),
    **_layers("Sigmoid", "LogSigmoid", "Tanh", "Hardtanh", "Hardswish", "Hardsigmoid", "Softplus"),
    **_layers("Softsign", "Hardshrink", "Softshrink", "Tanhshrink", "Threshold", "Softmax2d"),
    **_layers(*_sizes("MaxPool"), *_sizes("AvgPool"), *_sizes("LPPool")),
    **_layers(*_sizes("AdaptiveAvgPool"), *_sizes("AdaptiveMaxPool")),
    **_layers(*_sizes("ZeroPad"), *_sizes("ConstantPad"), *_sizes("ReflectionPad")),
    **_layers(*_sizes("ReplicationPad"), *_sizes("CircularPad")),
    **_layers("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"),
    **_layers("PixelShuffle", "PixelUnshuffle", "ChannelShuffle"),
    nn.Softmax: _one_axis,
    nn.LogSoftmax: _one_axis,
    nn.Softmin: _one_axis,
    nn.GLU: _one_axis,
    nn.Embedding: lambda part: part.max_norm is None,  # else a pass changes weights
    nn.Flatten: lambda part: part.start_dim >= 1,
    nn.Unflatten: lambda part: type(part.dim) is int and part.dim >= 1,
    **{getattr(nn, name): _has_statistics for name in _sizes("BatchNorm")},
    **{getattr(nn, name): _has_statistics for name in _sizes("InstanceNorm")},
}
_BARE = frozenset({*vars(nn.Module()), RECORD})
_CALLABLE = ("builtins", "abc", "torch", "typing", "typing_extensions", "erasable", "diffusers")
_CALLS = ("__call__", "_wrapped_call_impl", "_call_impl", "forward")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_TENSORS = (Tensor, nn.Parameter, getattr(nn, "Buffer", Tensor))
_TORCH = str(Path(torch.__file__).parent) + os.sep
# Where methods of torch and of this library may come from: lightning_fabric replaces torch.compile,
# diffusers wraps constructors.
_TRUSTED = (
    _TORCH,
    str(Path(os.__file__).parent) + os.sep,
    str(Path(torch.__file__).parents[1] / "lightning_fabric") + os.sep,
    str(Path(torch.__file__).parents[1] / "diffusers") + os.sep,
    str(Path(torch.__file__).parents[1] / "typing_extensions.py"),
)


def unknowns(network: nn.Module) -> list[str]:
    """Say what of a network is not known to encode one input by itself and to learn nothing.

    An empty list: everything is known.
    """
    return [*surroundings(), *unknown_parts(network)]


def surroundings() -> list[str]:
    """Say what acts on every network of this process: hooks for all, functions of torch replaced.

    No statement about one network covers this.
    """
    found = [
        f"hooks for all modules are registered ({name.removeprefix('_global_')})"
        for name, hooks in vars(torch_module).items()
        if name.startswith("_global_") and name.endswith("_hooks") and hooks and "regis" not in name
    ]
    for owner in (torch, nn.functional, Tensor, nn.Module):
        found += [f"{owner.__name__}.{name} was replaced" for name in _replaced(owner)]
    modes: list[Any] = _get_current_dispatch_mode_stack()
    modes += _get_current_function_mode_stack()  # type: ignore[no-untyped-call]  # of torch
    found += [
        f"the mode {type(mode).__name__} acts on all operations"
        for mode in modes
        if type(mode) is not DeviceContext  # of torch.set_default_device
    ]
    return found


def unknown_parts(network: nn.Module) -> Iterator[str]:
    """Say what of a network's parts is not known; of a user's network, fewer types are."""
    users = [] if _is_ours(type(network), is_users=False) else [""]
    stops = {p.model.get_submodule(p.layer) for p in network.modules() if type(p) is Cut}
    kinds: set[type] = set()
    for name, part in _parts(network):
        where = f"its part {name!r}" if name else "it"
        is_users = any(f"{name}.".startswith(above) for above in users)
        reasons = [*_unknown_type(part, is_users), *_put_in(part, is_stop=part in stops)]
        yield from (f"{where} {reason}" for reason in reasons)
        if isinstance(part, ModuleEncoder):
            users.append(f"{name}." if name else "")
        kinds.update(type(part).__mro__[: type(part).__mro__.index(nn.Module)])
    for kind in sorted(kinds, key=lambda kind: kind.__qualname__):
        yield from (f"{kind.__qualname__}.{name} was replaced" for name in _replaced(kind))


def _parts(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the parts of a network by name, also those that a network of ours does not register."""
    yield from network.named_modules(remove_duplicate=False)
    if isinstance(network, SPMNetwork):
        for module in (network.recursion, network.embedder):
            yield from module.named_modules(prefix="layers", remove_duplicate=False)


def _unknown_type(part: nn.Module, is_users: bool) -> Iterator[str]:
    kind = type(part)
    settings = _LAYERS.get(kind)
    if settings is None and not _is_ours(kind, is_users=is_users):
        yield f"is of the type {kind.__module__}.{kind.__qualname__}"
    elif settings is not None and not settings(part):
        yield f"may mix the rows of a batch: {part!r}"


def _put_in(part: nn.Module, *, is_stop: bool) -> Iterator[str]:
    """Say what a part has that its constructor did not give it."""
    for name in _HOOKS:
        hooks = list(vars(part)[name].values())
        if hooks and not (is_stop and name == "_forward_hooks" and hooks == [_leave]):
            yield f"has {name[1:].replace('_', ' ')}"
    kind: Any = type(part)
    given = [name for name in vars(part) if name not in _set_by_constructor(kind)]
    if kind is Spare or any(owner.__module__.startswith("diffusers.") for owner in kind.__mro__):
        given = [name for name in given if callable(getattr(kind, name, None))]  # hides a method
    given += [name for name, value in vars(part).items() if _is_behaviour(name, value)]
    yield from (f"has the attribute {name!r}" for name in given)
    own = (*part._modules, *part._parameters, *part._buffers)
    hidden = [name for name in own if hasattr(kind, name) or name in vars(part)]
    yield from (f"has {name!r} hidden by another one" for name in hidden)
    for name, tensor in (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)):
        if type(tensor) not in _TENSORS:
            yield f"has {name!r} of the type {type(tensor).__name__}"


def _is_behaviour(name: str, value: Any) -> bool:
    """Tell whether an attribute of a known part can act or hold numbers, as no setting does."""
    if name in _BARE:
        return False
    package = type(value).__module__.partition(".")[0]
    is_known = isinstance(value, type) or package in ("torch", "diffusers", "erasable")
    return isinstance(value, (nn.Module, Tensor, np.ndarray)) or (callable(value) and not is_known)


def _is_ours(kind: type, *, is_users: bool) -> bool:
    """Tell whether a type is exactly one that this library, or diffusers for it, defines."""
    is_defined = getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind
    package = kind.__module__.partition(".")[0]
    if is_users:  # only what encodes by itself
        package = "" if kind.__module__.endswith("._graph") else package
        is_defined &= kind.__module__.startswith("erasable.encoders.") or kind is EmbeddingNorm
    return is_defined and package in ("erasable", "diffusers")


def _replaced(owner: Any) -> list[str]:
    """Name the functions of a class or module that were not written where it is defined."""
    folder = _folder(owner)
    return [
        name for name, found in list(vars(owner).items()) if _is_odd(owner, name, found, folder)
    ]


def _is_odd(owner: Any, name: str, found: Any, folder: str) -> bool:
    if isinstance(found, property):
        found = found.fget
    if not isinstance(found, FunctionType):
        if isinstance(found, (type, functools._lru_cache_wrapper)) or not callable(found):
            return name in _CALLS and isinstance(owner, type)
        return type(found).__module__.partition(".")[0] not in _CALLABLE
    code = found.__code__  # of a function that wraps another one, the code is the wrapper's
    if name == "forward" and owner in _LAYERS and code.co_qualname != f"{owner.__name__}.forward":
        return True
    return not code.co_filename.startswith((folder, *_TRUSTED))


def _folder(owner: Any) -> str:
    """Return the folder of the package that a class or module belongs to."""
    name: str = owner.__module__ if isinstance(owner, type) else owner.__name__
    file = getattr(sys.modules.get(name.partition(".")[0]), "__file__", None)
    return str(Path(file).parent) + os.sep if file else _TORCH


@functools.cache
def _set_by_constructor(kind: type) -> frozenset[str]:
    """Name the attributes that the constructors of a type set, or that `Encoder` declares."""
    declared = Encoder.__annotations__ if issubclass(kind, Encoder) else {}
    constructors = [vars(owner).get("__init__") for owner in kind.__mro__[:-1]]
    return (
        _BARE
        | declared.keys()
        | frozenset(
            instruction.argval
            for constructor in filter(inspect.isfunction, constructors)
            for instruction in dis.get_instructions(constructor)
            if instruction.opname == "STORE_ATTR"
        )
    )
