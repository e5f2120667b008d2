"""What every way of reading a memory must offer."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from erasable.fusion._dot_product import PLAIN, Attention
from erasable.memory import Readable
from erasable.typing import Float64s, Ints


@dataclass(frozen=True)
class TopVotes:
    """The heaviest votes of each query.

    Attributes:
        positions: Where the rows lie now, (queries, top); −1 where no row is left to vote.
        weights: Their votes, descending, (queries, top); 0 where no row is left.
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
    queries_at_once: ClassVar[int] = 1
    """Smaller batches of queries are joined up to this before they are read."""

    @abstractmethod
    def log_probabilities(
        self,
        queries: Tensor,
        memory: Readable,
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
        self,
        queries: Tensor,
        memory: Readable,
        top: int,
        *,
        attention: Attention = PLAIN,
        exclude: Ints | None = None,
    ) -> TopVotes:
        """Return the ``top`` heaviest votes of each query, of rows that `log_probabilities` reads.

        Args:
            queries: float64 embeddings of the queries, (queries, dim).
            memory: The memory to read; it has at least one row.
            top: Rows per query.
            attention: How queries score rows.
            exclude: Per query the position of one row to leave out, or −1, (queries,).
        """

    @abstractmethod
    def fuse(
        self,
        readers: Tensor,
        rows: Tensor,
        classes: Tensor,
        count: int,
        *,
        own: Tensor | None = None,
    ) -> Tensor:
        """Read rows that are not in a memory, with gradients: the fusion g of training.

        Args:
            readers: Readers of the queries, (queries, dim).
            rows: Embeddings of the rows, (rows, dim).
            classes: Class index per row, each below ``count``, (rows,).
            count: Number of classes.
            own: Per query the place of its own row, which is left out, (queries,); None if no query
                is among the rows.

        Returns:
            Log class probabilities, (queries, count); −inf where a class has no row left.
        """
