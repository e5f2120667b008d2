"""What an encoder of whole sets must offer."""

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn


class SetEncoder(nn.Module, ABC):
    """A map from rows to rows that mixes them: the relational ``h`` of the recursion.

    It must be permutation equivariant: rows in another order give the same rows in that order.

    Attributes:
        name: What the ``set_encoder`` parameter calls it.
    """

    name: ClassVar[str]

    @abstractmethod
    def forward(self, features: Tensor, classes: Tensor) -> Tensor:
        """Encode rows (rows, dim) with class indices (rows,) into (rows, dim)."""
