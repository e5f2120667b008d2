"""Which parts of a network a pass uses, and what takes the place of the others."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from erasable.encoders._trial import REFUSALS, encode_zeros
from erasable.errors import StateError


def spare_parts(module: nn.Module, input_shape: tuple[int, ...]) -> list[str]:
    """Name the parts that hold weights and that encoding does not use.

    Two inputs of zeros are encoded by a copy in eval mode, and once more in training mode, as some
    networks have parts for training only. A part is used if it, or a part of it, is called, or if
    an operation takes one of its weights: attention, for instance, reads weights of linear layers
    that it never calls.

    Args:
        module: The network; left as it is.
        input_shape: Shape of one input.

    Raises:
        ArgumentError: If the network does not take inputs of this shape.
    """
    trial = copy.deepcopy(module)
    called: set[nn.Module] = set()
    for part in trial.modules():
        part.register_forward_pre_hook(lambda part, _: called.add(part))
    with _Touched() as touched, torch.random.fork_rng():
        encode_zeros(trial.eval(), input_shape)
        with contextlib.suppress(*REFUSALS):  # one that cannot be trained can still be frozen
            encode_zeros(trial.train(), input_shape)

    def is_used(part: nn.Module) -> bool:
        return part in called or any(id(tensor) in touched.ids for tensor in _own_tensors(part))

    spare: list[str] = []
    for name, part in trial.named_modules(remove_duplicate=False):
        is_gone = name.startswith(tuple(f"{parent}." for parent in spare))
        if not is_gone and _own_tensors(part) and not any(map(is_used, part.modules())):
            spare.append(name)
    return spare


@final
class Spare(nn.Module):
    """Stand where a part was that is never used, with its plain settings and nothing it learnt.

    Settings stay because networks read those of parts that they do not call, such as ``eps``.

    Args:
        part: The part.
        name: Its name in the network.
    """

    def __init__(self, part: nn.Module, name: str) -> None:
        super().__init__()
        vars(self).update({k: v for k, v in vars(part).items() if _is_plain(v)})
        self._place = name

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        """Refuse to run."""
        raise StateError(self._refusal("called"))

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            raise AttributeError(self._refusal(f"asked for {name!r}")) from error

    def _refusal(self, what: str) -> str:
        return (
            "Expected a pass to need no other parts of the network than a pass of zeros, but "
            f"{vars(self).get('_place')!r} was {what}, which was dropped when the network was cut. "
            "Call cut() without input_shape and wrap the result in nn.Sequential to keep all parts."
        )


class _Touched(TorchFunctionMode):
    """Note every tensor that an operation of torch takes."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[int] = set()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.ids.update(map(id, _tensors((args, kwargs))))
        return func(*args, **(kwargs or {}))


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested arguments."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _own_tensors(part: nn.Module) -> list[Tensor]:
    return [*part.parameters(recurse=False), *part.buffers(recurse=False)]


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))
