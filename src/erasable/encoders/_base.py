"""What an encoder must offer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from erasable.errors import ArgumentError


class Encoder(nn.Module, ABC):
    """A network from inputs (n, …) to embeddings (n, dim).

    In eval mode encoding is deterministic and each input is encoded by itself.

    Attributes:
        name: The registry's name; a saved model is rebuilt by it.
        is_relational: Whether rows are encoded together with other rows.
        is_precise: Whether evaluation runs in float64: where that costs next to nothing, so that
            a prediction does not depend on the size of its batch in any visible digit.
        public_source: What published weights were trained on, once they are loaded.
        input_kind: Form of the inputs that the weights were trained on, if another model of this
            library trained them: the next model takes inputs in that form.
    """

    name: ClassVar[str]
    is_relational: ClassVar[bool] = False
    is_precise: ClassVar[bool] = False
    public_source: str | None = None
    input_kind: str | None = None

    @property
    @abstractmethod
    def dim(self) -> int:
        """Size of an embedding."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Return what the registry needs, besides the input shape, to build this network again."""

    def load_pretrained(self) -> None:
        """Load published weights and set ``public_source``, if this encoder comes with any."""

    @property
    def rows_needed(self) -> int:
        """How many rows `prepare` looks at; 0 for an encoder that begins without any."""
        return 0

    def prepare(self, inputs: Tensor) -> None:
        """Compute weights from rows that will be trained on, before they are.

        Args:
            inputs: Inputs of the first rows, (``rows_needed`` or fewer, …).
        """

    @abstractmethod
    def forward(self, inputs: Tensor) -> Tensor:
        """Encode inputs (n, …) into (n, dim)."""


def prepare(network: nn.Module, inputs: Any) -> None:
    """Let the encoder of a network, whose weights are drawn, begin from rows if it needs them.

    Args:
        network: The network.
        inputs: Inputs of the rows that it will be trained on.
    """
    encoder = getattr(network, "encoder", None)
    if isinstance(encoder, Encoder) and encoder.rows_needed:
        encoder.prepare(inputs[slice(0, encoder.rows_needed)])


def check_widths(name: str, widths: Sequence[int], dim: int) -> None:
    """Refuse layers without a positive width; ``name`` is what the caller calls them."""
    if not all(isinstance(width, int) and width > 0 for width in (*widths, dim)):
        raise ArgumentError(
            f"Expected {name} and dim to be positive ints, but got {list(widths)} and {dim!r}."
        )


def check_images(name: str, input_shape: tuple[int, ...]) -> None:
    """Refuse inputs that are not images; ``name`` is the encoder's."""
    if len(input_shape) != 3:
        raise ArgumentError(
            f"Expected images of shape (channels, height, width) for {name!r}, but got "
            f"{input_shape}. Use 'mlp' for feature vectors."
        )


def check_positive(name: str, value: Any) -> None:
    """Refuse an option that is not a positive int."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ArgumentError(f"Expected {name} to be a positive int, but got {value!r}.")
