"""What an encoder must offer."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import Tensor, nn


class Encoder(nn.Module, ABC):
    """A network from inputs (n, …) to embeddings (n, dim).

    In eval mode encoding is deterministic and each input is encoded by itself.

    Attributes:
        name: The registry's name; a saved model is rebuilt by it.
        is_relational: Whether rows are encoded together with other rows.
        is_precise: Whether evaluation runs in float64: where that costs next to nothing, so that
            a prediction does not depend on the size of its batch in any visible digit.
    """

    name: ClassVar[str]
    is_relational: ClassVar[bool] = False
    is_precise: ClassVar[bool] = False

    @property
    @abstractmethod
    def dim(self) -> int:
        """Size of an embedding."""

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Return what the registry needs, besides the input shape, to build this network again."""

    @abstractmethod
    def forward(self, inputs: Tensor) -> Tensor:
        """Encode inputs (n, …) into (n, dim)."""
