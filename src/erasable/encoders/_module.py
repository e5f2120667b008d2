"""Any torch module as an encoder."""

from typing import Any, final

from torch import Tensor, nn

from erasable.encoders._base import Encoder
from erasable.encoders._cut import Cut
from erasable.encoders._preprocess import Preprocess, build_preprocessing
from erasable.encoders._trial import encode_zeros, evaluating
from erasable.errors import ArgumentError


@final
class ModuleEncoder(Encoder):
    """A user's network, used as it is; its output must have shape (n, dim).

    Of a network from `cut`, a copy is used that has only the parts that run.

    Args:
        input_shape: Shape of one input.
        module: The network.
        preprocess: What the network was trained to get, as for `convert`; None for inputs as they
            are.
    """

    name = "module"

    def __init__(
        self,
        input_shape: tuple[int, ...],
        module: nn.Module,
        *,
        preprocess: Preprocess | None = None,
    ) -> None:
        super().__init__()
        self.preprocess = None if preprocess is None else build_preprocessing(preprocess)
        if self.preprocess is not None:
            input_shape = self.preprocess.output_shape(input_shape)
        self.module = module.trimmed(input_shape) if isinstance(module, Cut) else module
        self._dim = _embedding_size(self.module, input_shape)

    @property
    def dim(self) -> int:
        """Size of an embedding, found by encoding zeros."""
        return self._dim

    def options(self) -> dict[str, Any]:
        """Return the preprocessing, if any; the caller has to bring the network again."""
        return {} if self.preprocess is None else {"preprocess": self.preprocess.options()}

    def forward(self, inputs: Tensor) -> Tensor:
        """Encode inputs (n, …) into (n, dim)."""
        encoded: Tensor = self.module(
            inputs if self.preprocess is None else self.preprocess(inputs)
        )
        return encoded


def _embedding_size(module: nn.Module, input_shape: tuple[int, ...]) -> int:
    with evaluating(module):
        output = encode_zeros(module, input_shape)
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != 2:
        got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ArgumentError(
            f"Expected the encoder to return a tensor of shape (n, dim), but for n = 2 got {got}. "
            "Cut the network before its head, or add nn.Flatten()."
        )
    return output.shape[1]
