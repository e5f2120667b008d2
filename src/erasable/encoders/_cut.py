"""A trained network up to one of its layers."""

import copy
from typing import Any, final

import torch
from torch import Tensor, nn

from erasable.encoders._usage import Spare, spare_parts
from erasable.errors import ArgumentError, listing


def cut(model: nn.Module, layer: str, *, input_shape: tuple[int, ...] | None = None) -> nn.Module:
    """Return a trained network up to and including one layer, as an encoder of (n, dim).

    The result runs a copy of the network and stops it once the layer has run for the first time;
    nothing is traced, so any network of Python modules can be cut. Feature maps (n, dim, height,
    width) are averaged over the image, and sequences (n, tokens, dim) over their tokens.

    Which parts are never reached is known only from running the network. They are dropped at once
    if ``input_shape`` is given, otherwise when a classifier takes the network as its encoder: until
    then the result still holds them, and so does its digest. A part is dropped if it holds weights
    and neither it nor its weights are used when two inputs of zeros are encoded, in eval or in
    training mode; calling it later raises. A network that chooses its parts by the input keeps all
    of them if ``input_shape`` is not given and the result is wrapped in ``nn.Sequential``.

    Args:
        model: The network; it is copied, never changed.
        layer: The layer's name in ``model.named_modules()``.
        input_shape: Shape of one input, without the batch.

    Raises:
        ArgumentError: If there is no such layer or, once the network is run, if the layer is not.

    Examples:
        >>> classifier = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> encoder = cut(classifier, "1", input_shape=(4,))
        >>> list(encoder.state_dict())
        ['model.0.weight', 'model.0.bias']
    """
    names = [name for name, _ in model.named_modules(remove_duplicate=False)]
    if layer not in names:
        raise ArgumentError(
            f"Expected the name of a layer, but got {layer!r}. The network has "
            f"{listing(filter(None, names)) or 'none'}: see model.named_modules()."
        )
    if any(isinstance(part, torch.jit.ScriptModule) for part in model.modules()):
        raise ArgumentError(
            "Expected a network of Python modules, but got TorchScript, which cannot be stopped at "
            "a layer. Cut the network before it is scripted."
        )
    whole = Cut(copy.deepcopy(model), layer)
    return whole if input_shape is None else whole.trimmed(input_shape)


@final
class Cut(nn.Module):
    """Run a network until one of its layers has run; built by `cut`.

    The layer's output leaves the network inside an exception. Nothing is stored on the way, so
    passes in several threads do not meet, and copies stand on their own.

    Args:
        model: The network; a hook is added to its layer.
        layer: The layer's name.
    """

    def __init__(self, model: nn.Module, layer: str) -> None:
        super().__init__()
        self.model = model
        self.layer = layer
        model.get_submodule(layer).register_forward_hook(_leave)

    def trimmed(self, input_shape: tuple[int, ...]) -> "Cut":
        """Return a copy without the parts that inputs of this shape do not reach."""
        trimmed = copy.deepcopy(self)
        for name in spare_parts(self, input_shape):
            parent, _, child = name.rpartition(".")
            spare = Spare(self.get_submodule(name), name)
            trimmed.get_submodule(parent).register_module(child, spare)
        return trimmed

    def forward(self, inputs: Tensor) -> Tensor:
        """Encode inputs (n, …) into (n, dim)."""
        try:
            self.model(inputs)
        except _Reached as reached:
            if reached.layer is not self.model.get_submodule(self.layer):
                raise  # a cut network inside a cut network
            output = reached.output
        else:
            raise ArgumentError(
                f"Expected the layer {self.layer!r} to run when inputs are encoded, but the network"
                " never called it. Cut at a layer that it calls, such as the parent of this one."
            )
        encoded: Tensor = _pooled(output)
        return encoded

    def extra_repr(self) -> str:
        """Name the layer in the printed form."""
        return f"layer={self.layer!r}"


class _Reached(BaseException):
    """Carry a layer's output out of the network, past any ``except Exception`` of the network."""

    def __init__(self, layer: nn.Module, output: Any) -> None:
        super().__init__()
        self.layer = layer
        self.output = output


def _leave(layer: nn.Module, inputs: Any, output: Any) -> None:
    raise _Reached(layer, output)


def _pooled(output: Any) -> Any:
    """Average (n, dim, height, width) or (n, tokens, dim) to (n, dim); leave the rest."""
    axes = {4: (2, 3), 3: (1,)}
    if isinstance(output, Tensor) and output.ndim in axes:
        return output.mean(axes[output.ndim])
    return output
