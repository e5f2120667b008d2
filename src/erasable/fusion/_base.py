"""What every way of reading a memory must offer."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from erasable.fusion._dot_product import PLAIN, Attention
from erasable.memory import Memory
from erasable.typing import Float64s, Ints


@dataclass(frozen=True)
class TopVotes:
    """The heaviest votes of each query.

    Attributes:
        positions: Where the rows lie now, (queries, top).
        weights: Their votes, descending, (queries, top).
        rest: The sum of all other rows' votes, (queries,).
    """

    positions: Ints
    weights: Float64s
    rest: Float64s


class Reduction(ABC):
    """A reading of the memory: from queries to votes and class probabilities.

    Evaluation runs in float64 on the live rows or sums, so a prediction does not depend on the
    order of rows or on the other queries of its batch beyond rounding.
    """

    name: ClassVar[str]
    vote_kind: ClassVar[str]
    """``"probability"``: votes are positive and sum to one; ``"logit"``: they add up to logits."""

    @abstractmethod
    def log_probabilities(
        self,
        queries: Tensor,
        memory: Memory,
        *,
        attention: Attention = PLAIN,
        exclude: Ints | None = None,
    ) -> Tensor:
        """Return log class probabilities (queries, classes) in the memory's sorted class order.

        Args:
            queries: float64 embeddings of the queries, (queries, dim).
            memory: The memory to read; it has at least one row.
            attention: How queries score rows.
            exclude: Per query the position of one row to leave out, or −1, (queries,).
        """

    @abstractmethod
    def votes(
        self, queries: Tensor, memory: Memory, top: int, *, attention: Attention = PLAIN
    ) -> TopVotes:
        """Return the ``top`` heaviest votes of each query (queries, dim)."""

    @abstractmethod
    def in_batch(self, readers: Tensor, embeddings: Tensor, classes: Tensor, count: int) -> Tensor:
        """Read the batch as its own memory, each query without its own row, with gradients.

        Args:
            readers: Readers of the queries, (batch, dim).
            embeddings: Embeddings of the same inputs as rows, (batch, dim).
            classes: Class index per input, each below ``count``, (batch,).
            count: Number of classes.

        Returns:
            Log class probabilities, (batch, count); −inf where a class has no row left.
        """
